"""Axes, scatter plots, thumbnails and colours. Other modules reach matplotlib only through this one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._runtime.typing import Array, Data
from ..data.sources import require_in_memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 50_000  # points drawn of one cloud, at most
INK = "#222222"
PLAIN = "#4477aa"
FAINT = "#b8bec6"
ALERT = "#cc3311"
_MOST_GROUPS = 20  # numbers with more distinct values than this are a scale, not groups
_FEW = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#555555")  # safe for the colour-blind
_MORE = ("#cc6677", "#332288", "#ddcc77", "#117733", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499", "#555555")


@runtime_checkable
class Transformer(Protocol):
    """A fitted estimator, of Outfold or of scikit-learn."""

    def transform(self, X: Data) -> Array: ...


Points: TypeAlias = Data | Transformer  # coordinates, or an estimator that holds those of its training rows


# -- figures -------------------------------------------------------------------------------


def panels(*widths: float, space: Collection[int] = ()) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure and one row of axes of relative widths ``widths``; axes whose number is in ``space`` are 3-D."""
    count = len(widths)
    figure, axes = grid(1, count, widths=widths, space=space, size=(6.4 * sum(widths) / max(count, 1), 4.8))
    return figure, list(axes[0])


def grid(
    rows: int,
    columns: int,
    *,
    space: Collection[int] = (),
    widths: Sequence[float] | None = None,
    size: tuple[float, float] = (4.2, 3.6),
) -> tuple[Figure, Array]:
    """Return a figure and its axes, an array of shape (rows, columns).

    Parameters
    ----------
    rows, columns : int
    space : collection of int
        Numbers, row by row from 0, of the axes that are 3-D.
    widths : sequence of float, optional
        Relative widths of the columns.
    size : tuple of float
        Width and height of one of the axes, in inches.
    """
    if rows < 1 or columns < 1 or not set(space) <= set(range(rows * columns)):
        raise ValueError(
            f"There is no grid of {rows} x {columns} axes with {sorted(space)} in space: at least 1 x 1, numbered row "
            f"by row from 0 to {max(rows * columns, 1) - 1}."
        )
    figure = part("figure").Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    places = figure.add_gridspec(rows, columns, width_ratios=widths)
    axes = np.empty((rows, columns), dtype=object)
    for number, place in enumerate(np.ndindex(rows, columns)):
        one: Any = figure.add_subplot(places[place], projection="3d" if number in space else None)
        axes[place] = one
        if number not in space:
            one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def ready(axes: Axes | None, coordinates: Sequence[int]) -> Axes:
    """Return ``axes`` if they have as many dimensions as there are coordinates; new axes if ``axes`` is None."""
    space = len(coordinates) == 3
    if axes is None:
        return panels(1, space=[0] if space else [])[1][0]
    if hasattr(axes, "get_zlim") != space:
        raise ValueError(
            f"{len(coordinates)} coordinates do not fit these axes, which have {5 - len(coordinates)}. Pass as many, "
            "or no axes."
        )
    return axes


def frame(axes: Axes, coordinates: Sequence[int]) -> None:
    names = ("xlabel", "ylabel", "zlabel")[: len(coordinates)]
    axes.set(**{name: f"coordinate {number + 1}" for name, number in zip(names, coordinates)})
    axes.set_aspect("equal", adjustable="datalim")  # distances in an embedding have a meaning


def coordinates_of(coordinates: Sequence[int] | None, axes: Axes | None) -> Sequence[int]:
    if coordinates is None:
        return range(3 if hasattr(axes, "get_zlim") else 2)
    if len(coordinates) not in (2, 3):
        raise ValueError(f"coordinates={list(coordinates)}: a picture has 2 or 3 of them.")
    return coordinates


# -- points --------------------------------------------------------------------------------

TRAINING_MARKERS: dict[str, Any] = {"s": 14, "alpha": 0.45, "linewidths": 0, "zorder": 2}
NEW_MARKERS: dict[str, Any] = {"s": 34, "alpha": 1.0, "linewidths": 0.9, "edgecolors": INK, "zorder": 3}
OUTSIDE_MARKERS: dict[str, Any] = {
    "s": 70,
    "marker": "X",
    "c": "#ffdd55",
    "linewidths": 1.1,
    "edgecolors": INK,
    "zorder": 4,
}


