"""Trained networks as NumPy arrays; nothing in this module needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.special import expit

from .._runtime.threads import Threads
from .._runtime.typing import POSITIVE, Array, Axes
from ..extensions.samples import FittedExtension, by_blocks

SPREADS_UP_TO = 1e9  # standard deviations: inputs are clipped to this distance from the mean, lest squares overflow
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "tanh": np.tanh,
    "sigmoid": expit,
    "sine": np.sin,
}


@dataclass(frozen=True)
class Standardization:
    """x -> (x - mean) / spread, with spread a standard deviation: the units a network works in."""

    mean: Annotated[Array, Axes("c")]
    spread: Annotated[Array, Axes("c"), POSITIVE]

    @classmethod
    def of(cls, values: Array, measure: Array, *, common: bool) -> Standardization:
        """Return the weighted mean and standard deviation of each column; ``common``: one root mean square for all."""
        share = measure / measure.sum()
        size = float(np.abs(values).max()) or 1.0  # divided out: squares of huge and of tiny values stay finite
        mean = share @ values
        variance = share @ np.square((values - mean) / size)
        if common:
            variance = np.full_like(variance, variance.mean())
        with np.errstate(invalid="ignore"):
            constant = np.sqrt(variance) * size <= 1e-13 * np.abs(mean)
        return cls(mean, np.where((variance > 0) & ~constant, np.sqrt(variance) * size, 1.0))

    def __call__(self, values: Array) -> Array:
        return (values - self.mean) / self.spread

    def back(self, values: Array) -> Array:
        return values * self.spread + self.mean


@dataclass(frozen=True, kw_only=True)
class Network(FittedExtension):
    """o(x) = W_L a(... a(W_1 x + b_1) ...) + b_L; ``source`` standardises x, and ``target`` scales o back.

    >>> one = Standardization(np.zeros(1), np.ones(1))
    >>> layers = {"weights": (np.array([[1.0, -1.0]]), np.ones((2, 1))), "biases": (np.zeros(2), np.zeros(1))}
    >>> hinge = Network(**layers, activation="relu", source=one, target=one)
    >>> hinge.embed(np.array([[-3.0], [2.0]]), Threads(1)).ravel().tolist()
    [3.0, 2.0]
    """

    weights: tuple[Array, ...]  # (inputs, outputs) of each layer
    biases: tuple[Array, ...]
    activation: str  # a key of ACTIVATIONS
    source: Annotated[Standardization, Axes("c>d")]
    target: Annotated[Standardization, Axes("c")]

    def embed(self, Z: Array, runner: Threads) -> Array:
        """Return the outputs at Z, (rows, outputs), a block of rows at a time."""
        widest = max(max(W.shape) for W in self.weights)
        return by_blocks(self._of, Z, self.weights[-1].shape[1], widest, runner)

    def _of(self, points: Array) -> Array:
        activate = ACTIVATIONS[self.activation]
        values = np.clip(self.source(points), -SPREADS_UP_TO, SPREADS_UP_TO)
        for W, b in zip(self.weights[:-1], self.biases[:-1]):
            values = activate(values @ W + b)
        return self.target.back(values @ self.weights[-1] + self.biases[-1])

    @property
    def size(self) -> int:
        """The number of weights and biases."""
        return sum(part.size for part in (*self.weights, *self.biases))
