"""The rows that the page shows: coordinates, names, columns and trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..._runtime.typing import Array
from ...data.columns import Missing, Preparation
from ...data.tables import Table
from ...data.text_blocks import MISSING
from ...exceptions import TableError
from ...methods.base import SpectralEstimator
from ..embedding import EvenSample, clusters, embed_rows, read_batches
from . import columns as page_columns
from .columns import Stream
from .model_facts import diffusion

Column: TypeAlias = Array | Sequence[Any]

PAGE_ROWS_UP_TO = 1_000_000
PAGE_COLUMNS_UP_TO = 40  # columns besides label and id
LOWEST = -100.0  # smaller support is shown as this: far below any inside the data, but the colour scale stays useful
LEAST_P_VALUE = 1e-6  # smaller p-values are shown as this, since colours are by their logarithm
FEW = 20  # a label with up to this many different whole numbers is coloured in groups, not on a scale


@dataclass(kw_only=True)
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


def table(
    estimator: SpectralEstimator,
    preparation: Preparation,
    rows: Table,
    *,
    label: str | None = None,
    most: int = PAGE_ROWS_UP_TO,
    watch: Callable[[int], object] = int,
) -> PagePoints:
    """Return the embedded rows of a table; of more than ``most`` complete rows every second, fourth, ... one."""
    estimator._refuse_batchwise()
    features = preparation.match(rows)
    label = label or (preparation.label if preparation.label in rows.names else None)
    name = preparation.id if preparation.id in rows.names and preparation.id != label else None
    taken = {*features, label, name}
    others = [one for one in rows.names if one not in taken]
    shown = features[:PAGE_COLUMNS_UP_TO]
    read = [*(one for one in (label, name) if one), *others[: PAGE_COLUMNS_UP_TO - len(shown)]]
    seen, missing = EvenSample(most), Missing(features=preparation.columns)
    for batch, complete in read_batches(rows, features, read, missing, watch):
        number = batch.start + np.arange(len(batch.values))
        whole = np.flatnonzero(complete & (number % seen.every == 0))
        if len(whole):
            found = embed_table(estimator, preparation.apply(batch.values[whole]))
            cells = [[column[at] for at in whole.tolist()] for column in batch.carried]
            seen.add(number[whole], [*found, batch.values[whole, : len(shown)].astype(np.float32)], cells)
    if not seen.rows:
        raise TableError(f"{rows.told} has no complete row: {missing.describe(rows)}.")
    arrays, cells = seen.join()
    columns: dict[str, Column] = {one: arrays[-1][:, at] for at, one in enumerate(shown)}
    columns |= dict(zip(read, cells))
    found_streams = place_rows(estimator, arrays[1:-1]) + _beside(columns, label, name)
    if missing.left_out or seen.every > 1:
        found_streams.append(Stream(name="row", role="row", values=(arrays[0] + 1).astype(np.int32)))
    cloud = PagePoints(
        streams=found_streams,
        rows=seen.rows,
        told=rows.told,
        seen=missing.rows,
        lacking=missing.left_out,
        outside=int(arrays[2].sum()),
    )
    if missing.left_out:
        cloud.notes.append(f"{missing.describe(rows)}. These are not shown.")
    if seen.every > 1:
        total = missing.rows - missing.left_out
        cloud.notes.append(f"Row 1 of every {seen.every} is shown: {seen.rows} of {total}. --rows raises how many.")
    if len(features) + len(others) > PAGE_COLUMNS_UP_TO:
        cloud.notes.append(f"{PAGE_COLUMNS_UP_TO} of {len(features) + len(others)} columns can be looked at here.")
    return cloud


def embed_table(estimator: SpectralEstimator, points: Array) -> list[Array]:
    """Return coordinates, outside or not, p-value, support, and the error radius if the model is calibrated."""
    found = embed_rows(estimator, points, evidence=hasattr(estimator, "calibration_"))
    trust = found.trust
    columns = [found.places, trust.flag, np.maximum(trust.p_value, LEAST_P_VALUE), np.maximum(trust.support, LOWEST)]
    return columns if trust.error is None else [*columns, trust.error]


def place_rows(estimator: SpectralEstimator, found: Sequence[Array]) -> list[Stream]:
    """Return the streams of coordinates (divided by their weights lambda^t, if they have some), clusters and trust."""
    places, time = found[0], diffusion(estimator)
    if "base" in time:
        places = places / np.power(time["base"], time["t"])
    names = [f"{type(estimator).__name__.lower()}{at}" for at in range(places.shape[1])]
    columns = [page_columns.numbers(name, "coordinate", column) for name, column in zip(names, places.T)]
    if clusters(estimator):
        words = [f"cluster {at}" for at in estimator._clusters(found[0])]
        columns.append(page_columns.group("cluster", "column", words))
    if len(found) > 1:
        columns.append(Stream(name="outside", role="outside", values=found[1].astype(np.uint8)))
        trust = zip(("p_value", "support", "error"), found[2:])
        columns += [page_columns.numbers(name, name, values) for name, values in trust]
    return columns


def _beside(columns: Mapping[str, Column], label: str | None, name: str | None) -> list[Stream]:
    """Return the streams of the other columns: the label first, names of rows last. A file drops from the end."""
    found = [] if label is None else [_column(label, "label", columns[label])]
    found += [_column(one, "column", cells) for one, cells in columns.items() if one not in (label, name)]
    return [*found, *([] if name is None else [page_columns.name_column(name, list(columns[name]))])]


def _column(name: str, role: str, cells: Column) -> Stream:
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


def _number(cell: float | str | None) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return float("nan")
    return float(cell)


# -- without a table -----------------------------------------------------------------------


def hold_training_rows(estimator: SpectralEstimator, preparation: Preparation) -> PagePoints:
    """Return the rows that the model itself holds: its saved ``embedding_``, else its landmarks, embedded."""
    points, index = _points(estimator), getattr(estimator, "landmark_indices_", None)
    saved = estimator.__dict__.get("embedding_")
    all_rows = saved is not None and points is not None and index is not None and len(index) == len(saved)
    if saved is not None and not all_rows:
        streams = place_rows(estimator, [np.asarray(saved, float)])
        return PagePoints(streams=streams, rows=len(saved), told=f"the {len(saved)} rows of the fit")
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
    streams = place_rows(estimator, found) + _beside(columns, None, None)
    return PagePoints(streams=streams, rows=len(points), told=told, outside=int(found[1].sum()))


def _points(estimator: SpectralEstimator) -> Array | None:
    points = np.asarray(getattr(estimator, "landmarks_", np.empty(0)))
    if points.ndim != 2:
        sentinel = getattr(getattr(estimator, "model_", None), "sentinel", None)
        points = np.asarray(sentinel.known.points) if sentinel is not None else points
    return points if points.ndim == 2 and points.shape[1] == estimator.n_features_in_ else None
