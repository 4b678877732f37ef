"""Memory: tables that cannot fit are refused before they are made."""

import pytest

from catalogue import cloud
from outfold import ClassicalMDS, Isomap, KernelPCA

X = cloud(0, rows=120)


def test_tables_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("outfold._runtime.memory.free_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match="n = 120 points.*landmarks"):
        ClassicalMDS().fit(X)
    with pytest.raises(MemoryError, match="n = 120 points.*landmarks"):
        KernelPCA().fit(X)
    with pytest.raises(MemoryError, match="Geodesics between 120 points and 120 anchors.*landmarks"):
        Isomap().fit(X)
