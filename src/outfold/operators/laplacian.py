"""The unnormalised Laplacian and its row rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from .._runtime.typing import Array, Axes, Matrix
from ..graphs import components
from ..graphs.given import with_diagonal
from ..graphs.protocols import FittedKernel, Geometry
from ..trust import Isolation
from .expansion import EigenPairs, Expansion, SmallEndKernel, by_blocks, number_rows
from .markov import GraphNormalization, MarkovRule, affinities, guard_poles
from .operator import LaplacianOperator, Operator, RowRule, Rows, add_to_diagonal, links, scale_both_sides
from .spectrum import spectral_dimension


@dataclass(frozen=True)
class LaplacianRule(RowRule):
    """v(x) = w(x, .) v / (d(x) - mu): a Markov row whose divisor depends on the eigenvalue mu.

    d(x) is at least half the smallest training degree (no training row has less), so that a point far from the data
    tends to its nearest anchor instead of to the origin.
    """

    markov: Annotated[MarkovRule, Axes("n d")]
    eigenvalues: Annotated[Array, Axes("c")]  # mu
    least_degree: float  # the smallest training degree

    @property
    def geometry(self) -> Geometry:
        return self.markov.geometry

    @property
    def training_rows(self) -> tuple[Isolation, Array] | None:
        return self.markov.training_rows

    @property
    def row_entries(self) -> int:
        return self.markov.row_entries

    def nearest(self, Z: Array) -> Array:
        return self.markov.nearest(Z)

    def sees_nothing(self, Z: Array) -> Array | None:
        return self.markov.sees_nothing(Z)

    def at_nearest(self, Z: Array) -> Rows:
        return self.rows(self.geometry.anchors[self.nearest(Z)])

    def at(self, eigenvalues: Array) -> LaplacianRule:
        return replace(self, eigenvalues=eigenvalues)

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        rows = self.markov.rows(Z, measured)
        with np.errstate(over="ignore"):
            degree = np.maximum(np.exp(rows.log_degree), self.least_degree / 2)
        divisor = 1 - self.eigenvalues / degree[:, None]
        return rows.divide(guard_poles(divisor))  # a pole: d(x) meets mu


@dataclass(frozen=True)
class Unnormalized(GraphNormalization):
    """L = diag(d) - W diag(m); the smallest eigenvalues of L are wanted.

    Copies of a row are merged first: otherwise L has eigenvectors that differ between copies, with the degree d of that
    row as eigenvalue. It may be among the small ones, and such vectors are not functions of the data.
    """

    @property
    def merges_copies(self) -> bool:
        return True

    def fit(self, W: Matrix, measure: Array) -> LaplacianOperator:
        """Return the operator; W becomes the symmetric conjugate of -L, in place."""
        W = W if isinstance(W, np.ndarray) else with_diagonal(W)
        d = W @ measure
        scale_both_sides(W, np.sqrt(measure))
        stationary = measure / measure.sum()
        relative = W.copy()
        scale_both_sides(relative, 1 / np.sqrt(d))
        parts = components.find(links(relative), stationary)
        add_to_diagonal(W, -d)
        spread = 2 * float(d.max())
        return LaplacianOperator(matrix=W, spread=spread, measure=measure, stationary=stationary, parts=parts, degree=d)

    def normalize(
        self, W: Matrix, measure: Array, geometry: Geometry, kernel: FittedKernel
    ) -> tuple[Operator, RowRule]:
        operator = self.fit(W, measure)
        markov = MarkovRule(geometry=geometry, kernel=kernel, measure=measure, gain=measure.copy())
        return operator, LaplacianRule(markov, np.empty(0), float(operator.degree.min()))

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion:
        assert isinstance(rule, LaplacianRule)
        return LaplacianKernel(rule, pairs)

    def eigenvalues(self, operator_values: Array) -> Array:
        return -operator_values

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        return functions.copy()

    def dimension(self, operator: Operator, values: Array) -> int | None:
        return spectral_dimension(1 + values * (2 / operator.spread))


class LaplacianKernel(SmallEndKernel):
    """L = diag(d) - W diag(m)."""

    def __init__(self, rule: LaplacianRule, pairs: EigenPairs) -> None:
        super().__init__(pairs)
        self.rule = rule
        self.trivial = 2 * float(self._degrees(self.anchors).max())
        self.values = self.trivial - self.values
        self.size = float(1 / np.sqrt(self.measure.sum()))

    def _degrees(self, X: Array) -> Array:
        markov = self.rule.markov
        return np.exp(by_blocks(lambda part: markov.rows(part).log_degree, X, markov.row_entries))

    def _affinities(self, X: Array, Y: Array) -> Array:
        """w(x, y), (len(X), len(Y))."""
        return affinities(self.rule.markov, X, Y)

    def table(self, X: Array, Y: Array) -> Array:
        out = self._affinities(X, Y)
        places = self._places(X)
        mass = np.where(places < 0, 1.0, self.measure[places])
        more = (self.trivial - self._degrees(X)) / mass
        result: Array = out + more[:, None] * (number_rows(X)[:, None] == number_rows(Y, X))
        return result
