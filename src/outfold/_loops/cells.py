"""The nearest anchors of rows, kept while tables of distances to one cell after another come in; compiled."""

from __future__ import annotations

from .._runtime.jit import Loop
from .._runtime.typing import Array


@Loop
def keep_smallest(table: Array, members: Array, rows: Array, best: Array, found: Array) -> None:
    """Insert the entries of ``table`` into the sorted lists ``best`` of their rows, if they are smaller than the last.

    ``found`` holds the members that the entries of ``best`` belong to.
    """
    wide = best.shape[1]
    for i in range(len(rows)):
        row = rows[i]
        last = best[row, wide - 1]
        for j in range(table.shape[1]):
            value = table[i, j]
            if value < last:
                q = wide - 1
                while q > 0 and best[row, q - 1] > value:
                    best[row, q], found[row, q] = best[row, q - 1], found[row, q - 1]
                    q -= 1
                best[row, q], found[row, q] = value, members[j]
                last = best[row, wide - 1]
