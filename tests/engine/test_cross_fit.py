"""Fits of parts: errors are those of folds fitted anew, and of samples."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from sklearn.base import clone

from catalogue import quietly
from functions import FEW, RUNNER, X
from outfold import ClassicalMDS, DiffusionMaps, LocallyLinearEmbedding, datasets
from outfold.bandwidths import Fixed
from outfold.data.sources import InMemory
from outfold.engine import cross_fit
from outfold.engine.fit import fit_recipe
from outfold.exceptions import SpectrumWarning
from outfold.extensions import Auto, KernelRidge
from outfold.extensions.samples import Extension, Samples


@pytest.mark.parametrize(
    "method",
    [
        DiffusionMaps(2, epsilon=0.4),
        DiffusionMaps(2, kernel="gaussian"),
        DiffusionMaps(2),
        ClassicalMDS(2),
        LocallyLinearEmbedding(2, n_neighbors=8),
    ],
    ids=["diffusion", "diffusion with a found epsilon", "diffusion in local units", "mds", "lle"],
)
def test_the_errors_are_those_of_folds_fitted_anew(method):
    """By hand: fit the rest, align over the rest, look at the held-out rows."""
    model = quietly(clone(method).set_params(extension=Auto(folds=3, candidates=FEW)).fit, X)
    whole = model.embedding_
    spread = ((whole - whole.mean(axis=0)) ** 2).sum() / len(X)
    sample = cross_fit.Sample(X, np.ones(len(X)), whole, False)
    recipe = cross_fit.alone(method._recipe(), 2, model.report_.epsilon)
    squares, held = [], []
    for fold in cross_fit.folds(sample, recipe, 3, RUNNER):
        rest = np.setdiff1d(np.arange(len(X)), fold.held)
        held += list(fold.held)
        squares.append([])
        for spec in FEW:
            part = clone(method).set_params(extension=spec)
            if isinstance(method, DiffusionMaps) and method.kernel == "gaussian":
                part.set_params(epsilon=model.epsilon_)
            part = quietly(part.fit, X[rest])
            moving, fixed = part.embedding_, whole[rest]
            shrink = np.sqrt(len(rest) / len(X)) if isinstance(method, LocallyLinearEmbedding) else 1.0
            turn, _ = orthogonal_procrustes(moving - moving.mean(axis=0), fixed - fixed.mean(axis=0))
            places = quietly(part.transform, X[fold.held])
            moved = shrink * (places - moving.mean(axis=0)) @ turn + fixed.mean(axis=0)
            squares[-1].append(((moved - whole[fold.held]) ** 2).sum(axis=1).mean())
    assert sorted(held) == list(range(len(X)))  # every row once
    expected = np.exp(np.log(np.sqrt(np.array(squares) / spread)).mean(axis=0))
    found = {row.extension: row.error for row in model.report_.candidates}
    np.testing.assert_allclose([found[spec] for spec in FEW], expected, rtol=1e-6)


def test_parts_that_cannot_be_fitted_leave_nystrom_and_a_note():
    method = LocallyLinearEmbedding(2, n_neighbors=12, extension=Auto(folds=2, candidates=FEW))
    with pytest.warns(SpectrumWarning, match="could not fit parts of the data and stayed with 'nystrom'"):
        model = method.fit(X[:20])  # ten rows have no twelve neighbours
    assert model.report_.extension == "nystrom"


def test_streamed_rows_are_sampled_and_judged_as_a_fit_of_the_sample():
    S, _ = datasets.s_curve(400, random_state=0)
    for epsilon in (0.2, "auto"):
        method = DiffusionMaps(2, kernel="gaussian", epsilon=epsilon)
        recipe = method._recipe()
        found = fit_recipe(InMemory(S), recipe, np.ones(400), np.random.default_rng(0), RUNNER)
        part, of_parts = cross_fit.draw_sample(InMemory(S), recipe, found, 80, RUNNER)
        assert len(np.unique(part.X, axis=0)) == len(part.X) == 80
        alone = method.fit(part.X)
        np.testing.assert_allclose(part.embedding, alone.embedding_, atol=1e-10)
        assert of_parts.view.kernel.rule == Fixed(alone.epsilon_)  # what suits many rows is too narrow for few
        whole, of_parts = cross_fit.draw_sample(InMemory(S), recipe, found, 400, RUNNER)
        assert whole.embedding is found.embedding
        assert of_parts.view.kernel.rule == Fixed(found.report.epsilon)
    assert alone.epsilon_ > 2 * found.report.epsilon


def test_a_sample_in_local_units_is_fitted_by_the_same_rule():
    S, _ = datasets.s_curve(400, random_state=0)
    recipe = DiffusionMaps(2)._recipe()
    found = fit_recipe(InMemory(S), recipe, np.ones(400), np.random.default_rng(0), RUNNER)
    part, of_parts = cross_fit.draw_sample(InMemory(S), recipe, found, 80, RUNNER)
    np.testing.assert_allclose(part.embedding, DiffusionMaps(2).fit(part.X).embedding_, atol=1e-10)
    assert of_parts.view == recipe.view
    assert cross_fit.draw_sample(InMemory(S), recipe, found, 400, RUNNER)[0].embedding is found.embedding


@dataclass(frozen=True)
class Counted(Extension):
    """The mean of the values, or another extension; counts its fits."""

    name: str
    inner: Extension | None
    fitted: list = field(default_factory=list, compare=False)

    def fit(self, samples, runner):
        self.fitted.append(len(samples.points))
        return (self.inner or KernelRidge(1e4, 1e6)).fit(samples, runner)


def test_extensions_that_are_far_behind_are_not_fitted_to_every_part(monkeypatch):
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(600, 2))
    known = Samples.of(places, np.sin(3 * places) + 0.01 * rng.normal(size=(600, 2)), np.ones(600))
    good, near, mean = (
        Counted(name, inner)
        for name, inner in [("good", KernelRidge(0.1, 1e-3)), ("near", KernelRidge(0.11, 1e-3)), ("mean", None)]
    )
    table = cross_fit.compare_maps(known, [mean, good, near], 5, RUNNER)
    assert [len(one.fitted) for one in (good, near, mean)] == [5, 5, 1]  # a part has 120 held-out rows
    assert table[-1].extension.name == "mean"
    assert 0.9 < table[-1].error < 1.1  # as far as it was seen: the spread of the values
    monkeypatch.setattr(cross_fit, "ROWS_BEFORE_LEAVING", 600)
    full = cross_fit.compare_maps(known, [mean, good, near], 5, RUNNER)
    assert [one.extension.name for one in full] == [one.extension.name for one in table]
    assert [one.error for one in full[:2]] == [one.error for one in table[:2]]
    assert len(mean.fitted) == 6
