"""The commands ``fit``, ``transform`` and ``inverse``."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from . import options
from .console import Console, check_different_files, check_drawable, open_model, prepare_table, size_of, tell_spectrum
from .options import option


@click.command(short_help="Fit a table: save the model, the embedding, a picture.")
@click.argument("data")
@options.fitting
@options.choosing
@options.scaling
@option("--dask", metavar="ADDRESS|local", help="Fit on a Dask cluster: the address of its scheduler, or local for one "
        "process a core. Workers must see DATA under the same path.")  # fmt: skip
@option("--calibrate", is_flag=True, help="Learn how large errors are, by ten fits without a tenth of the rows.")
@option("--save", type=Path, callback=options.writable(), metavar="FILE", help="Where the model goes (m.outfold).")
@option("--out", "-o", type=Path, callback=options.writable(*options.TABLE_SUFFIXES, dash=True),
        metavar="FILE",
        help="Where positions go: csv, tsv, parquet, npy, zarr, h5ad, or - for CSV on standard output.")  # fmt: skip
@option("--picture", type=Path, callback=options.writable(*options.PICTURES), metavar="FILE",
        help="Where a picture goes (png, svg or pdf).")  # fmt: skip
@options.speaking
def fit(
    data: str,
    method: str,
    columns: str | None,
    id_: str | None,
    label: str | None,
    obsm: str | None,
    scale: str,
    dask: str | None,
    calibrate: bool,
    save: Path | None,
    out: Path | None,
    picture: Path | None,
    quiet: bool,
    machine: bool,
    others: tuple[str, ...],
    **given: Any,
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
    from ...data import table_files
    from . import stream

    teller = _teller(quiet, machine, out)
    if not (save or out or picture):
        raise click.UsageError("Say what to keep: --save m.outfold, --out embedding.csv or --picture p.png.")
    check_different_files(data, save, out, picture)
    estimator = options.estimator(method, others, bars=teller.bars, **given)
    if calibrate and options.recipe(estimator) is None:
        raise click.UsageError(f"--calibrate is not for {method}, which keeps no rows to hold out.")
    if picture:
        check_drawable(estimator)
    table = table_files.open_table(data, obsm=obsm)
    if dask:
        stream.check_parts(estimator, table)
    teller.title(f"{method} of {table.told}", command="fit", method=method, data=str(data))
    source = prepare_table(teller, table, options.split(columns), id_, label, scale)
    run = partial(stream.fit_there, data=data, obsm=obsm, address=dask) if dask else stream.fit
    _fit(teller, estimator, source, run, calibrate)
    if save:
        _save(teller, estimator, source, save)
    if out or picture:
        _embed(teller, estimator, source, out, picture)
    teller.finish()


def _fit(teller: Console, estimator: Any, source: Any, run: Callable[[Any, Any], str], calibrate: bool) -> None:
    """Fit by ``run``, print the result, and calibrate the error radius if ``calibrate`` is set."""
    with teller.hearing():
        start = time.perf_counter()
        how = run(estimator, source)
        _tell_fit(teller, estimator, time.perf_counter() - start, how)
        if calibrate:
            estimator.calibrate(source)
            teller.row("error", "learnt: transform --trust gives each row a radius for it")


def _save(teller: Console, estimator: Any, source: Any, save: Path) -> None:
    from ... import storage

    storage.save(estimator, save, preparation=source.preparation)
    teller.row("model", f"{save} ({size_of(save)})", saved=str(save))


def _embed(teller: Console, estimator: Any, source: Any, out: Path | None, picture: Path | None) -> None:
    """Embed the table of the fit, and write the coordinates (``out``) and a picture (``picture``)."""
    from . import stream

    known, table = source.preparation, source.table
    carried = [name for name in dict.fromkeys((known.id, known.label)) if name]
    every = 1 if out else -(-len(source) // stream.PICTURE_ROWS)
    settings: dict[str, Any] = {"carried": carried, "label": known.label, "draw": bool(picture), "every": every}
    with teller.progress("embedding", len(source)) as watch:
        walk = stream.embed(estimator, known, table, out=out, watch=watch, **settings)
    _tell_out(teller, out, walk, [*carried, *(["cluster"] if hasattr(estimator, "cluster_centers_") else [])])
    if picture:
        title = f"{type(estimator).__name__} of {table.told}: {len(source)} rows"
        stream.draw(estimator, walk, picture, title, known.label)
        teller.row("picture", str(picture), picture=str(picture))


@click.command(short_help="Embed the rows of another table with a model.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data")
@option("--out", "-o", type=Path, required=True, callback=options.writable(*options.TABLE_SUFFIXES, dash=True),
        metavar="FILE",
        help="Where the table goes: csv, tsv, parquet, npy, zarr, h5ad, or - for CSV on standard output.")  # fmt: skip
@option("--id", "id_", metavar="COLUMN", help="A column carried along. [default: that of the fit, if it is there]")
@option("--label", metavar="COLUMN", help="A column carried along. [default: that of the fit, if it is there]")
@option("--obsm", metavar="KEY", help="Of an h5ad file: this entry of obsm instead of X.")
@option("--trust", is_flag=True, help="Add columns: support, outside (the data of the fit) and, if calibrated, error.")
@option("--on-far", type=click.Choice(["warn", "nan", "nearest", "raise"]), default="warn", show_default=True,
        help="What to do with rows outside the data of the fit.")  # fmt: skip
@option("--picture", type=Path, callback=options.writable(*options.PICTURES), metavar="FILE",
        help="Where a picture goes (png, svg or pdf).")  # fmt: skip
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
    quiet: bool,
    machine: bool,
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

    teller = _teller(quiet, machine, out)
    check_different_files(data, out, picture)
    if trust and out.suffix in writers.NUMBERS_ONLY:
        raise click.UsageError(f"--trust adds columns that {out.suffix} cannot name: write csv, parquet or h5ad.")
    estimator, preparation = open_model(model)
    table = table_files.open_table(data, obsm=obsm)
    preparation.match(table)
    id_, label = (
        _carried_columns(table, given, known) for given, known in ((id_, preparation.id), (label, preparation.label))
    )
    if picture:
        check_drawable(estimator)
    carried = [name for name in dict.fromkeys((id_, label)) if name]
    teller.title(f"{table.told} by {model.name}", command="transform", model=str(model), data=str(data))
    teller.row("scaling", f"as in the fit: {preparation.describe()}", scaling=preparation.scaling)
    if extra := [name for name in preparation.find_ignored(table) if name not in carried]:
        teller.row("ignored", f"columns the model does not know: {tables.join_names(extra)}", ignored=extra)
    settings: dict[str, Any] = {"carried": carried, "label": label, "trust": trust, "on_far": on_far}
    with teller.progress("embedding") as watch:
        walk = stream.embed(estimator, preparation, table, out=out, draw=bool(picture), watch=watch, **settings)
    teller.row("embedded", f"{walk.rows - walk.missing.left_out} of {walk.rows} rows", rows=walk.rows)
    if walk.missing.left_out:
        teller.row("left out", walk.missing.describe(table))
    _tell_out(teller, out, walk, [*carried, *(["cluster"] if hasattr(estimator, "cluster_centers_") else [])])
    if walk.outside:
        where = f"the first is {table.unit} {table.places([walk.first_outside or 0])[0]}"
        hint = "" if trust else "; --trust adds a column that says which"
        rows = "row lies" if walk.outside == 1 else "rows lie"
        teller.note(f"{walk.outside} {rows} outside the data of the fit ({where}){hint}.")
    teller.facts["outside"] = walk.outside
    if picture:
        title = f"{table.told}: {walk.rows - walk.missing.left_out} rows, {walk.outside} outside the data"
        stream.draw(estimator, walk, picture, title, label)
        teller.row("picture", str(picture), picture=str(picture))
    teller.finish()


@click.command(short_help="From coordinates back to columns of the table.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data")
@option("--out", "-o", type=Path, required=True, callback=options.writable(*options.TABLE_SUFFIXES, dash=True),
        metavar="FILE",
        help="Where the table goes: csv, tsv, parquet, npy, zarr, h5ad, or - for CSV on standard output.")  # fmt: skip
@option("--id", "id_", metavar="COLUMN", help="A column carried along. [default: that of the fit, if it is there]")
@options.speaking
def inverse(model: Path, data: str, out: Path, id_: str | None, quiet: bool, machine: bool) -> None:
    """Go back from coordinates (DATA, as fit or transform wrote them) to the columns and units of the table fitted.

    \b
    Example:
      outfold inverse wine.outfold places.csv -o wines.csv
    """
    from ...data import table_files, tables
    from . import stream

    teller = _teller(quiet, machine, out)
    check_different_files(data, out)
    estimator, preparation = open_model(model)
    table = table_files.open_table(data)
    id_ = _carried_columns(table, id_, preparation.id)
    teller.title(f"{table.told} back through {model.name}", command="inverse", model=str(model), data=str(data))
    with teller.hearing(), teller.progress("going back") as watch:
        walk = stream.back(estimator, preparation, table, out=out, carried=[id_] if id_ else [], watch=watch)
    teller.row("columns", tables.join_names(preparation.columns), columns=list(preparation.columns))
    error = float(estimator.round_trip_error_)
    teller.row("error", f"{error:.1%} of the spread of the columns, on rows held out", round_trip_error=error)
    _tell_out(teller, out, walk, [id_] if id_ else [])
    teller.finish()


# -- helpers -------------------------------------------------------------------------------


def _teller(quiet: bool, machine: bool, out: Path | None = None) -> Console:
    if machine and str(out) == "-":
        raise click.UsageError("--json and -o - both want standard output: name a file for one of them.")
    return Console(quiet=quiet, machine=machine, aside=str(out) == "-")


def _carried_columns(table: Any, given: str | None, known: str | None) -> str | None:
    if given is not None:
        table.require([given], "to carry along")
        return given
    return known if known in table.names else None


def _tell_fit(teller: Console, estimator: Any, seconds: float, how: str) -> None:
    report: Any = getattr(estimator, "report_", None)
    anchors = f" on {report.n_anchors} landmarks" if _landmarks(report) else ""
    teller.row("fitted", f"in {seconds:.1f} s{anchors}{how}", seconds=round(seconds, 3), streamed=bool(how))
    tell_spectrum(teller, estimator)


def _landmarks(report: Any) -> bool:
    return hasattr(report, "n_anchors") and report.n_anchors < report.n_samples


def _tell_out(teller: Console, out: Path | None, walk: Any, carried: list[str]) -> None:
    from ...data import writers

    if out is None:
        return
    text = f"{'standard output' if str(out) == '-' else out} ({walk.rows} rows)"
    if walk.missing.left_out:
        text += f"; {walk.missing.left_out} without a position, for missing values"
    teller.row("table", text, out=str(out), rows_out=walk.rows, rows_missing=walk.missing.left_out)
    if carried and out.suffix in writers.NUMBERS_ONLY:
        teller.note(f"{out.suffix} holds numbers only, without {' and '.join(carried)}; rows are in order.")
