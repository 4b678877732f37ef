"""A balanced tree of boxes over points, and two walks through it, compiled: quick where points lie on a surface.

Node i has the children 2 i + 1 and 2 i + 2; a leaf is a run of points. Distances are summed as ``squared_pairs`` does,
feature by feature, so they are the same to the last bit. Rows of a batch are visited leaf by leaf, which keeps the
tree in the cache and bounds a row's k-th distance by the one before: d_k(x) <= d_k(y) + |x - y|.
"""

from __future__ import annotations

import numpy as np

from ._compiled import Loop


@Loop
def plant(X, leaf):
    """The tree of X: points by feature in the order of leaves, their rows, nodes' corners, first and last points.

    Every node is cut at the median along its longest side.
    """
    n, features = X.shape
    depth = 0
    while leaf << depth < n:
        depth += 1
    nodes = (2 << depth) - 1
    P, rows = X.copy(), np.arange(n)
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
def select(P, rows, side, a, b, middle):
    """Points a..b with the middle one in its place along a side, smaller before, larger after (quickselect)."""
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
def to_children(z, node, low, high):
    """Squared distances to the boxes of a node's children, a little less so that rounding excludes nothing."""
    left, right = 0.0, 0.0
    for f in range(len(z)):
        step = max(low[2 * node + 1, f] - z[f], z[f] - high[2 * node + 1, f], 0.0)
        left += step * step
        step = max(low[2 * node + 2, f] - z[f], z[f] - high[2 * node + 2, f], 0.0)
        right += step * step
    return left * (1 - 1e-12), right * (1 - 1e-12)


@Loop
def leaves(Z, low, high, start, stop):
    """The leaf that each row start..stop falls into: at each node the child whose box is nearer."""
    leaf = np.empty(stop - start, np.int64)
    for i in range(start, stop):
        node = 0
        while node < len(low) // 2:
            left, right = to_children(Z[i], node, low, high)
            node = 2 * node + 1 if left <= right else 2 * node + 2
        leaf[i - start] = node
    return leaf


@Loop
def to_points(z, P, a, b, line):
    """Squared distances to the points a..b."""
    for j in range(b - a):
        line[j] = 0.0
    for f in range(len(z)):
        for j in range(b - a):
            step = z[f] - P[f, a + j]
            line[j] += step * step


@Loop
def insert(values, members, count, k, value, member):
    """One more into a list by distance and then row, of k and those as far as the last: how many it has now."""
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
def sort_and_cut(values, members, count, k):
    """Order a list by distance and then row and keep k and those as far as the last: how many they are."""
    order = np.argsort(values[:count])
    values[:count], members[:count] = values[order], members[order]
    kept = 0
    for j in range(count):
        kept = insert(values, members, kept, k, values[j], members[j])
        if kept <= j:
            break
    return kept


@Loop
def longer(array, least):
    """The array with room for at least so many."""
    out = np.empty(max(2 * len(array), least), array.dtype)
    out[: len(array)] = array
    return out


@Loop
def found_in(line, a, b, rows, bound, k, values, members, count):
    """Points of a leaf within the bound, put where they belong among a few or behind the others: how many there are
    now, and the bound."""
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
def farther(kth, z, before):
    """No less than the squared distance of z to its k-th point, given that of the row before."""
    moved = 0.0
    for f in range(len(z)):
        moved += (z[f] - before[f]) ** 2
    return (np.sqrt(kth) + np.sqrt(moved)) ** 2 * (1 + 1e-9)


@Loop
def nearest(Z, order, k, reach, longest, P, rows, low, high, first, last):
    """The k nearest points of the rows of Z in ``order``, all as far as the last, and those with d^2 <= reach[j] or a
    little more (in the order of leaves; none if that is empty), by distance and then by row.

    Returns how many each has, which, and their squared distances, one row after another. Few are inserted where they
    belong; many are gathered and sorted.
    """
    inner, widest, reached = len(low) // 2, (last - first)[len(low) // 2 :].max(), len(reach) > 0
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
            while node < inner:  # down to the nearer child, the other one waits
                left, right = to_children(z, node, low, high)
                node, other = (2 * node + 1, 2 * node + 2) if left <= right else (2 * node + 2, 2 * node + 1)
                far = max(left, right)
                if far <= bound or (reached and far <= longest[other] * (1 + 1e-9)):
                    waiting[height], distance[height] = other, far
                    height += 1
            a, b = first[node], last[node]
            to_points(z, P, a, b, line)
            if count + b - a > len(values):
                values, members = longer(values, 0), longer(members, 0)
            count, bound = found_in(line, a, b, rows, bound, k, values, members, count)
            if reached:
                if more + b - a > len(beside):
                    beside, beside_members = longer(beside, 0), longer(beside_members, 0)
                for j in range(b - a):
                    if line[j] <= reach[a + j] * (1 + 1e-9):
                        beside[more], beside_members[more] = line[j], rows[a + j]
                        more += 1
        count = count if k <= 128 else sort_and_cut(values, members, count, k)
        kth = values[k - 1]
        if count + more > len(values):
            values, members = longer(values, count + more), longer(members, count + more)
        for j in range(more):
            if beside[j] > kth:
                count = insert(values, members, count, len(values), beside[j], beside_members[j])
        if total + count > len(index):
            index, squared = longer(index, total + count), longer(squared, total + count)
        for j in range(count):
            index[total + j], squared[total + j] = members[j], values[j]
        counts[at], total = count, total + count
    return counts, index[:total], squared[:total]


@Loop
def highest(reach, rows, first, last):
    """Squared reach in the order of leaves, and the longest of each node."""
    ordered, longest = np.square(reach[rows]), np.empty(len(first))
    for node in range(len(first) - 1, -1, -1):
        if node < len(first) // 2:
            longest[node] = max(longest[2 * node + 1], longest[2 * node + 2])
        else:
            longest[node] = ordered[first[node] : last[node]].max()
    return ordered, longest


@Loop
def within(Z, order, radii, reach, longest, P, rows, low, high, first, last):
    """Points with d <= radii[i] * reach[j] (and by rounding a little more) of the rows of Z in ``order``."""
    inner, widest = len(low) // 2, (last - first)[len(low) // 2 :].max()
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
                index, squared = longer(index, total + b - a), longer(squared, total + b - a)
            for j in range(b - a):
                if line[j] <= radius * reach[a + j]:
                    index[total], squared[total] = rows[a + j], line[j]
                    total += 1
        counts[at] = total - before
    return counts, index[:total], squared[:total]


@Loop
def put_rows(order, counts, index, squared, ptr, out_index, out_squared):
    """Lists that come one after another in ``order``, each in the place of its row."""
    at = 0
    for i in range(len(order)):
        to = ptr[order[i]]
        for j in range(counts[i]):
            out_index[to + j], out_squared[to + j] = index[at + j], squared[at + j]
        at += counts[i]
