"""Pivoted Cholesky: against plain matrices, and pivots as a function of the set of points."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outfold._runtime.threads import Threads
from outfold.bandwidths import Bandwidth
from outfold.datasets import circle, s_curve
from outfold.distances import Metric
from outfold.kernels import GaussianKernel
from outfold.operators import pivoted_cholesky
from outfold.operators.pivoted_cholesky import NO_PIVOTS, REMAINDER, PivotedCholesky


def search(points, epsilon):
    kernel = GaussianKernel(Bandwidth(epsilon, "given"))
    return PivotedCholesky(distances=Metric().fit(points), kernel=kernel, runner=Threads(1))


def left_over(points, pivots, epsilon):
    """W - W(., pivots) A^-1 W(pivots, .), by plain matrices."""
    W = np.exp(-cdist(points, points, "sqeuclidean") / (2 * epsilon))
    C = W[:, pivots]
    return W - C @ np.linalg.solve(W[np.ix_(pivots, pivots)], C.T)


@pytest.mark.parametrize(
    ("make", "epsilon"), [(lambda: circle(700, random_state=0), 0.05), (lambda: s_curve(700)[0], 2.0)]
)
def test_the_remainder_is_the_trace_of_what_is_left(make, epsilon):
    points = make()
    for most in (5, 20, 400):
        found = search(points, epsilon).extend(NO_PIVOTS, most)
        left = left_over(points, found.rows, epsilon)
        assert found.remainder == pytest.approx(np.trace(left) / len(points), abs=1e-12)
        assert len(set(found.rows)) == len(found.rows) <= most
    assert found.suffice
    assert found.remainder <= REMAINDER
    bound = np.sqrt(np.outer(np.abs(np.diag(left)), np.abs(np.diag(left))))
    assert (np.abs(left) <= bound + 1e-12).all()


def test_pivots_are_few_more_than_the_best_rank():
    """The best rank that leaves as little is the number of eigenvalues; pivots are at most half as many more."""
    points = circle(1000, random_state=0)
    values = np.linalg.eigvalsh(np.exp(-cdist(points, points, "sqeuclidean") / 0.02))
    best = int((np.cumsum(values.clip(min=0)) > REMAINDER * len(points)).sum())
    found = search(points, 0.01).extend(NO_PIVOTS, 1000)
    assert found.suffice
    assert best <= len(found.rows) <= 1.5 * best


def test_pivots_depend_on_the_set_of_points_alone():
    points = s_curve(2500, random_state=0)[0]
    order = np.random.default_rng(0).permutation(len(points))
    one, other = (search(rows, 1.0) for rows in (points, points[order]))
    for find in (lambda s: s.sample(800, 400), lambda s: s.extend(s.sample(800, 400), 1000)):
        first, second = find(one), find(other)
        assert set(first.rows) == set(order[second.rows])
        assert first.remainder == pytest.approx(second.remainder, rel=1e-3)


def test_a_lonely_row_among_many_becomes_a_pivot():
    points = np.vstack([circle(3000, random_state=0), [[50.0, 0.0]]])
    found = search(points, 0.1)
    start = found.sample(500, 400)
    assert 3000 in found.extend(start, 400).rows


def test_rounds_end(monkeypatch):
    monkeypatch.setattr(pivoted_cholesky, "ROUNDS", 1)
    monkeypatch.setattr(pivoted_cholesky, "CANDIDATES", 4)
    found = search(circle(300, random_state=0), 0.05).extend(NO_PIVOTS, 200)
    assert len(found.rows) <= 5
    assert not found.suffice
