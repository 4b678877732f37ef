"""Pictures of embeddings and spectra; the only module that uses matplotlib.

Every function draws on the axes it is given, or on a figure of its own that no global state knows of,
and returns the axes: save with ``axes.figure.savefig("picture.png")``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .selection import spectral_dimension

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[Any]

_INK = "#222222"
_PLAIN = "#4477aa"
_FAINT = "#b8bec6"
_MOST_GROUPS = 20  # numbers with more distinct values than this are a scale, not groups


def embedding(
    points: Any,
    *,
    colors: Any = None,
    new: Any = None,
    new_colors: Any = None,
    axes: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Scatter the first two coordinates; new points are larger and outlined.

    Parameters
    ----------
    points : array of shape (n, at least 2)
    colors : array of shape (n,), optional
        Groups (a legend names them) or, with more than 20 distinct numbers, a scale (a bar explains it).
    new, new_colors : the same for points the fit has not seen, optional
    axes : matplotlib axes, optional
    title : str, optional
    """
    clouds = [_Cloud.of(points, colors, "points", "colors", _SEEN)]
    if new is not None:
        clouds.append(_Cloud.of(new, new_colors, "new", "new_colors", _NEW))
    axes = panels(1)[1][0] if axes is None else axes
    given = [cloud.value for cloud in clouds if cloud.value is not None]
    values = np.concatenate(given) if given else None
    if values is not None and _are_groups(values):
        _draw_groups(axes, clouds, np.unique(values))
    else:
        _draw_scale(axes, clouds, values)
    axes.set(xlabel="coordinate 1", ylabel="coordinate 2", title=title)
    axes.set_aspect("equal", adjustable="datalim")  # distances mean something
    return axes


def spectrum(eigenvalues: Any, *, axes: Axes | None = None, delta: float = 0.1) -> Axes:
    """Bars of |lambda|, largest first, with those above delta |lambda_1| set off from the rest.

    The eigenvalues are of a Markov kernel, without the trivial 1; of a random-walk Laplacian, pass 1 - mu.
    """
    sizes = np.sort(np.abs(np.asarray(eigenvalues, dtype=float)))[::-1]
    above = spectral_dimension(sizes, delta=delta)
    above = len(sizes) if above is None else above
    axes = panels(1)[1][0] if axes is None else axes
    shades = np.where(np.arange(len(sizes)) < above, _PLAIN, _FAINT)
    axes.bar(np.arange(1, len(sizes) + 1), sizes, color=shades, width=0.75)
    axes.axhline(delta * sizes[0], color=_INK, linestyle="--", linewidth=1, label=f"{delta:g} of the largest")
    axes.xaxis.set_major_locator(_part("ticker").MaxNLocator(integer=True))
    axes.set(xlabel="number", ylabel="|eigenvalue|", title=f"Spectrum: {above} of {len(sizes)} above the line")
    axes.set_xlim(0.25, len(sizes) + 0.75)
    axes.legend(loc="upper right", frameon=False)
    return axes


def panels(*widths: float) -> tuple[Figure, Sequence[Axes]]:
    """A figure with one row of axes, as wide as ``widths`` say."""
    figure = _part("figure").Figure(figsize=(6.4 * sum(widths), 4.8), layout="constrained")
    row = list(figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0])
    for axes in row:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, row


def tuning(result: Any, *, axes: Axes | None = None) -> Axes:
    """Held-out error, stability, bias and all of them against epsilon, with bands of a standard error.

    Of other alphas than the chosen one only the last, faintly.

    Parameters
    ----------
    result : what ``outfold.selection.tune`` returns
    axes : matplotlib axes, optional
    """
    alphas = sorted({row.alpha for row in result.table}, key=lambda alpha: alpha or 0.0)
    if len(result.table) == len(alphas):
        raise ValueError(f"{result.method} was tried with one epsilon, which makes no curve; print the result instead.")
    axes = panels(1)[1][0] if axes is None else axes
    for at, alpha in enumerate(alphas):
        rows = [row for row in result.table if row.alpha == alpha]
        epsilon = np.array([row.epsilon for row in rows])
        total = np.array([row.total for row in rows])
        if alpha != result.chosen.alpha:
            axes.plot(
                epsilon,
                total,
                color=_FAINT,
                linestyle=("-", "--", ":")[at % 3],
                label=f"all, alpha {alpha:g}",
                zorder=1,
            )
            continue
        for name, shade in (("error", _PLAIN), ("stability", "#228833")):
            values, bands = (np.array([getattr(row, name + end) for row in rows]) for end in ("", "_band"))
            axes.plot(epsilon, values, color=shade, label="held-out error" if name == "error" else name)
            axes.fill_between(
                epsilon, np.maximum(values - bands, 0), values + bands, color=shade, alpha=0.2, linewidth=0
            )
        axes.plot(epsilon, [row.bias for row in rows], color="#cc6677", label="bias")
        axes.plot(epsilon, total, color=_INK, linewidth=2, label="all" if alpha is None else f"all, alpha {alpha:g}")
        axes.plot(result.chosen.epsilon, result.chosen.total, "o", color=_INK, zorder=4)
    axes.axvline(result.chosen.epsilon, color=_INK, linestyle="--", linewidth=1)
    axes.set(xlabel="epsilon", ylabel="relative to the spread", xscale="log")
    axes.set_title(f"{result.method}: epsilon {result.chosen.epsilon:.3g}, {result.dimension} coordinates")
    axes.set_ylim(0, 1.05 * max(min(1.2, max(row.total for row in result.table)), 2 * result.chosen.total))
    axes.legend(frameon=False)
    return axes


