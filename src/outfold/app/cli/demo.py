"""The demonstration: diffusion maps of handwritten digits, extended to digits held out of the fit."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ... import DiffusionMaps, plotting
from ..._runtime.typing import Array
from ...exceptions import FarPointsWarning
from ...selection import gap_dimension
from .console import line
from .stream import save_picture

_DIGITS = 5
_COORDINATES = 16  # computed; those before the largest gap of the spectrum are compared
_DRAWN = 4
_COPIES = 20  # copies of the held-out points that are timed, so that the rate is stable


@dataclass(frozen=True, kw_only=True)
class Result:
    """Embeddings and measurements of the demonstration; "unseen" are the held-out digits."""

    model: DiffusionMaps
    seen: Array  # (n, coordinates)
    seen_digit: Array  # (n,)
    unseen: Array  # (m, coordinates)
    unseen_digit: Array  # (m,)
    kept: int  # number of coordinates before the largest gap of the spectrum
    error: float  # relative RMSE of `unseen` against a fit of all digits, over these coordinates
    error_drawn: float  # the same over the coordinates in the picture
    outside: int  # number of held-out digits flagged as outside the data
    rate: float  # points embedded per second
    notes: tuple[str, ...] = ()


def run() -> Result:
    """Fit on three quarters of the digits, embed the last quarter and compare with a fit of all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _run()
    # far points are not a note: `outside` counts them
    told = [str(w.message) for w in caught if not issubclass(w.category, FarPointsWarning)]
    return replace(result, notes=tuple(dict.fromkeys(told)))


def _run() -> Result:
    pixels, digit = load_digits(n_class=_DIGITS, return_X_y=True)
    train, test, seen_digit, unseen_digit = train_test_split(
        pixels / 16, digit, test_size=0.25, stratify=digit, random_state=0
    )
    model = DiffusionMaps(_COORDINATES).fit(train)
    seen, unseen = model.transform(train), model.transform(test)
    whole = DiffusionMaps(_COORDINATES).fit(np.vstack([train, test])).embedding_
    kept = max(_DRAWN, gap_dimension(model.eigenvalues_) or 0)
    start = time.perf_counter()
    model.transform(np.tile(test, (_COPIES, 1)))
    seconds = time.perf_counter() - start
    return Result(
        model=model,
        seen=seen,
        seen_digit=seen_digit,
        unseen=unseen,
        unseen_digit=unseen_digit,
        kept=kept,
        error=_error(seen[:, :kept], unseen[:, :kept], whole[:, :kept], kept),
        error_drawn=_error(seen[:, :kept], unseen[:, :kept], whole[:, :kept], _DRAWN),
        outside=int(model.trust(test).flag.sum()),
        rate=_COPIES * len(test) / seconds,
    )


def _error(seen: Array, unseen: Array, whole: Array, count: int) -> float:
    """Return the relative RMSE of the first ``count`` columns of ``unseen`` against the fit of all.

    The fit of all is rotated to match on the training points. Eigenvalues before a gap lie close together, so
    more points turn their eigenvectors within the space that they span, which hardly moves: the rotation is of all
    columns.
    """
    turn, _ = orthogonal_procrustes(whole[: len(seen)], seen)
    truth = (whole[len(seen) :] @ turn)[:, :count]
    return float(np.linalg.norm(unseen[:, :count] - truth) / np.linalg.norm(truth))


def summary(result: Result) -> str:
    """Return the results as text, one line each."""
    model, unseen = result.model, len(result.unseen)
    total = model.report_.n_samples + unseen
    errors = (
        f"{result.error_drawn:.1%} over the {_DRAWN} coordinates drawn, {result.error:.1%} over the first {result.kept}"
    )
    first = "  ".join(f"{value:.3f}" for value in model.eigenvalues_[:7])
    graph = model.report_.edges.removeprefix("auto: ")
    rows = [
        ("fitted", f"{model.report_.n_samples} points x {model.n_features_in_} features, {graph}"),
        ("spectrum", f"{first} ...  (the largest gap follows number {result.kept})"),
        ("embedded", f"{unseen} points it had not seen, at {float(f'{result.rate:.2g}'):,.0f} points/s"),
        ("error", errors),
        ("", f"(relative RMSE against a fit of all {total} points)"),
        ("outside", f"{result.outside} of {unseen} unseen points flagged as outside the data"),
        *(("note", text) for text in result.notes),
    ]
    title = f"Diffusion maps of the handwritten digits 0 to {_DIGITS - 1}"
    return "\n".join([title, *(line(*pair) for pair in rows)])


def draw(result: Result, path: Path) -> None:
    """Write the picture: the first four coordinates in pairs, with the unseen points outlined."""
    figure, both = plotting.panels(1, 1)
    titles = f"{len(result.seen)} digits fitted, {len(result.unseen)} new ones embedded", "their next two coordinates"
    for axes, title, pair in zip(both, titles, ((0, 1), (2, 3)), strict=True):
        plotting.embedding(
            result.seen,
            colors=result.seen_digit,
            new=result.unseen,
            new_colors=result.unseen_digit,
            coordinates=pair,
            axes=axes,
            title=title,
        )
    save_picture(figure.savefig, path)
