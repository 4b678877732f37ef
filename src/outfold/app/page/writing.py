"""The page as files: its parts, and all of it with its data in one."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...sinks import replacing
from . import facts, streams
from .gathering import Cloud

LARGEST = 20_000_000  # bytes of a file
SCRIPTS = ("data.js", "drawing.js", "raster.js", "view.js", "panels.js", "labels.js", "pointing.js", "page.js")


@cache
def asset(name: str) -> str:
    """A part of the page; ``page.js`` is all scripts, one after another."""
    folder = files(__package__) / "assets"
    names = SCRIPTS if name == "page.js" else (name,)
    return "\n".join((folder / part).read_text(encoding="utf-8") for part in names)


def told(name: str, estimator: Any, preparation: Any, cloud: Cloud, *, live: dict[str, Any] | None) -> dict[str, Any]:
    """What the page is told before any numbers come."""
    return {
        "model": facts.model(name, estimator, preparation),
        "spectrum": facts.spectrum(estimator, cloud.streams),
        "cloud": cloud.head(),
        "streams": [stream.head() for stream in cloud.streams],
        "live": live,
    }


def write(out: Path, name: str, estimator: Any, preparation: Any, cloud: Cloud) -> list[str]:
    """The page of a model and its rows in one file that needs no other; what was given up to keep it small."""
    style, script = asset("page.css"), asset("page.js")
    document = told(name, estimator, preparation, cloud, live=None)
    around = len(asset("page.html")) + len(style) + len(script) + len(safe_json(document)) + 1000
    kept, letters, notes = streams.fitted(cloud.streams, cloud.rows, LARGEST - 2 * around)
    document["streams"] = [stream.head() for stream in kept]
    document["cloud"]["notes"] = [*cloud.notes, *notes]
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = [f'<script type="application/json" id="facts">{safe_json(document)}</script>']
    data += [f'<script type="text/plain" id="stream-{at}">{text}</script>' for at, text in enumerate(letters)]
    page = asset("page.html")
    for mark, part in (
        ("<!-- policy -->", f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        ("<!-- style -->", f"<style>{style}</style>"),
        ("<!-- script -->", "\n".join([*data, f"<script>{script}</script>"])),
    ):
        page = page.replace(mark, part)
    with replacing(out) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")
    return notes


def served() -> str:
    """The page whose parts come from a server."""
    page = asset("page.html").replace("<!-- policy -->", "")
    page = page.replace("<!-- style -->", '<link rel="stylesheet" href="page.css">')
    return page.replace("<!-- script -->", '<script src="page.js" defer></script>')


def safe_json(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends or opens one.

    >>> safe_json({"name": "</script>"})
    '{"name": "\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
