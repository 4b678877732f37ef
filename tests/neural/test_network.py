"""Networks: NumPy and PyTorch give the same outputs."""

import numpy as np
import pytest

from outfold._runtime.threads import Threads
from outfold.neural import Network, training
from outfold.neural.network import ACTIVATIONS, Standardization

torch = pytest.importorskip("torch")


def identity(columns):
    return Standardization(np.zeros(columns), np.ones(columns))


def parameters(sizes, seed=0, activation="tanh"):
    rng = np.random.default_rng(seed)
    return [p + 0.1 * rng.normal(size=p.shape) for p in training.initial(sizes, activation, 0.1, rng)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_and_torch_give_the_same_outputs(activation):
    found = parameters((3, 7, 5, 2), activation=activation)
    X = np.random.default_rng(1).normal(size=(40, 3))
    theirs = training.forward([torch.as_tensor(p) for p in found], torch.as_tensor(X), activation).numpy()
    ours = Network(
        weights=tuple(found[::2]),
        biases=tuple(found[1::2]),
        activation=activation,
        source=identity(3),
        target=identity(2),
    ).embed(X, Threads(1))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)