def places_of(points: Points, name: str) -> Array:
    """Return finite coordinates (n, d): the array ``points``, or ``embedding_`` of a fitted estimator."""
    if hasattr(points, "fit"):
        check_is_fitted(points)
        embedding = getattr(points, "embedding_", None)
        if embedding is None:
            raise ValueError(
                f"{type(points).__name__} keeps no embedding_ of its training rows; pass coordinates, such as "
                "estimator.transform(X), instead of the estimator."
            )
        points = embedding
    place = np.asarray(require_in_memory(points), dtype=float)
    if place.ndim != 2 or not len(place):
        raise ValueError(f"{name} has shape {place.shape}, but a picture needs (n, at least 2) coordinates.")
    wrong = ~np.isfinite(place).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"{name} has NaN or infinity in {wrong.sum()} of {len(place)} rows (the first is {wrong.argmax()}). Leave "
            "them out, or embed with on_far='nearest'."
        )
    return place


@dataclass(frozen=True)
class PlottedPoints:
    """Points to draw: their coordinates, the values that colour them, and the style of the markers."""

    place: Array  # (n, d)
    value: Array | None  # (n,)
    style: dict[str, Any]
    drawn: slice | Array  # the rows to draw: all, or a random sample of `MOST_POINTS`

    @classmethod
    def of(
        cls,
        points: Points,
        colors: ArrayLike | None,
        coordinates: Sequence[int],
        name: str,
        color_name: str,
        style: dict[str, Any],
    ) -> PlottedPoints:
        place = places_of(points, name)
        if place.shape[1] <= max(coordinates) or min(coordinates) < 0:
            asked = ", ".join(map(str, coordinates))
            raise ValueError(
                f"{name} has shape {place.shape}, but a picture of coordinates {asked} needs (n, at least "
                f"{max(coordinates) + 1})."
            )
        value = None if colors is None else np.asarray(colors)
        if value is not None and value.shape != (len(place),):
            raise ValueError(f"{color_name} has shape {value.shape} for {len(place)} points; pass one value for each.")
        if value is not None and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(
                f"{color_name} has NaN or infinity in {(~np.isfinite(value)).sum()} of {len(value)} rows, which have "
                "no colour. Leave these rows out, or pass groups as text."
            )
        drawn = slice(None) if len(place) <= MOST_POINTS else sample(len(place), MOST_POINTS)
        return cls(place, value, style, drawn)

    @property
    def rows(self) -> int:
        return len(self.place)

    def scatter(self, axes: Axes, coordinates: Sequence[int], **look: Any) -> None:
        style = {**self.style, "rasterized": self.rows > 5000}
        if self.style is TRAINING_MARKERS:  # the more points, the smaller the markers
            style["s"] *= min(1.0, max(0.15, (2000 / self.rows) ** 0.5))
        if len(coordinates) == 3:
            style["depthshade"] = False
        if self.rows > MOST_POINTS:
            write = getattr(axes, "text2D", axes.text)  # axes in space write on their plane
            told = f"{MOST_POINTS} of {self.rows} points drawn"
            write(0.01, 0.01, told, transform=axes.transAxes, fontsize="x-small", color=INK)
        axes.scatter(*self.place[self.drawn][:, list(coordinates)].T, **{**style, **look})


@dataclass(frozen=True)
class Scale:
    """Clouds that share one colour scale: groups, numbers or none."""

    clouds: list[PlottedPoints]
    values: Array | None  # values of all clouds that have some, concatenated
    groups: Array | None  # distinct values, if they are groups; None for a scale of numbers

    @classmethod
    def of(cls, clouds: list[PlottedPoints]) -> Scale:
        given = [cloud.value for cloud in clouds if cloud.value is not None]
        values = np.concatenate(given) if given else None
        return cls(clouds, values, np.unique(values) if values is not None and _are_groups(values) else None)

    def draw(self, axes: Axes, coordinates: Sequence[int]) -> Axes:
        for cloud in self.clouds:
            cloud.scatter(axes, coordinates, **self._look(cloud))
        frame(axes, coordinates)
        return axes

    def _look(self, cloud: PlottedPoints) -> dict[str, Any]:
        if cloud.value is None or self.values is None:
            return {"c": PLAIN}
        value = cloud.value[cloud.drawn]
        if self.groups is not None:
            return {"c": _palette(len(self.groups))[np.searchsorted(self.groups, value)]}
        return {"c": value, "cmap": "viridis", "vmin": self.values.min(), "vmax": self.values.max()}

    def explain(self, axes: Axes, beside: Sequence[Axes] | None = None) -> None:
        """Draw the legend: the groups, or a colour bar (next to all axes in ``beside``), and the mark of new points."""
        line = part("lines").Line2D
        keys = []
        if self.groups is not None:
            shades = zip(self.groups.tolist(), _palette(len(self.groups)))
            keys = [line([], [], linestyle="", marker="o", color=shade, label=str(name)) for name, shade in shades]
        elif self.values is not None:
            coloured = [drawn for drawn in axes.collections if drawn.get_array() is not None]
            bar = axes.figure.colorbar(coloured[-1], ax=axes if beside is None else beside)
            if bar.solids is not None:
                bar.solids.set_alpha(1)  # the bar would inherit the transparency of the points
        outlined = len(self.clouds) > 1
        if outlined:
            look: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": INK}
            keys.append(line([], [], linestyle="", marker="o", label="new point", **look))
        if self.groups is not None:
            place = (1.15 if hasattr(axes, "zaxis") else 1.0, 1.02)  # leaves room for the labels of a third axis
            axes.legend(handles=keys, loc="upper left", bbox_to_anchor=place, frameon=False, handletextpad=0.2)
        elif outlined:
            axes.legend(handles=keys, loc="best")


