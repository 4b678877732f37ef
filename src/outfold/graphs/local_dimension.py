"""The dimension of the data by maximum likelihood (Levina and Bickel, 2004), from the distances to near neighbours.

In d dimensions log(r_k / r_j) of the neighbours j < k of a point has the mean 1 / d. The inverse of the mean over all
points and neighbours is the estimate (MacKay and Ghahramani, 2005): a mean of the estimates of the points would be too
large, and infinite where neighbours are equally far.
"""

from __future__ import annotations

import numpy as np

from .._loops import selection
from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..data.places import find_places
from ..data.sparse_rows import as_rows
from ..distances import Metric
from ..neighbors import Lists, Search, build
from .pair_statistics import even_sample, kth, lists_of_mass

LIKELIHOOD_NEIGHBORS = 20  # without the point itself, if the caller gives no number
LISTED_ROWS = 4000  # points at most whose neighbours are read; neighbours are sought among all points


def dimension_of_points(points: Array, measure: Array, metric: Metric, k: float, runner: Threads) -> float | None:
    """Return the dimension by ``k`` neighbours of each point; None if these do not differ in distance.

    Equal points are one, and a measure below 1 counts as a part of a neighbour.
    """
    places = find_places(points)
    if places is not None:
        points, measure = as_rows(points[places.first]), places.mass(measure)
    return dimension_by_search(build(metric.fit(points), "auto"), np.minimum(measure, 1.0), k, runner)


def dimension_by_search(search: Search, counted: Array, k: float, runner: Threads) -> float | None:
    """Return the dimension of distinct anchors by ``k`` neighbours of each; an anchor counts as ``counted`` says."""
    points, last = search.distances.anchors, min(float(counted.sum()), k + 1.0)
    rows = even_sample(points, LISTED_ROWS)
    lists = lists_of_mass(search.of_any_k(), points[rows], counted, last, runner, counts=counted)
    return _dimension_of_lists(lists, counted, counted[rows], last)


def dimension_of_lists(lists: Lists, counted: Array, last: float) -> float | None:
    """Return the dimension of anchors from the lists of all of them, each up to neighbour ``last``, itself included."""
    n = len(counted)
    if n <= LISTED_ROWS:
        return _dimension_of_lists(lists, counted, counted, last)
    rows = np.linspace(0, n - 1, LISTED_ROWS).astype(int)
    counts = np.diff(lists.ptr)[rows]
    ptr = np.append(0, np.cumsum(counts))
    at = np.arange(ptr[-1]) + np.repeat(lists.ptr[rows] - ptr[:-1], counts)
    return _dimension_of_lists(Lists(ptr, lists.index[at], lists.squared[at]), counted, counted[rows], last)


def _dimension_of_lists(lists: Lists, counted: Array, of_rows: Array, last: float) -> float | None:
    """Return the inverse of the mean of log(r_last / r_j), j from the first neighbour to the one before the last."""
    if last <= 2:
        return None
    shares, rows = np.zeros(len(lists.index)), len(of_rows)
    kept, moments = np.empty(rows, np.int64), np.empty(rows)
    selection.share_nearest(lists.ptr, lists.index, lists.squared, counted, last - 1, shares, kept, moments)
    weights = shares * counted[lists.index] * of_rows[lists.rows()]
    radii = np.repeat(kth(lists, counted, last, counted), np.diff(lists.ptr))
    apart = (lists.squared > 0) & (weights > 0)  # the first entry of a row is the point itself
    total = float(weights[apart] @ np.log(radii[apart] / lists.squared[apart]))
    return 2 * float(weights[apart].sum()) / total if total > 0 else None
