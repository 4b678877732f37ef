"""LOBPCG against the inverse, on several components, and out of iterations."""

import numpy as np
import pytest

from catalogue import cloud, quietly
from outfold import DiffusionMaps, datasets, graphs, solvers
from outfold._runtime.threads import Threads
from outfold.exceptions import ConvergenceError
from outfold.solvers import _two_grid


def test_lobpcg_out_of_iterations_keeps_its_pairs():
    sheet = np.random.default_rng(0).uniform(size=(1500, 2))
    from outfold.distances import Metric
    from outfold.operators.markov import Markov

    found = graphs.Union(12).statistics(Metric(), sheet, np.ones(1500), Threads(1))
    W = graphs.Union(12).draw(found, None, Threads(1)).gram(Threads(1))
    W.data = np.exp(-W.data / np.median(W.data))
    operator = Markov(1.0).fit(W, np.ones(1500))
    session = solvers.Lobpcg(max_iterations=1).start(operator)
    with pytest.raises(ConvergenceError, match="after 1 iterations") as caught:
        session.top(operator.trivial(1), 5)
    values, vectors = caught.value.partial
    assert values.shape == (5,)
    assert vectors.shape == (1500, 5)


@pytest.mark.parametrize("weighted", [False, True])
def test_lobpcg_finds_what_the_inverse_finds(weighted):
    X = datasets.s_curve(6000, random_state=0)[0]
    weight = np.random.default_rng(1).uniform(0.5, 2, 6000) if weighted else None
    truth = DiffusionMaps(10, n_neighbors=16, solver="shift_invert").fit(X, sample_weight=weight)
    found = DiffusionMaps(10, n_neighbors=16, solver="auto").fit(X, sample_weight=weight)
    assert found.report_.solver == "lobpcg"
    assert found.report_.residual < 1e-4
    np.testing.assert_allclose(1 - found.eigenvalues_, 1 - truth.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(found.transform(X[::60]), found.embedding_[::60], atol=1e-6)


def test_lobpcg_on_several_components_and_on_copies():
    sheet = np.random.default_rng(0).uniform(size=(1500, 2))
    X = np.vstack([sheet, sheet[:700] + 5, np.repeat(sheet[:300] - 5, 2, axis=0)])
    truth, found = (
        quietly(DiffusionMaps(9, n_neighbors=12, solver=s).fit, X) for s in (solvers.ShiftInvert(), solvers.Lobpcg())
    )
    assert found.report_.solver == "lobpcg"
    assert found.report_.multiplicity == 3
    np.testing.assert_allclose(1 - found.eigenvalues_[2:], 1 - truth.eigenvalues_[2:], rtol=1e-6)


def test_a_graph_of_one_cell_is_solved_by_another_solver():
    """Where every point is near every other there is no coarser grid, and nothing to gain from one."""
    X = cloud(0, rows=60)
    shared = {"n_neighbors": graphs.Threshold(1e-3), "epsilon": 50.0}
    maps, dense = (quietly(DiffusionMaps(2, solver=solver, **shared).fit, X) for solver in ("lobpcg", "dense"))
    assert maps.report_.solver == "dense"
    assert "no coarser grid" in maps.report_.solver_why
    np.testing.assert_allclose(maps.eigenvalues_, dense.eigenvalues_, rtol=1e-12)


@pytest.mark.parametrize(("low", "high"), [(0.1, 2.0), (0.5, 0.9)])
def test_two_steps_of_the_smoother_are_the_chebyshev_polynomial(low, high):
    """At eigenvalue a is left: T_2((m - a) / h) / T_2(m / h), m the middle, h half the width."""
    first, mix, more = _two_grid._chebyshev(low, high)
    a = np.linspace(low, high, 50)
    step = first * np.ones(50)
    left = 1 - a * ((1 + mix) * step + more * (1 - a * step))
    middle, half = (high + low) / 2, (high - low) / 2
    second = lambda x: 2 * x**2 - 1  # noqa: E731
    expected = second((middle - a) / half) / second(middle / half)
    np.testing.assert_allclose(left, expected, atol=16 * np.finfo(np.float32).eps)
