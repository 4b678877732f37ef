"""Fitted models: ``row(x) @ basis``, or the same embedding with another extension to new points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Axes
from ..data.sparse_rows import as_rows
from ..extensions.samples import FittedExtension, RowModel
from ..operators.operator import MarkovChain, RowRule
from ..operators.problem import NeighborLists
from ..trust import Reference, RowFacts


@dataclass(frozen=True)
class SpectralModel(RowModel):
    """The row rule over the anchors, and a basis: a point x has the embedding ``rule.rows(x) @ basis``."""

    rule: Annotated[RowRule, Axes("n d c n>b b")]
    basis: Annotated[Array, Axes("b c")]  # (anchors, components); of rules over the features (features, components)
    scale: Annotated[
        Array | None, Axes("c")
    ]  # (components,): see ``places``; None: `rule.rows` embeds the anchors exactly
    reference: Reference

    def embed(self, Z: Array, runner: Threads) -> Array:
        """Return the embedding of any points, (n, components)."""
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> RowFacts:
        """Return the facts about each point that the rule knows: support, perhaps isolation and distance."""
        return self.look(Z, runner)[1]

    def look(self, Z: Array, runner: Threads, kept: NeighborLists | None = None) -> tuple[Array, RowFacts]:
        """Return embedding and evidence of the points, computed in one pass over blocks of rows.

        ``kept``: the neighbours among the anchors of the points ``kept.order``, if the fit has stored them; of other
        points nothing is computed then.
        """
        embedding = np.empty((len(Z), self.basis.shape[1]))
        facts = np.zeros((len(Z), 3))  # log mass, isolation, distance
        isolated = self.rule.training_rows is not None and kept is None
        blocks = row_blocks(len(Z) if kept is None else len(kept.order), self.rule.row_entries)
        order = self.rule.arrange(as_rows(Z), runner) if len(blocks) > 1 else None
        if kept is not None:
            order = kept.order

        def fill(block: slice) -> None:
            at: slice | Array = block if order is None else order[block]
            points = as_rows(Z[at])
            nothing = self.rule.sees_nothing(points)
            if nothing is not None and nothing.any():  # a node without edges is in the middle: nothing is known of it
                where = np.arange(block.start, block.stop) if order is None else order[block]
                embedding[where[nothing]], facts[where[nothing]] = 0.0, (-np.inf, np.nan, np.nan)
                at, points = where[~nothing], points[~nothing]
                if not len(at):
                    return
            with np.errstate(over="ignore", invalid="ignore"):
                rows = self.rule.rows(points, None if kept is None else kept.block(block, points))
                values, mass = rows @ self.basis, rows.log_mass
                if rows.surroundings is not None:
                    facts[at, 1:] = rows.surroundings
            beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(beyond):  # where the row overflows, take the embedding of the nearest anchor
                values[beyond] = _finite(self.nearest(points[beyond]))
                mass[beyond] = -np.inf
            embedding[at], facts[at, 0] = values, mass

        runner.each(fill, blocks, "embedding")
        known = self.reference.facts(facts[:, 0])
        return embedding, replace(known, isolation=facts[:, 1], distance=facts[:, 2]) if isolated else known

    def markov_chain(self) -> MarkovChain | None:
        """Return the Markov chain between the anchors that has the coordinates as eigenfunctions; None: there is none.

        Rows to landmarks from which no way leads back are not a chain: those of Roseland.
        """
        chain = self.rule.markov_chain()
        return None if chain is None or (self.scale is None and chain.back is None) else chain

    @property
    def places(self) -> Array:
        """The embedding of the anchors as the eigenproblem gives it: basis * scale, times the rule's root."""
        roots = self.rule.roots
        values: Array = self.basis * self.scale
        return values if roots is None else values * roots[:, None]

    def nearest(self, Z: Array) -> Array:
        """The embedding of each point's nearest anchor."""
        Z = as_rows(Z)
        nothing = self.rule.sees_nothing(Z)
        if nothing is not None and nothing.any():
            embedding = np.zeros((len(Z), self.basis.shape[1]))
            embedding[~nothing] = self.nearest(Z[~nothing])
            return embedding
        nearest: Array = (
            self.rule.at_nearest(Z) @ self.basis if self.scale is None else self.places[self.rule.nearest(Z)]
        )
        return nearest


def _finite(places: Array) -> Array:
    """Return the embedding of nearest anchors, the last resort of a row; refuse one that is not finite."""
    if not np.isfinite(places).all():
        raise ValueError(
            "The model embeds its own training points beyond floating point. No fit does, so the model was changed or "
            "its file forged: fit again."
        )
    return places


@dataclass(frozen=True)
class ExtendedModel(RowModel):
    """A spectral model whose embedding is extended to new points by another function than ``rule.rows``."""

    spectral: Annotated[SpectralModel, Axes("n d c")]
    extension: Annotated[FittedExtension, Axes("d c")]

    @property
    def batchwise(self) -> bool:
        return self.extension.batchwise

    @property
    def rule(self) -> RowRule:
        return self.spectral.rule

    @property
    def basis(self) -> Array:
        return self.spectral.basis

    @property
    def places(self) -> Array:
        return self.spectral.places

    @property
    def reference(self) -> Reference:
        return self.spectral.reference

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.look(Z, runner)[0]

    def evidence(self, Z: Array, runner: Threads) -> RowFacts:
        return self.spectral.evidence(Z, runner)

    def look(self, Z: Array, runner: Threads) -> tuple[Array, RowFacts]:
        """Return the embedding by the extension, and the evidence of the spectral model."""
        values, facts = self.extension.embed(Z, runner), self.spectral.evidence(Z, runner)
        beyond = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(beyond):
            values[beyond] = _finite(self.nearest(Z[beyond]))
        return values, facts

    def nearest(self, Z: Array) -> Array:
        return self.spectral.nearest(Z)
