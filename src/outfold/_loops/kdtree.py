"""A balanced k-d tree and its two searches, compiled: quick where the points have low intrinsic dimension.

Node i has the children 2 i + 1 and 2 i + 2; a leaf is a run of points. Distances are summed as ``squared_pairs`` does,
feature by feature, so both give the same bits. Rows of a batch are searched in the order of leaves: that keeps the
tree in the cache and bounds a row's k-th distance by that of the row before: d_k(x) <= d_k(y) + |x - y|. SciPy's tree
takes longer (benchmarks/own_loops.py), cuts ties with the k-th point and knows no reach.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .._runtime.jit import Loop
from .._runtime.typing import Array

Boxes: TypeAlias = tuple[Array, Array, Array, Array, Array, Array]  # see `plant`


@Loop
def plant(X: Array, leaf: int) -> Boxes:
    """Return the tree of X: (points (features, n) in the order of leaves, their rows, low, high, first, last).

    Node i is the box from ``low[i]`` to ``high[i]`` and holds the points ``first[i]`` .. ``last[i]``. Every node is cut
    at the median along its longest side.
    """
    n, features = X.shape
    depth = 0
    while leaf << depth < n:
        depth += 1
    nodes = (2 << depth) - 1
    P, rows = X.copy(), np.empty(n, np.int64)
    for i in range(n):
        rows[i] = i
    first, last = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    low, high = np.empty((nodes, features)), np.empty((nodes, features))
    first[0], last[0] = 0, n
    for node in range(nodes):
        a, b = first[node], last[node]
        side = 0
        for f in range(features):
            least, most = np.inf, -np.inf
            for i in range(a, b):
                least, most = min(least, P[i, f]), max(most, P[i, f])
            low[node, f], high[node, f] = least, most
            if most - least > high[node, side] - low[node, side]:
                side = f
        if node < nodes // 2:
            middle = (a + b) // 2
            select(P, rows, side, a, b, middle)
            first[2 * node + 1], last[2 * node + 1] = a, middle
            first[2 * node + 2], last[2 * node + 2] = middle, b
    return P.T.copy(), rows, low, high, first, last


@Loop
def select(P: Array, rows: Array, side: int, a: int, b: int, middle: int) -> None:
    """Reorder points a..b along ``side`` so that smaller ones come before ``middle``, larger after (quickselect)."""
    left, right = a, b - 1
    while left < right:
        pivot = P[(left + right) // 2, side]
        i, j = left, right
        while i <= j:
            while P[i, side] < pivot:
                i += 1
            while P[j, side] > pivot:
                j -= 1
            if i <= j:
                for f in range(P.shape[1]):
                    P[i, f], P[j, f] = P[j, f], P[i, f]
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            break


@Loop
def to_children(z: Array, node: int, low: Array, high: Array) -> tuple[float, float]:
    """Return squared distances to the boxes of a node's children, slightly reduced: rounding must exclude no point."""
    left, right = 0.0, 0.0
    for f in range(len(z)):
        step = max(low[2 * node + 1, f] - z[f], z[f] - high[2 * node + 1, f], 0.0)
        left += step * step
        step = max(low[2 * node + 2, f] - z[f], z[f] - high[2 * node + 2, f], 0.0)
        right += step * step
    return left * (1 - 1e-12), right * (1 - 1e-12)


@Loop
def leaves(Z: Array, low: Array, high: Array, sides: Array, halvings: int, start: int, stop: int) -> Array:
    """Return the part of space in which each row start..stop falls: near ones have near numbers, from 0.

    At each node the search goes to the child that is nearer along ``sides[node]``. The box of the leaf is then halved
    ``halvings`` times along its longest side, so a leaf has 2^halvings parts.
    """
    part, features = np.empty(stop - start, np.int64), Z.shape[1]
    floor, ceiling = np.empty(features), np.empty(features)
    for i in range(start, stop):
        node = 0
        while node < len(low) // 2:
            side, left, right = sides[node], 2 * node + 1, 2 * node + 2
            node = left if Z[i, side] - high[left, side] <= low[right, side] - Z[i, side] else right
        number = node - len(low) // 2
        for f in range(features):
            floor[f], ceiling[f] = low[node, f], high[node, f]
        for _ in range(halvings):
            side = 0
            for f in range(features):
                if ceiling[f] - floor[f] > ceiling[side] - floor[side]:
                    side = f
            middle = (floor[side] + ceiling[side]) / 2
            if Z[i, side] > middle:
                number, floor[side] = 2 * number + 1, middle
            else:
                number, ceiling[side] = 2 * number, middle
        part[i - start] = number
    return part


