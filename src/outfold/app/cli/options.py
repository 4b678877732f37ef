"""Options that several commands share, and checks of their values before any data is read."""

from __future__ import annotations

import csv
import difflib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

COMMAND_METHODS = {
    "diffusion-maps": "DiffusionMaps",
    "laplacian-eigenmaps": "LaplacianEigenmaps",
    "roseland": "Roseland",
    "kernel-pca": "KernelPCA",
    "classical-mds": "ClassicalMDS",
    "isomap": "Isomap",
    "locally-linear-embedding": "LocallyLinearEmbedding",
    "spectral-clustering": "SpectralClustering",
    "phate": "PHATE",
    "diffusion-net": "DiffusionNet",
    "grae": "GRAE",
}
PICTURES = (".png", ".svg", ".pdf")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".zarr", ".h5ad")
_NAMES = {"components": "n_components", "neighbors": "n_neighbors", "seed": "random_state", "jobs": "n_jobs"}


# -- output paths --------------------------------------------------------------------------


def writable(*suffixes: str, dash: bool = False) -> Callable[[click.Context, click.Parameter, Any], Path | None]:
    """Return a click callback that checks, before any work, that a file can be written at the path."""

    def check(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
        if path is None or (dash and str(path) == "-"):
            return path
        path = path.absolute()
        if suffixes and path.suffix.lower() not in suffixes:
            raise click.BadParameter(f"{path.name} should end in one of {', '.join(suffixes)}.")
        if not path.parent.is_dir():
            raise click.BadParameter(f"the folder {path.parent} does not exist. Make it first or name another.")
        if path.is_dir() and path.suffix != ".zarr":
            raise click.BadParameter(f"{path} is a folder. Name a file in it.")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.BadParameter(f"{path} cannot be written. Check its permissions or name another.")
        return path

    return check


def new_folder(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    """Return the absolute path of a folder; refuse it if no files can be written there."""
    path = path.absolute()
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    if not there.is_dir():
        raise click.BadParameter(f"{there} is a file. Name a folder.")
    if not os.access(there, os.W_OK):
        raise click.BadParameter(f"nothing can be written in {there}. Check its permissions or name another.")
    return path


# -- options -------------------------------------------------------------------------------


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """Return ``click.option(*names, **settings)``; ``type=Path`` gives values of :class:`Path`."""
    if isinstance(settings.get("type"), type) and issubclass(settings["type"], Path):
        settings["type"] = click.Path(path_type=Path)
    return click.option(*names, **settings)


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one decorator that adds several options, in this order."""

    def decorate(command: Any) -> Any:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


speaking = together(
    click.option("--quiet", is_flag=True, help="Print nothing unless something is wrong."),
    click.option("--json", "machine", is_flag=True, help="Print one JSON object instead of lines."),
)
choosing = together(
    click.option("--columns", metavar="A,B,C", help="The columns to use. [default: all that hold numbers]"),
    click.option("--id", "id_", metavar="COLUMN", help="The column that names rows; carried along as it is."),
    click.option("--label", metavar="COLUMN", help="A column to colour by; carried along as it is."),
    click.option("--obsm", metavar="KEY", help="Of an h5ad file: this entry of obsm instead of X."),
)
listening = together(
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="HOST",
        help="The address to listen on; any that other machines reach needs --token.",
    ),
    click.option(
        "--token",
        envvar="OUTFOLD_TOKEN",
        show_envvar=True,
        metavar="TOKEN",
        help="A secret that every request has to carry, as Authorization: Bearer TOKEN.",
    ),
)
scaling = click.option(
    "--scale",
    type=click.Choice(["standard", "robust", "none"]),
    default="standard",
    show_default=True,
    help="Bring columns to one scale; kept in the model.",
)
fitting = together(
    click.option(
        "--method",
        type=click.Choice([*COMMAND_METHODS]),
        default="diffusion-maps",
        show_default=True,
        metavar="NAME",
        help="The method; outfold fit --help lists them.",
    ),
    click.option("--components", metavar="N|auto", help="How many coordinates. [default: 2]"),
    click.option(
        "--epsilon", metavar="NUMBER|RULE", help="Bandwidth of the kernel exp(-d^2 / (2 epsilon)). [default: auto]"
    ),
    click.option("--neighbors", metavar="N|auto|null", help="How many neighbours a row sees. [default: the method's]"),
    click.option(
        "--landmarks",
        metavar="N",
        help="Solve on so many rows (or this part of them) and extend to the rest. [default: all rows; roseland "
        "and phate have their own]",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        default=0,
        show_default=True,
        help="Seed of what is drawn at random.",
    ),
    click.option("--jobs", type=click.IntRange(1), metavar="N", help="How many threads. [default: one for each core]"),
    click.option(
        "--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other parameter of the method; JSON or text."
    ),
)


def split(names: str | None) -> list[str] | None:
    """Return the column names in text such as ``a,b,c``; a name that contains a comma is quoted."""
    if names is None:
        return None
    found = [name.strip() for name in next(csv.reader([names], skipinitialspace=True), []) if name.strip()]
    if not found:
        raise click.UsageError("--columns names no column.")
    return found


# -- the estimator -------------------------------------------------------------------------


def value(text: str) -> Any:
    """Return the value of JSON text (a number, list, true, false or null); other text as it is.

    >>> value("3"), value("0.5"), value("auto"), value("inf"), value("[1, 2]"), value("null")
    (3, 0.5, 'auto', inf, [1, 2], None)
    """
    if text in ("inf", "+inf"):
        return float("inf")
    try:
        return json.loads(text)
    except ValueError:
        return text


def estimator(method: str, others: tuple[str, ...], *, bars: bool, **given: Any) -> Any:
    """Return the estimator of ``method`` with the parameters from options (``given``) and ``--set`` (``others``).

    Unknown parameters and bad values raise here, before any data is read.
    """
    import outfold

    found = getattr(outfold, COMMAND_METHODS[method])()
    known = found.get_params(deep=False)
    wanted: dict[str, Any] = {}
    for name, text in given.items():
        if text is not None and not (name == "seed" and "random_state" not in known):
            wanted[_NAMES.get(name, name)] = (f"--{name}", value(text) if isinstance(text, str) else text)
    for pair in others:
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"--set {pair}: write it as name=value, such as --set alpha=0.5.")
        wanted[name.strip()] = (f"--set {name.strip()}", value(text.strip()))
    for name, (told, _) in wanted.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(known))}."
            raise click.UsageError(f"{told}: {method} has no parameter {name}. {hint}")
    found.set_params(**{name: given for name, (_, given) in wanted.items()})
    if "precomputed" in (known | {name: given for name, (_, given) in wanted.items()}).values():
        raise click.UsageError("Distances or affinities that are given need Python: a table holds features.")
    if "verbose" in known:
        found.set_params(verbose=bars)
    recipe(found)
    return found


def spell_value(words: str) -> str:
    """Return the command-line options for the parameters in an error message; "" if it names none.

    >>> spell_value("n_neighbors=900 is too many. Lower it or pass n_neighbors=None.")
    '(On the command line: --neighbors; None is written null.)'
    """
    flags = {python: f"--{name}" for name, python in _NAMES.items()}
    flags |= {name: f"--{name}" for name in ("epsilon", "landmarks")}
    named = dict.fromkeys(re.findall(r"\b([a-z][a-z_]*)=", words))
    if not named:
        return ""
    null = "; None is written null" if "=None" in words else ""
    return f"(On the command line: {', '.join(flags.get(name, f'--set {name}=VALUE') for name in named)}{null}.)"


def recipe(estimator: Any) -> Any:
    """Return the recipe of a spectral method, None for a network. Bad parameters raise."""
    from ...methods.network_base import NetworkEstimator

    return None if isinstance(estimator, NetworkEstimator) else estimator._recipe()
