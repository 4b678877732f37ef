"""The unnormalised Laplacian and its row rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._runtime.typing import Array
from ..graphs import components
from ..kernels import Kernel
from . import spectrum
from .markov import MarkovRule
from .operator import Operator, Rows, add_to_diagonal, links, scale_both_sides


@dataclass(frozen=True)
class LaplacianRule:
    """v(x) = w(x, .) v / (d(x) - mu): a Markov row whose divisor depends on the eigenvalue mu.

    d(x) is at least half the smallest training degree (no training row has less), so that a point far from the data
    tends to its nearest anchor instead of to the origin.
    """

    markov: MarkovRule
    eigenvalues: Array  # mu
    least_degree: float  # the smallest training degree

    @property
    def geometry(self) -> Any:
        return self.markov.geometry

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def rows(self, Z: Array) -> Rows:
        rows = self.markov.rows(Z)
        with np.errstate(over="ignore"):
            degree = np.maximum(np.exp(rows.log_degree), self.least_degree / 2)
        divisor = 1 - self.eigenvalues / degree[:, None]
        small = np.abs(divisor) < 1e-8  # a pole: d(x) meets mu
        divisor[small] = np.where(divisor[small] < 0, -1e-8, 1e-8)
        if rows.divisor is not None:
            divisor = divisor * rows.divisor
        return Rows(rows.weights, rows.log_degree, rows.log_mass, divisor)


@dataclass(frozen=True)
class Unnormalized:
    """L = diag(d) - W diag(m); the smallest eigenvalues of L are wanted.

    Copies of a row are merged first: otherwise L has eigenvectors that differ between copies, with the degree d of that
    row as eigenvalue. It may be among the small ones, and such vectors are not functions of the data.
    """

    skip: ClassVar[int] = 1
    merges_copies: ClassVar[bool] = True
    unit_columns: ClassVar[bool] = False

    def fit(self, W: Array, measure: Array) -> Operator:
        """Return the operator; W becomes the symmetric conjugate of -L, in place."""
        d = W @ measure
        scale_both_sides(W, np.sqrt(measure))
        stationary = measure / measure.sum()
        relative = W.copy()
        scale_both_sides(relative, 1 / np.sqrt(d))
        parts = components.find(links(relative), stationary)
        add_to_diagonal(W, -d)
        spread = 2 * float(d.max())
        return Operator("laplacian", W, 0.0, spread, measure, stationary, parts, measure.copy(), d)

    def rule(self, operator: Operator, geometry: Any, kernel: Kernel, eigenvalues: Array) -> LaplacianRule:
        markov = MarkovRule(geometry, kernel, operator.measure, operator.gain)
        return LaplacianRule(markov, eigenvalues, float(operator.mass.min()))

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions.copy()

    def scale(self, eigenvalues: Array) -> Array:
        return np.ones(len(eigenvalues))

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectrum.spectral_dimension(1 + values * (2 / operator.spread))

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        return kept  # small eigenvalues are not limited by the rank

    def amplification(self, values: Array) -> float:
        return 1.0

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        return 0.0
