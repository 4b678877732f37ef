"""RemoveOutliers keeps a row by a rule that any row can be asked."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.pipeline import make_pipeline

from outfold.selection import RemoveOutliers

X = np.vstack([np.random.default_rng(0).uniform(size=(80, 3)), [[30.0, 0, 0], [30.1, 0, 0], [0, 40.0, 0]]])


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
@pytest.mark.parametrize(("k", "radius"), [(1, 0.1), (3, 0.3), (5, "auto")])
def test_it_counts_neighbours_within_the_radius(k, radius, metric):
    cleaner = RemoveOutliers(k, radius=radius, metric=metric).fit(X)
    near = (cdist(X, X, metric) <= cleaner.radius_).sum(axis=1) - 1
    assert np.array_equal(cleaner.mask_, near >= k)
    assert np.array_equal(cleaner.mask(X), cleaner.mask_)
    assert np.array_equal(cleaner.fit_transform(X), X[cleaner.mask_])
    assert np.array_equal(cleaner.transform(X), X[cleaner.mask_])


def test_a_pair_of_far_rows_goes_when_three_neighbours_are_needed():
    assert len(RemoveOutliers(3).fit_transform(X)) == 80
    assert RemoveOutliers(1, radius=1.0).fit(X).mask_[80:].tolist() == [True, True, False]


def test_it_works_in_a_pipeline_and_refuses_nonsense():
    from outfold import DiffusionMaps

    assert make_pipeline(RemoveOutliers(), DiffusionMaps()).fit_transform(X).shape == (80, 2)
    for parameters, message in (
        ({"min_neighbors": 0}, "min_neighbors=0"),
        ({"min_neighbors": 83}, "n = 83"),
        ({"radius": -1.0}, "radius=-1.0"),
        ({"radius": "big"}, "Valid: 'auto'"),
        ({"metric": "euclid"}, "metric='euclid' is not known. Valid: .*'euclidean'"),
        ({"metric": "precomputed"}, "metric='precomputed' is not known"),
    ):
        with pytest.raises(ValueError, match=message):
            RemoveOutliers(**parameters).fit(X)
