"""The choice of a solver, and what is tried after a failure."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array, diags_array, eye_array, kron, random_array, triu

from catalogue import quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, datasets, solvers
from outfold.exceptions import ConvergenceError, SpectrumWarning
from outfold.operators.operator import MarkovOperator
from outfold.solvers import Solver
from outfold.solvers.filtered import SinglePrecision

X = np.random.default_rng(0).normal(size=(300, 3))


def test_auto_says_what_it_chose_and_why():
    assert solvers.Auto().choose(_operator(), 5)[0] == solvers.Dense()
    maps = DiffusionMaps(3).fit(np.random.default_rng(0).normal(size=(1200, 2)))
    assert maps.report_.solver == "lanczos"
    assert "1200" in maps.report_.solver_why
    small = DiffusionMaps(3).fit(X)
    assert (small.report_.solver, small.report_.solver_why) == ("dense", "n = 300 <= 400")


def _operator():
    from scipy.spatial.distance import cdist

    from outfold.operators.markov import Markov

    return Markov(1.0).fit(np.exp(-cdist(X, X, "sqeuclidean")), np.ones(len(X)))


def test_auto_decides_sparse_problems_by_how_crowded_the_top_is(monkeypatch):
    sheet = np.random.default_rng(0).uniform(size=(3000, 2))
    ball = np.random.default_rng(0).normal(size=(3000, 12))
    small = solvers.Auto(dense_up_to=100, lanczos_up_to=200)
    maps = DiffusionMaps(3, n_neighbors=12, solver=small).fit(sheet)
    assert maps.report_.solver == "lobpcg"
    assert "crowd" in maps.report_.solver_why
    assert DiffusionMaps(3, n_neighbors=12, solver=small).fit(ball).report_.solver == "filtered"


def test_every_solver_failing_is_an_error_with_what_was_found(monkeypatch):
    class Stuck:
        complete = False

        def start(self, operator):
            raise ConvergenceError("stuck", "a partial result")

    monkeypatch.setattr(solvers.Auto, "instead", lambda self, solver, operator: [Stuck()])
    with pytest.raises(ConvergenceError, match="No solver converged") as caught:
        DiffusionMaps(3, solver=Stuck()).fit(X)
    assert caught.value.partial == "a partial result"


def test_what_is_tried_after_a_failure():
    large, small = _operator(), _operator()
    assert solvers.Auto().instead(solvers.Lanczos(), small) == [solvers.Dense()]
    many = replace(large, measure=np.ones(50_000), matrix=csr_array((3, 3)))
    for first, then in [(solvers.Lobpcg(), ["Filtered", "Lobpcg"]), (solvers.Filtered(), ["Lobpcg", "Filtered"])]:
        assert [type(s).__name__ for s in solvers.Auto().instead(first, many)] == then


def flat_torus(n, dimension):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (n, dimension))
    return np.hstack([np.cos(angle), np.sin(angle)])


def test_auto_takes_subspace_iteration_where_the_top_is_not_crowded():
    assert DiffusionMaps(4, n_neighbors=16).fit(flat_torus(4000, 5)).report_.solver == "filtered"
    assert DiffusionMaps(4, n_neighbors=16).fit(datasets.s_curve(4000, random_state=0)[0]).report_.solver == "lobpcg"


# -- graphs that are hard to solve ----------------------------------------------------------


def chain(n):
    return csr_array(diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1]))


def grid(m, n):
    return csr_array(kron(chain(m), eye_array(n)) + kron(eye_array(m), chain(n)))


def blocks(bridge):
    """Four random graphs joined in a ring by edges of a small weight, and a few isolated pairs of strong edges."""
    rng = np.random.default_rng(0)
    part = [triu(random_array((300, 300), density=0.05, rng=rng), 1) for _ in range(4)]
    W = block_diag(part, format="lil")
    for at in range(4):
        W[300 * at, 300 * ((at + 1) % 4) + 5] = bridge
    W = csr_array(W)
    return W + W.T


def hubs():
    """Each new node joins three of the older ones, the early ones most often."""
    rng = np.random.default_rng(0)
    ends = np.array(
        [(new, old) for new in range(3, 1300) for old in np.unique((new * rng.uniform(size=3) ** 3).astype(int))]
    )
    W = csr_array((np.ones(len(ends)), ends.T), shape=(1300, 1300))
    return W + W.T


HARD = {
    "chain": lambda: chain(1200),
    "grid": lambda: grid(37, 32),
    "square grid": lambda: grid(34, 34),
    "clusters joined by 1e-3": lambda: blocks(1e-3),
    "clusters joined by 1e-9": lambda: blocks(1e-9),
    "clusters joined by 1e-14": lambda: blocks(1e-14),
    "hubs": hubs,
}


@cache
def wanted_of(name):
    """The graph and its six least rates, by LAPACK."""
    W = HARD[name]()
    root = diags_array(W.sum(axis=1) ** -0.5)
    return W, 1 - np.linalg.eigvalsh((root @ W @ root).toarray())[::-1][1:7]


SOLVERS = {"auto": solvers.Auto(lanczos_up_to=0), "filtered": solvers.Filtered(1e-6), "lobpcg": solvers.Lobpcg(1e-6)}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("solver", SOLVERS)
def test_hard_graphs_are_solved(name, solver, monkeypatch):
    monkeypatch.setattr("outfold.solvers.auto.DENSE_INSTEAD_UP_TO", 0)
    W, wanted = wanted_of(name)
    model = quietly(LaplacianEigenmaps(6, kernel="precomputed", solver=SOLVERS[solver]).fit, W)
    found = model.eigenvalues_
    assert model.report_.residual < 1e-2
    # an eigenvalue errs by the square of its residual over the gap, at most by the residual
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-13)


def test_the_report_counts_the_products_of_the_matrix_with_a_vector(monkeypatch):
    columns = []
    plain = MarkovOperator.matmat

    def counted(self, V, out=None):
        columns.append(V.shape[1])
        return plain(self, V, out)

    single = SinglePrecision.recur

    def counted_in_single_precision(self, now, *others):
        columns.append(now.shape[1])
        return single(self, now, *others)

    monkeypatch.setattr(MarkovOperator, "matmat", counted)
    monkeypatch.setattr(SinglePrecision, "recur", counted_in_single_precision)
    for solver in ("dense", "lanczos", "filtered"):
        columns.clear()
        report = DiffusionMaps(3, solver=solver).fit(X).report_
        assert report.products == sum(columns) > 0
        assert f"; {report.products} products;" in str(report)


def test_if_nothing_converges_the_best_pairs_are_returned_with_a_warning(monkeypatch):
    class Rough(Solver):
        def __init__(self, noise):
            self.noise = noise

        def start(self, operator):
            return self._replace(operator)

        def _replace(self, operator):
            self.operator = operator
            return self

        def top(self, known, count, rough=None):
            values, vectors = solvers.Dense().start(self.operator).top(known, count)
            vectors = vectors + self.noise * np.random.default_rng(0).normal(size=vectors.shape)
            raise ConvergenceError(f"noise of {self.noise}", (values, vectors))

    monkeypatch.setattr(solvers.Auto, "instead", lambda self, solver, operator: [Rough(1e-2), Rough(1e-1)])
    exact = DiffusionMaps(3, solver="dense").fit(X)
    with pytest.warns(SpectrumWarning, match="left a residual"):
        model = DiffusionMaps(3, solver=Rough(0.3)).fit(X)
    assert "no solver converged" in model.report_.solver_why
    assert "noise of 0.01" in model.report_.solver_why
    assert model.report_.residual > 1e-2
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=0.1)
