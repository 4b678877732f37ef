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
from ...operators.spectrum import spectral_dimension
from .console import line

_DIGITS = 5
_COORDINATES = 32
_DRAWN = 2
_COPIES = 20  # copies of the held-out points that are timed, so that the rate is stable


@dataclass(frozen=True, kw_only=True)
class Result:
    """Embeddings and measurements of the demonstration; "unseen" are the held-out digits."""

    model: DiffusionMaps
    seen: Array  # (n, coordinates)
    seen_digit: Array  # (n,)
    unseen: Array  # (m, coordinates)
    unseen_digit: Array  # (m,)
    error: float  # relative RMSE of `unseen` against a fit of all digits, over all coordinates
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
    whole = DiffusionMaps(_COORDINATES, epsilon=model.epsilon_).fit(np.vstack([train, test])).embedding_
    start = time.perf_counter()
    model.transform(np.tile(test, (_COPIES, 1)))
    seconds = time.perf_counter() - start
    return Result(
        model=model,
        seen=seen,
        seen_digit=seen_digit,
        unseen=unseen,
        unseen_digit=unseen_digit,
        error=_error(seen, unseen, whole),
        error_drawn=_error(seen[:, :_DRAWN], unseen[:, :_DRAWN], whole[:, :_DRAWN]),
        outside=int(model.trust(test).flag.sum()),
        rate=_COPIES * len(test) / seconds,
    )


def _error(seen: Array, unseen: Array, whole: Array) -> float:
    """Return the relative RMSE of ``unseen`` against the fit of all, rotated to match on the training points."""
    turn, _ = orthogonal_procrustes(whole[: len(seen)], seen)
    truth = whole[len(seen) :] @ turn
    return float(np.linalg.norm(unseen - truth) / np.linalg.norm(truth))


def summary(result: Result) -> str:
    """Return the results as text, one line each."""
    model, unseen = result.model, len(result.unseen)
    total = model.report_.n_samples + unseen
    above = spectral_dimension(model.eigenvalues_) or _COORDINATES
    errors = f"{result.error_drawn:.1%} over the {_DRAWN} coordinates drawn, {result.error:.1%} over all {_COORDINATES}"
    first = "  ".join(f"{value:.3f}" for value in model.eigenvalues_[:6])
    rows = [
        ("fitted", f"{model.report_.n_samples} points x {model.n_features_in_} features, epsilon {model.epsilon_:.3g}"),
        ("spectrum", f"{first} ...  ({above} of {_COORDINATES} above a tenth of the first)"),
        ("embedded", f"{unseen} points it had not seen, at {float(f'{result.rate:.2g}'):,.0f} points/s"),
        ("error", errors),
        ("", f"(relative RMSE against a fit of all {total} points)"),
        ("outside", f"{result.outside} of {unseen} unseen points flagged as outside the data"),
        *(("note", text) for text in result.notes),
    ]
    title = f"Diffusion maps of the handwritten digits 0 to {_DIGITS - 1}"
    return "\n".join([title, *(line(*pair) for pair in rows)])


def draw(result: Result, path: Path) -> None:
    """Write the picture: the embedding with the unseen points outlined, and the spectrum."""
    figure, (left, right) = plotting.panels(1.15, 0.85)
    plotting.embedding(
        result.seen,
        colors=result.seen_digit,
        new=result.unseen,
        new_colors=result.unseen_digit,
        axes=left,
        title=f"{len(result.seen)} digits fitted, {len(result.unseen)} new ones embedded",
    )
    plotting.spectrum(result.model.eigenvalues_, axes=right)
    figure.savefig(path, dpi=150)
