"""The commands ``explore``, which serves the page of a model, and ``report``, which writes that page to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .console import Console, check_different_files, open_model, size_of
from .options import option

_rows = click.option(
    "--rows",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Show so many rows at most: of more every second, fourth, ... one.",
)
_label = click.option(
    "--label", metavar="COLUMN", help="A column of DATA to colour by. [default: the fit's, where the table has it]"
)
_obsm = click.option("--obsm", metavar="KEY", help="Of an h5ad file: this entry of obsm instead of X.")


@click.command(short_help="Look at a model and a table in a browser.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", required=False)
@_label
@_obsm
@_rows
@options.listening
@option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, metavar="N",
        help="The port; 0 takes a free one.")  # fmt: skip
@option("--open/--no-open", "show", default=True, show_default=True, help="Open the page in a browser.")
@options.speaking
def explore(
    model: Path,
    data: str | None,
    label: str | None,
    obsm: str | None,
    rows: int,
    host: str,
    port: int,
    token: str | None,
    show: bool,
    quiet: bool,
    machine: bool,
) -> None:
    """Serve a page, to this machine only, that shows the rows of DATA where a MODEL puts them.

    Any two or three coordinates, any diffusion time, colours by column, label, density or trust; a CSV dropped on the
    page lands on the embedding. Without DATA the points that the model holds are shown. Ends with Ctrl-C.

    \b
    Example:
      outfold explore wine.outfold wine.csv
    """
    import webbrowser
    from urllib.parse import quote

    from ..._runtime import extras

    for needed in ("starlette", "uvicorn"):
        extras.extra(needed, "app")
    from ..page import server as page_server
    from ..service import policy

    teller = Console(quiet=quiet, machine=machine)
    token = token or None
    policy.check_token(host, token)  # before the model is read
    estimator, preparation = open_model(model)
    teller.title(f"{model.name}", command="explore", model=str(model))
    cloud = _cloud(teller, estimator, preparation, data, label, obsm, rows)

    def ready(url: str) -> None:
        shown = f"{url}/?token={quote(token, safe='')}" if token else f"{url}/"
        if quiet and not machine:
            click.echo(shown)
        teller.row("page", shown, url=shown)
        teller.row("stop", "Ctrl-C")
        teller.finish()
        if show:
            webbrowser.open(shown.replace("//0.0.0.0:", "//127.0.0.1:"))

    page_server.serve(model.name, estimator, preparation, cloud, host=host, port=port, token=token, ready=ready)


@click.command(short_help="The page of a model and a table, as one file.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", required=False)
@option("--out", "-o", type=Path, default="report.html", show_default=True, callback=options.writable(".html", ".htm"),
        metavar="FILE", help="Where the page goes (html).")  # fmt: skip
@_label
@_obsm
@_rows
@options.speaking
def report(
    model: Path,
    data: str | None,
    out: Path,
    label: str | None,
    obsm: str | None,
    rows: int,
    quiet: bool,
    machine: bool,
) -> None:
    """Write the page of explore as one self-contained HTML file below 20 MB: rows, spectrum, trust and facts.

    \b
    Example:
      outfold report wine.outfold wine.csv -o wine.html
    """
    from ..page import html as page_html

    teller = Console(quiet=quiet, machine=machine)
    check_different_files(str(model), out)
    if data is not None:
        check_different_files(data, out)
    estimator, preparation = open_model(model)
    teller.title(f"report of {model.name}", command="report", model=str(model))
    cloud = _cloud(teller, estimator, preparation, data, label, obsm, rows)
    with teller.hearing():
        notes = page_html.write(out, model.name, estimator, preparation, cloud)
    for text in notes:
        teller.note(text)
    teller.row("page", f"{out} ({size_of(out)})", out=str(out), bytes=out.stat().st_size)
    teller.finish()


def _cloud(
    teller: Console, estimator: Any, preparation: Any, data: str | None, label: str | None, obsm: str | None, rows: int
) -> Any:
    """Return the rows to show (those of ``data``, else those of the model), and print what is left out."""
    from ...data import table_files
    from ..page import rows as page_rows

    if data is None:
        if label is not None:
            raise click.UsageError("--label names a column of DATA; there is none.")
        with teller.hearing():
            cloud = page_rows.hold_training_rows(estimator, preparation)
    else:
        table = table_files.open_table(data, obsm=obsm)
        preparation.match(table)
        if label is not None:
            table.require([label], "to colour by")
        with teller.hearing(), teller.progress("embedding") as watch:
            cloud = page_rows.table(estimator, preparation, table, label=label, most=rows, watch=watch)
    outside = f", {cloud.outside} outside the data of the fit" if cloud.outside else ""
    teller.row("shown", f"{cloud.rows} rows{outside}", rows=cloud.rows, outside=cloud.outside)
    for text in cloud.notes:
        teller.note(text)
    return cloud
