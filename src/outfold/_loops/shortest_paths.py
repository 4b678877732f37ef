"""Shortest paths through a graph, compiled: from many sources at once, and from new points."""

from __future__ import annotations

import numpy as np

from .._runtime.jit import Loop
from .._runtime.typing import Array


@Loop
def group_sources(indptr: Array, indices: Array, sources: Array, lanes: int) -> Array:
    """Return an order of the sources in which each run of ``lanes`` sources lies near its first one in the graph."""
    n, m = len(indptr) - 1, len(sources)
    here, same = np.full(n, -1), np.full(m, -1)  # linked lists: first source at each node, next source at the same node
    for s in range(m - 1, -1, -1):
        same[s] = here[sources[s]]
        here[sources[s]] = s
    seen, queue = np.full(n, -1), np.empty(n, np.int64)
    order = np.empty(m, np.int64)
    done = head = tail = run = 0
    for s in range(m):
        while here[sources[s]] >= 0:  # breadth first from this source, until the run is full
            queue[0], seen[sources[s]] = sources[s], run
            head, tail = 0, 1
            while head < tail and done < (run + 1) * lanes:
                i = queue[head]
                head += 1
                while here[i] >= 0 and done < (run + 1) * lanes:
                    order[done] = here[i]
                    here[i] = same[here[i]]
                    done += 1
                for p in range(indptr[i], indptr[i + 1]):
                    if seen[indices[p]] != run:
                        seen[indices[p]] = run
                        queue[tail] = indices[p]
                        tail += 1
            run = done // lanes
    return order


@Loop
def spread(
    i: int, lead: int, indptr: Array, indices: Array, lengths: Array, scale: float, distance: Array, following: Array,
    waiting: Array, first: Array, last: Array,
) -> None:  # fmt: skip
    """Relax distances from node i, bucket by bucket, until no node waits; the inner loop of ``shortest_paths``."""
    ring, lanes = len(first), distance.shape[1]
    first[0] = last[0] = i
    following[i] = -1
    now, left = 0, 1
    while left > 0:
        i = first[now % ring]
        if i < 0:
            now += 1
            continue
        first[now % ring] = following[i]
        waiting[i] = False
        left -= 1
        near = distance[i]
        for p in range(indptr[i], indptr[i + 1]):
            j, length = indices[p], lengths[p]
            far = distance[j]
            better = 0
            for lane in range(lanes):
                better |= near[lane] + length < far[lane]
            if better == 0:
                continue
            for lane in range(lanes):  # + 0.0: without it LLVM makes masked stores, slow on AMD
                far[lane] = min(far[lane], near[lane] + length) + 0.0
            if waiting[j]:
                continue
            key = far[lead] * scale
            bucket = (int(min(key, now + ring - 1.0)) if key > now else now) % ring
            if first[bucket] < 0:
                first[bucket] = j
            else:
                following[last[bucket]] = j
            last[bucket] = j
            following[j] = -1
            waiting[j] = True
            left += 1


@Loop
def shortest_paths(
    indptr: Array, indices: Array, lengths: Array, sources: Array, order: Array, lanes: int, out: Array, start: int,
    stop: int,
) -> None:  # fmt: skip
    """out[node, s] = length of the shortest path from sources[s], for s in order[start:stop]; inf where there is none.

    ``lanes`` sources are relaxed together. A node whose distances fell waits in a ring of buckets, sorted by its
    distance from the first of these sources. That order decides how often a node is relaxed again, never the result.
    The graph must be symmetric and its lengths not negative.
    """
    n = len(indptr) - 1
    total = lengths.sum()
    scale = 4.0 * len(lengths) / total if total > 0.0 else 0.0  # buckets are a quarter of a mean edge wide
    distance = np.empty((n, lanes))
    following = np.empty(n, np.int64)
    waiting = np.zeros(n, np.bool_)
    first, last = np.full(16, -1), np.full(16, -1)  # first and last node of each bucket
    for low in range(start, stop, lanes):
        width = min(lanes, stop - low)
        distance[:] = np.inf
        for lane in range(width):
            distance[sources[order[low + lane]], lane] = 0.0
        for lead in range(width):  # one start is enough, unless the sources lie in several components
            i = sources[order[low + lead]]
            reached = False
            for lane in range(lead):
                reached |= distance[i, lane] < np.inf
            if not reached:
                spread(i, lead, indptr, indices, lengths, scale, distance, following, waiting, first, last)
        for top in range(0, n, 64):  # in tiles: quick for C and Fortran order of `out`
            for lane in range(width):
                s = order[low + lane]
                for i in range(top, min(top + 64, n)):
                    out[i, s] = distance[i, lane]


@Loop
def through_neighbours(
    indptr: Array, nodes: Array, lengths: Array, table: Array, basis: Array, out: Array, start: int, stop: int
) -> None:
    """out[r] = squares @ basis for rows start..stop; squares[j] = min_i (length_i + table[i, j])^2 over the nodes of r.

    The order of summation of a row does not depend on the other rows. Rows that share nodes should be adjacent: the
    rows of ``table`` that they share then stay in the cache.
    """
    m, c = basis.shape
    tile, lanes, rows = 512, 32, 32
    weights = np.zeros((c, (m + tile - 1) // tile * tile))
    for j in range(m):
        for k in range(c):
            weights[k, j] = basis[j, k]
    sums = np.empty((rows, c, lanes))
    reach = np.empty(tile)
    for low in range(start, stop, rows):
        width = min(rows, stop - low)
        sums[:] = 0.0
        for left in range(0, m, tile):
            right = min(left + tile, m)
            for g in range(width):
                r = low + g
                reach[:] = np.inf
                final = indptr[r + 1] - 1
                for p in range(indptr[r], indptr[r + 1], 4):  # four nodes at a time; the last is repeated to fill up
                    q, s, t = min(p + 1, final), min(p + 2, final), min(p + 3, final)
                    ga, gb = table[nodes[p], left:right], table[nodes[q], left:right]
                    gc, gd = table[nodes[s], left:right], table[nodes[t], left:right]
                    la, lb, lc, ld = lengths[p], lengths[q], lengths[s], lengths[t]
                    for j in range(right - left):  # + 0.0: without it LLVM makes masked stores, slow on AMD
                        best = min(min(ga[j] + la, gb[j] + lb), min(gc[j] + lc, gd[j] + ld))
                        reach[j] = min(reach[j], best) + 0.0
                reach[right - left :] = 0.0
                for j in range(tile):
                    reach[j] *= reach[j]
                for k in range(c):
                    total = sums[g, k]
                    for q in range(0, tile, 4 * lanes):
                        x, w = reach[q : q + 4 * lanes], weights[k, left + q : left + q + 4 * lanes]
                        for j in range(lanes):
                            total[j] += (x[j] * w[j] + x[j + lanes] * w[j + lanes]) + (
                                x[j + 2 * lanes] * w[j + 2 * lanes] + x[j + 3 * lanes] * w[j + 3 * lanes]
                            )
        for g in range(width):
            for k in range(c):
                value = 0.0
                for j in range(lanes):
                    value += sums[g, k, j]
                out[low + g, k] = value