@Loop
def to_points(z: Array, P: Array, a: int, b: int, line: Array) -> None:
    """Write the squared distances of z to the points a..b to ``line``."""
    for j in range(b - a):
        line[j] = 0.0
    for f in range(len(z)):
        for j in range(b - a):
            step = z[f] - P[f, a + j]
            line[j] += step * step


@Loop
def insert(values: Array, members: Array, count: int, k: int, value: float, member: int) -> int:
    """Insert into a list sorted by distance, then row, of k entries and ties with the k-th; return its new length."""
    q = count
    while q > 0 and (values[q - 1] > value or (values[q - 1] == value and members[q - 1] > member)):
        values[q], members[q] = values[q - 1], members[q - 1]
        q -= 1
    values[q], members[q] = value, member
    count += 1
    while count > k and values[count - 1] > values[k - 1]:
        count -= 1
    return count


@Loop
def sort_and_cut(values: Array, members: Array, count: int, k: int) -> int:
    """Sort a list by distance, then row, and cut it to k entries and ties with the k-th; return its new length.

    A Shell sort: the lists are short, and numba compiles ``np.argsort`` for a second.
    """
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for j in range(gap, count):
            value, member, q = values[j], members[j], j
            while q >= gap and (values[q - gap] > value or (values[q - gap] == value and members[q - gap] > member)):
                values[q], members[q] = values[q - gap], members[q - gap]
                q -= gap
            values[q], members[q] = value, member
        gap //= 3
    kept = min(count, k)
    while kept < count and values[kept] == values[k - 1]:
        kept += 1
    return kept


@Loop
def longer(values: Array, members: Array, least: int) -> tuple[Array, Array]:
    """Return copies with room for at least ``least`` entries, and at least twice as many as before."""
    room = max(2 * len(values), least)
    more_values, more_members = np.empty(room), np.empty(room, np.int64)
    for j in range(
        len(values)
    ):  # numba compiles two seconds longer for a copy of a slice, because of its error message
        more_values[j], more_members[j] = values[j], members[j]
    return more_values, more_members


