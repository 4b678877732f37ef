"""The commands ``fit``, ``transform`` and ``inverse``."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options
from .console import Console, check_different_files, check_drawable, open_model, size_of, tell_spectrum
from .options import option

if TYPE_CHECKING:
    from ...data.tables import Table
    from ...methods.base import SpectralEstimator
    from .stream import Tally


@click.command(short_help="Fit a table: save the model, the embedding, a picture.")
@click.argument("data")
@options.fitting
@options.choosing
@options.scaling
@option("--dask", "Fit on a Dask cluster: the address of its scheduler, or local for one process a core. Workers must "
        "see DATA under the same path.", "ADDRESS|local")  # fmt: skip
@options.flag("--calibrate", "Learn how large errors are, by ten fits without a tenth of the rows; of a network five.")
@option("--save", "Where the model goes (m.outfold).", "FILE", callback=options.writable())
@option("--out -o", "Where positions go: csv, tsv, parquet, npy, zarr, h5ad, or - for CSV on standard output.", "FILE",
        callback=options.writable(*options.TABLE_SUFFIXES, dash=True))  # fmt: skip
@options.picture()
@options.speaking
def fit(
    data: str,
    fitting: options.FitOptions,
    chosen: options.TableOptions,
    scale: str,
    dask: str | None,
    calibrate: bool,
    save: Path | None,
    out: Path | None,
    picture: Path | None,
    teller: Console,
) -> None:
    """Fit DATA, a table (csv, tsv, parquet, feather, npy, npz, zarr, h5ad; - is CSV from standard input).

    Columns of numbers are used, scaled alike; columns of text and rows that lack a value are left out, and told.
    The embedding has a line for every line of the table, empty where a value was missing.

    \b
    Methods: diffusion-maps (the default), roseland (for millions of rows),
      laplacian-eigenmaps, isomap, kernel-pca, classical-mds, phate,
      locally-linear-embedding, spectral-clustering, diffusion-net, grae.

    \b
    Example:
      outfold fit wine.csv --id bottle --save wine.outfold --picture wine.png
      outfold transform wine.outfold more.csv -o places.csv
    """
    from ... import storage
    from . import stream

    teller.leave_output(out)
    if not (save or out or picture):
        raise click.UsageError("Say what to keep: --save m.outfold, --out embedding.csv or --picture p.png.")
    check_different_files(data, save, out, picture)
    estimator, recipe = fitting.build(bars=teller.bars)
    if picture:
        check_drawable(estimator)
    table = chosen.open(data)
    if dask:
        stream.check_parts(recipe, table)
    teller.title(f"{fitting.method} of {table.told}", command="fit", method=fitting.method, data=str(data))
    source = chosen.prepare(teller, table, scale)
    with teller.hearing():
        start = time.perf_counter()
        if dask:
            how = stream.fit_there(estimator, source, data, chosen.obsm, dask)
        else:
            how = stream.fit(estimator, recipe, source)
        _tell_fit(teller, estimator, time.perf_counter() - start, how)
        if calibrate:
            estimator.calibrate(source)
            teller.row("error", "learnt: transform --trust gives each row a radius for it")
    if save:
        storage.save(estimator, save, preparation=source.preparation)
        teller.row("model", f"{save} ({size_of(save)})", saved=str(save))
    if out or picture:
        known = source.preparation
        carried = [name for name in dict.fromkeys((known.id, known.label)) if name]
        every = 1 if out else -(-len(source) // stream.PICTURE_ROWS)
        embed = partial(stream.embed, out=out, carried=carried, label=known.label, draw=bool(picture), every=every)
        with teller.progress("embedding", len(source)) as watch:
            tally = embed(estimator, known, table, watch=watch)
        _tell_out(teller, out, tally, carried, estimator)
        if picture:
            title = f"{type(estimator).__name__} of {table.told}: {len(source)} rows"
            stream.draw(estimator, tally, picture, title, known.label)
            teller.row("picture", str(picture), picture=str(picture))
    teller.finish()


@click.command(short_help="Embed the rows of another table with a model.")
@options.model
@click.argument("data")
@options.table_out
@options.carried_id
@options.carried_label
@options.obsm
@options.flag(
    "--trust", "Add columns: p_value, score, support, outside (the data of the fit) and, if calibrated, error."
)
@option("--on-far", "What to do with rows outside the data of the fit.", default="warn",
        type=click.Choice(["warn", "nan", "nearest", "raise"]))  # fmt: skip
@options.picture()
@options.speaking
def transform(
    model: Path,
    data: str,
    out: Path,
    id_: str | None,
    label: str | None,
    obsm: str | None,
    trust: bool,
    on_far: str,
    picture: Path | None,
    teller: Console,
) -> None:
    """Embed the rows of DATA with a MODEL that fit made.

    Columns are found by their names, in any order, and scaled as in the fit; others are ignored. A row that lacks a
    value keeps its line, with an empty position.

    \b
    Example:
      outfold transform wine.outfold more.csv --trust -o places.csv
    """
    from ...data import table_files, tables, writers
    from . import stream

    teller.leave_output(out)
    check_different_files(data, out, picture)
    if trust and out.suffix in writers.NUMBERS_ONLY:
        raise click.UsageError(f"--trust adds columns that {out.suffix} cannot name: write csv, parquet or h5ad.")
    estimator, preparation = open_model(model)
    table = table_files.open_table(data, obsm=obsm)
    preparation.match(table)
    id_, label = _carried_column(table, id_, preparation.id), _carried_column(table, label, preparation.label)
    if picture:
        check_drawable(estimator)
    carried = [name for name in dict.fromkeys((id_, label)) if name]
    teller.title(f"{table.told} by {model.name}", command="transform", model=str(model), data=str(data))
    teller.row("scaling", f"as in the fit: {preparation.describe()}", scaling=preparation.scaling)
    if extra := [name for name in preparation.find_ignored(table) if name not in carried]:
        teller.row("ignored", f"columns the model does not know: {tables.join_names(extra)}", ignored=extra)
    embed = partial(stream.embed, out=out, carried=carried, label=label, trust=trust, on_far=on_far, draw=bool(picture))
    with teller.progress("embedding") as watch:
        tally = embed(estimator, preparation, table, watch=watch)
    teller.row("embedded", f"{tally.complete} of {tally.rows} rows", rows=tally.rows)
    if tally.missing.left_out:
        teller.row("left out", tally.missing.describe(table))
    _tell_out(teller, out, tally, carried, estimator)
    if tally.outside:
        where = f"the first is {table.unit} {table.places([tally.first_outside or 0])[0]}"
        hint = "" if trust else "; --trust adds a column that says which"
        rows = "row lies" if tally.outside == 1 else "rows lie"
        teller.note(f"{tally.outside} {rows} outside the data of the fit ({where}){hint}.")
    teller.facts["outside"] = tally.outside
    if picture:
        title = f"{table.told}: {tally.complete} rows, {tally.outside} outside the data"
        stream.draw(estimator, tally, picture, title, label)
        teller.row("picture", str(picture), picture=str(picture))
    teller.finish()


@click.command(short_help="From coordinates back to columns of the table.")
@options.model
@click.argument("data")
@options.table_out
@options.carried_id
@options.speaking
def inverse(model: Path, data: str, out: Path, id_: str | None, teller: Console) -> None:
    """Go back from coordinates (DATA, as fit or transform wrote them) to the columns and units of the table fitted.

    \b
    Example:
      outfold inverse wine.outfold places.csv -o wines.csv
    """
    from ...data import table_files, tables
    from . import stream

    teller.leave_output(out)
    check_different_files(data, out)
    estimator, preparation = open_model(model)
    table = table_files.open_table(data)
    id_ = _carried_column(table, id_, preparation.id)
    carried = [id_] if id_ else []
    teller.title(f"{table.told} back through {model.name}", command="inverse", model=str(model), data=str(data))
    with teller.hearing(), teller.progress("going back") as watch:
        tally = stream.back(estimator, preparation, table, out=out, carried=carried, watch=watch)
    teller.row("columns", tables.join_names(preparation.columns), columns=list(preparation.columns))
    error = float(estimator.round_trip_error_)
    teller.row("error", f"{error:.1%} of the spread of the columns, on rows held out", round_trip_error=error)
    _tell_out(teller, out, tally, carried)
    teller.finish()


# -- helpers -------------------------------------------------------------------------------


def _carried_column(table: Table, asked: str | None, known: str | None) -> str | None:
    """Return the column to carry along: the one asked for, which must be there, else that of the fit, if there."""
    if asked is not None:
        table.require([asked], "to carry along")
        return asked
    return known if known in table.names else None


def _tell_fit(teller: Console, estimator: SpectralEstimator, seconds: float, how: str) -> None:
    report: object = getattr(estimator, "report_", None)
    samples = getattr(report, "n_samples", 0)
    anchors = getattr(report, "n_anchors", samples)
    landmarks = f" on {anchors} landmarks" if anchors < samples else ""
    teller.row("fitted", f"in {seconds:.1f} s{landmarks}{how}", seconds=round(seconds, 3), streamed=bool(how))
    tell_spectrum(teller, estimator)


def _tell_out(
    teller: Console, out: Path | None, tally: Tally, carried: list[str], estimator: SpectralEstimator | None = None
) -> None:
    """Print where the table went, and what it cannot hold: columns carried along and clusters by ``estimator``."""
    from ...data import writers
    from ..embedding import clusters

    if out is None:
        return
    text = f"{'standard output' if str(out) == '-' else out} ({tally.rows} rows)"
    if tally.missing.left_out:
        text += f"; {tally.missing.left_out} without a position, for missing values"
    teller.row("table", text, out=str(out), rows_out=tally.rows, rows_missing=tally.missing.left_out)
    lost = [*carried, *(["cluster"] if estimator is not None and clusters(estimator) else [])]
    if lost and out.suffix in writers.NUMBERS_ONLY:
        teller.note(f"{out.suffix} holds numbers only, without {' and '.join(lost)}; rows are in order.")
