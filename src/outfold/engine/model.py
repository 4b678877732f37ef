"""Fitted models: ``row(x) @ basis``, or the same embedding with another extension to new points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..operators.operator import Rows
from ..operators.problem import NeighborLists
from ..trust import Reference, Trust


@dataclass(frozen=True)
class SpectralModel:
    """The row rule over the anchors, and a basis: a point x has the embedding ``rule.rows(x) @ basis``."""

    rule: Any
    basis: Array  # (anchors, components)
    scale: Array | None  # (components,): see ``places``; None: `rule.rows` embeds the anchors exactly
    reference: Reference

    def embed(self, Z: Array, runner: Threads) -> Array:
        """Return the embedding of any points, (n, components)."""
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> Trust:
        """Return how well the training data supports each point."""
        return self.look(Z, runner)[1]

    def look(self, Z: Array, runner: Threads, kept: NeighborLists | None = None) -> tuple[Array, Trust]:
        """Return embedding and evidence of the points, computed in one pass over blocks of rows.

        ``kept``: the neighbours of each point among the anchors, if the fit has stored them.
        """
        embedding = np.empty((len(Z), self.basis.shape[1]))
        log_mass = np.empty(len(Z))
        blocks = row_blocks(len(Z), self.rule.row_entries)
        geometry = self.rule.geometry
        many = len(blocks) > 1 and hasattr(geometry, "arrange")
        order = geometry.arrange(np.asarray(Z, dtype=float), runner) if many else None
        if kept is not None:
            order = kept.order

        def fill(block: slice) -> None:
            at: Any = block if order is None else order[block]
            points = np.ascontiguousarray(Z[at], dtype=float)
            with np.errstate(over="ignore", invalid="ignore"):
                seen = () if kept is None else (kept.block(block, points, geometry.distances),)
                rows: Rows = self.rule.rows(points, *seen)
                values, mass = rows @ self.basis, rows.log_mass
            beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(beyond):  # where the row overflows, take the embedding of the nearest anchor
                values[beyond] = self.nearest(points[beyond])
                mass[beyond] = -np.inf
            embedding[at], log_mass[at] = values, mass

        runner.each(fill, blocks, "embedding")
        return embedding, self.reference.judge(log_mass)

    @property
    def places(self) -> Array:
        """The embedding of the anchors as the eigenproblem gives it: basis * scale, times the rule's root."""
        root = getattr(self.rule, "root", None)
        values = self.basis * self.scale
        return values if root is None else values * root[:, None]

    def nearest(self, Z: Array) -> Array:
        """The embedding of each point's nearest anchor."""
        at = self.rule.geometry.nearest(np.asarray(Z, dtype=float))
        if self.scale is None:
            return self.rule.rows(self.rule.geometry.anchors[at]) @ self.basis
        return self.places[at]


@dataclass(frozen=True)
class ExtendedModel:
    """A spectral model whose embedding is extended to new points by another function than ``rule.rows``."""

    spectral: SpectralModel
    extension: Any  # a fitted extension, with `embed(Z, runner)`

    @property
    def rule(self) -> Any:
        return self.spectral.rule

    @property
    def basis(self) -> Array:
        return self.spectral.basis

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> Trust:
        return self.spectral.evidence(Z, runner)

    def look(self, Z: Array, runner: Threads) -> tuple[Array, Trust]:
        """Return the embedding by the extension, and the evidence of the spectral model."""
        values, trust = self.extension.embed(Z, runner), self.spectral.evidence(Z, runner)
        beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(beyond):
            values[beyond] = self.nearest(np.asarray(Z)[beyond])
        return values, trust

    def nearest(self, Z: Array) -> Array:
        return self.spectral.nearest(Z)