@Loop
def widest_leaf(first: Array, last: Array) -> int:
    """Return the largest number of points in a leaf."""
    widest = 0
    for node in range(len(first) // 2, len(first)):
        widest = max(widest, last[node] - first[node])
    return widest


@Loop
def count_in(
    line: Array, a: int, b: int, rows: Array, bound: float, k: int, values: Array, members: Array, count: int
) -> tuple[int, float]:
    """Add the points of a leaf within ``bound``: inserted in order for k <= 128, else appended and sorted later.

    Returns the new length of the list and the new bound.
    """
    for j in range(b - a):
        if line[j] <= bound:
            if k <= 128:
                count = insert(values, members, count, k, line[j], rows[a + j])
                bound = min(bound, values[k - 1]) if count >= k else bound
            else:
                values[count], members[count] = line[j], rows[a + j]
                count += 1
    if k > 128 and count >= 2 * k:
        count = sort_and_cut(values, members, count, k)
        bound = min(bound, values[k - 1])
    return count, bound


@Loop
def farther(kth: float, z: Array, before: Array) -> float:
    """Return an upper bound of the squared distance of z to its k-th point, from that of the row before."""
    moved = 0.0
    for f in range(len(z)):
        moved += (z[f] - before[f]) ** 2
    bound: float = (np.sqrt(kth) + np.sqrt(moved)) ** 2 * (1 + 1e-9)
    return bound


@Loop
def nearest(Z: Array, order: Array, k: int, reach: Array, longest: Array, tree: Boxes) -> tuple[Array, Array, Array]:
    """Return the k nearest points of the rows of Z in ``order``, with ties, sorted by distance and then by row.

    Points j with d^2 <= reach[j] (or a little more) are included too; ``reach`` is in the order of leaves, and may be
    empty. Returns (counts per row, indices, squared distances), one row after another. Up to k = 128 a point is
    inserted in order; beyond, points are gathered and sorted.
    """
    P, rows, low, high, first, last = tree
    inner, widest, reached = len(low) // 2, widest_leaf(first, last), len(reach) > 0
    counts, total = np.empty(len(order), np.int64), 0
    index, squared = np.empty(len(order) * k, np.int64), np.empty(len(order) * k)
    values, members = np.empty(2 * k + 4 * widest), np.empty(2 * k + 4 * widest, np.int64)
    beside, beside_members = np.empty(len(values)), np.empty(len(values), np.int64)
    waiting, distance, line = np.empty(128, np.int64), np.empty(128), np.empty(widest)
    kth = np.inf
    for at in range(len(order)):
        z = Z[order[at]]
        bound = np.inf if at == 0 else farther(kth, z, Z[order[at - 1]])
        count, more, height = 0, 0, 1
        waiting[0], distance[0] = 0, 0.0
        while height > 0:
            height -= 1
            node = waiting[height]
            if distance[height] > bound and not (reached and distance[height] <= longest[node] * (1 + 1e-9)):
                continue
            while node < inner:  # descend to the nearer child, put the other on the stack
                left, right = to_children(z, node, low, high)
                node, other = (2 * node + 1, 2 * node + 2) if left <= right else (2 * node + 2, 2 * node + 1)
                far = max(left, right)
                if far <= bound or (reached and far <= longest[other] * (1 + 1e-9)):
                    waiting[height], distance[height] = other, far
                    height += 1
            a, b = first[node], last[node]
            to_points(z, P, a, b, line)
            if count + b - a > len(values):
                values, members = longer(values, members, 0)
            count, bound = count_in(line, a, b, rows, bound, k, values, members, count)
            if reached:
                if more + b - a > len(beside):
                    beside, beside_members = longer(beside, beside_members, 0)
                for j in range(b - a):
                    if line[j] <= reach[a + j] * (1 + 1e-9):
                        beside[more], beside_members[more] = line[j], rows[a + j]
                        more += 1
        count = count if k <= 128 else sort_and_cut(values, members, count, k)
        kth = values[k - 1]
        if count + more > len(values):
            values, members = longer(values, members, count + more)
        for j in range(more):
            if beside[j] > kth:
                count = insert(values, members, count, len(values), beside[j], beside_members[j])
        if total + count > len(index):
            squared, index = longer(squared, index, total + count)
        for j in range(count):
            index[total + j], squared[total + j] = members[j], values[j]
        counts[at], total = count, total + count
    return counts, index[:total], squared[:total]


@Loop
def highest(reach: Array, rows: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Return the squared reach in the order of leaves, (n,), and the largest one in each node."""
    ordered, longest = np.square(reach[rows]), np.empty(len(first))
    for node in range(len(first) - 1, -1, -1):
        if node < len(first) // 2:
            longest[node] = max(longest[2 * node + 1], longest[2 * node + 2])
        else:
            longest[node] = -np.inf
            for j in range(first[node], last[node]):
                longest[node] = max(longest[node], ordered[j])
    return ordered, longest


@Loop
def within(
    Z: Array, order: Array, radii: Array, reach: Array, longest: Array, tree: Boxes
) -> tuple[Array, Array, Array]:
    """Return the points with d <= radii[i] * reach[j], or a little more by rounding, of the rows of Z in ``order``.

    Returns (counts per row, indices, squared distances), one row after another.
    """
    P, rows, low, high, first, last = tree
    inner, widest = len(low) // 2, widest_leaf(first, last)
    counts, total = np.empty(len(order), np.int64), 0
    index, squared = np.empty(len(order) * 32, np.int64), np.empty(len(order) * 32)
    waiting, line = np.empty(128, np.int64), np.empty(widest)
    for at in range(len(order)):
        z, radius = Z[order[at]], radii[order[at]] ** 2 * (1 + 1e-9)
        before, height, waiting[0] = total, 1, 0
        while height > 0:
            height -= 1
            node = waiting[height]
            if node < inner:
                left, right = to_children(z, node, low, high)
                if left <= radius * longest[2 * node + 1]:
                    waiting[height] = 2 * node + 1
                    height += 1
                if right <= radius * longest[2 * node + 2]:
                    waiting[height] = 2 * node + 2
                    height += 1
                continue
            a, b = first[node], last[node]
            to_points(z, P, a, b, line)
            if total + b - a > len(index):
                squared, index = longer(squared, index, total + b - a)
            for j in range(b - a):
                if line[j] <= radius * reach[a + j]:
                    index[total], squared[total] = rows[a + j], line[j]
                    total += 1
        counts[at] = total - before
    return counts, index[:total], squared[:total]


@Loop
def put_rows(
    order: Array, counts: Array, index: Array, squared: Array, ptr: Array, out_index: Array, out_squared: Array
) -> None:
    """Copy lists that come in ``order``, one after another, to ``ptr[row]`` of the output."""
    at = 0
    for i in range(len(order)):
        to = ptr[order[i]]
        for j in range(counts[i]):
            out_index[to + j], out_squared[to + j] = index[at + j], squared[at + j]
        at += counts[i]
