"""Signs: the same whatever the order of the rows."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from catalogue import cloud
from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (ClassicalMDS(3, metric="precomputed"), "distances"),
        (Isomap(3, metric="precomputed"), "distances"),
        (KernelPCA(3, kernel="precomputed"), "kernel"),
        (DiffusionMaps(3, metric="precomputed", epsilon=1.0), "distances"),
    ],
)
@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_the_order_of_a_given_table_decides_no_sign(method, kind):
    """Third moments do, in the unit of each function, whatever the number of rows."""
    X = np.random.default_rng(0).gamma(2.0, size=(300, 3)) * [3.0, 2.0, 1.0]
    table = cdist(X, X) if kind == "distances" else X @ X.T
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        one, other = (clone(method).fit(t).embedding_ for t in (table, table[np.ix_(order, order)]))
        np.testing.assert_allclose(other, one[order], rtol=0, atol=1e-7 * np.abs(one).max())


def test_missing_values_leave_signs_to_the_others():
    X = cloud(0, rows=120).copy()
    X[::9, 0], X[4::9, 2] = np.nan, np.nan  # any two rows have the other column
    order = np.random.default_rng(1).permutation(len(X))
    one, other = (DiffusionMaps(3, metric="nan_euclidean").fit(rows).embedding_ for rows in (X, X[order]))
    np.testing.assert_allclose(other, one[order], rtol=0, atol=1e-9)


def test_signs_survive_permutation_on_symmetric_data():
    angle = 2 * np.pi * np.arange(64) / 64
    ellipse = np.column_stack([2 * np.cos(angle), np.sin(angle)])
    base = DiffusionMaps(3, epsilon=0.1).fit(ellipse).embedding_
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(64)
        np.testing.assert_allclose(DiffusionMaps(3, epsilon=0.1).fit(ellipse[order]).embedding_, base[order], atol=1e-9)
