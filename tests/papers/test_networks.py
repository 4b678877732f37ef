"""The comparison of extensions of the thesis."""

from dataclasses import replace

import numpy as np
import pytest

from outfold import extensions
from outfold._runtime.threads import Threads
from outfold.datasets import helix as points_on_helix
from outfold.extensions.least_squares import JointModel
from outfold.papers import record, thesis
from outfold.papers.record import Effort


@pytest.fixture(scope="module")
def small():
    X, angle = points_on_helix(300, noise=0.02, random_state=0)
    return thesis.Study(X=X, colors=angle, percentile=4, t=10, dimension=2, test_rows=100)


def test_every_extension_is_compared_by_its_own_figures(small, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(thesis, "RANK", 5)
    monkeypatch.setattr(thesis, "ITERATIONS", 20)
    table = thesis.other_extensions(small, Effort(repeats=2))
    found = {name: figures for name, *figures in table.rows}
    assert list(found) == [*thesis.WAYS, "network, eta = 0", "network, eta = 10"]
    squares = {name for name in found if name.startswith("least squares")}
    assert {found[name][0] for name in squares} == {found["Nystrom"][0]}  # in degrees they differ, and they cancel
    assert len({tuple(figures) for figures in found.values()}) == len(found)
    assert all(" ± " in figure for figures in found.values() for figure in figures)
    assert "2 draws" in table.title
    assert "PyTorch" not in table.title


def test_aligned_errors_of_the_comparison_are_those_of_the_extension(small, monkeypatch):
    monkeypatch.setattr(thesis, "RANK", small.dimension)
    train, test = small.split(150, 0)
    truth = {c: thesis._twenty(small, c, small.X) for c in ("diffusion", "canonical")}
    _, at_one, at_t = thesis._errors(small, truth, train, test, "nystrom")
    assert at_one == pytest.approx(100 * thesis.extend(replace(small, t=1), train, test).aligned)
    assert at_t == pytest.approx(100 * thesis.extend(small, train, test).aligned)
    maps = thesis._twenty(small, "canonical", small.X[train])
    joint = JointModel(maps.model_)
    seen, new = joint.training(small.X[train], small.X[test], Threads()), joint.embed(small.X[test], Threads())
    plain = np.sqrt(150 / 300) * maps.transform(small.X, on_far="keep")
    for degrees, (ours, theirs) in {"joint": (seen, new), "training": (plain[train], plain[test])}.items():
        target = truth["canonical"].embedding_
        U, _, V = np.linalg.svd(ours.T @ target[train])
        square = np.square(theirs @ U @ V - target[test]).sum() / np.square(target[test] - target[test].mean(0)).sum()
        _, canonical, _ = thesis._errors(small, truth, train, test, extensions.LeastSquares(degrees))
        assert canonical == pytest.approx(100 * np.sqrt(square))


def test_without_torch_networks_are_left_out_of_the_comparison_and_it_says_so(small, monkeypatch):
    monkeypatch.setattr(thesis, "RANK", 5)
    monkeypatch.setattr(thesis, "WAYS", {"Nystrom": "nystrom"})
    monkeypatch.setattr(record, "find_spec", lambda name: None)
    table = thesis.other_extensions(small, Effort(repeats=1))
    assert [row[0] for row in table.rows] == ["Nystrom"]
    assert 'pip install "outfold[neural]"' in table.title
