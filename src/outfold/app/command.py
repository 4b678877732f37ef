"""The command ``outfold``. Exit codes: 0 done, 1 failed, 2 bad call or bad input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from .._version import __version__

_PICTURES = (".png", ".svg", ".pdf")


class _Polite(click.Group):
    """A group whose commands fail with a sentence; ``--debug`` brings the traceback back."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click knows these
        except Exception as error:
            if ctx.params["debug"]:
                raise
            told = str(error) or "no reason was given"
            raise click.ClickException(f"{type(error).__name__}: {told}\n(outfold --debug shows where.)") from error


@click.group(cls=_Polite, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="outfold")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
def main(debug: bool) -> None:
    """Spectral manifold learning whose embeddings are functions: fit once, embed any new point."""


def _picture_path(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    """The absolute path, once it is clear that a picture can be written there."""
    path = path.absolute()
    if path.suffix.lower() not in _PICTURES:
        raise click.BadParameter(f"{path.name} should end in one of {', '.join(_PICTURES)}.")
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist. Make it first or name another.")
    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder. Name a file in it.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.BadParameter(f"{path} cannot be written. Check its permissions or name another.")
    return path


@main.command(short_help="Embed digits the fit has not seen, and draw them.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="outfold-demo.png",
    show_default=True,
    callback=_picture_path,
    help="Where to write the picture (png, svg or pdf).",
)
@click.option("--quiet", is_flag=True, help="Print nothing unless something is wrong.")
def demo(out: Path, quiet: bool) -> None:
    """Embed handwritten digits, then digits the fit has not seen, and draw both."""
    from . import demo as show

    result = show.run()
    if not quiet:
        click.echo(show.summary(result))
    try:
        show.draw(result, out)
    except ImportError as error:
        click.echo(show.row("picture", str(error)), err=quiet)
        return
    if not quiet:
        click.echo(show.row("picture", str(out)))
