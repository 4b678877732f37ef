"""What the commands share: opening a model, preparing a table and telling what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .telling import Teller


def not_the_same(data: str, *places: Path | None) -> None:
    """Refuse to write over what is read, or twice to one place."""
    given = [path.resolve() for path in places if path is not None and str(path) != "-"]
    if len(set(given)) != len(given) or (data != "-" and Path(data).resolve() in given):
        raise click.UsageError("What is read and what is written must be different files.")


def opened(model: Path) -> tuple[Any, Any]:
    """Estimator and preparation; a model that was saved from Python takes columns as they are."""
    from .. import storage
    from ..exceptions import ModelFileError
    from ..preparation import Preparation

    if not model.exists():
        raise click.UsageError(f"There is no model {model}. Make one: outfold fit DATA --save {model.name}")
    estimator, preparation = storage.open_model(model)
    if preparation is None:
        names = tuple(map(str, getattr(estimator, "feature_names_in_", ())))
        count = estimator.n_features_in_
        columns = names or tuple(f"column_{at}" for at in range(1, count + 1))
        preparation = Preparation(columns, named=bool(names), width=count)
    if not isinstance(preparation, Preparation) or len(preparation.columns) != estimator.n_features_in_:
        raise ModelFileError(f"{model.name} holds a model and columns that do not belong together.")
    return estimator, preparation


def drawable(estimator: Any) -> None:
    """Refuse before any work what cannot be drawn."""
    from .. import plotting

    if getattr(estimator, "n_components", 2) == 1:
        raise click.UsageError("A picture needs at least 2 coordinates: --components 2.")
    plotting.panels(1)  # says what to install


def prepared(
    teller: Teller, table: Any, columns: list[str] | None, id_: str | None, label: str | None, scale: str
) -> Any:
    """The features of a table, with what was left out told."""
    from .. import tables
    from ..preparation import Prepared, prepare

    if table.named is False:
        teller.row("header", f"{table.told} names no columns: they are {tables.listed(table.numeric, 3)}", named=False)
    with teller.progress("reading") as watch:
        found, missing = prepare(table, columns=columns, id=id_, label=label, scaling=scale, watch=watch)
    kept = missing.rows - missing.left_out
    teller.row("rows", f"{kept} of {missing.rows} used" if missing.left_out else f"{kept}", rows=kept)
    if missing.left_out:
        teller.row("left out", f"{missing.told(table)}", rows_left_out=missing.left_out)
    teller.row("columns", f"{len(found.columns)} used: {tables.listed(found.columns, 8)}", columns=list(found.columns))
    tell_columns(teller, found)
    teller.row("scaling", f"{found.scaling}: {found.told()}" if scale != "none" else found.told(), scaling=scale)
    if missing.rising and table.named:
        name = missing.rising[0]
        teller.note(
            f"{name!r} grows from row to row. If it names or numbers rows, pass --id {name}: it is no measurement."
        )
    lost = [(n, c) for n, c in zip(missing.features, missing.lacking) if c > 0.2 * missing.rows]
    if lost:
        name, count = max(lost, key=lambda pair: pair[1])
        teller.note(f"{name!r} lacks {count} of {missing.rows} values: --columns without it keeps more rows.")
    for name, cell, row in table.spoiled():
        if name in found.text:
            where = f"{table.unit} {table.places([row])[0]}"
            teller.note(f"{name!r} holds numbers, but {cell!r} in {where}: mend such cells, or empty them, to use it.")
    return Prepared(table, found, kept)


def tell_columns(teller: Teller, preparation: Any) -> None:
    """Which columns were left out, and why."""
    from .. import tables

    for name, why, gone in preparation.left_out():
        teller.row("left out", f"{why}: {tables.listed(gone, 8)}", **{f"columns_{name}": list(gone)})


def tell_spectrum(teller: Teller, estimator: Any) -> None:
    """Bandwidth and eigenvalues, of a method that has them."""
    epsilon, values = (getattr(estimator, name, None) for name in ("epsilon_", "eigenvalues_"))
    if epsilon is not None and epsilon == epsilon:
        teller.row("epsilon", f"{epsilon:.4g}", epsilon=float(epsilon))
    if values is not None:
        shown = "  ".join(f"{value:.4g}" for value in values[:8])
        teller.row("spectrum", shown + (" ..." if len(values) > 8 else ""), eigenvalues=values)


def size_of(path: Path) -> str:
    """The size of a file, in words."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"
