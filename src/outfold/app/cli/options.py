"""Options that several commands share, as values, and checks of these values before any data is read."""

from __future__ import annotations

import csv
import difflib
import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from .console import Console, tell_columns

if TYPE_CHECKING:
    from ...data.columns import Prepared
    from ...data.tables import Table
    from ...engine.fit import Recipe
    from ...methods.base import SpectralEstimator

_METHOD_CLASSES = (
    *("DiffusionMaps", "LaplacianEigenmaps", "Roseland", "KernelPCA", "ClassicalMDS", "Isomap"),
    *("LocallyLinearEmbedding", "SpectralClustering", "PHATE", "DiffusionNet", "GRAE"),
)
COMMAND_METHODS = {re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower(): name for name in _METHOD_CLASSES}
PICTURES = (".png", ".svg", ".pdf")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".npy", ".zarr", ".h5ad")
_PARAMETERS = {  # the parameter of the estimator that an option sets
    "components": "n_components",
    "kernel": "kernel",
    "epsilon": "epsilon",
    "neighbors": "n_neighbors",
    "landmarks": "landmarks",
    "seed": "random_state",
    "jobs": "n_jobs",
}

PathCheck: TypeAlias = Callable[[click.Context, click.Parameter, Path | None], Path | None]
Function: TypeAlias = Callable[..., object]
Decorator: TypeAlias = Callable[[Function], Function]


# -- output paths --------------------------------------------------------------------------


