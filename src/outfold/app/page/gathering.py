"""What the page shows of a table: every row's place, what it is called, its columns and how far to believe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import TableError
from ...preparation import Missing, Preparation
from ...runners import Threads
from ...tables import MISSING, Table
from . import streams
from .facts import diffusion
from .streams import Stream

Array = NDArray[Any]

MOST_ROWS = 1_000_000
MOST_COLUMNS = 40  # besides label and id
LOWEST = -100.0  # support that is shown: far below any that is inside, and not so far that the rest looks alike
FEW = 20  # different whole numbers of a label that are groups rather than an amount


@dataclass
class Cloud:
    """Rows to be drawn."""

    streams: list[Stream]
    rows: int  # drawn
    told: str  # what they are
    seen: int = 0  # rows of the table
    lacking: int = 0  # of these, without a value
    outside: int = 0
    notes: list[str] = field(default_factory=list)

    def head(self) -> dict[str, Any]:
        """What the page tells of the rows."""
        return {name: getattr(self, name) for name in ("rows", "told", "seen", "lacking", "outside", "notes")}


@dataclass
class _Seen:
    """Kept rows, batch by batch: numbers, places, trust and the cells of other columns; fewer of them as more come."""

    most: int
    every: int = 1
    rows: int = 0
    parts: list[tuple[list[Array], list[list[Any]]]] = field(default_factory=list)

    def add(self, number: Array, found: Sequence[Array], cells: list[list[Any]]) -> None:
        self.parts.append(([number, *found], cells))
        self.rows += len(number)
        while self.rows > self.most:
            self.every *= 2
            self.parts = [_thinned(*part, self.every) for part in self.parts]
            self.rows = sum(len(arrays[0]) for arrays, _ in self.parts)

    def joined(self) -> tuple[list[Array], list[list[Any]]]:
        arrays = [np.concatenate(part) for part in zip(*(arrays for arrays, _ in self.parts))]
        return arrays, [list(chain.from_iterable(column)) for column in zip(*(cells for _, cells in self.parts))]


def _thinned(arrays: list[Array], cells: list[list[Any]], every: int) -> tuple[list[Array], list[list[Any]]]:
    kept = np.flatnonzero(arrays[0] % every == 0)
    return [array[kept] for array in arrays], [[column[at] for at in kept] for column in cells]


def table(
    estimator: Any,
    preparation: Preparation,
    rows: Table,
    *,
    label: str | None = None,
    most: int = MOST_ROWS,
    watch: Callable[[int], Any] = int,
) -> Cloud:
    """Embed a table for the page; of more than ``most`` complete rows every second, fourth, ... is kept."""
    estimator._refuse_batchwise()
    features = preparation.matched(rows)
    label = label or (preparation.label if preparation.label in rows.names else None)
    name = preparation.id if preparation.id in rows.names and preparation.id != label else None
    others = [one for one in rows.names if one not in {*features, label, name}]
    shown = features[:MOST_COLUMNS]
    read = [*(one for one in (label, name) if one), *others[: MOST_COLUMNS - len(shown)]]
    seen, missing = _Seen(most), Missing(preparation.columns)
    for batch in rows.batches(features, read):
        number = batch.start + np.arange(len(batch.values))
        whole = np.flatnonzero(missing.add(batch) & (number % seen.every == 0))
        if len(whole):
            found = looked(estimator, preparation.apply(batch.values[whole]))
            cells = [[column[at] for at in whole.tolist()] for column in batch.carried]
            seen.add(number[whole], [*found, batch.values[whole, : len(shown)].astype(np.float32)], cells)
        watch(len(batch.values))
    if not missing.rows:
        raise TableError(f"{rows.told} has no rows.")
    if not seen.rows:
        raise TableError(f"{rows.told} has no complete row: {missing.told(rows)}.")
    arrays, cells = seen.joined()
    columns: dict[str, Any] = {one: arrays[-1][:, at] for at, one in enumerate(shown)} | dict(zip(read, cells))
    found_streams = placed(estimator, arrays[1:-1]) + _beside(columns, label, name)
    if missing.left_out or seen.every > 1:
        found_streams.append(Stream("row", "row", (arrays[0] + 1).astype(np.int32)))
    cloud = Cloud(found_streams, seen.rows, rows.told, missing.rows, missing.left_out, int(arrays[2].sum()))
    if missing.left_out:
        cloud.notes.append(f"{missing.told(rows)}. These are not shown.")
    if seen.every > 1:
        total = missing.rows - missing.left_out
        cloud.notes.append(f"Row 1 of every {seen.every} is shown: {seen.rows} of {total}. --rows raises how many.")
    if len(features) + len(others) > MOST_COLUMNS:
        cloud.notes.append(f"{MOST_COLUMNS} of {len(features) + len(others)} columns can be looked at here.")
    return cloud


def looked(estimator: Any, points: Array) -> list[Array]:
    """Places, whether outside, support, and radius of the error if the model is calibrated."""
    places, found = estimator.model_.look(points, Threads(estimator.n_jobs))
    support = np.maximum(found.support, LOWEST)
    if not hasattr(estimator, "calibration_"):
        return [places, found.flag, support]
    return [places, found.flag, support, estimator._judged(points, places, found).error]


def placed(estimator: Any, found: Sequence[Array]) -> list[Stream]:
    """Coordinates without their weights lambda^t where there are such, and trust."""
    places, time = found[0], diffusion(estimator)
    if "base" in time:
        places = places / np.power(time["base"], time["t"])
    names = [f"{type(estimator).__name__.lower()}{at}" for at in range(places.shape[1])]
    columns = [streams.numbers(name, "coordinate", column) for name, column in zip(names, places.T)]
    if hasattr(estimator, "cluster_centers_"):
        clusters = estimator._clusters(found[0])
        columns.append(streams.grouped("cluster", "column", [f"cluster {at}" for at in clusters]))
    if len(found) > 1:
        columns.append(Stream("outside", "outside", found[1].astype(np.uint8)))
        columns.append(streams.numbers("support", "support", found[2]))
    if len(found) > 3:
        columns.append(streams.numbers("error", "error", found[3]))
    return columns


def _beside(columns: dict[str, Any], label: str | None, name: str | None) -> list[Stream]:
    """Label first, names of rows last: what goes first where room is short."""
    found = []
    if label is not None:
        found.append(_column(label, "label", columns.pop(label)))
    called = columns.pop(name) if name is not None else None
    found += [_column(one, "column", cells) for one, cells in columns.items()]
    return [*found, *([] if called is None or name is None else [streams.named(name, called)])]


def _column(name: str, role: str, cells: Any) -> Stream:
    if isinstance(cells, np.ndarray):
        values = cells
    else:
        try:
            values = np.array([_number(cell) for cell in cells])
        except (TypeError, ValueError):
            return streams.grouped(name, role, cells)
    if role == "label" and (values == np.round(values)).all() and len(np.unique(values[:100_000])) <= FEW:
        return streams.grouped(name, role, [f"{value:.0f}" for value in values])
    return streams.numbers(name, role, values)


def _number(cell: Any) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return float("nan")
    return float(cell)


# -- without a table -----------------------------------------------------------------------


def held(estimator: Any, preparation: Preparation) -> Cloud:
    """The points that the model itself holds: its embedding where it was saved, else the places of its landmarks."""
    points, index = _points(estimator), getattr(estimator, "landmark_indices_", None)
    saved = estimator.__dict__.get("embedding_")
    all_rows = saved is not None and points is not None and index is not None and len(index) == len(saved)
    if saved is not None and not all_rows:
        return Cloud(placed(estimator, [np.asarray(saved, float)]), len(saved), f"the {len(saved)} rows of the fit")
    if points is None:
        raise ValueError(
            f"This {type(estimator).__name__} holds no points to show. Pass DATA, or save it with its embedding: "
            "save(path, embedding=True)."
        )
    order = np.argsort(index) if all_rows and index is not None else np.arange(len(points))
    found = looked(estimator, points[order])
    raw = preparation.undo(points[order])
    columns = {name: raw[:, at].astype(np.float32) for at, name in enumerate(preparation.columns[:MOST_COLUMNS])}
    told = f"the {len(points)} {'rows' if all_rows else 'points'} that the model holds"
    return Cloud(
        placed(estimator, found) + _beside(columns, None, None), len(points), told, outside=int(found[1].sum())
    )


def _points(estimator: Any) -> Array | None:
    points = np.asarray(getattr(estimator, "landmarks_", np.empty(0)))
    if points.ndim != 2:
        sentinel = getattr(getattr(estimator, "model_", None), "sentinel", None)
        points = np.asarray(sentinel.known.points) if sentinel is not None else points
    return points if points.ndim == 2 and points.shape[1] == estimator.n_features_in_ else None
