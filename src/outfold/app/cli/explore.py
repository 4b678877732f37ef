"""The commands ``explore``, which serves the page of a model, and ``report``, which writes that page to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options
from .console import Console, check_different_files, open_model, size_of
from .options import option

if TYPE_CHECKING:
    from ..page.html import Page


@dataclass(frozen=True)
class PageRows:
    """The rows that a page shows: those of ``data``, else those that the model holds."""

    data: str | None
    label: str | None
    obsm: str | None
    rows: int

    def embed(self, teller: Console, model: Path, command: str, title: str) -> Page:
        """Return the page of the model and the rows, and print what is left out."""
        from ...data import table_files
        from ..page import rows as page_rows
        from ..page.html import Page

        estimator, preparation = open_model(model)
        teller.title(title, command=command, model=str(model))
        if self.data is None:
            if self.label is not None:
                raise click.UsageError("--label names a column of DATA; there is none.")
            with teller.hearing():
                cloud = page_rows.hold_training_rows(estimator, preparation)
        else:
            table = table_files.open_table(self.data, obsm=self.obsm)
            preparation.match(table)
            if self.label is not None:
                table.require([self.label], "to colour by")
            with teller.hearing(), teller.progress("embedding") as watch:
                cloud = page_rows.table(estimator, preparation, table, label=self.label, most=self.rows, watch=watch)
        outside = f", {cloud.outside} outside the data of the fit" if cloud.outside else ""
        teller.row("shown", f"{cloud.rows} rows{outside}", rows=cloud.rows, outside=cloud.outside)
        for text in cloud.notes:
            teller.note(text)
        return Page(model.name, estimator, preparation, cloud)


_data = click.argument("data", required=False)
_showing = options.gather(
    "shown", PageRows,
    option("--label", "A column of DATA to colour by. [default: the fit's, where the table has it]", "COLUMN"),
    options.obsm,
    option("--rows", "Show so many rows at most: of more every second, fourth, ... one.", "N", least=1,
           default=1_000_000),
)  # fmt: skip


@click.command(short_help="Look at a model and a table in a browser.")
@options.model
@_data
@_showing
@options.listening(port=0)
@click.option("--open/--no-open", "show", default=True, show_default=True, help="Open the page in a browser.")
@options.speaking
def explore(model: Path, shown: PageRows, address: options.Address, show: bool, teller: Console) -> None:
    """Serve a page, to this machine only, that shows the rows of DATA where a MODEL puts them.

    Any two or three coordinates, any diffusion time, colours by column, label, density or trust; a CSV dropped on the
    page lands on the embedding. Without DATA the points that the model holds are shown. Ends with Ctrl-C.

    \b
    Example:
      outfold explore wine.outfold wine.csv
    """
    import webbrowser
    from urllib.parse import quote

    from ..page import server as page_server

    page = shown.embed(teller, model, "explore", model.name)

    def ready(url: str) -> None:
        place = f"{url}/?token={quote(address.token, safe='')}" if address.token else f"{url}/"
        if teller.quiet and not teller.machine:
            click.echo(place)
        teller.row("page", place, url=place)
        teller.row("stop", "Ctrl-C")
        teller.finish()
        if show:
            webbrowser.open(place.replace("//0.0.0.0:", "//127.0.0.1:"))

    page_server.serve(page, host=address.host, port=address.port, token=address.token, ready=ready)


@click.command(short_help="The page of a model and a table, as one file.")
@options.model
@_data
@option("--out -o", "Where the page goes (html).", "FILE", callback=options.writable(".html", ".htm"),
        default="report.html")  # fmt: skip
@_showing
@options.speaking
def report(model: Path, out: Path, shown: PageRows, teller: Console) -> None:
    """Write the page of explore as one self-contained HTML file below 20 MB: rows, spectrum, trust and facts.

    \b
    Example:
      outfold report wine.outfold wine.csv -o wine.html
    """
    from ..page import html as page_html

    for read in (str(model), shown.data):
        if read is not None:
            check_different_files(read, out)
    page = shown.embed(teller, model, "report", f"report of {model.name}")
    with teller.hearing():
        notes = page_html.write(out, page)
    for text in notes:
        teller.note(text)
    teller.row("page", f"{out} ({size_of(out)})", out=str(out), bytes=out.stat().st_size)
    teller.finish()