def writable(*suffixes: str, dash: bool = False) -> PathCheck:
    """Return a click callback that checks, before any work, that a file can be written at the path."""

    def check(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
        if path is None or (dash and str(path) == "-"):
            return path
        path = path.absolute()
        if suffixes and path.suffix.lower() not in suffixes:
            raise click.BadParameter(f"{path.name} should end in one of {', '.join(suffixes)}.")
        there = Path(os.path.realpath(path))  # a link is not replaced, but the file it leads to
        if there.is_symlink():
            raise click.BadParameter(f"{path} is a link that leads back to itself. Name a file.")
        if not there.parent.is_dir():
            raise click.BadParameter(f"the folder {there.parent} does not exist. Make it first or name another.")
        if there.is_dir() and path.suffix != ".zarr":
            raise click.BadParameter(f"{path} is a folder. Name a file in it.")
        if there.exists() and not there.is_file() and not there.is_dir():
            raise click.BadParameter(f"{path} is a device or a pipe. Name a file.")
        if not all(os.access(part, os.W_OK) for part in (there, there.parent) if part.exists()):
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


# -- options as values ---------------------------------------------------------------------


def option(names: str, help_: str, metavar: str | None = None, **settings: Any) -> Decorator:
    """Return ``click.option`` of names such as "--out -o", whose default is shown.

    With ``least`` (and ``most``) the value is a whole number, with ``callback`` a path.
    """
    if "least" in settings:
        settings["type"] = click.IntRange(settings.pop("least"), settings.pop("most", None))
    elif "callback" in settings:
        settings["type"] = click.Path(path_type=Path)
    return click.option(*names.split(), help=help_, metavar=metavar, show_default="default" in settings, **settings)


def gather(name: str, make: Callable[..., object], *parts: Decorator) -> Decorator:
    """Return a decorator that adds options, and passes their values to the command as one: ``name=make(**values)``."""

    def decorate(command: Function) -> Function:
        @functools.wraps(command)
        def run(**given: Any) -> object:
            values = {part: given.pop(part) for part in inspect.signature(make).parameters}
            return command(**given, **{name: make(**values)})

        decorated: Function = run
        for part in reversed(parts):
            decorated = part(decorated)
        return decorated

    return decorate


def flag(names: str, help_: str) -> Decorator:
    """Return an option without a value."""
    return click.option(*names.split(), is_flag=True, help=help_)


def picture(told: str = "Where a picture goes (png, svg or pdf).") -> Decorator:
    """Return the option ``--picture``."""
    return option("--picture", told, "FILE", callback=writable(*PICTURES))


@dataclass(frozen=True)
class TableOptions:
    """Which columns of a table are used, and how."""

    columns: str | None
    id_: str | None
    label: str | None
    obsm: str | None

    def open(self, data: str) -> Table:
        from ...data import table_files

        return table_files.open_table(data, obsm=self.obsm)

    def names(self) -> list[str] | None:
        """Return the names in ``columns``, text such as ``a,b,c``; a name that contains a comma is quoted."""
        if self.columns is None:
            return None
        found = [name.strip() for name in next(csv.reader([self.columns], skipinitialspace=True), []) if name.strip()]
        if not found:
            raise click.UsageError("--columns names no column.")
        return found

    def prepare(self, teller: Console, table: Table, scale: str) -> Prepared:
        """Return the features of a table, and print which rows and columns are used and which are left out."""
        from ...data import tables
        from ...data.columns import Prepared, prepare

        names = self.names()
        if table.named is False:
            shown = tables.join_names(table.numeric, 3)
            teller.row("header", f"{table.told} names no columns: they are {shown}", named=False)
        with teller.progress("reading") as watch:
            found, missing = prepare(table, columns=names, id=self.id_, label=self.label, scaling=scale, watch=watch)
        kept, used = missing.rows - missing.left_out, tables.join_names(found.columns, 8)
        teller.row("rows", f"{kept} of {missing.rows} used" if missing.left_out else f"{kept}", rows=kept)
        if missing.left_out:
            teller.row("left out", missing.describe(table), rows_left_out=missing.left_out)
        teller.row("columns", f"{len(found.columns)} used: {used}", columns=list(found.columns))
        tell_columns(teller, found)
        scaled = f"{found.scaling}: " if scale != "none" else ""
        scales = f"; these were {told}" if (told := found.describe_scales()) else ""
        teller.row("scaling", f"{scaled}{found.describe()}{scales}", scaling=scale)
        if table.sparse and scale != "none":
            size = f"{8e-6 * kept * len(found.columns):,.3g} MB"
            teller.note(f"{table.told} is sparse, and centred columns are not ({size}): --scale none keeps it sparse.")
        if missing.rising and table.named:
            name = missing.rising[0]
            teller.note(
                f"{name!r} grows from row to row. If it names or numbers rows, pass --id {name}: it is no measurement."
            )
        lost = [(n, c) for n, c in zip(missing.features, missing.lacking) if c > 0.2 * missing.rows]
        if lost:
            name, count = max(lost, key=lambda pair: pair[1])
            teller.note(f"{name!r} lacks {count} of {missing.rows} values: --columns without it keeps more rows.")
        for name, cell, row in table.find_spoiled():
            if name in found.text:
                where = f"{table.unit} {table.places([row])[0]}"
                teller.note(
                    f"{name!r} holds numbers, but {cell!r} in {where}: mend such cells, or empty them, to use it."
                )
        return Prepared(table, found, kept)


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """A method, and values for its parameters: those of ``_PARAMETERS``, and ``others``, from ``--set``."""

    method: str
    components: str | None
    kernel: str | None
    epsilon: str | None
    neighbors: str | None
    landmarks: str | None
    seed: int
    jobs: int | None
    others: tuple[str, ...]

    def build(self, *, bars: bool) -> tuple[SpectralEstimator, Recipe | None]:
        """Return the estimator, and its recipe; None for a network, which has none.

        Unknown parameters and bad values raise here, before any data is read.
        """
        import outfold

        from ...methods.network_base import NetworkEstimator

        kind = getattr(outfold, COMMAND_METHODS[self.method])
        known = inspect.signature(kind).parameters
        asked = self._parameters(known)
        for name, (told, _) in asked.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
                hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(known))}."
                raise click.UsageError(f"{told}: {self.method} has no parameter {name}. {hint}")
        values = {name: wanted for name, (_, wanted) in asked.items()}
        if "precomputed" in ({name: each.default for name, each in known.items()} | values).values():
            raise click.UsageError("Distances or affinities that are given need Python: a table holds features.")
        estimator: SpectralEstimator = kind(**values | {"verbose": bars})
        return estimator, None if isinstance(estimator, NetworkEstimator) else estimator._recipe()

    def _parameters(self, known: Collection[str]) -> dict[str, tuple[str, Any]]:
        """Return, for each parameter that an option sets, the option and the value."""
        wanted: dict[str, tuple[str, Any]] = {}
        for name, parameter in _PARAMETERS.items():
            text = getattr(self, name)
            if text is not None and not (name == "seed" and parameter not in known):
                wanted[parameter] = (f"--{name}", value(text) if isinstance(text, str) else text)
        for pair in self.others:
            name, equals, text = pair.partition("=")
            if not equals or not name.strip():
                raise click.UsageError(f"--set {pair}: write it as name=value, such as --set alpha=0.5.")
            wanted[name.strip()] = (f"--set {name.strip()}", value(text.strip()))
        return wanted


