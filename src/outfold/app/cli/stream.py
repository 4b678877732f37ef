"""Fit, embed and draw tables batch by batch, for the commands. This module prints nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ... import plotting
from ..._runtime.threads import Threads
from ..._runtime.typing import Array
from ...data import writers
from ...data.columns import Missing, Preparation, Prepared
from ...data.tables import Table
from ...engine import plan as planning
from ...engine.fit import Recipe
from ...exceptions import TableError
from ...methods.base import SpectralEstimator
from ..embedding import EmbeddedRows, EvenSample, clusters, embed_rows, read_batches, spectrum

HELD_BYTES = 1 << 26  # a table of up to this size is loaded; a larger one is read again in each pass
PICTURE_ROWS = 50_000  # rows in a picture
LABEL_GROUPS_UP_TO = 20  # groups in a legend; the rarest labels become one group
LABEL_LETTERS_UP_TO = 30  # letters of a label in a picture


def fit(estimator: SpectralEstimator, recipe: Recipe | None, source: Prepared) -> str:
    """Fit to a table; block by block if the method can and the table is large. Return words that say which."""
    streamed = recipe is not None and recipe.streams and _held_bytes(source) > HELD_BYTES
    if recipe is not None and not source.sparse:  # sizes do not say what sparse rows need: the fit asks
        points = source.array() if recipe.view.reads_rows and not streamed else None
        plan = planning.of_recipe(recipe, source.shape, Threads(estimator.n_jobs), not streamed, points)
        if not plan.fits and not hasattr(recipe.view, "memory"):  # views with `memory` check it themselves
            raise MemoryError(
                f"{plan.method} of {plan.shape[0]} rows x {plan.shape[1]} columns ({plan.edges}) needs about "
                f"{plan.peak / 1e9:.1f} GB, and {plan.memory / 1e9:.1f} GB are free. --landmarks 2000, or --method "
                f"roseland, takes less{', and --scale none keeps the rows sparse' if source.table.sparse else ''}."
            )
    estimator.fit(source if streamed else source.array())
    return ", block by block" if streamed else ""


def _held_bytes(source: Prepared) -> float:
    """Return the bytes of the rows in memory; of sparse ones those of their entries."""
    if source.sparse:
        return 12.0 * sum(int(csr_array(rows).nnz) for rows in source.pieces())
    return 8.0 * source.shape[0] * source.shape[1]


def check_parts(recipe: Recipe | None, table: Table) -> None:
    """Refuse a method that cannot be fitted in parts, and a file that cannot be read in parts."""
    if recipe is None or not recipe.streams:
        raise ValueError("--dask is for fits that go through rows in parts: --method roseland, or --landmarks N.")
    table.rows  # noqa: B018 (raises if the file cannot be read in parts)


def fit_there(estimator: SpectralEstimator, source: Prepared, data: str, obsm: str | None, address: str) -> str:
    """Fit to a table whose parts are read by Dask workers. Return the numbers of parts and workers in words."""
    from ...distributed import cluster
    from ...distributed import rows as dask_rows

    with cluster(address, workers=Threads(estimator.n_jobs).workers) as client:
        rows = dask_rows.of_table(data, obsm, source)
        estimator.fit(rows)
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        return f", in {rows.values.numblocks[0]} parts on {workers} workers"


@dataclass
class Tally:
    """Counts from embedding a table, and the rows to draw."""

    missing: Missing
    outside: int = 0  # number of rows outside the data of the fit
    first_outside: int | None = None  # the first of these rows
    drawn: EvenSample = field(default_factory=lambda: EvenSample(2 * PICTURE_ROWS))  # coordinates and labels

    @property
    def rows(self) -> int:
        """Rows of the table, complete or not."""
        return self.missing.rows

    @property
    def complete(self) -> int:
        """Rows without a missing value."""
        return self.missing.rows - self.missing.left_out

    def count_outside(self, number: Array, flag: Array) -> None:
        """Count the rows with these numbers that are flagged as outside the data."""
        if flag.any() and self.first_outside is None:
            self.first_outside = int(number[flag.argmax()])
        self.outside += int(flag.sum())


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
    watch: Callable[[int], object] = int,
) -> Tally:
    """Embed every row of a table; a row with a missing value has a line in the output, without coordinates.

    Parameters
    ----------
    out : file for the table of coordinates, as in ``writers.table``, optional
    carried : columns that are copied to the output
    label : the column whose values colour a picture
    trust : also write p-value, score, support, whether a row is outside the data and, if calibrated, the error radius
    on_far : as in ``transform``; "keep" does not warn
    draw : store coordinates of (some of) the complete rows for a picture
    every : embed every ``every``-th row only, for a picture without a table
    watch : called with the number of rows of each batch
    """
    estimator._refuse_batchwise()
    features, tally = preparation.match(table), Tally(Missing(features=preparation.columns))
    numbers = out is not None and Path(out).suffix in writers.NUMBERS_ONLY
    told = _describe_columns(estimator, trust, carried)
    kinds = {} if numbers else {name: table.kind(name) for name in carried} | told
    names = [str(name) for name in estimator.get_feature_names_out()]
    read = list(dict.fromkeys([*carried, *([label] if label else [])]))
    with nullcontext() if out is None else writers.table(out, kinds, names) as add:
        for batch, complete in read_batches(table, features, read, tally.missing, watch):
            number = batch.start + np.arange(len(complete))
            whole = np.flatnonzero(complete & (number % every == 0))
            places = np.full((len(number), len(names)), np.nan)
            extra = np.full((len(told), len(number)), None)
            cells = dict(zip(read, batch.carried))
            if len(whole):
                found = _answer(estimator, preparation.apply(batch.values[whole]), trust, on_far)
                places[whole] = found.places
                for column, values in zip(extra, _columns(found, trust)):
                    column[whole] = values
                tally.count_outside(number[whole], found.trust.flag)
                if draw:
                    labels = [cells[label][at] for at in whole.tolist()] if label else [None] * len(whole)
                    tally.drawn.add(number[whole], [places[whole]], [labels])
            if add is not None:
                add([] if numbers else [*(cells[name] for name in carried), *extra.tolist()], places)
    return tally


def back(
    estimator: SpectralEstimator,
    preparation: Preparation,
    table: Table,
    *,
    out: str | Path,
    carried: Sequence[str] = (),
    watch: Callable[[int], object] = int,
) -> Tally:
    """Apply the inverse transform to a table of coordinates, and write the columns of the fitted table to ``out``."""
    names = [str(name) for name in estimator.get_feature_names_out()]
    if table.named and set(names) <= set(table.names):
        features = names
    elif len(table.numeric) == len(names):
        features = list(table.numeric)
    else:
        table.require(names, "of the embedding")
        raise TableError(f"{table.told} has {len(table.numeric)} columns; the embedding has {len(names)} coordinates.")
    tally = Tally(Missing(features=tuple(features)))
    kinds = {} if Path(out).suffix in writers.NUMBERS_ONLY else {name: table.kind(name) for name in carried}
    with writers.table(out, kinds, list(preparation.columns)) as add:
        for batch, whole in read_batches(table, features, carried, tally.missing, watch):
            found = np.full((len(whole), len(preparation.columns)), np.nan)
            if whole.any():
                found[whole] = preparation.undo(estimator.inverse_transform(batch.values[whole]))
            add(batch.carried if kinds else [], found)
    return tally


def _describe_columns(estimator: SpectralEstimator, trust: bool, carried: Sequence[str]) -> dict[str, np.dtype[Any]]:
    """Return the columns besides the coordinates, with their types; one in ``carried`` gets the prefix ``outfold_``."""
    told: dict[str, type] = {"cluster": np.int64} if clusters(estimator) else {}
    if trust:
        told |= {"p_value": float, "score": float, "support": float, "outside": bool}
        told |= {"error": float} if hasattr(estimator, "calibration_") else {}
    return {f"outfold_{name}" if name in carried else name: np.dtype(kind) for name, kind in told.items()}


def _columns(found: EmbeddedRows, trust: bool) -> list[Array]:
    """Return the values of these columns."""
    known = found.trust
    columns = [known.p_value, known.score, known.support, known.flag, known.error] if trust else []
    return [values for values in (found.clusters, *columns) if values is not None]


def _answer(estimator: SpectralEstimator, points: Array, trust: bool, on_far: str) -> EmbeddedRows:
    """Embed points; rows outside the data get the coordinates that ``on_far`` asks for."""
    found = embed_rows(estimator, points, evidence=trust)
    if found.trust.flag.any() and on_far in ("nan", "nearest", "raise"):
        found = replace(found, places=np.array(found.places))
        estimator._answer_far(on_far, estimator._like_fitted(points), found.places, found.trust)
    return found


# -- pictures ------------------------------------------------------------------------------


def draw(estimator: SpectralEstimator, tally: Tally, path: Path, title: str, label: str | None) -> None:
    """Draw the first two coordinates, coloured by a label, and the spectrum if it decays, to the file ``path``."""
    if not tally.drawn.rows or (places := tally.drawn.join()[0][1]).shape[1] < 2:
        raise ValueError("A picture needs at least 2 coordinates of a row: fit with --components 2 or more.")
    colors = groups(tally.drawn.join()[1][0]) if label is not None else None
    finite = np.isfinite(places).all(axis=1)
    values, decreasing = spectrum(estimator) or (np.empty(0), False)
    beside = decreasing and len(values) >= 3
    figure, axes = plotting.panels(*([1.15, 0.85] if beside else [1.0]))
    colors = None if colors is None else colors[finite]
    plotting.embedding(places[finite], colors=colors, axes=axes[0], title=shorten(title, 70))
    if beside:
        plotting.spectrum(values, axes=axes[1])
    save_picture(figure.savefig, path)


def save_picture(save: Callable[..., object], path: Path) -> None:
    """Write a figure by its ``savefig``, in the format that ``path`` ends in; if interrupted, the old file stays."""
    with writers.replacing(path) as beside, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib warns of letters that the font lacks
        save(beside, format=path.suffix.removeprefix(".").lower(), dpi=150)


def shorten(text: object, most: int = LABEL_LETTERS_UP_TO) -> str:
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
