"""The commands ``info``, ``plan`` and ``tune``."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .console import Console, check_different_files, open_model, size_of, tell_columns, tell_spectrum
from .options import option

if TYPE_CHECKING:
    from ...methods.base import SpectralEstimator

_TUNED = 20_000  # rows that `tune` loads, at most


@click.command(short_help="What a model is: method, columns, scaling, spectrum.")
@options.model
@options.speaking
def info(model: Path, teller: Console) -> None:
    """Tell what a MODEL is: method and parameters, columns and scaling, spectrum, size. The whole file is checked.

    \b
    Example:
      outfold info wine.outfold
    """
    from ... import storage
    from ...data import tables

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


def _list_changes(estimator: SpectralEstimator) -> dict[str, object]:
    """Return the parameters that differ from their defaults."""
    default = type(estimator)().get_params(deep=False)
    found = estimator.get_params(deep=False)
    changed = {name: value for name, value in found.items() if repr(value) != repr(default[name])}
    return {name: value for name, value in changed.items() if name not in ("verbose", "n_jobs")}


@click.command(short_help="What a fit would take, before it takes it.")
@click.argument("data")
@options.fitting
@options.choosing
@option("--workers", "On so many workers of a Dask cluster instead.", "N", least=1)
@options.flag("--measure", "With --workers: measure seconds a row here first, which takes some.")
@options.speaking
def plan(
    data: str,
    fitting: options.FitOptions,
    chosen: options.TableOptions,
    workers: int | None,
    measure: bool,
    teller: Console,
) -> None:
    """Tell bytes and seconds of each stage of a fit of DATA, which may be a size such as 4000000x3.

    Not for diffusion-net and grae, whose time training decides.

    \b
    Example:
      outfold plan 4000000x3 --method roseland --landmarks 8000
    """
    from ...engine import plan as planning

    estimator, recipe = fitting.build(bars=False)
    if recipe is None:
        raise click.UsageError(
            f"There is no plan for {fitting.method}: how long a network trains is found out by training."
        )
    names, size = chosen.names(), re.fullmatch(r"([0-9_]+)[x,]([0-9_]+)", data)
    shape = (int(size[1]), int(size[2])) if size else _shape(data, chosen, names)
    if measure and workers is None:
        raise click.UsageError("--measure is for --workers: seconds here are those of a typical core.")
    found = planning.plan(shape, estimator, workers=workers, measured=measure)
    facts = {"command": "plan", "method": fitting.method, "shape": shape, "anchors": found.anchors}
    teller.title(str(found), **facts, edges=found.edges)
    stages = [{"name": s.name, "bytes": s.bytes, "seconds": s.seconds, "moved": s.moved} for s in found.stages]
    teller.facts |= {"stages": stages, "peak": found.peak, "seconds": found.seconds, "fits": found.fits}
    teller.facts["memory"] = found.memory
    teller.finish()


def _shape(data: str, chosen: options.TableOptions, names: list[str] | None) -> tuple[int, int]:
    from ...data.columns import prepare

    if data != "-" and not Path(data).exists():
        raise click.UsageError(f"{data} is neither a table that is there nor a size such as 4000000x3.")
    found, missing = prepare(chosen.open(data), columns=names, id=chosen.id_, label=chosen.label)
    return missing.rows - missing.left_out, len(found.columns)


@click.command(short_help="Choose time and coordinates for a table, and epsilon of a Gaussian.")
@click.argument("data")
@options.fitting
@options.choosing
@options.scaling
@options.picture("Where a picture of the search goes (png, svg or pdf).")
@options.speaking
def tune(
    data: str,
    fitting: options.FitOptions,
    chosen: options.TableOptions,
    scale: str,
    picture: Path | None,
    teller: Console,
) -> None:
    """Choose parameters for a fit of DATA by held-out error, stability and bias, and print the call.

    \b
    Example:
      outfold tune wine.csv --id bottle --label quality --picture tuning.png
    """
    import numpy as np

    from ... import plotting
    from ...selection import tune as search
    from .stream import save_picture

    check_different_files(data, picture)
    estimator, _ = replace(fitting, epsilon=None).build(bars=teller.bars)
    if picture:
        plotting.panels(1)
    table = chosen.open(data)
    teller.title(f"{fitting.method} of {table.told}", command="tune", method=fitting.method, data=data)
    source = chosen.prepare(teller, table, scale)
    if len(source) <= _TUNED:
        rows = source.array()
    else:  # a random sample; the search itself uses fewer rows still
        rows = source.take(np.sort(np.random.default_rng(fitting.seed).choice(len(source), _TUNED, replace=False)))
    epsilon: Any = options.value(fitting.epsilon or "auto")  # a number or a rule; `tune` checks it
    seed, jobs = fitting.seed, fitting.jobs
    with teller.hearing():
        found = search(rows, estimator, epsilon=epsilon, random_state=seed, n_jobs=jobs, verbose=teller.bars)
    teller.title(f"\n{found}\n")
    call = _call(data, fitting, chosen, scale, found.best)
    teller.row("call", call, call=call, best=found.best, intrinsic=found.intrinsic, coordinates=found.coordinates)
    if picture:
        drawn: Any = plotting.tuning(found).figure
        save_picture(drawn.savefig, picture)
        teller.row("picture", str(picture), picture=str(picture))
    # for the JSON object only: the printed result has these notes already
    teller.notes += [text for text in found.notes if text not in teller.notes]
    teller.finish()


def _call(
    data: str, fitting: options.FitOptions, chosen: options.TableOptions, scale: str, best: dict[str, Any]
) -> str:
    """Return the command line that fits with the best parameters."""
    flags = {"columns": chosen.columns, "id": chosen.id_, "label": chosen.label, "obsm": chosen.obsm}
    flags |= {"scale": scale if scale != "standard" else None, "neighbors": fitting.neighbors, "kernel": fitting.kernel}
    flags |= {"landmarks": fitting.landmarks, "seed": str(fitting.seed) if fitting.seed else None}
    words = ["outfold", "fit", data, "--method", fitting.method]
    words += [word for name, text in flags.items() if text for word in (f"--{name}", text)]
    words += [word for pair in fitting.others if pair.partition("=")[0].strip() not in best for word in ("--set", pair)]
    short = {"n_components": "--components", "epsilon": "--epsilon"}
    for name, value in best.items():
        plain = value.tolist() if hasattr(value, "tolist") else value
        text = f"{plain:.6g}" if isinstance(plain, float) else json.dumps(plain)
        words += [short[name], text] if name in short else ["--set", f"{name}={text}"]
    return shlex.join([*words, "--save", "m.outfold"])
