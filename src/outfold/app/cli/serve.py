"""The command ``serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import options
from .console import Console, line, open_model
from .options import option


@click.command(short_help="Answer requests over HTTP with a model.")
@options.model
@options.listening(port=8765)
@option("--name names", "Another name that clients call it by, such as that of a proxy in front. Repeatable.", "HOST",
        multiple=True)  # fmt: skip
@option(
    "--client-header",
    "The header in which a proxy names the client, such as X-Forwarded-For; its last entry counts. "
    "[default: the address that connects]",
    "HEADER",
)
@option(
    "--wait",
    "How many seconds a request waits until work on it begins; then it is refused.",
    "SECONDS",
    least=1,
    default=30,
)
@option("--max-rows", "How many rows a request may have.", "N", least=1, default=10_000)
@option("--max-bytes", "How many bytes a request may have.", "N", least=1, default=1 << 25)
@option("--workers", "Threads that work on requests. [default: one for each core]", "N", least=1)
@options.flag("--quiet", "Print the address and nothing else.")
def serve(
    model: Path,
    address: options.Address,
    names: tuple[str, ...],
    client_header: str | None,
    wait: int,
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
    from ...data import tables
    from ..service import policy, server, service

    teller = Console(quiet)
    estimator, preparation = open_model(model)
    teller.title(f"{model.name}: {type(estimator).__name__}")
    teller.row("columns", f"{len(preparation.columns)}: {tables.join_names(preparation.columns, 8)}")
    teller.row("scaling", preparation.describe())
    served = service.Service(estimator, preparation, most_rows=max_rows, workers=workers)
    own = max(1 << 28, 4 * max_bytes)
    limits = policy.Limits(body_bytes=max_bytes, client_bytes=own, held_bytes=2 * own, wait_seconds=wait)
    host, port = address.host, address.port
    access: Any = {"host": host, "port": port, "token": address.token, "names": names, "client_header": client_header}
    app = service.application(served, limits=limits, **access)
    teller.row("takes", f"{max_rows} rows and {max_bytes} bytes at a time, {served.workers} threads")
    teller.row("inverse", served.learn_back_if_quick())
    try:
        server.run(app, host, port, ready=lambda url: click.echo(url if quiet else line("address", url)))
    finally:
        served.close()
    teller.row("stopped", "as told")