# -- how points look -----------------------------------------------------------------------

_SEEN: dict[str, Any] = {"s": 14, "alpha": 0.45, "linewidths": 0, "zorder": 2}
_NEW: dict[str, Any] = {"s": 34, "alpha": 1.0, "linewidths": 0.9, "edgecolors": _INK, "zorder": 3}


@dataclass(frozen=True)
class _Cloud:
    """Points to draw: where, of what value, in which style."""

    place: Array  # (n, 2)
    value: Array | None  # (n,)
    style: dict[str, Any]

    @classmethod
    def of(cls, points: Any, colors: Any, name: str, color_name: str, style: dict[str, Any]) -> _Cloud:
        place = np.asarray(points, dtype=float)
        if place.ndim != 2 or place.shape[1] < 2:
            raise ValueError(f"{name} has shape {place.shape}, but a picture needs (n, at least 2) coordinates.")
        value = None if colors is None else np.asarray(colors)
        if value is not None and value.shape != (len(place),):
            raise ValueError(f"{color_name} has shape {value.shape} for {len(place)} points; pass one value for each.")
        return cls(place[:, :2], value, style)

    def scatter(self, axes: Any, **look: Any) -> Any:
        return axes.scatter(*self.place.T, **look, **self.style)


def _draw_groups(axes: Axes, clouds: list[_Cloud], groups: Array) -> None:
    palette = _palette(len(groups))
    for cloud in clouds:
        cloud.scatter(axes, c=_PLAIN if cloud.value is None else palette[np.searchsorted(groups, cloud.value)])
    _legend(axes, dict(zip(groups.tolist(), palette)), with_new=len(clouds) > 1)


def _draw_scale(axes: Axes, clouds: list[_Cloud], values: Array | None) -> None:
    scaled = None
    for cloud in clouds:
        if cloud.value is None or values is None:
            cloud.scatter(axes, c=_PLAIN)
        else:
            scaled = cloud.scatter(axes, c=cloud.value, cmap="viridis", vmin=values.min(), vmax=values.max())
    if scaled is not None:
        axes.figure.colorbar(scaled, ax=axes)
    if len(clouds) > 1:
        _legend(axes, {}, with_new=True)


def _legend(axes: Axes, shades: dict[Any, Any], *, with_new: bool) -> None:
    """Name the groups beside the axes, and say what an outline means."""
    line = _part("lines").Line2D
    keys = [line([], [], linestyle="", marker="o", color=shade, label=str(name)) for name, shade in shades.items()]
    if with_new:
        look: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": _INK}
        keys.append(line([], [], linestyle="", marker="o", label="new point", **look))
    if shades:
        axes.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, handletextpad=0.2)
    else:
        axes.legend(handles=keys, loc="best")


def _palette(count: int) -> Array:
    """That many colours, told apart easily while they are few."""
    maps = import_module("matplotlib").colormaps
    if count <= _MOST_GROUPS:
        return np.array(maps["tab10" if count <= 10 else "tab20"].colors[:count])
    return np.asarray(maps["turbo"](np.linspace(0, 1, count)))


def _are_groups(values: Array) -> bool:
    return values.dtype.kind not in "iuf" or len(np.unique(values)) <= _MOST_GROUPS


def _part(name: str) -> Any:
    """A module of matplotlib, or a way to get it."""
    try:
        return import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError('Pictures need matplotlib, which is not here: pip install "outfold[plot]"') from error
