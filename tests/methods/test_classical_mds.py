"""Classical MDS: by landmarks, and of given distances."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import cloud, new_points, quietly, triangulated, up_to_signs
from outfold import ClassicalMDS

X = cloud(0, rows=120)
Z = new_points(X, 0, 30)


def test_landmark_mds_is_triangulation_and_nystrom_on_the_landmark_kernel():
    scaling = ClassicalMDS(2, landmarks=40, random_state=0).fit(X)
    marks = scaling.landmarks_
    expected = triangulated(cdist(marks, marks) ** 2, cdist(Z, marks) ** 2, 2)
    assert up_to_signs(quietly(scaling.transform, Z), expected) < 1e-10
    assert up_to_signs(scaling.embedding_, quietly(ClassicalMDS(2).fit(marks).transform, X)) < 1e-10


def test_rows_of_a_given_matrix_must_match_it():
    scaling = ClassicalMDS(metric="precomputed").fit(cdist(X, X))
    with pytest.raises(ValueError, match=r"59 features.*expecting 120"):
        scaling.transform(np.ones((2, 59)))
    with pytest.raises(ValueError, match="Negative values"):
        scaling.transform(-np.ones((2, 120)))
