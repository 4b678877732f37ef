"""The affinities of the anchors to their nearest anchors, the two ways through them, and the walk they make."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from .._runtime.threads import Threads
from .._runtime.typing import Array, Sparse
from ..graphs import components
from ..graphs.components import Components
from .landmark_passes import gram
from .operator import MarkovOperator, least_link

UNSEEN = 1e-150  # weight with which an anchor that no point sees is seen by itself


@dataclass(frozen=True)
class Walk:
    """W (points x anchors; every anchor is a point), and A = W diag(1 / C) W'."""

    W: Sparse  # row x holds w(x, k)
    measure: Array  # m
    seen: Array  # C = W'm

    @classmethod
    def of(cls, W: Sparse, measure: Array) -> Walk:
        """Return the walk. An anchor that no point sees leads back to itself, as if it were its own far neighbour.

        A graph of the caller's may have such anchors: a directed one that stores no distance of a node to itself.
        """
        seen = np.asarray(measure @ W)
        unseen = np.flatnonzero(seen == 0)
        if len(unseen):
            W = W + csr_array((np.full(len(unseen), UNSEEN), (unseen, unseen)), shape=W.shape)
            seen = np.asarray(measure @ W)
        return cls(W, measure, seen)

    @cached_property
    def degree(self) -> Array:
        """q = A m, the row sums of W."""
        return np.add.reduceat(self.W.data, self.W.indptr[:-1])

    def kernel(self, runner: Threads) -> Sparse:
        """Return A."""
        W = self.W
        scaled = csr_array((W.data / np.sqrt(self.seen)[W.indices], W.indices, W.indptr), shape=W.shape).tocsc()
        product: Sparse = gram(scaled.indptr, scaled.indices, scaled.data, W.shape[0], runner)
        return product

    def square_root(self, scale: Array) -> Sparse:
        """Return B with B B' = diag(scale) A diag(scale)."""
        W = self.W
        values = W.data * np.repeat(scale, np.diff(W.indptr)) / np.sqrt(self.seen)[W.indices]
        root: Sparse = csr_array((values, W.indices, W.indptr), shape=W.shape)
        return root

    def sums(self, weight: Array) -> Array:
        """c = W'(m ``weight``)."""
        return np.asarray((self.measure * weight) @ self.W)

    def operator(self, alpha: float, runner: Threads) -> WalkOperator:
        """Return the operator of ``Markov(alpha)`` over A, without computing A."""
        weight = self.degree**-alpha
        through = self.W @ (self.sums(weight) / self.seen)  # A (m weight)
        d = (weight * through).clip(min=np.finfo(float).tiny)
        total = float(self.measure @ d)
        root = self.square_root(weight * np.sqrt(self.measure / d))
        stationary = self.measure * d / total
        return WalkOperator(
            matrix=Squared(root, runner),
            square_root=root,
            measure=self.measure,
            stationary=stationary,
            parts=components.find(_edges(root, least_link(root.shape[0])), stationary),
            gain=self.measure * weight,
            mass=self.degree,
            total=total,
            runner=runner,
        )

    def back(self, weight: Array) -> Sparse:
        """Return the Markov matrix from points, which count m ``weight``, to anchors: (anchors, points)."""
        by_row = np.repeat(self.measure * weight, np.diff(self.W.indptr))
        values = self.W.data * by_row / self.sums(weight)[self.W.indices]
        markov: Sparse = csr_array((values, self.W.indices, self.W.indptr), shape=self.W.shape).T.tocsr()
        return markov


@dataclass(frozen=True)
class Squared:
    """B B', of which the entries are computed when they are asked for: it has many times the entries of B."""

    root: Sparse = field(repr=False)
    runner: Threads

    @property
    def shape(self) -> tuple[int, int]:
        return self.root.shape[0], self.root.shape[0]

    def diagonal(self) -> Array:
        return np.add.reduceat(np.square(self.root.data), self.root.indptr[:-1])

    def toarray(self) -> Array:
        return self.tocsr().toarray()

    def tocsr(self) -> Sparse:
        columns = csr_array(self.root).tocsc()
        product: Sparse = gram(columns.indptr, columns.indices, columns.data, self.root.shape[0], self.runner)
        return product


@dataclass(frozen=True, kw_only=True)
class WalkOperator(MarkovOperator):
    """S = B B', B = ``square_root`` (points x anchors; every anchor is a point)."""

    matrix: Squared = field(repr=False)  # type: ignore[assignment]
    # Of the anchors, near ones adjacent, so that products take less time.
    order: Array | None = field(default=None, repr=False)  # type: ignore[misc]

    def reorder(self) -> WalkOperator:
        """Return the operator of the anchors in ``order``."""
        order, B = self.order, self.square_root
        assert order is not None
        assert B is not None
        place = np.empty(len(order), B.indices.dtype)
        place[order] = np.arange(len(order), dtype=place.dtype)
        rows = csr_array(csr_array(B)[order])
        root = csr_array((rows.data, place[rows.indices], rows.indptr), shape=B.shape)
        arrays = ("measure", "stationary", "gain", "mass", "pace", "own", "smooth", "guess")
        there = {name: array[order] for name in arrays if (array := getattr(self, name)) is not None}
        matrix = Squared(root, self.runner)
        return replace(self, order=None, matrix=matrix, square_root=root, parts=self.parts.reorder(order), **there)

    @cached_property
    def entries(self) -> Sparse:
        return self.matrix.tocsr()

    def nearly_separate(self) -> Components | None:
        assert self.square_root is not None
        parts = components.find(_edges(self.square_root, 1e-13), self.stationary)
        return None if parts.count == self.parts.count else parts


def _edges(root: Sparse, least: float) -> Sparse:
    """Return edges between points and anchors that connect the same points as the entries of B B' above ``least``.

    A step from a point to an anchor, and from the anchor, as a point, to itself, is a part of their entry of B B'.
    """
    own = root.diagonal()[root.indices]
    keep = root.data * own > least
    counts = np.add.reduceat(keep.astype(int), root.indptr[:-1])
    edges: Sparse = csr_array((keep[keep], root.indices[keep], np.append(0, np.cumsum(counts))), shape=root.shape)
    return edges
