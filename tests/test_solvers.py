"""Solvers, selection, orientation, landmarks and the thread pool."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence

from catalogue import cloud, quietly
from outfold import DiffusionMaps, LaplacianEigenmaps, datasets, solvers
from outfold.exceptions import ConvergenceError
from outfold.landmarks import Points, Random
from outfold.runners import Threads, row_blocks
from outfold.selection import spectral_dimension
from outfold.sources import InMemory

X = np.random.default_rng(0).normal(size=(300, 3))


@pytest.mark.parametrize("method", [DiffusionMaps(6), LaplacianEigenmaps(6, laplacian="unnormalized")], ids=["P", "L"])
def test_lanczos_and_lapack_agree(method):
    dense = method.set_params(solver="dense").fit(X)
    values, embedding = dense.eigenvalues_, dense.embedding_
    lanczos = method.set_params(solver="lanczos").fit(X)
    assert lanczos.report_.solver == "lanczos"
    np.testing.assert_allclose(lanczos.eigenvalues_, values, atol=1e-12 * max(1, values.max()))
    np.testing.assert_allclose(lanczos.embedding_, embedding, atol=1e-8)
    assert lanczos.report_.residual < 1e-9


def test_auto_says_what_it_chose_and_why():
    assert solvers.Auto().choose(_operator(), 5)[0] == solvers.Dense()
    maps = DiffusionMaps(3).fit(np.random.default_rng(0).normal(size=(1200, 2)))
    assert maps.report_.solver == "lanczos"
    assert "1200" in maps.report_.solver_why
    small = DiffusionMaps(3).fit(X)
    assert (small.report_.solver, small.report_.solver_why) == ("dense", "n = 300 <= 1000")


def test_a_pair_that_arpack_misses_is_found(monkeypatch):
    whole = solvers._arpack
    expected = DiffusionMaps(5, solver="dense").fit(X).eigenvalues_
    calls = []

    def forgetful(product, known, count, tol, most, **options):
        calls.append(count)
        values, vectors = whole(product, known, count + 1 if len(calls) == 1 else count, tol, most)
        if len(calls) > 1:
            return values, vectors
        keep = np.delete(np.arange(count + 1), 2)
        return values[keep], vectors[:, keep]

    monkeypatch.setattr(solvers, "_arpack", forgetful)
    found = DiffusionMaps(5, solver="lanczos").fit(X).eigenvalues_
    assert len(calls) >= 3
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_no_convergence_falls_back_to_lapack_and_says_so(monkeypatch):
    def fails(*args, **kwargs):
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr(solvers, "eigsh", fails)
    maps = DiffusionMaps(3, solver="lanczos").fit(X)
    assert maps.report_.solver == "dense"
    assert "fallback" in maps.report_.solver_why
    with pytest.raises(ConvergenceError, match="300 x 300") as caught:
        solvers.Lanczos().start(_operator()).top(_operator().trivial(1), 3)
    assert caught.value.partial is not None


def _operator():
    from scipy.spatial.distance import cdist

    from outfold.normalizations import Markov

    return Markov(1.0).fit(np.exp(-cdist(X, X, "sqeuclidean")), np.ones(len(X)))


def test_every_eigenpair_can_be_asked_for():
    small = cloud(0, rows=20)
    for solver in ("dense", "lanczos", "auto"):
        maps = quietly(DiffusionMaps(19, epsilon=0.05, solver=solver).fit, small)
        assert maps.eigenvalues_.shape == (19,)
        assert np.isnan(maps.report_.gap)
        assert maps.report_.trace == pytest.approx(1 + maps.eigenvalues_.sum())


def test_indices_pick_eigenpairs():
    many = DiffusionMaps(6).fit(X)
    some = DiffusionMaps([1, 4, 6]).fit(X)
    np.testing.assert_allclose(some.embedding_, many.embedding_[:, [0, 3, 5]], atol=1e-12)
    np.testing.assert_allclose(some.eigenvalues_, many.eigenvalues_[[0, 3, 5]], atol=1e-12)


@pytest.mark.parametrize("n", [300, 1100])
@pytest.mark.parametrize("t", [1, 4])
def test_auto_components_follow_the_spectrum(n, t):
    points = np.random.default_rng(1).normal(size=(n, 2))
    maps = DiffusionMaps("auto", epsilon=0.5, t=t).fit(points)
    more = DiffusionMaps(maps.report_.n_components + 1, epsilon=0.5, t=t).fit(points).eigenvalues_
    ratio = (more / more[0]) ** t
    assert (ratio[:-1] > 0.1).all()
    assert ratio[-1] <= 0.1


def test_auto_components_not_reached_is_told():
    maps = quietly(DiffusionMaps("auto", epsilon=1e-3).fit, cloud(0, rows=30))
    assert any("decay below 0.1 within 30 eigenpairs; all 29" in text for text in maps.report_.warnings)
    maps = quietly(DiffusionMaps("auto", epsilon=1e-6).fit, np.random.default_rng(0).uniform(size=(1100, 3)))
    assert any("decay below 0.1 within 512 eigenpairs; all 511" in text for text in maps.report_.warnings)


def test_spectral_dimension_orders_by_magnitude():
    assert spectral_dimension([0.5, -0.9, 0.01]) == 2
    assert spectral_dimension([0.9, 0.5, 0.3], t=10) == 1
    with pytest.raises(ValueError, match="no non-zero"):
        spectral_dimension([])


def test_signs_survive_permutation_on_symmetric_data():
    angle = 2 * np.pi * np.arange(64) / 64
    ellipse = np.column_stack([2 * np.cos(angle), np.sin(angle)])
    base = DiffusionMaps(3, epsilon=0.1).fit(ellipse).embedding_
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(64)
        np.testing.assert_allclose(DiffusionMaps(3, epsilon=0.1).fit(ellipse[order]).embedding_, base[order], atol=1e-9)


def test_landmarks_by_count_fraction_and_points():
    measure, rng = np.ones(300), np.random.default_rng(0)
    assert len(Random(50).select(InMemory(X), measure, rng).points) == 50
    assert len(Random(0.1).select(InMemory(X), measure, rng).points) == 30
    chosen = Random(40).select(InMemory(X), np.r_[np.zeros(250), np.ones(50)], rng)
    assert chosen.index.min() >= 250
    assert Points(X[:9]).select(InMemory(X), measure, rng).index is None
    one, two, three = (DiffusionMaps(landmarks=80, random_state=s).fit(X).landmarks_ for s in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


def test_row_blocks_cover_every_row_once():
    for rows, width in ((1, 1), (1000, 10**6), (100_000, 300), (17, 0)):
        blocks = row_blocks(rows, width)
        assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
        assert blocks[-1].stop == rows


def test_threads_keep_order_and_pass_errors_on():
    blocks = row_blocks(5000, 10**5)
    assert [r.start for r in Threads(4).map(lambda b: b, blocks, "")] == [b.start for b in blocks]
    with pytest.raises(ZeroDivisionError):
        list(Threads().map(lambda b: 1 / 0, blocks, ""))
    assert Threads(-1).workers == Threads().workers
    assert Threads(3).workers == 3


def test_n_jobs_does_not_change_a_bit_of_transform():
    maps = DiffusionMaps(3).fit(X)
    Z = np.random.default_rng(2).normal(size=(20_000, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [maps.set_params(n_jobs=jobs).transform(Z) for jobs in (None, 1, 2, 3)]
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_verbose_shows_progress_on_stderr_only_when_it_takes_long(capsys, monkeypatch):
    DiffusionMaps(verbose=True).fit(X)
    assert capsys.readouterr().err == ""  # under two seconds: nothing
    import tqdm

    slow = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda *a, **k: slow(*a, **{**k, "delay": 0, "mininterval": 0}))
    DiffusionMaps(verbose=True).fit(np.random.default_rng(0).normal(size=(1500, 2)))
    shown = capsys.readouterr().err
    assert "distances" in shown
    assert "solving" in shown
    DiffusionMaps(verbose=True, n_neighbors=8, solver="lobpcg").fit(np.random.default_rng(0).uniform(size=(3000, 2)))
    assert "residual" in capsys.readouterr().err


@pytest.mark.parametrize("solver", ["lanczos", "shift_invert", "lobpcg"])
@pytest.mark.parametrize(
    "method",
    [DiffusionMaps(6, n_neighbors=16), LaplacianEigenmaps(6, n_neighbors=16, laplacian="unnormalized")],
    ids=["P", "L"],
)
def test_sparse_solvers_agree_with_lapack(solver, method):
    sheet = np.random.default_rng(0).uniform(size=(1500, 2)) * [3, 1]
    dense = method.set_params(solver="dense").fit(sheet)
    values, embedding = dense.eigenvalues_, dense.embedding_
    sparse = method.set_params(solver=solver).fit(sheet)
    assert sparse.report_.solver == solver.replace("_", "")
    gone = 1 - values if isinstance(method, DiffusionMaps) else values
    np.testing.assert_allclose(sparse.eigenvalues_, values, atol=1e-8 * gone.max())
    np.testing.assert_allclose(sparse.embedding_, embedding, atol=1e-3)
    assert sparse.report_.residual < 2e-5


def test_shift_invert_on_a_dense_kernel():
    for method in (DiffusionMaps(4), LaplacianEigenmaps(4, laplacian="unnormalized")):
        values = method.set_params(solver="dense").fit(X).eigenvalues_
        found = method.set_params(solver="shift_invert").fit(X).eigenvalues_
        np.testing.assert_allclose(found, values, atol=1e-9 * max(1, values.max()))
    with pytest.raises(ValueError, match="sparse graphs"):
        DiffusionMaps(solver="lobpcg", n_neighbors=None).fit(X)


def test_auto_decides_sparse_problems_by_how_crowded_the_top_is(monkeypatch):
    sheet = np.random.default_rng(0).uniform(size=(3000, 2))
    ball = np.random.default_rng(0).normal(size=(3000, 12))
    small = solvers.Auto(dense_up_to=100, lanczos_up_to=200)
    maps = DiffusionMaps(3, n_neighbors=12, solver=small).fit(sheet)
    assert maps.report_.solver == "lobpcg"
    assert "crowd" in maps.report_.solver_why
    assert DiffusionMaps(3, n_neighbors=12, solver=small).fit(ball).report_.solver == "lanczos"


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
    tried = [type(s).__name__ for s in solvers.Auto().instead(solvers.Lobpcg(), many)]
    assert tried == ["Lobpcg", "Lanczos", "ShiftInvert"]  # the same with more patience, then another way


def test_lobpcg_out_of_iterations_keeps_its_pairs():
    sheet = np.random.default_rng(0).uniform(size=(1500, 2))
    from outfold import graphs
    from outfold.distances import Metric
    from outfold.normalizations import Markov

    found = graphs.survey(graphs.Union(12), Metric(), sheet, np.ones(1500), Threads(1))
    W = graphs.draw(graphs.Union(12), found, None, Threads(1)).gram(Threads(1))
    W.data = np.exp(-W.data / np.median(W.data))
    operator = Markov(1.0).fit(W, np.ones(1500))
    session = solvers.Lobpcg(max_iterations=1).start(operator)
    with pytest.raises(ConvergenceError, match="after 1 iterations") as caught:
        session.top(operator.trivial(1), 5)
    values, vectors = caught.value.partial
    assert values.shape == (5,)
    assert vectors.shape == (1500, 5)


def test_cells_of_the_coarse_grid_may_depend_on_each_other():
    roll, _ = datasets.swiss_roll(2048, random_state=0)  # LAPACK calls its coarse mass singular
    found = [
        DiffusionMaps(3, epsilon=np.inf, n_neighbors=25, solver=solver).fit(roll).eigenvalues_
        for solver in ("lobpcg", "shift_invert")
    ]
    np.testing.assert_allclose(*found, atol=1e-10)


def test_the_coarse_grid_of_a_binary_graph_is_regular():
    sheet = np.random.default_rng(0).uniform(size=(4000, 2))
    maps = LaplacianEigenmaps(4, n_neighbors=10, epsilon=np.inf).fit(sheet)
    assert maps.report_.solver == "lobpcg"
    assert "fallback" not in maps.report_.solver_why
    assert "trace" not in str(LaplacianEigenmaps(2, laplacian="unnormalized").fit(X).report_)


def test_a_highly_multiple_eigenvalue_is_not_dropped():
    complete = np.ones((46, 46))  # L = n - 11': one 0 and 45 times n, of which LAPACK's range driver returns one
    maps = LaplacianEigenmaps(4, kernel="precomputed", laplacian="unnormalized").fit(complete)
    np.testing.assert_allclose(maps.eigenvalues_, 46, atol=1e-10)
    assert maps.embedding_.shape == (46, 4)


def flat_torus(n, dimension):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (n, dimension))
    return np.hstack([np.cos(angle), np.sin(angle)])


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


@pytest.mark.parametrize("solver", [solvers.Lobpcg(), solvers.Lanczos(tol=1e-5)], ids=["lobpcg", "filtered lanczos"])
def test_n_jobs_changes_no_more_than_the_rounding_of_a_sparse_fit(solver, monkeypatch):
    monkeypatch.setattr(solvers, "FILTERED_FROM", 1000)
    X = datasets.s_curve(9000, random_state=0)[0]
    one, *others = (DiffusionMaps(5, n_neighbors=12, solver=solver, n_jobs=j).fit(X) for j in (1, 2, 3))
    gap = -np.diff(one.eigenvalues_, prepend=1.0).max()
    for other in others:  # BLAS rounds by the number of its threads: the contract allows 1e-12, and 1e-13 / gap
        np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=0, atol=1e-12)
        np.testing.assert_allclose(one.embedding_, other.embedding_, rtol=0, atol=1e-13 / gap)


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_lanczos_on_a_polynomial_agrees_with_lapack(dimension, monkeypatch):
    monkeypatch.setattr(solvers, "FILTERED_FROM", 1000)
    X = flat_torus(2000, dimension)
    truth = DiffusionMaps(7, n_neighbors=16, solver="dense").fit(X).eigenvalues_
    found = DiffusionMaps(7, n_neighbors=16, solver=solvers.Lanczos(tol=1e-7)).fit(X)
    assert found.report_.solver == "lanczos"
    assert found.report_.residual < 1e-4
    np.testing.assert_allclose(1 - found.eigenvalues_, 1 - truth, rtol=1e-6)


def test_a_filter_that_cuts_too_high_is_not_believed(monkeypatch):
    monkeypatch.setattr(solvers, "FILTERED_FROM", 1000)
    sheet = np.random.default_rng(0).uniform(size=(1500, 2))
    truth = DiffusionMaps(9, n_neighbors=12, solver="dense").fit(sheet).eigenvalues_
    tight = solvers._Filter.of

    def high(operator):
        return replace(tight(operator), cut=float(truth[3]))

    monkeypatch.setattr(solvers._Filter, "of", high)
    found = DiffusionMaps(9, n_neighbors=12, solver="lanczos").fit(sheet).eigenvalues_
    np.testing.assert_allclose(found, truth, atol=1e-9)


def test_auto_takes_lanczos_where_the_top_is_not_crowded(monkeypatch):
    monkeypatch.setattr(solvers, "FILTERED_FROM", 3000)
    assert DiffusionMaps(4, n_neighbors=16).fit(flat_torus(4000, 5)).report_.solver == "lanczos"
    assert DiffusionMaps(4, n_neighbors=16).fit(datasets.s_curve(4000, random_state=0)[0]).report_.solver == "lobpcg"


def test_lobpcg_on_several_components_and_on_copies():
    sheet = np.random.default_rng(0).uniform(size=(1500, 2))
    X = np.vstack([sheet, sheet[:700] + 5, np.repeat(sheet[:300] - 5, 2, axis=0)])
    truth, found = (
        quietly(DiffusionMaps(9, n_neighbors=12, solver=s).fit, X) for s in (solvers.ShiftInvert(), solvers.Lobpcg())
    )
    assert found.report_.solver == "lobpcg"
    assert found.report_.multiplicity == 3
    np.testing.assert_allclose(1 - found.eigenvalues_[2:], 1 - truth.eigenvalues_[2:], rtol=1e-6)
