"""Tables of a benchmark into a page of the documentation, between two marks."""

from __future__ import annotations

import pathlib

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def write(page, mark, text):
    """Put a text between <!-- mark --> and <!-- end mark --> of docs/page."""
    page = DOCS / page
    before, _, rest = page.read_text().partition(f"<!-- {mark} -->\n")
    _, found, after = rest.partition(f"<!-- end {mark} -->")
    if not found:
        raise ValueError(
            f"{page.name} has no place for {mark!r}: <!-- {mark} --> and <!-- end {mark} --> on lines of their own."
        )
    page.write_text(f"{before}<!-- {mark} -->\n{text}\n<!-- end {mark} -->{after}")
