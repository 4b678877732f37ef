"""The command ``serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .console import Console, open_model
from .options import option


@click.command(short_help="Answer requests over HTTP with a model.")
@click.argument("model", type=click.Path(path_type=Path))
@options.listening
@option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, metavar="N",
        help="The port; 0 takes a free one.")  # fmt: skip
@option("--name", "names", multiple=True, metavar="HOST",
        help="Another name that clients call it by, such as that of a proxy in front. Repeatable.")  # fmt: skip
@option("--max-rows", type=click.IntRange(1), default=10_000, show_default=True, metavar="N",
        help="How many rows a request may have.")  # fmt: skip
@option("--max-bytes", type=click.IntRange(1), default=1 << 25, show_default=True, metavar="N",
        help="How many bytes a request may have.")  # fmt: skip
@option(
    "--workers", type=click.IntRange(1), metavar="N", help="Requests worked on at a time. [default: one for each core]"
)
@option("--quiet", is_flag=True, help="Print the address and nothing else.")
def serve(
    model: Path,
    host: str,
    port: int,
    token: str | None,
    names: tuple[str, ...],
    max_rows: int,
    max_bytes: int,
    workers: int | None,
    quiet: bool,
) -> None:
    """Answer requests over HTTP with a MODEL that fit made: transform, inverse and trust, as JSON, npy or Arrow.

    It listens to this machine only, unless told otherwise. SIGTERM and Ctrl-C stop it once requests under way are
    answered. GET /openapi.json tells all that can be asked.

    \b
    Example:
      outfold serve wine.outfold
      curl -H 'Content-Type: application/json' \\
        -d '{"rows": [[12.1, 1.9, 3.2]]}' http://127.0.0.1:8765/v1/transform
    """
    from ..._runtime import extras
    from ...data import tables

    extras.extra("uvicorn", "app")
    extras.extra("starlette", "app")
    from ..service import policy, server, service

    policy.check_token(host, token or None)  # before the model is read
    teller = Console(quiet=quiet)
    estimator, preparation = open_model(model)
    teller.title(f"{model.name}: {type(estimator).__name__}")
    teller.row("columns", f"{len(preparation.columns)}: {tables.join_names(preparation.columns, 8)}")
    teller.row("scaling", preparation.describe())
    served = service.Service(estimator, preparation, most_rows=max_rows, workers=workers)
    limits = policy.Limits(body_bytes=max_bytes, held_bytes=max(1 << 28, 4 * max_bytes))
    app = service.application(served, host=host, port=port, token=token or None, limits=limits, names=names)
    teller.row("takes", f"{max_rows} rows and {max_bytes} bytes at a time, {served.workers} requests at once")
    teller.row("inverse", served.learn_back_if_quick())

    def ready(url: str) -> Any:
        click.echo(url if quiet else f"  {'address':<9} {url}")

    try:
        server.run(app, host, port, ready=ready)
    finally:
        served.close()
    teller.row("stopped", "as told")
