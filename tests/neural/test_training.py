"""Training: losses and slopes against their formulas."""

from dataclasses import replace

import numpy as np
import pytest

from catalogue import cloud
from outfold import DiffusionMaps
from outfold.neural import training
from outfold.neural.extension import _eigenvalues, markov_matrix

torch = pytest.importorskip("torch")
PLAN = training.Schedule(
    solver="lbfgs", iterations=10, batch=32, rate=1e-3, patience=10, tolerance=0.0, seed=0, device="cpu"
)


def parameters(sizes, seed=0, activation="tanh"):
    rng = np.random.default_rng(seed)
    return [p + 0.1 * rng.normal(size=p.shape) for p in training.initial(sizes, activation, 0.1, rng)]


def plan(**changes):
    return replace(PLAN, **changes)


def chain_of(maps):
    """The Markov matrix between the anchors, the anchors, and their embedding."""
    chain = maps.model_.markov_chain()
    anchors = np.array(chain.anchors)
    return markov_matrix(chain), anchors, maps.transform(anchors)


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
@pytest.mark.parametrize("alpha", [0, 0.5, 1])
def test_the_markov_matrix_is_reversible_and_has_the_coordinates_as_eigenfunctions(kernel, alpha):
    weights = np.random.default_rng(0).uniform(0.2, 3, 60)
    maps = DiffusionMaps(3, kernel=kernel, alpha=alpha, n_neighbors=8, t=2).fit(
        cloud(0, rows=60), sample_weight=weights
    )
    P, _, psi = chain_of(maps)
    chain = maps.model_.markov_chain()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    flow = chain.stationary[:, None] * P.toarray()
    np.testing.assert_allclose(flow, flow.T, atol=1e-14)
    np.testing.assert_allclose(P @ psi, psi * maps.eigenvalues_, atol=1e-12)
    np.testing.assert_allclose(_eigenvalues(P, psi, chain.measure), maps.eigenvalues_, atol=1e-12)
    assert sorted(chain.measure) == sorted(weights)


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
@pytest.mark.parametrize("neighbours", ["auto", 8])
def test_the_loss_is_the_formula_of_the_paper(neighbours, kernel):
    X = cloud(0, rows=60)
    maps = DiffusionMaps(2, kernel=kernel, n_neighbors=neighbours, t=2).fit(X)
    P, anchors, psi = chain_of(maps)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-10)
    np.testing.assert_allclose(P @ psi, psi * maps.eigenvalues_, atol=1e-10)
    rng = np.random.default_rng(0)
    measure, origin, held = rng.uniform(1, 2, 60), rng.normal(size=2), np.arange(5)
    eigen = training.Eigen(
        penalty=0.7,
        P=P,
        values=maps.eigenvalues_,
        rows=np.arange(60),
        measure=measure,
        origin=origin,
        order=np.arange(60),
    )
    task = training.Regression(anchors, psi, measure, held, "tanh", 0.3, eigen, plan())
    found = parameters((3, 6, 2))
    parts = [float(p) for p in task.loss([torch.as_tensor(p) for p in found], None, 0.0)]

    o = np.tanh(anchors @ found[0] + found[1]) @ found[2] + found[3]
    m = measure[5:]
    fit = sum(m[i] * np.sum((o[5:][i] - psi[5:][i]) ** 2) for i in range(55)) / (2 * m.sum())
    decay = 0.3 / 2 * (np.sum(found[0] ** 2) + np.sum(found[2] ** 2))
    shifted = o + origin
    left = [(P.toarray() - value * np.eye(60)) @ shifted[:, j] for j, value in enumerate(maps.eigenvalues_)]
    penalty = 0.7 / 2 * sum(measure @ part**2 for part in left) / measure.sum()
    np.testing.assert_allclose(parts, [fit, decay, penalty], rtol=1e-10)


def test_slopes_are_those_of_finite_differences():
    X = cloud(1, rows=40)
    maps = DiffusionMaps(2).fit(X)
    P, anchors, psi = chain_of(maps)
    eigen = training.Eigen(
        penalty=2.0,
        P=P,
        values=maps.eigenvalues_,
        rows=np.arange(40),
        measure=np.ones(40),
        origin=np.ones(2),
        order=np.arange(40),
    )
    task = training.Regression(anchors, psi, np.ones(40), np.arange(0), "tanh", 0.1, eigen, plan())
    found = parameters((3, 4, 2))
    tensors = [torch.as_tensor(p).requires_grad_() for p in found]
    slopes = torch.autograd.grad(sum(task.loss(tensors, None, 0.0)), tensors)

    def total(values):
        return float(sum(task.loss([torch.as_tensor(p) for p in values], None, 0.0)))

    for which, slope in enumerate(slopes):
        step = np.zeros_like(found[which])
        step.flat[0] = 1e-6
        ahead, behind = ([p + sign * step if i == which else p for i, p in enumerate(found)] for sign in (1, -1))
        expected = (total(ahead) - total(behind)) / 2e-6
        np.testing.assert_allclose(float(slope.flatten()[0]), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "adaptive"])
def test_patches_see_the_rows_of_the_whole_matrix(kernel):
    X = cloud(2, rows=80)
    maps = DiffusionMaps(2, kernel=kernel, n_neighbors=6).fit(X)
    P, anchors, psi = chain_of(maps)
    eigen = training.Eigen(
        penalty=1.0,
        P=P,
        values=maps.eigenvalues_,
        rows=np.arange(80),
        measure=np.ones(80),
        origin=np.zeros(2),
        order=np.arange(80),
    )
    task = training.Regression(anchors, psi, np.ones(80), np.arange(0), "relu", 0.0, eigen, plan())
    chosen = np.arange(10, 30)
    task._patches = lambda n: chosen
    found = parameters((3, 6, 2), activation="relu")
    part = float(task.loss([torch.as_tensor(p) for p in found], np.arange(3), 0.0)[2])
    o = np.maximum(anchors @ found[0] + found[1], 0) @ found[2] + found[3]
    left = P @ o - o * maps.eigenvalues_
    np.testing.assert_allclose(part, (left[chosen] ** 2).sum() / (2 * len(chosen)), rtol=1e-10)


def test_the_loss_of_the_autoencoder_is_its_formula():
    rng = np.random.default_rng(0)
    X, E = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    there, back = parameters((4, 5, 2), 1), parameters((2, 5, 4), 2)
    task = training.Autoencoder(X, E, np.arange(0), "tanh", 4, 3.0, 0.25, 0.2, plan())
    parts = [float(p) for p in task.loss([torch.as_tensor(p) for p in (*there, *back)], None, 0.5)]
    z = np.tanh(X @ there[0] + there[1]) @ there[2] + there[3]
    r = np.tanh(z @ back[0] + back[1]) @ back[2] + back[3]
    squares = sum((W**2).sum() for W in (there[0], there[2], back[0], back[2]))
    expected = [((r - X) ** 2).mean(), 3.0 * 0.5 * ((z - E) ** 2).mean(), 0.1 * squares]
    np.testing.assert_allclose(parts, expected, rtol=1e-10)
