"""The description of a model on the page: method, columns, scaling, spectrum, components, diffusion time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._runtime.typing import Array
from ...data.columns import Preparation
from ...data.tables import join_names
from ...methods.base import SpectralEstimator
from ...selection import residuals
from ..embedding import spectrum
from .columns import Stream

DELTA = 0.1  # a coordinate counts while |lambda|^t > DELTA |lambda_1|^t
_MOST_COLUMNS = 200  # columns whose scaling is listed, at most
_MOST_VALUES = 60  # eigenvalues drawn, at most
_LOOKED_AT = 800  # rows from which the residuals of coordinates are computed, at most


def diffusion(estimator: SpectralEstimator) -> dict[str, Any]:
    """Return base b and time t of the weights b^t of the coordinates, or the reason (``why``) that there are none.

    Diffusion maps: b = |lambda| (its square root for canonical coordinates); Roseland: sigma^2; random-walk Laplacian
    eigenmaps: |1 - mu| at t = 0. The sign of a negative lambda stays in the coordinate, so that its axis is not
    mirrored at each step of t.
    """
    method, values = type(estimator).__name__, getattr(estimator, "eigenvalues_", None)
    if values is None or method not in ("DiffusionMaps", "Roseland", "LaplacianEigenmaps", "SpectralClustering"):
        return {"why": f"{method} has no diffusion time: its coordinates are not powers of eigenvalues."}
    if hasattr(estimator, "laplacian"):
        if estimator.laplacian != "random_walk":
            return {"why": "The unnormalised Laplacian is not that of a random walk, so there is no diffusion time."}
        base, t = np.abs(1 - np.asarray(values, float)), 0.0
    else:
        base, t = np.abs(np.asarray(values, float)), float(estimator.t)
    if getattr(estimator, "coordinates", "diffusion") == "canonical":
        base = np.sqrt(base)
    if len(base) != estimator._n_features_out or (base**t < 1e-30).any():
        return {"why": f"At t = {t:g} some weights lambda^t are too small to be undone."}
    return {"t": t, "base": base.tolist(), "most": _longest(base, t)}


def _longest(base: Array, t: float) -> float:
    """Return the largest t of the slider: the second weight is a hundredth of the first, and no weight underflows."""
    large = np.sort(base)[::-1][:2]
    ratio = large[-1] / large[0] if large[0] > 0 else 1.0
    needed = math.log(0.01) / math.log(ratio) if 0 < ratio < 1 else 10.0
    least = math.log(1e-200) / math.log(large[0]) if 0 < large[0] < 1 else math.inf
    return float(max(min(max(math.ceil(needed), 10), 1000, least), 2 * t))


def describe_spectrum(estimator: SpectralEstimator, streams: list[Stream]) -> dict[str, Any] | None:
    """Return the eigenvalues to draw, their name and facts about them; ``left`` are the residuals of coordinates."""
    drawn = spectrum(estimator)
    if drawn is None:
        return None
    (values, decreasing), method, report = drawn, type(estimator).__name__, getattr(estimator, "report_", None)
    name = "σ²" if method == "Roseland" else "1 − μ" if hasattr(estimator, "laplacian") else "λ"
    found: dict[str, Any] = {
        "values": values[:_MOST_VALUES].tolist(),
        "total": len(values),
        "name": name if decreasing else "μ",
        "delta": DELTA if decreasing else None,
        "each": len(values) == estimator._n_features_out and method != "PHATE",  # one per coordinate
        "weights": "base" in diffusion(estimator),
        "gap": _finite(getattr(report, "gap", math.nan)),
        "residual": _finite(getattr(report, "residual", math.nan)),
    }
    axes = [stream.values for stream in streams if stream.role == "coordinate"][:20]
    if len(axes) > 1 and len(axes[0]) > 10:
        rows = np.unique(np.linspace(0, len(axes[0]) - 1, _LOOKED_AT).astype(int))
        found["left"] = residuals(np.column_stack([axis[rows] for axis in axes]).astype(float)).round(4).tolist()
    return found


def model(name: str, estimator: SpectralEstimator, preparation: Preparation) -> dict[str, Any]:
    """Return the facts about a model as rows of small tables; the page inserts all of them as text, not as HTML."""
    report = getattr(estimator, "report_", None)
    lines = [line.strip().split("  ", 1) for line in str(report).splitlines()[1:]] if report is not None else []
    fit = [[line[0].strip(), line[1].strip()] for line in lines if len(line) == 2 and line[0].strip() != "note"]
    columns = [["scaling", preparation.describe()]]
    columns += [["left out", f"{why}: {join_names(gone, 30)}"] for _, why, gone in preparation.describe_left_out()]
    if preparation.rows_left_out:
        columns.append(["left out", f"{preparation.rows_left_out} rows of the fit, for missing values"])
    shown = preparation.columns[:_MOST_COLUMNS]
    scaled = preparation.scaling != "none"
    numbers = zip(preparation.centre, preparation.scale) if scaled else ((0.0, 1.0) for _ in shown)
    return {
        "name": name,
        "method": type(estimator).__name__,
        "components": int(estimator._n_features_out),
        "features": len(preparation.columns),
        "fit": fit,
        "columns": columns,
        "scaled": scaled,
        "scales": [[column, f"{centre:.6g}", f"{scale:.6g}"] for column, (centre, scale) in zip(shown, numbers)],
        "parts": getattr(report, "components", None),
        "sizes": [int(size) for size in getattr(report, "component_sizes", ())],
        "warnings": list(getattr(report, "warnings", ())),
        "calibrated": hasattr(estimator, "calibration_"),
        "diffusion": diffusion(estimator),
    }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