def clouds_of(
    points: Points, colors: ArrayLike | None, new: Data | None, new_colors: ArrayLike | None, coordinates: Sequence[int]
) -> list[PlottedPoints]:
    clouds = [PlottedPoints.of(points, colors, coordinates, "points", "colors", TRAINING_MARKERS)]
    if new is not None:
        clouds.append(PlottedPoints.of(new, new_colors, coordinates, "new", "new_colors", NEW_MARKERS))
    return clouds


# -- small pictures ------------------------------------------------------------------------


def pictures_of(images: ArrayLike, rows: int, name: str) -> Array:
    stack = np.asarray(images, dtype=float)
    if len(stack) != rows or not (stack.ndim == 3 or (stack.ndim == 4 and stack.shape[3] in (3, 4))):
        raise ValueError(
            f"{name} has shape {stack.shape}; {rows} points need ({rows}, height, width), or with 3 or 4 colours last."
        )
    if not np.isfinite(stack).all():
        raise ValueError(f"{name} has NaN or infinity among its pixels. Fill them in, or leave these pictures out.")
    return stack


def spread_apart(places: Array, taken: Array, least: float) -> list[int]:
    """Return rows, each the farthest from the previous ones and from ``taken``, while boxes of side ``least`` fit."""
    nearest = np.full(len(places), np.inf)
    for other in taken:
        nearest = np.minimum(nearest, np.abs(places - other).max(axis=1))
    chosen: list[int] = []
    while True:
        start = np.abs(places - places.mean(axis=0)).max(axis=1)
        row = int(np.argmax(nearest if np.isfinite(nearest).all() else start))
        if nearest[row] < least:
            return chosen
        chosen.append(row)
        nearest = np.minimum(nearest, np.abs(places - places[row]).max(axis=1))


def hang(axes: Axes, image: Array, place: Array, side: float, shade: str, limits: tuple[float, float]) -> None:
    """Draw ``image`` with a frame at ``place``; its longer side has ``side`` pixels."""
    boxes, colors = part("offsetbox"), part("colors")
    zoom = side / (max(image.shape[:2]) * axes.figure.dpi / 72)
    picture = boxes.OffsetImage(image, zoom=zoom, cmap="gray", norm=colors.Normalize(*limits))
    frame = {"facecolor": shade, "linewidth": 0}
    axes.add_artist(boxes.AnnotationBbox(picture, tuple(place), pad=0.14, bboxprops=frame))


# -- colours -------------------------------------------------------------------------------


def shades_of(count: int) -> Array:
    """Return ``count`` colours for ordered values, from dark to light, but not too light for white paper."""
    return np.asarray(import_module("matplotlib").colormaps["viridis"](np.linspace(0, 0.88, count)))


def _palette(count: int) -> Array:
    """Return ``count`` colours, (count, 3 or 4); up to 20 of them are easy to tell apart."""
    colors, maps = part("colors"), import_module("matplotlib").colormaps
    if count <= 10:
        return np.array([colors.to_rgb(shade) for shade in (_FEW if count <= len(_FEW) else _MORE)[:count]])
    if count <= _MOST_GROUPS:
        return np.array(maps["tab20"].colors[:count])
    return np.asarray(maps["turbo"](np.linspace(0, 1, count)))


def _are_groups(values: Array) -> bool:
    return values.dtype.kind not in "iuf" or len(np.unique(values)) <= _MOST_GROUPS


def sample(rows: int, count: int) -> Array:
    return np.sort(np.random.default_rng(0).choice(rows, count, replace=False))


def part(name: str) -> ModuleType:
    """Return the module ``matplotlib.<name>``; the ImportError says how to install it."""
    try:
        return import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError('Pictures need matplotlib, which is not here: pip install "outfold[plot]"') from error
