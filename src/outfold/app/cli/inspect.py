"""The commands ``info``, ``plan`` and ``tune``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from . import options
from .console import Console, check_different_files, open_model, prepare_table, size_of, tell_columns, tell_spectrum
from .options import option

_TUNED = 20_000  # rows that `tune` loads, at most


@click.command(short_help="What a model is: method, columns, scaling, spectrum.")
@click.argument("model", type=click.Path(path_type=Path))
@options.speaking
def info(model: Path, quiet: bool, machine: bool) -> None:
    """Tell what a MODEL is: method and parameters, columns and scaling, spectrum, size. The whole file is checked.

    \b
    Example:
      outfold info wine.outfold
    """
    from ... import storage
    from ...data import tables

    teller = Console(quiet=quiet, machine=machine)
    estimator, preparation = open_model(model)
    known = storage.describe(model)
    teller.title(f"{model.name}: {known['method']}", command="info", model=str(model), method=known["method"])
    teller.row("fitted to", f"{known['rows']} rows, {known['features']} columns", rows=known["rows"])
    teller.row("columns", tables.join_names(preparation.columns, 8), columns=list(preparation.columns))
    tell_columns(teller, preparation)
    if preparation.rows_left_out:
        teller.row("left out", f"{preparation.rows_left_out} of the rows, for missing values")
    teller.facts["rows_left_out"] = preparation.rows_left_out
    teller.row("scaling", preparation.describe(), scaling=preparation.scaling)
    for role in ("id", "label"):
        if name := getattr(preparation, role):
            teller.row(role, repr(name), **{role: name})
    teller.row("gives", f"{known['components']} coordinates", components=known["components"])
    changed = _list_changes(estimator)
    teller.row("set", ", ".join(f"{name}={value}" for name, value in changed.items()) or "as by default")
    teller.facts["parameters"] = {name: str(value) for name, value in changed.items()}
    tell_spectrum(teller, estimator)
    teller.row("file", f"{size_of(model)}, written by Outfold {known['versions']['outfold']}", bytes=known["bytes"])
    for text in getattr(getattr(estimator, "report_", None), "warnings", ()):
        teller.note(text)
    teller.finish()


def _list_changes(estimator: Any) -> dict[str, Any]:
    """Return the parameters that differ from their defaults."""
    default = type(estimator)().get_params(deep=False)
    found = {
        name: value for name, value in estimator.get_params(deep=False).items() if name not in ("verbose", "n_jobs")
    }
    return {name: value for name, value in found.items() if repr(value) != repr(default[name])}


@click.command(short_help="What a fit would take, before it takes it.")
@click.argument("data")
@options.fitting
@options.choosing
@click.option("--workers", type=click.IntRange(1), metavar="N", help="On so many workers of a Dask cluster instead.")
@click.option("--measure", is_flag=True, help="With --workers: measure seconds a row here first, which takes some.")
@options.speaking
def plan(
    data: str,
    workers: int | None,
    measure: bool,
    method: str,
    columns: str | None,
    id_: str | None,
    label: str | None,
    obsm: str | None,
    quiet: bool,
    machine: bool,
    others: tuple[str, ...],
    **given: Any,
) -> None:
    """Tell bytes and seconds of each stage of a fit of DATA, which may be a size such as 4000000x3.

    Not for diffusion-net and grae, whose time training decides.

    \b
    Example:
      outfold plan 4000000x3 --method roseland --landmarks 8000
    """
    from ...engine import plan as planning

    teller = Console(quiet=quiet, machine=machine)
    estimator = options.estimator(method, others, bars=False, **given)
    if options.recipe(estimator) is None:
        raise click.UsageError(f"There is no plan for {method}: how long a network trains is found out by training.")
    size = re.fullmatch(r"([0-9_]+)[x,]([0-9_]+)", data)
    columns_ = options.split(columns)
    shape = (int(size[1]), int(size[2])) if size else _shape(data, obsm, columns_, id_, label)
    if measure and workers is None:
        raise click.UsageError("--measure is for --workers: seconds here are those of a typical core.")
    found = planning.plan(shape, estimator, workers=workers, measured=measure)
    teller.title(str(found), command="plan", method=method, shape=shape, anchors=found.anchors, edges=found.edges)
    stages = [{"name": s.name, "bytes": s.bytes, "seconds": s.seconds, "moved": s.moved} for s in found.stages]
    teller.facts |= {"stages": stages, "peak": found.peak, "seconds": found.seconds, "fits": found.fits}
    teller.facts["memory"] = found.memory
    teller.finish()


def _shape(
    data: str, obsm: str | None, columns: list[str] | None, id_: str | None, label: str | None
) -> tuple[int, int]:
    from ...data import columns as preparation
    from ...data import table_files

    if data != "-" and not Path(data).exists():
        raise click.UsageError(f"{data} is neither a table that is there nor a size such as 4000000x3.")
    table = table_files.open_table(data, obsm=obsm)
    found, missing = preparation.prepare(table, columns=columns, id=id_, label=label)
    return missing.rows - missing.left_out, len(found.columns)


@click.command(short_help="Choose epsilon, alpha, time and coordinates for a table.")
@click.argument("data")
@options.fitting
@options.choosing
@options.scaling
@option("--picture", type=Path, callback=options.writable(*options.PICTURES), metavar="FILE",
        help="Where a picture of the search goes (png, svg or pdf).")  # fmt: skip
@options.speaking
def tune(
    data: str,
    method: str,
    columns: str | None,
    id_: str | None,
    label: str | None,
    obsm: str | None,
    scale: str,
    picture: Path | None,
    quiet: bool,
    machine: bool,
    others: tuple[str, ...],
    **given: Any,
) -> None:
    """Choose parameters for a fit of DATA by held-out error, stability and bias, and print the call.

    \b
    Example:
      outfold tune wine.csv --id bottle --label quality --picture tuning.png
    """
    from ... import plotting
    from ...data import table_files
    from ...data.writers import replacing
    from ...selection import tune as search

    teller = Console(quiet=quiet, machine=machine)
    check_different_files(data, picture)
    epsilon = options.value(given.pop("epsilon")) if given.get("epsilon") else "auto"
    seed, jobs = given["seed"], given["jobs"]
    estimator = options.estimator(method, others, bars=teller.bars, **given)
    if picture:
        plotting.panels(1)
    table = table_files.open_table(data, obsm=obsm)
    teller.title(f"{method} of {table.told}", command="tune", method=method, data=data)
    source = prepare_table(teller, table, options.split(columns), id_, label, scale)
    rows = _part(source, seed)
    with teller.hearing():
        settings = {"random_state": seed, "n_jobs": jobs, "verbose": teller.bars}
        found = search(rows, estimator, epsilon=epsilon, **settings)
    teller.title(f"\n{found}\n")
    call = _call(data, method, found.best, given, others, columns, id_, label, obsm, scale)
    teller.row("call", call, call=call, best=found.best, intrinsic=found.intrinsic, coordinates=found.coordinates)
    if picture:
        drawn: Any = plotting.tuning(found).figure
        with replacing(picture) as beside:
            drawn.savefig(beside, format=picture.suffix.removeprefix(".").lower(), dpi=150)
        teller.row("picture", str(picture), picture=str(picture))
    for text in found.notes:
        if text not in teller.notes:
            teller.notes.append(text)  # for the JSON object only: the printed result has them already
    teller.finish()


def _part(source: Any, seed: int) -> Any:
    """Return all rows, or a random sample of ``_TUNED`` if there are more; the search itself uses fewer still."""
    import numpy as np

    if len(source) <= _TUNED:
        return source.array()
    return source.take(np.sort(np.random.default_rng(seed).choice(len(source), _TUNED, replace=False)))


def _call(
    data: str,
    method: str,
    best: dict[str, Any],
    given: dict[str, Any],
    others: tuple[str, ...],
    columns: str | None,
    id_: str | None,
    label: str | None,
    obsm: str | None,
    scale: str,
) -> str:
    """Return the command line that fits with the best parameters."""
    import json
    import shlex

    words = ["outfold", "fit", data, "--method", method]
    for name, value in (("columns", columns), ("id", id_), ("label", label), ("obsm", obsm)):
        words += [f"--{name}", value] if value else []
    words += ["--scale", scale] if scale != "standard" else []
    words += [
        word
        for name in ("neighbors", "landmarks", "seed")
        if given.get(name)
        for word in (f"--{name}", str(given[name]))
    ]
    words += [word for pair in others if pair.partition("=")[0].strip() not in best for word in ("--set", pair)]
    short = {"n_components": "--components", "epsilon": "--epsilon"}
    for name, value in best.items():
        plain = value.tolist() if hasattr(value, "tolist") else value
        text = f"{plain:.6g}" if isinstance(plain, float) else json.dumps(plain)
        words += [short[name], text] if name in short else ["--set", f"{name}={text}"]
    return shlex.join([*words, "--save", "m.outfold"])
