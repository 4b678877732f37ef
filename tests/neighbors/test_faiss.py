"""Faiss: inverted lists, and rows with few candidates."""

import numpy as np
import pytest

from outfold import DiffusionMaps, graphs
from outfold.neighbors import faiss


@pytest.mark.filterwarnings("ignore:Coordinate . shows outliers")  # a Gaussian cloud has some
def test_inverted_lists_are_used_for_much_data_and_their_gap_is_stored(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(faiss, "FLAT_WORK", 0)
    X = np.random.default_rng(0).normal(size=(4000, 5)) @ np.random.default_rng(1).normal(size=(5, 30))
    maps = DiffusionMaps(2, n_neighbors=graphs.Union(16, search="faiss")).fit(X)
    exact = DiffusionMaps(2, n_neighbors=graphs.Union(16, search="brute")).fit(X)
    assert type(maps.model_.rule.geometry.search.source.index).__name__ == "IndexIVFFlat"
    np.testing.assert_allclose(maps.eigenvalues_, exact.eigenvalues_, atol=2e-3)
    sample = np.linspace(0, 3999, 256).astype(int)
    worst = np.abs(maps.transform(X[sample]) - maps.embedding_[sample]).max()
    assert maps.report_.extension_gap == pytest.approx(worst, abs=1e-12)


def test_a_row_with_few_candidates_changes_no_other(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(faiss, "FLAT_WORK", 0)
    points = np.random.default_rng(0).normal(size=(1000, 6)).astype(float)
    index = faiss.FaissIndex(points)
    index.index.nprobe = 1
    k = int(np.median([index.index.invlists.list_size(cell) for cell in range(index.index.nlist)]))
    Z = points[:50] + 0.01
    together = index.candidates(Z, k)
    assert (together >= 0).all()
    assert index.index.nprobe == 1
    for row in range(50):
        assert np.array_equal(index.candidates(Z[row : row + 1], k)[0], together[row])
