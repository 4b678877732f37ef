"""Rows and matrices that a caller passes to an estimator, checked against it and its fit."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .._runtime.memory import check_fits
from .._runtime.typing import Array, Data
from ..data import inputs
from ..data.sources import require_in_memory
from ..data.sparse_rows import SparseRows, dense_rows
from ..graphs.given import is_isolated, stores_every_pair

SELF_DISTANCE = 1e-7  # relative to the largest distance: |x|^2 + |y|^2 - 2 x.y rounds, and then a root is taken


def validate_rows(
    estimator: BaseEstimator, X: Data, *, reset: bool, least: int = 1, allow_nan: bool = False, sparse: bool = True
) -> Array:
    """Return the checked rows of an estimator: an array of float64 or float32, or a CSR matrix if ``sparse``.

    With ``reset`` the estimator takes number and names of the features; else they must be those of its fit.
    """
    values: Array = inputs.read_rows(require_in_memory(X))
    asker = type(estimator).__name__
    if issparse(values) and not sparse:
        raise TypeError(f"{asker} does not take sparse matrices. Pass X.toarray() if it fits in memory.")
    inputs.check_size(values, least, asker)
    names = inputs.column_names(X)
    _check_names(estimator, names, reset)
    if not reset and values.shape[1] != estimator.n_features_in_:
        raise ValueError(describe_width(estimator, values.shape[1]))
    validate_data(estimator, X if names else values, reset=reset, skip_check_array=True)
    advice = ", or pass metric='nan_euclidean', which compares rows over the features that both have"
    advice = advice if hasattr(estimator, "metric") else ""
    inputs.refuse_missing(values, names=names, allow_nan=allow_nan, advice=advice)
    return values


def describe_width(estimator: BaseEstimator, count: int) -> str:
    known = getattr(estimator, "feature_names_in_", None)
    wanted = getattr(estimator, "n_features_in_", 0)
    what = "" if known is None else f" They are {', '.join(_list_names(list(known), ''))}."
    return (
        f"X has {count} features, but {type(estimator).__name__} is expecting {wanted} features as "
        f"input.{what} Pass the columns of the fit, in their order."
    )


def _check_names(estimator: BaseEstimator, names: list[object] | None, reset: bool) -> None:
    """Refuse names of which some are text only and, after a fit, other names than those of the fit."""
    texts = [isinstance(name, str) for name in names or ()]
    if names and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{names.count(twice)} columns of X are called {twice!r}. Rename them, or pass X.to_numpy().")
    if any(texts) and not all(texts):
        other = (names or [])[texts.index(False)]
        raise TypeError(
            f"The columns of X have names of several types: {other!r} is of type {type(other).__name__}, others are "
            "text. Pass text for all: X.columns = X.columns.astype(str)."
        )
    known = list(getattr(estimator, "feature_names_in_", ()))
    if reset or not known or not names or not all(texts) or known == names:
        return
    new, gone = [name for name in names if name not in known], [name for name in known if name not in names]
    lines = ["The feature names should match those that were passed during fit."]
    if new:
        lines += ["Feature names unseen at fit time:", *_list_names(new)]
    if gone:
        lines += ["Feature names seen at fit time, yet now missing:", *_list_names(gone)]
    if not new and not gone:
        at = next((at for at, pair in enumerate(zip(known, names)) if pair[0] != pair[1]), min(len(known), len(names)))
        there = repr(names[at]) if at < len(names) else "missing"
        lines += ["Feature names must be in the same order as they were in fit."]
        lines += [f"Column {at} is {there}, and was {known[at] if at < len(known) else 'none'!r}."]
    lines += ["Select them: X[list(estimator.feature_names_in_)]." if not gone else "Rename or add these columns."]
    raise ValueError("\n".join(lines))


def _list_names(names: list[object], mark: str = "- ") -> list[str]:
    shown = [f"{mark}{name}" for name in (names if not mark else sorted(map(str, names)))[: inputs.FEW_NAMES]]
    return [*shown, *([f"{mark}..."] if len(names) > inputs.FEW_NAMES else [])]


def check_positive(X: Array, given: str) -> None:
    """Refuse negative values of a precomputed matrix."""
    values = X.data if isinstance(X, SparseRows) else X
    if (values < 0).any():
        raise ValueError(
            f"Negative values in data: {given}='precomputed' needs values >= 0, got {values.min():.3g} and "
            f"{int((values < 0).sum())} negative ones."
        )


def check_square(X: Array, given: str, positive: bool) -> None:
    """Refuse a precomputed matrix that is not square, has negative values, or distances of nodes from themselves."""
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"{given}='precomputed' needs a square matrix between the training points, got {X.shape}. Pass "
            "features with another metric, or the n x n matrix."
        )
    if positive:
        check_positive(X, given)
    diagonal = X.diagonal()
    rounding = SELF_DISTANCE if isinstance(X, SparseRows) else 1e-10
    if given == "metric" and np.abs(diagonal).max() > rounding * X.max():
        raise ValueError(
            f"metric='precomputed' needs zero distance from a point to itself; the diagonal reaches "
            f"{diagonal.max():.3g}. Are these affinities? Then pass kernel='precomputed'."
        )


def fill_in(X: SparseRows, method: str, distances: bool) -> Array:
    """Return a sparse matrix as an array. Raise ValueError if distances are missing."""
    n = len(X)
    if distances and not stores_every_pair(X):
        raise ValueError(
            f"{method} needs the distance of every pair, and this sparse matrix stores {X.nnz} of {n * n}: what it "
            "does not store is not known. Isomap, PHATE and DiffusionMaps take distances between neighbours."
        )
    check_fits(2 * 8.0 * n * n, f"As an array the sparse matrix of shape {X.shape} needs", "Take fewer rows.")
    return dense_rows(X)


def leave_out_isolated(graph: Array, measure: Array, given: str) -> tuple[Array, list[str]]:
    """Return the measure with 0 for nodes without edges, and what to say about them."""
    alone = np.flatnonzero(is_isolated(graph, given == "metric") & (measure > 0))
    if not len(alone):
        return measure, []
    if len(graph) - len(alone) < 2:
        raise ValueError(
            f"The graph has no edges: {len(alone)} of {len(graph)} nodes have none to another node, and "
            f"{given}='precomputed' needs {'distances' if given == 'metric' else 'values above 0'} between the nodes."
        )
    one = len(alone) == 1
    what = "no edge to another node"
    count = f"Node {alone[0]} has {what}" if one else f"{len(alone)} nodes have {what} (the first is node {alone[0]})"
    them, lie, were = ("it", "it lies", "It was") if one else ("them", "they lie", "They were")
    text = (
        f"{count}, so nothing is known of where {lie}. {were} left out and embedded at 0, and trust flags {them}. Drop "
        f"{them}, or give {them} edges."
    )
    left = np.array(measure, dtype=float)
    left[alone] = 0.0
    return left, [text]
