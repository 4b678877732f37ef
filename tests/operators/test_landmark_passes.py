"""Passes over rows: how often they are searched, and what memory changes."""

import contextlib

import numpy as np
import pytest
from scipy.sparse import random_array

from catalogue import quietly, up_to_signs
from outfold import Roseland, graphs, load
from outfold._runtime.threads import Threads
from outfold.data import checkpoints
from outfold.datasets import s_curve
from outfold.operators import landmark_passes

X = s_curve(700, random_state=0)[0]


def as_npy(folder, values=X, name="rows.npy"):
    np.save(folder / name, values)
    return folder / name


def test_rows_that_fit_in_one_chunk_are_searched_once(monkeypatch):
    X, _ = s_curve(2000, random_state=0)
    searched, search = [], landmark_passes.NearPasses._find_neighbors
    monkeypatch.setattr(
        landmark_passes.NearPasses,
        "_find_neighbors",
        lambda self, *words: (searched.append(1), search(self, *words))[1],
    )
    maps = Roseland(3, landmarks=100, n_neighbors=8, random_state=0)
    streamed = maps.fit(lambda: (X[:700], X[700:])).eigenvalues_
    assert len(searched) == 1
    np.testing.assert_allclose(streamed, maps.fit(X).eigenvalues_, atol=1e-12)
    assert not hasattr(maps.fit(lambda: (X[:700], X[700:])), "embedding_")


@pytest.mark.parametrize("n_neighbors", [None, 8])
def test_memory_cuts_chunks_and_changes_nothing_else(n_neighbors, tmp_path):
    rows = s_curve(50_000, random_state=2)[0]
    ample = Roseland(3, landmarks=100, n_neighbors=n_neighbors, random_state=0).fit(rows)
    tight = Roseland(3, landmarks=100, n_neighbors=n_neighbors, random_state=0, memory="20MB").fit(
        as_npy(tmp_path, rows)
    )
    np.testing.assert_allclose(tight.eigenvalues_, ample.eigenvalues_, rtol=1e-12)
    assert up_to_signs(quietly(tight.transform, rows), ample.embedding_) < 1e-10


@pytest.mark.parametrize("copies", [7, 12])
def test_most_landmarks_may_have_more_copies_than_neighbours(copies):
    """The radius of their neighbourhood is 0, and so is the median: the unit is that of the others, if there are."""
    sites = np.array([[i, j] for i in range(4) for j in range(4)], dtype=float)
    X = np.repeat(sites, [copies] * 12 + [1, 1, 2, 2], axis=0)
    for estimator in (Roseland(2, landmarks=X, n_neighbors=6), Roseland(2, landmarks=X[: 12 * copies], n_neighbors=6)):
        model = quietly(estimator.fit, X)
        places = quietly(model.transform, X)
        assert np.isfinite(places).all()
        np.testing.assert_allclose(places, model.embedding_, atol=1e-10)
        assert np.ptp(places, axis=0).min() > 0


CUTS = {
    "dense sums": {"threshold": 1e-3},
    "sparse sums": {"threshold": 0.3},
    "mutual": {"n_neighbors": graphs.Mutual(9)},
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_a_cut_is_taken_up_from_a_checkpoint_to_the_last_bit(cut, tmp_path, monkeypatch):
    options = {"landmarks": 150, "epsilon": 0.05, "random_state": 0, **cut}
    monkeypatch.setattr(landmark_passes, "chunk_rows", lambda *sizes: 100)
    monkeypatch.setattr(landmark_passes, "gram_step", lambda landmarks: 100)
    expected = quietly(Roseland(3, **options).fit, lambda: iter([X]))
    keep, reads = checkpoints.Checkpoint.keep, {"left": 0}
    monkeypatch.setattr(
        checkpoints.Checkpoint, "keep", lambda self, stage, state, *, done: keep(self, stage, state, done=True)
    )

    def dies():
        yield X[:350]
        reads["left"] -= 1
        if reads["left"] == 0:
            raise OSError("lost")
        yield X[350:]

    method = Roseland(3, checkpoint=tmp_path / "kept", **options)
    for reads["left"] in (4, 5, 6):  # 1: shape, 2: fingerprint, 3: landmarks, then the passes
        with contextlib.suppress(OSError):
            quietly(method.fit, dies)
    found = quietly(method.fit, dies)
    assert np.array_equal(found.eigenvalues_, expected.eigenvalues_)
    assert np.array_equal(found.transform(X, on_far="keep"), expected.transform(X, on_far="keep"))


@pytest.mark.parametrize("cut", [*CUTS.values(), {"kernel": "self_tuning"}, {"kernel": "continuous_knn"}], ids=str)
def test_blocks_threads_and_files_change_nothing(cut, tmp_path, monkeypatch):
    options = {"landmarks": X[::5], "updatable": True, **cut}
    whole = quietly(Roseland(3, **options).fit, X)
    monkeypatch.setattr(landmark_passes, "chunk_rows", lambda *sizes: 90)
    narrow = quietly(Roseland(3, n_jobs=1, **options).fit, as_npy(tmp_path))
    np.testing.assert_allclose(narrow.eigenvalues_, whole.eigenvalues_, rtol=1e-11)
    assert up_to_signs(narrow.transform(X, on_far="keep"), whole.embedding_) < 1e-9
    whole.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.transform(X, on_far="keep"), whole.embedding_)
    for model in (whole, again):
        quietly(model.update, X[:90] + 0.01)
    assert np.array_equal(again.transform(X, on_far="keep"), whole.transform(X, on_far="keep"))


@pytest.mark.parametrize("rows", [1, 5, 3000])
def test_a_sparse_gram_matrix_sums_over_rows_in_their_order(rows):
    """However many threads share the work: one sum per entry, from the first row to the last."""
    W = random_array((rows, 400), density=0.02, format="csr", rng=np.random.default_rng(0))
    dense, expected = W.toarray(), np.zeros((400, 400))
    for row in dense:
        expected += np.outer(row, row)
    for threads in (1, 3):
        G = landmark_passes.gram(W.indptr, W.indices, W.data, 400, Threads(threads))
        np.testing.assert_array_equal(G.toarray(), expected)
        assert G.has_canonical_format


def test_rows_are_put_in_order_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(landmark_passes, "GATHERED_FROM", 1)
    rng = np.random.default_rng(0)
    for table in (rng.normal(size=(200_000, 2)), np.broadcast_to(np.ones(1), 200_000)):
        order = rng.permutation(200_000)
        np.testing.assert_array_equal(landmark_passes.gather(table, order, Threads(3)), table[order])


def test_a_fit_in_many_parts_is_the_same_on_any_number_of_threads(monkeypatch):
    rows = s_curve(20_000, random_state=1)[0]
    maps = Roseland(3, landmarks=200, random_state=0, solver="lanczos")
    whole = maps.fit(rows).embedding_
    monkeypatch.setattr(landmark_passes, "SEARCH_BLOCK", 512)
    monkeypatch.setattr(landmark_passes, "GATHERED_FROM", 1)
    for jobs in (1, 3):
        np.testing.assert_array_equal(maps.set_params(n_jobs=jobs).fit(rows).embedding_, whole)
