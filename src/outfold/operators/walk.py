"""The affinities of the anchors to their nearest anchors, and the two ways through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from .._runtime.threads import Threads
from .._runtime.typing import Array, Sparse
from .landmark_passes import gram

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

    def back(self, weight: Array) -> Sparse:
        """Return the Markov matrix from points, which count m ``weight``, to anchors: (anchors, points)."""
        by_row = np.repeat(self.measure * weight, np.diff(self.W.indptr))
        values = self.W.data * by_row / self.sums(weight)[self.W.indices]
        markov: Sparse = csr_array((values, self.W.indices, self.W.indptr), shape=self.W.shape).T.tocsr()
        return markov
