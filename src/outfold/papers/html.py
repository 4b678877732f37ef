"""Self-contained HTML pages without scripts or network access; all text is escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --line: #d5dbe2; --paper: #fff; --shade: #f4f6f8;
  --good: #11703c; --bad: #a8430a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #9aa6b4; --line: #3a434e; --paper: #14181d;
  --shade: #1d2329; --good: #5fd08f; --bad: #ffab6b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { margin: 0 0 .3rem; } h2 { margin: 3.2rem 0 .2rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { margin: 1.6rem 0 .4rem; font-size: 1rem; }
p { margin: .4rem 0; max-width: 52rem; } .soft { color: var(--soft); } a { color: inherit; }
code { background: var(--shade); padding: .1em .35em; border-radius: 4px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; margin: .8rem 0; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.figure { font-variant-numeric: tabular-nums; }
.agrees { color: var(--good); font-weight: 600; white-space: nowrap; }
.differs { color: var(--bad); font-weight: 600; white-space: nowrap; } .not { color: var(--soft); white-space: nowrap; }
figure { margin: 1.4rem 0; } figure img { max-width: 100%; height: auto; background: #fff;
  border: 1px solid var(--line); border-radius: 6px; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 52rem; }
""".strip()
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(title: str, body: str) -> str:
    """Return a whole page around ``body``, which is HTML already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def figure(data: bytes, caption: str) -> str:
    """Return the HTML of a PNG picture with a caption."""
    encoded = base64.b64encode(data).decode("ascii")
    return (
        f'<figure><img alt="{text(caption)}" src="data:image/png;base64,{encoded}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def table(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return the HTML of a table; it has no head if no column has a name."""
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    head = f"<thead><tr>{head}</tr></thead>" if head.replace("<th></th>", "") else ""
    body = "".join("<tr>" + "".join(f'<td class="figure">{text(cell)}</td>' for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def text(words: Any) -> str:
    """Return ``words`` escaped for HTML."""
    return html.escape(str(words), quote=True)
