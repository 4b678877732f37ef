"""The rows that the page shows: coordinates, names, columns and trust."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from ..._runtime.threads import Threads
from ..._runtime.typing import Array
from ...data.columns import Missing, Preparation
from ...data.table_files import MISSING
from ...data.tables import Table
from ...exceptions import TableError
from . import columns as page_columns
from .columns import Stream
from .model_facts import diffusion

PAGE_ROWS_UP_TO = 1_000_000
PAGE_COLUMNS_UP_TO = 40  # columns besides label and id
LOWEST = -100.0  # smaller support is shown as this: far below any inside the data, but the colour scale stays useful
FEW = 20  # a label with up to this many different whole numbers is coloured in groups, not on a scale


@dataclass
class PagePoints:
    """Rows to be drawn, as columns."""

    streams: list[Stream]
    rows: int  # number of rows drawn
    told: str  # description of the rows, for the reader
    seen: int = 0  # number of rows of the table
    lacking: int = 0  # number of these with a missing value
    outside: int = 0  # number of rows drawn that are outside the data of the fit
    notes: list[str] = field(default_factory=list)

    def head(self) -> dict[str, Any]:
        """Return the facts about the rows that the page prints."""
        return {name: getattr(self, name) for name in ("rows", "told", "seen", "lacking", "outside", "notes")}


@dataclass
class _Seen:
    """Rows collected batch by batch, at most ``most``: if there are more, every second, fourth, ... row stays."""

    most: int
    every: int = 1  # rows 0, `every`, 2 `every`, ... of the table are stored
    rows: int = 0  # number of rows stored
    # per batch: row numbers, coordinates, trust and features as arrays; cells of the other columns as lists
    parts: list[tuple[list[Array], list[list[Any]]]] = field(default_factory=list)

    def add(self, number: Array, found: Sequence[Array], cells: list[list[Any]]) -> None:
        self.parts.append(([number, *found], cells))
        self.rows += len(number)
        while self.rows > self.most:
            self.every *= 2
            self.parts = [_thin(*part, self.every) for part in self.parts]
            self.rows = sum(len(arrays[0]) for arrays, _ in self.parts)

    def join(self) -> tuple[list[Array], list[list[Any]]]:
        arrays = [np.concatenate(part) for part in zip(*(arrays for arrays, _ in self.parts))]
        return arrays, [list(chain.from_iterable(column)) for column in zip(*(cells for _, cells in self.parts))]


def _thin(arrays: list[Array], cells: list[list[Any]], every: int) -> tuple[list[Array], list[list[Any]]]:
    kept = np.flatnonzero(arrays[0] % every == 0)
    return [array[kept] for array in arrays], [[column[at] for at in kept] for column in cells]


def table(
    estimator: Any,
    preparation: Preparation,
    rows: Table,
    *,
    label: str | None = None,
    most: int = PAGE_ROWS_UP_TO,
    watch: Callable[[int], Any] = int,
) -> PagePoints:
    """Return the embedded rows of a table; of more than ``most`` complete rows every second, fourth, ... one."""
    estimator._refuse_batchwise()
    features = preparation.match(rows)
    label = label or (preparation.label if preparation.label in rows.names else None)
    name = preparation.id if preparation.id in rows.names and preparation.id != label else None
    others = [one for one in rows.names if one not in {*features, label, name}]
    shown = features[:PAGE_COLUMNS_UP_TO]
    read = [*(one for one in (label, name) if one), *others[: PAGE_COLUMNS_UP_TO - len(shown)]]
    seen, missing = _Seen(most), Missing(preparation.columns)
    for batch in rows.batches(features, read):
        number = batch.start + np.arange(len(batch.values))
        whole = np.flatnonzero(missing.add(batch) & (number % seen.every == 0))
        if len(whole):
            found = embed_table(estimator, preparation.apply(batch.values[whole]))
            cells = [[column[at] for at in whole.tolist()] for column in batch.carried]
            seen.add(number[whole], [*found, batch.values[whole, : len(shown)].astype(np.float32)], cells)
        watch(len(batch.values))
    if not missing.rows:
        raise TableError(f"{rows.told} has no rows.")
    if not seen.rows:
        raise TableError(f"{rows.told} has no complete row: {missing.describe(rows)}.")
    arrays, cells = seen.join()
    columns: dict[str, Any] = {one: arrays[-1][:, at] for at, one in enumerate(shown)} | dict(zip(read, cells))
    found_streams = place_rows(estimator, arrays[1:-1]) + _beside(columns, label, name)
    if missing.left_out or seen.every > 1:
        found_streams.append(Stream("row", "row", (arrays[0] + 1).astype(np.int32)))
    cloud = PagePoints(found_streams, seen.rows, rows.told, missing.rows, missing.left_out, int(arrays[2].sum()))
    if missing.left_out:
        cloud.notes.append(f"{missing.describe(rows)}. These are not shown.")
    if seen.every > 1:
        total = missing.rows - missing.left_out
        cloud.notes.append(f"Row 1 of every {seen.every} is shown: {seen.rows} of {total}. --rows raises how many.")
    if len(features) + len(others) > PAGE_COLUMNS_UP_TO:
        cloud.notes.append(f"{PAGE_COLUMNS_UP_TO} of {len(features) + len(others)} columns can be looked at here.")
    return cloud


def embed_table(estimator: Any, points: Array) -> list[Array]:
    """Return coordinates, outside or not, support, and the error radius if the model is calibrated."""
    places, found = estimator.model_.look(points, Threads(estimator.n_jobs))
    support = np.maximum(found.support, LOWEST)
    if not hasattr(estimator, "calibration_"):
        return [places, found.flag, support]
    return [places, found.flag, support, estimator._add_evidence(points, places, found).error]


def place_rows(estimator: Any, found: Sequence[Array]) -> list[Stream]:
    """Return the streams of coordinates (divided by their weights lambda^t, if they have some), clusters and trust."""
    places, time = found[0], diffusion(estimator)
    if "base" in time:
        places = places / np.power(time["base"], time["t"])
    names = [f"{type(estimator).__name__.lower()}{at}" for at in range(places.shape[1])]
    columns = [page_columns.numbers(name, "coordinate", column) for name, column in zip(names, places.T)]
    if hasattr(estimator, "cluster_centers_"):
        clusters = estimator._clusters(found[0])
        columns.append(page_columns.group("cluster", "column", [f"cluster {at}" for at in clusters]))
    if len(found) > 1:
        columns.append(Stream("outside", "outside", found[1].astype(np.uint8)))
        columns.append(page_columns.numbers("support", "support", found[2]))
    if len(found) > 3:
        columns.append(page_columns.numbers("error", "error", found[3]))
    return columns


def _beside(columns: dict[str, Any], label: str | None, name: str | None) -> list[Stream]:
    """Return the streams of the other columns: the label first, names of rows last. A file drops from the end."""
    found = []
    if label is not None:
        found.append(_column(label, "label", columns.pop(label)))
    called = columns.pop(name) if name is not None else None
    found += [_column(one, "column", cells) for one, cells in columns.items()]
    return [*found, *([] if called is None or name is None else [page_columns.name_column(name, called)])]


def _column(name: str, role: str, cells: Any) -> Stream:
    if isinstance(cells, np.ndarray):
        values = cells
    else:
        try:
            values = np.array([_number(cell) for cell in cells])
        except (TypeError, ValueError):
            return page_columns.group(name, role, cells)
    if role == "label" and (values == np.round(values)).all() and len(np.unique(values[:100_000])) <= FEW:
        return page_columns.group(name, role, [f"{value:.0f}" for value in values])
    return page_columns.numbers(name, role, values)


def _number(cell: Any) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return float("nan")
    return float(cell)


# -- without a table -----------------------------------------------------------------------


def hold_training_rows(estimator: Any, preparation: Preparation) -> PagePoints:
    """Return the rows that the model itself holds: its saved ``embedding_``, else its landmarks, embedded."""
    points, index = _points(estimator), getattr(estimator, "landmark_indices_", None)
    saved = estimator.__dict__.get("embedding_")
    all_rows = saved is not None and points is not None and index is not None and len(index) == len(saved)
    if saved is not None and not all_rows:
        return PagePoints(
            place_rows(estimator, [np.asarray(saved, float)]), len(saved), f"the {len(saved)} rows of the fit"
        )
    if points is None:
        raise ValueError(
            f"This {type(estimator).__name__} holds no points to show. Pass DATA, or save it with its embedding: "
            "save(path, embedding=True)."
        )
    order = np.argsort(index) if all_rows and index is not None else np.arange(len(points))
    found = embed_table(estimator, points[order])
    raw = preparation.undo(points[order])
    columns = {name: raw[:, at].astype(np.float32) for at, name in enumerate(preparation.columns[:PAGE_COLUMNS_UP_TO])}
    told = f"the {len(points)} {'rows' if all_rows else 'points'} that the model holds"
    return PagePoints(
        place_rows(estimator, found) + _beside(columns, None, None), len(points), told, outside=int(found[1].sum())
    )


def _points(estimator: Any) -> Array | None:
    points = np.asarray(getattr(estimator, "landmarks_", np.empty(0)))
    if points.ndim != 2:
        sentinel = getattr(getattr(estimator, "model_", None), "sentinel", None)
        points = np.asarray(sentinel.known.points) if sentinel is not None else points
    return points if points.ndim == 2 and points.shape[1] == estimator.n_features_in_ else None
