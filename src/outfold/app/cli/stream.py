"""Fit, embed and draw tables batch by batch, for the commands. This module prints nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ... import plotting
from ..._runtime.threads import Threads
from ..._runtime.typing import Array
from ...data import writers
from ...data.columns import Missing, Preparation, Prepared
from ...data.tables import Table
from ...engine import plan as planning
from ...exceptions import TableError
from ...methods.base import SpectralEstimator
from . import options

HELD_BYTES = 1 << 26  # a table of up to this size is loaded; a larger one is read again in each pass
PICTURE_ROWS = 50_000  # rows in a picture
LABEL_GROUPS_UP_TO = 20  # groups in a legend; the rarest labels become one group
LABEL_LETTERS_UP_TO = 30  # letters of a label in a picture


def fit(estimator: Any, source: Prepared) -> str:
    """Fit to a table; block by block if the method can and the table is large. Return words that say which."""
    recipe = options.recipe(estimator)
    streamed = recipe is not None and recipe.streams and 8 * source.shape[0] * source.shape[1] > HELD_BYTES
    if recipe is not None:
        plan = planning.of_recipe(recipe, source.shape, Threads(estimator.n_jobs), not streamed)
        if not plan.fits and not hasattr(recipe.view, "memory"):  # views with `memory` check it themselves
            raise MemoryError(
                f"{plan.method} of {plan.shape[0]} rows x {plan.shape[1]} columns ({plan.edges}) needs about "
                f"{plan.peak / 1e9:.1f} GB, and {plan.memory / 1e9:.1f} GB are free. --landmarks 2000, or --method "
                "roseland, takes less."
            )
    estimator.fit(source if streamed else source.array())
    return ", block by block" if streamed else ""


def check_parts(estimator: Any, table: Table) -> None:
    """Refuse a method that cannot be fitted in parts, and a file that cannot be read in parts."""
    if not getattr(options.recipe(estimator), "streams", False):
        raise ValueError("--dask is for fits that go through rows in parts: --method roseland, or --landmarks N.")
    table.rows  # noqa: B018 (raises if the file cannot be read in parts)


def fit_there(estimator: Any, source: Prepared, data: str, obsm: str | None, address: str) -> str:
    """Fit to a table whose parts are read by Dask workers. Return the numbers of parts and workers in words."""
    from ...distributed import cluster
    from ...distributed import rows as dask_rows

    with cluster(address, workers=Threads(estimator.n_jobs).workers) as client:
        rows = dask_rows.of_table(data, obsm, source)
        estimator.fit(rows)
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        return f", in {rows.values.numblocks[0]} parts on {workers} workers"


@dataclass
class Walk:
    """Counts from embedding a table, and the rows to draw."""

    missing: Missing
    outside: int = 0  # number of rows outside the data of the fit
    first_outside: int | None = None  # the first of these rows
    every: int = 1  # rows 0, `every`, 2 `every`, ... are stored for a picture
    drawn: list[tuple[int, Array, bool, Any]] = field(default_factory=list)  # row, coordinates, outside or not, label

    @property
    def rows(self) -> int:
        """Rows of the table, complete or not."""
        return self.missing.rows

    @property
    def places(self) -> Array:
        """Coordinates of the stored rows."""
        return np.array([place for _, place, _, _ in self.drawn])

    @property
    def labels(self) -> list[Any]:
        """Labels of the stored rows, which colour them."""
        return [label for *_, label in self.drawn]

    def keep(self, start: int, whole: Array, places: Array, flag: Array, labels: Sequence[Any] | None) -> None:
        """Store every ``every``-th complete row of a batch; ``every`` doubles when there are too many."""
        for row, outside in zip(np.flatnonzero(whole).tolist(), flag.tolist()):
            if (start + row) % self.every == 0:
                self.drawn.append((start + row, places[row], outside, None if labels is None else labels[row]))
        while len(self.drawn) > 2 * PICTURE_ROWS:
            self.every *= 2
            self.drawn = [kept for kept in self.drawn if kept[0] % self.every == 0]


def embed(
    estimator: SpectralEstimator,
    preparation: Preparation,
    table: Table,
    *,
    out: str | Path | None = None,
    carried: Sequence[str] = (),
    label: str | None = None,
    trust: bool = False,
    on_far: str = "keep",
    draw: bool = False,
    every: int = 1,
    watch: Callable[[int], Any] = int,
) -> Walk:
    """Embed every row of a table; a row with a missing value has a line in the output, without coordinates.

    Parameters
    ----------
    out : file for the table of coordinates, as in ``writers.table``, optional
    carried : columns that are copied to the output
    label : the column whose values colour a picture
    trust : also write support, whether a row is outside the data and, if calibrated, the error radius
    on_far : as in ``transform``; "keep" does not warn
    draw : store coordinates of (some of) the complete rows for a picture
    every : embed every ``every``-th row only, for a picture without a table
    watch : called with the number of rows of each batch
    """
    estimator._refuse_batchwise()
    features, walk = preparation.match(table), Walk(Missing(preparation.columns), every=every)
    numbers = out is not None and Path(out).suffix in writers.NUMBERS_ONLY
    told = _describe_columns(estimator, trust, carried)
    kinds = {} if numbers else {name: table.kind(name) for name in carried} | told
    names = [str(name) for name in estimator.get_feature_names_out()]
    read = list(dict.fromkeys([*carried, *([label] if label else [])]))
    with nullcontext() if out is None else writers.table(out, kinds, names) as add:
        for batch in table.batches(features, read):
            whole = walk.missing.add(batch) & ((batch.start + np.arange(len(batch.values))) % every == 0)
            points = preparation.apply(batch.values[whole])
            places = np.full((len(whole), len(names)), np.nan)
            extra: list[list[Any]] = [[None] * len(whole) for _ in told]
            flag = np.zeros(0, bool)
            if len(points):
                found, more, flag = _answer(estimator, points, trust, on_far)
                places[whole] = found
                for column, values in zip(extra, more):
                    for row, given in zip(np.flatnonzero(whole).tolist(), values.tolist()):
                        column[row] = given
            if flag.any() and walk.first_outside is None:
                walk.first_outside = batch.start + int(np.flatnonzero(whole)[flag.argmax()])
            walk.outside += int(flag.sum())
            if add is not None:
                kept = dict(zip(read, batch.carried))
                add([] if numbers else [*(kept[name] for name in carried), *extra], places)
            if draw and len(points):
                walk.keep(batch.start, whole, places, flag, batch.carried[read.index(label)] if label else None)
            watch(len(whole))
        if not walk.rows:  # raised inside the `with` block, so that no empty table replaces an older file
            raise TableError(f"{table.told} has no rows.")
    return walk


def back(
    estimator: SpectralEstimator,
    preparation: Preparation,
    table: Table,
    *,
    out: str | Path,
    carried: Sequence[str] = (),
    watch: Callable[[int], Any] = int,
) -> Walk:
    """Apply the inverse transform to a table of coordinates, and write the columns of the fitted table to ``out``."""
    names = [str(name) for name in estimator.get_feature_names_out()]
    if table.named and set(names) <= set(table.names):
        features = names
    elif len(table.numeric) == len(names):
        features = list(table.numeric)
    else:
        table.require(names, "of the embedding")
        raise TableError(f"{table.told} has {len(table.numeric)} columns; the embedding has {len(names)} coordinates.")
    walk = Walk(Missing(tuple(features)))
    kinds = {} if Path(out).suffix in writers.NUMBERS_ONLY else {name: table.kind(name) for name in carried}
    with writers.table(out, kinds, list(preparation.columns)) as add:
        for batch in table.batches(features, carried):
            whole = walk.missing.add(batch)
            found = np.full((len(whole), len(preparation.columns)), np.nan)
            if whole.any():
                found[whole] = preparation.undo(estimator.inverse_transform(batch.values[whole]))
            add(batch.carried if kinds else [], found)
            watch(len(whole))
        if not walk.rows:  # raised inside the `with` block, so that no empty table replaces an older file
            raise TableError(f"{table.told} has no rows.")
    return walk


def _describe_columns(estimator: Any, trust: bool, carried: Sequence[str] = ()) -> dict[str, Any]:
    """Return the columns besides the coordinates, with their types; one in ``carried`` gets the prefix ``outfold_``."""
    told: dict[str, Any] = {"cluster": np.dtype(np.int64)} if hasattr(estimator, "cluster_centers_") else {}
    if trust:
        told |= {"support": np.dtype(float), "outside": np.dtype(bool)}
        told |= {"error": np.dtype(float)} if hasattr(estimator, "calibration_") else {}
    return {f"outfold_{name}" if name in carried else name: kind for name, kind in told.items()}


def _answer(estimator: Any, points: Array, trust: bool, on_far: str) -> tuple[Array, list[Array], Array]:
    """Return coordinates, the columns besides them, and which rows are outside the data."""
    places, found = estimator.model_.look(points, Threads(estimator.n_jobs))
    flag = found.flag
    more = [estimator._clusters(places)] if hasattr(estimator, "cluster_centers_") else []
    if trust:
        judged = estimator._add_evidence(points, places, found)
        more += [judged.support, judged.flag, *([] if judged.error is None else [judged.error])]
    if flag.any() and on_far in ("nan", "nearest", "raise"):
        places = np.array(places)
        estimator._answer_far(on_far, points, places, found)
    return places, more, flag


# -- pictures ------------------------------------------------------------------------------


def draw(estimator: Any, walk: Walk, path: Path, title: str, label: str | None) -> None:
    """Draw the first two coordinates, coloured by a label, and the spectrum if it decays, to the file ``path``."""
    places, colors = _colours_of(walk, label)
    values = _spectrum_of(estimator)
    figure, axes = plotting.panels(*([1.0] if values is None else [1.15, 0.85]))
    plotting.embedding(places, colors=colors, axes=axes[0], title=shorten(title, 70))
    if values is not None:
        plotting.spectrum(values, axes=axes[1])
    with writers.replacing(path) as beside, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib warns of letters that the font lacks
        figure.savefig(beside, format=path.suffix.removeprefix(".").lower(), dpi=150)


def _colours_of(walk: Walk, label: str | None) -> tuple[Array, Array | None]:
    places = walk.places
    if places.ndim != 2 or places.shape[1] < 2:
        raise ValueError("A picture needs at least 2 coordinates of a row: fit with --components 2 or more.")
    colors = groups(walk.labels) if label is not None else None
    finite = np.isfinite(places).all(axis=1)
    return places[finite], None if colors is None else colors[finite]


def _spectrum_of(estimator: Any) -> Array | None:
    """Return the eigenvalues if there are at least three and they decrease, else None."""
    values = getattr(estimator, "eigenvalues_", None)
    if values is None or len(values) < 3 or type(estimator).__name__ == "LocallyLinearEmbedding":
        return None
    if hasattr(estimator, "laplacian"):
        return 1 - np.asarray(values) if estimator.laplacian == "random_walk" else None
    return np.asarray(values)


def shorten(text: Any, most: int = LABEL_LETTERS_UP_TO) -> str:
    """Return text as matplotlib can show it: one short line, no formula, no leading "_", which hides a legend entry."""
    plain = "".join(letter if letter.isprintable() else " " for letter in str(text)).replace("$", r"\$").strip()
    plain = plain if len(plain) <= most else plain[: most - 1] + "…"
    return f" {plain}" if plain.startswith("_") else plain


def groups(labels: Sequence[Any]) -> Array:
    """Return the values that colour rows: numbers if all labels are numbers, else names of groups.

    Of more than ``LABEL_GROUPS_UP_TO`` groups the rarest become one.
    """
    cells = [None if cell is None or str(cell).strip() == "" else cell for cell in labels]
    try:
        numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])
        if np.isfinite(numbers).all():
            return (
                numbers.astype(int)
                if (numbers == np.round(numbers)).all() and np.abs(numbers).max() < 1e15
                else numbers
            )
    except (TypeError, ValueError):
        pass
    names = ["(missing)" if cell is None else shorten(cell) for cell in cells]
    common = Counter(names).most_common()
    if len(common) > LABEL_GROUPS_UP_TO:
        kept = {name for name, _ in common[: LABEL_GROUPS_UP_TO - 1]}
        names = [name if name in kept else f"{len(common) - LABEL_GROUPS_UP_TO + 1} others" for name in names]
    return np.array(names)
