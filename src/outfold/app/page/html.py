"""The files of the page: its parts for a server, or one HTML file with all parts and data."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...data.columns import Preparation
from ...data.writers import replacing
from ...methods.base import SpectralEstimator
from . import columns as page_columns
from . import model_facts
from .rows import PagePoints

FILE_BYTES_UP_TO = 20_000_000  # bytes of the HTML file
SCRIPTS = ("data.js", "drawing.js", "raster.js", "view.js", "panels.js", "labels.js", "pointing.js", "page.js")


@cache
def asset(name: str) -> str:
    """Return the text of a part of the page; ``page.js`` is all ``SCRIPTS``, concatenated."""
    folder = files(__package__) / "assets"
    names = SCRIPTS if name == "page.js" else (name,)
    return "\n".join((folder / part).read_text(encoding="utf-8") for part in names)


@dataclass(frozen=True)
class Page:
    """A model, the columns it was fitted with, and the rows to show."""

    name: str
    estimator: SpectralEstimator
    preparation: Preparation
    cloud: PagePoints

    def describe(self, *, live: dict[str, int] | None) -> dict[str, Any]:
        """Return the description that the page reads before the columns: model, spectrum, rows and column types."""
        return {
            "model": model_facts.model(self.name, self.estimator, self.preparation),
            "spectrum": model_facts.describe_spectrum(self.estimator, self.cloud.streams),
            "cloud": self.cloud.head(),
            "streams": [stream.head() for stream in self.cloud.streams],
            "live": live,
        }


def write(out: Path, page: Page) -> list[str]:
    """Write the page and its data to one self-contained file; return notes on what was left out to limit its size."""
    style, script, cloud, document = asset("page.css"), asset("page.js"), page.cloud, page.describe(live=None)
    around = len(asset("page.html")) + len(style) + len(script) + len(safe_json(document)) + 1000
    kept, letters, notes = page_columns.fit_ends(cloud.streams, cloud.rows, FILE_BYTES_UP_TO - 2 * around)
    document["streams"] = [stream.head() for stream in kept]
    document["cloud"]["notes"] = [*cloud.notes, *notes]
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = [f'<script type="application/json" id="facts">{safe_json(document)}</script>']
    data += [f'<script type="text/plain" id="stream-{at}">{part}</script>' for at, part in enumerate(letters)]
    text = asset("page.html")
    for mark, part in (
        ("<!-- policy -->", f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        ("<!-- style -->", f"<style>{style}</style>"),
        ("<!-- script -->", "\n".join([*data, f"<script>{script}</script>"])),
    ):
        text = text.replace(mark, part)
    with replacing(out) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")
    return notes


def serve_asset() -> str:
    """Return the HTML of the page, which loads style and scripts from the server."""
    page = asset("page.html").replace("<!-- policy -->", "")
    page = page.replace("<!-- style -->", '<link rel="stylesheet" href="page.css">')
    return page.replace("<!-- script -->", '<script src="page.js" defer></script>')


def safe_json(value: object) -> str:
    """Return JSON for use inside a script element: "<", ">" and "&" are escaped, so no tag can end or open in it.

    >>> safe_json({"name": "</script>"})
    '{"name": "\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
