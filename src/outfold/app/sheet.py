"""Pages of HTML that need no other file, no script and no network; all words from outside stay text."""

from __future__ import annotations

import base64
import html
import io
import warnings
from collections.abc import Iterable
from pathlib import Path
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
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def figure(data: bytes, caption: str) -> str:
    encoded = base64.b64encode(data).decode("ascii")
    return (
        f'<figure><img alt="{text(caption)}" src="data:image/png;base64,{encoded}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def table(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Without a head if no column has a name."""
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    head = f"<thead><tr>{head}</tr></thead>" if head.replace("<th></th>", "") else ""
    body = "".join("<tr>" + "".join(f'<td class="figure">{text(cell)}</td>' for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def text(words: Any) -> str:
    return html.escape(str(words), quote=True)


# -- the page of a model -------------------------------------------------------------------

_MOST_COLUMNS = 200  # whose scaling is listed
_JUDGED = 2000  # rows whose trust is drawn


def write(out: Path, model: Path, estimator: Any, preparation: Any, source: Any, label: str | None) -> None:
    """The page of a model and, if there is one, of a table embedded by it."""
    from ..sinks import replacing

    report = getattr(estimator, "report_", None)
    name = type(estimator).__name__
    facts = str(report).splitlines()[1:] if report is not None else []
    parts = [
        f"<h1>{text(model.name)}</h1><p>{text(name)}: {estimator._n_features_out} coordinates of "
        f"{len(preparation.columns)} columns.</p>",
        "<section><h2>The fit</h2>",
        table(("", ""), (line.strip().split("  ", 1) for line in facts if "  " in line.strip())),
        _spectrum(estimator),
        "</section>",
        _prepared(preparation),
        _embedded(estimator, preparation, source, label) if source is not None else _landmarks(estimator),
    ]
    with replacing(out) as beside:
        beside.write_text(page(f"Outfold: {model.name}", "".join(parts)), encoding="utf-8")


def _picture(drawn: Any) -> bytes:
    held = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font lacks
        drawn.savefig(held, format="png", dpi=110)
    return held.getvalue()


def _spectrum(estimator: Any) -> str:
    from .. import plotting
    from .flow import spectrum_of

    values = spectrum_of(estimator)
    if values is None:
        return ""
    axes = plotting.spectrum(values)
    return figure(_picture(axes.figure), "Eigenvalues of the coordinates, largest first.")


def _prepared(preparation: Any) -> str:
    from ..tables import listed
    from .fitting import LEFT_OUT

    parts = [f"<section><h2>The columns</h2><p>Scaling: {text(preparation.told())}.</p>"]
    for name, why in LEFT_OUT.items():
        if gone := getattr(preparation, name):
            parts.append(f"<p>Left out, {why}: {text(listed(gone, 30))}.</p>")
    if preparation.rows_left_out:
        parts.append(f"<p>Rows left out of the fit, for missing values: {preparation.rows_left_out}.</p>")
    shown = preparation.columns[:_MOST_COLUMNS]
    if preparation.scaling == "none":
        parts.append(f"<p>{text(', '.join(shown))}</p>")
    else:
        numbers = zip(shown, preparation.centre, preparation.scale)
        parts.append(table(("column", "centre", "scale"), ((n, f"{c:.6g}", f"{s:.6g}") for n, c, s in numbers)))
    if len(preparation.columns) > len(shown):
        parts.append(f"<p>And {len(preparation.columns) - len(shown)} more.</p>")
    return "".join([*parts, "</section>"])


def _landmarks(estimator: Any) -> str:
    """Without a table: where the points the model holds lie."""
    import numpy as np

    from .. import plotting
    from ..runners import Threads

    points = np.asarray(estimator.landmarks_)
    if points.ndim != 2 or estimator._n_features_out < 2:
        return ""
    axes = plotting.embedding(estimator.model_.embed(points, Threads(estimator.n_jobs)))
    caption = f"The {len(points)} points that the model holds. Pass a table, and its rows are drawn and judged."
    return f"<section><h2>The embedding</h2>{figure(_picture(axes.figure), caption)}</section>"


def _embedded(estimator: Any, preparation: Any, source: Any, label: str | None) -> str:

    from . import flow

    walk = flow.embed(estimator, preparation, source, label=label, draw=True)
    kept = walk.rows - walk.missing.left_out
    rows = [
        ("rows embedded", kept),
        ("rows that lack a value", walk.missing.left_out),
        ("outside the data", walk.outside),
    ]
    parts = [f"<section><h2>{text(source.told)}</h2>", table(("", ""), rows)]
    if kept and estimator._n_features_out > 1:
        title = f"{kept} rows" + (f", coloured by {label}" if label else "")
        caption = f"The first two coordinates{f', coloured by {label}' if label else ''}."
        parts.append(figure(_picture(flow.plotted(estimator, walk, title, label, spectrum=False)), caption))
        if estimator._n_features_out > 2:
            parts.append(figure(_picture(flow.paired(walk, label)), "Pairs of coordinates, of five at most."))
    if kept:
        parts.append(_trust(estimator, preparation, source, kept))
    return "".join([*parts, "</section>"])


def _trust(estimator: Any, preparation: Any, source: Any, kept: int) -> str:
    """How far to believe a part of the rows."""
    import numpy as np

    from .. import plotting
    from ..preparation import Prepared
    from ..runners import Threads

    index = np.unique(np.linspace(0, kept - 1, min(kept, _JUDGED)).astype(int))
    points = Prepared(source, preparation, kept).take(index)
    found = estimator.trust(points)
    share = np.percentile(found.support, [1, 25, 50, 75, 99])
    names = ("lowest 1 %", "lower quartile", "median", "upper quartile", "highest 1 %")
    parts = [
        "<h3>How far to believe the positions</h3><p>Support is the log of the kernel mass that a row finds in the "
        "data of the fit, relative to a typical row of it: 0 is typical, far below is outside. "
        f"{int(found.flag.sum())} of {len(points)} rows looked at are outside.</p>",
        table(("support", ""), zip(names, (f"{value:.3g}" for value in share))),
    ]
    if estimator._n_features_out > 1:
        places = estimator.model_.embed(points, Threads(estimator.n_jobs))
        axes = plotting.embedding(places, colors=np.maximum(found.support, share[2] - 10), title="support")
        parts.append(figure(_picture(axes.figure), f"Support of {len(points)} rows: light is well inside the data."))
    return "".join(parts)