@dataclass(frozen=True)
class Address:
    """Where a server listens, and the secret that it asks for."""

    host: str
    token: str | None
    port: int

    def __post_init__(self) -> None:
        """Refuse, before the model is read, what is not installed and an address that needs a token."""
        from ..._runtime import extras

        for needed in ("uvicorn", "starlette"):
            extras.extra(needed, "app")
        from ..service import policy

        object.__setattr__(self, "token", policy.check_token(self.host, self.token or None))


# -- groups of options ---------------------------------------------------------------------

obsm = option("--obsm", "Of an h5ad file: this entry of obsm instead of X.", "KEY")
quiet = flag("--quiet", "Print nothing unless something is wrong.")
seed = option("--seed", "Seed of what is drawn at random.", "N", least=0, default=0)
model = click.argument("model", type=click.Path(path_type=Path))
scaling = option(
    "--scale", "Bring columns to one scale; kept in the model.", type=click.Choice(["standard", "robust", "none"]),
    default="standard",
)  # fmt: skip
table_out = option(
    "--out -o", "Where the table goes: csv, tsv, parquet, npy, zarr, h5ad, or - for CSV on standard output.", "FILE",
    callback=writable(*TABLE_SUFFIXES, dash=True), required=True,
)  # fmt: skip
carried_id, carried_label = (
    option(names, "A column carried along. [default: that of the fit, if it is there]", "COLUMN")
    for names in ("--id id_", "--label")
)
speaking = gather("teller", Console, quiet, flag("--json machine", "Print one JSON object instead of lines."))
choosing = gather(
    "chosen", TableOptions,
    option("--columns", "The columns to use. [default: all that hold numbers]", "A,B,C"),
    option("--id id_", "The column that names rows; carried along as it is.", "COLUMN"),
    option("--label", "A column to colour by; carried along as it is.", "COLUMN"),
    obsm,
)  # fmt: skip
fitting = gather(
    "fitting", FitOptions,
    option("--method", "The method; outfold fit --help lists them.", "NAME", type=click.Choice([*COMMAND_METHODS]),
           default="diffusion-maps"),
    option("--components", "How many coordinates. [default: 2]", "N|auto"),
    option("--kernel", "The kernel: adaptive, variable or gaussian for diffusion-maps. [default: adaptive, or gaussian "
           "if --epsilon is given]", "NAME"),
    option("--epsilon", "Bandwidth of the Gaussian kernel exp(-d^2 / (2 epsilon)). [default: auto]", "NUMBER|RULE"),
    option("--neighbors", "How many neighbours a row sees. [default: the method's]", "N|auto|null"),
    option("--landmarks", "Solve on so many rows (or this part of them) and extend to the rest. [default: all rows; "
           "roseland and phate have their own]", "N"),
    seed,
    option("--jobs", "How many threads. [default: one for each core]", "N", least=1),
    option("--set others", "Any other parameter of the method; JSON or text.", "NAME=VALUE", multiple=True),
)  # fmt: skip


def listening(port: int) -> Decorator:
    """Return the options of a server that listens on ``port`` by default."""
    return gather(
        "address", Address,
        option("--host", "The address to listen on; any that other machines reach needs --token.", "HOST",
               default="127.0.0.1"),
        option("--token", "A secret that every request has to carry, as Authorization: Bearer TOKEN.", "TOKEN",
               envvar="OUTFOLD_TOKEN", show_envvar=True),
        option("--port", "The port; 0 takes a free one.", "N", least=0, most=65535, default=port),
    )  # fmt: skip


# -- values of parameters ------------------------------------------------------------------


def value(text: str) -> object:
    """Return the value of JSON text (a number, list, true, false or null); other text as it is.

    >>> value("3"), value("0.5"), value("auto"), value("inf"), value("[1, 2]"), value("null")
    (3, 0.5, 'auto', inf, [1, 2], None)
    """
    if text in ("inf", "+inf"):
        return float("inf")
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found


def spell_value(words: str) -> str:
    """Return the command-line options for the parameters in an error message; "" if it names none.

    >>> spell_value("n_neighbors=900 is too many. Lower it or pass n_neighbors=None.")
    '(On the command line: --neighbors; None is written null.)'
    """
    flags = {parameter: f"--{name}" for name, parameter in _PARAMETERS.items()}
    named = dict.fromkeys(re.findall(r"\b([a-z][a-z_]*)=", words))
    if not named:
        return ""
    null = "; None is written null" if "=None" in words else ""
    return f"(On the command line: {', '.join(flags.get(name, f'--set {name}=VALUE') for name in named)}{null}.)"
