"""Small settings of the experiments, and the faces."""

import pytest

from outfold.datasets import fetch_faces
from outfold.papers import denoising, grids


@pytest.fixture
def few(monkeypatch):
    """A short grid, short trainings, short curves."""
    pytest.importorskip("torch")
    monkeypatch.setattr(grids, "ITERATIONS", 60)
    monkeypatch.setattr(grids, "GRID", (1e-4, 1.0, 1e4))
    monkeypatch.setattr(denoising, "ITERATIONS", 60)
    monkeypatch.setattr(denoising, "ROWS", 500)
    monkeypatch.setattr(denoising, "TRAIN", 400)
    monkeypatch.setattr(denoising, "PENALTIES", (0.0, 100.0))


@pytest.fixture
def faces(shared_data, monkeypatch):
    monkeypatch.setenv("OUTFOLD_DATA", str(shared_data))
    return fetch_faces()
