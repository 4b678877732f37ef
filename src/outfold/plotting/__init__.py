"""Pictures of embeddings, spectra, bandwidths and trust (matplotlib: ``pip install "outfold[plot]"``).

Every function takes a fitted estimator; functions that need only coordinates or eigenvalues take arrays too. A function
draws on ``axes``, or on a new figure that pyplot does not manage, and returns the axes: save with
``axes.figure.savefig("picture.png")``. Of more than 50,000 points a random sample of 50,000 is drawn, and the picture
says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._runtime.threads import Threads
from .._runtime.typing import Array, Data
from ..bandwidths import Growth, Percentile
from ..data.sources import require_in_memory
from ..distances import Given, Metric
from ..exceptions import OutfoldWarning
from ..graphs.nearest import NearestAnchors
from ..graphs.pair_statistics import DenseStatistics
from ..methods import parameters
from ..methods.base import SpectralEstimator, Storable
from ..operators.directions import LEAST_RESIDUAL
from ..operators.spectrum import spectral_dimension
from ..trust import LEVEL, Trust
from .canvas import (
    ALERT,
    FAINT,
    INK,
    NEW_MARKERS,
    OUTSIDE_MARKERS,
    PLAIN,
    TRAINING_MARKERS,
    PlottedPoints,
    Points,
    Scale,
    Transformer,
    clouds_of,
    coordinates_of,
    frame,
    grid,
    hang,
    panels,
    part,
    pictures_of,
    places_of,
    ready,
    sample,
    shades_of,
    spread_apart,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..selection.tuning import Tuning

_MOST_PAIRED = 2000  # rows in a kernel sum, at most: all their pairs are summed


# -- embeddings ----------------------------------------------------------------------------


def embedding(
    points: Points,
    *,
    colors: ArrayLike | None = None,
    new: Data | None = None,
    new_colors: ArrayLike | None = None,
    coordinates: Sequence[int] | None = None,
    axes: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Scatter two coordinates, or three in space; new points are larger and outlined.

    Parameters
    ----------
    points : fitted estimator, or array of shape (n, at least 2)
    colors : array of shape (n,), optional
        Groups (a legend names them) or, with more than 20 distinct numbers, a scale (a bar explains it).
    new, new_colors : array of coordinates, and colours, of points the fit has not seen, optional
    coordinates : two or three column numbers, optional
        Default: the first two, or the first three on 3-D axes.
    axes : matplotlib axes, optional
    title : str, optional
    """
    coordinates = coordinates_of(coordinates, axes)
    clouds = clouds_of(points, colors, new, new_colors, coordinates)
    scale = Scale.of(clouds)
    axes = scale.draw(ready(axes, coordinates), coordinates)
    scale.explain(axes)
    axes.set(title=title)
    return axes


def pairs(
    points: Points,
    *,
    colors: ArrayLike | None = None,
    new: Data | None = None,
    new_colors: ArrayLike | None = None,
    coordinates: Sequence[int] | None = None,
    against: int | None = None,
    axes: Array | None = None,
    title: str | None = None,
) -> Array:
    """Scatter every pair of coordinates, or one against each of the others; returns an array of axes.

    Parameters
    ----------
    points, colors, new, new_colors : as in ``embedding``
    coordinates : column numbers, optional
        Default: the first five, or all if there are fewer.
    against : int, optional
        The column that each of the others is drawn against, in one row. None draws all pairs, as a triangle.
    axes : array of matplotlib axes, optional
        Of shape (d - 1, d - 1) for d coordinates, or (1, d - 1) with ``against``.
    title : str, optional
    """
    if coordinates is None:
        coordinates = range(min(5, max(2, places_of(points, "points").shape[1])))
    if len(coordinates) < 2:
        raise ValueError(f"Pairs need at least 2 coordinates; coordinates={list(coordinates)}.")
    if against is None:
        shape = (len(coordinates) - 1, len(coordinates) - 1)
        places = [(i, j, coordinates[j], coordinates[i + 1]) for i in range(shape[0]) for j in range(i + 1)]
    else:
        others = [c for c in coordinates if c != against]
        shape, places = (1, len(others)), [(0, j, against, other) for j, other in enumerate(others)]
        coordinates = [against, *others]
    scale = Scale.of(clouds_of(points, colors, new, new_colors, coordinates))
    table = grid(*shape, size=(2.9, 2.6))[1] if axes is None else np.asarray(axes)
    if table.shape != shape:
        raise ValueError(f"axes has shape {table.shape}, but these pairs need {shape}.")
    for i, j, across, up in places:
        scale.draw(table[i, j], (across, up))
    for at, one in np.ndenumerate(table):
        if at not in {(i, j) for i, j, *_ in places}:
            one.set_axis_off()
    scale.explain(table[0, 0] if against is None else table[0, -1], table.ravel().tolist())
    if title:
        table[0, 0].figure.suptitle(title)
    return table


def overlay(
    estimator: SpectralEstimator,
    new: Data,
    *,
    coordinates: Sequence[int] | None = None,
    axes: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw new samples at the coordinates of ``transform``, over the training samples; crosses are outside the data.

    Parameters
    ----------
    estimator : fitted estimator
    new : rows as ``estimator.transform`` takes them
    coordinates, axes, title : as in ``embedding``
    """
    coordinates = coordinates_of(coordinates, axes)
    seen = PlottedPoints.of(estimator, None, coordinates, "estimator", "", TRAINING_MARKERS)
    places, trust = _embed(estimator, new)
    flag = np.zeros(len(places), bool) if trust is None else trust.flag
    axes = ready(axes, coordinates)
    seen.scatter(axes, coordinates, c=PLAIN, label=f"training: {seen.rows}")
    looks = [(~flag, "new", {**NEW_MARKERS, "c": ALERT}), (flag, "outside the data", OUTSIDE_MARKERS)]
    for rows, name, look in looks:
        if rows.any():
            cloud = PlottedPoints.of(places[rows], None, coordinates, "new", "", look)
            cloud.scatter(axes, coordinates, label=f"{name}: {rows.sum()}")
    frame(axes, coordinates)
    axes.legend(loc="best", fontsize="small")
    axes.set(title=title)
    return axes


def trust_map(
    estimator: SpectralEstimator,
    new: Data | None = None,
    *,
    plane: bool = False,
    coverage: float = 0.9,
    axes: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw how far to trust coordinates: the error radius of a calibrated model, else the p-value.

    Parameters
    ----------
    estimator : fitted estimator
    new : rows as ``estimator.transform`` takes them, optional
        Drawn in the embedding, each in the colour of its trust, with a cross if it is outside the data.
    plane : bool
        Colour the plane of the two features instead, blank outside the data, with landmarks and new rows on top. Needs
        data with two features. Without ``new`` this is drawn too.
    coverage : float
        Probability with which the error radius holds.
    axes, title : as in ``embedding``
    """
    check_is_fitted(estimator)
    if not hasattr(estimator, "trust"):
        raise ValueError(f"{type(estimator).__name__} does not say how far to trust it: it has no trust(X).")
    if new is None or plane:
        return _trust_of_plane(estimator, new, coverage, axes, title)
    seen = PlottedPoints.of(estimator, None, (0, 1), "estimator", "", TRAINING_MARKERS)
    places, found = _embed(estimator, new, coverage)
    PlottedPoints.of(places, None, (0, 1), "new", "", {})  # raises for coordinates that cannot be drawn
    axes = ready(axes, (0, 1))
    seen.scatter(axes, (0, 1), c=FAINT)
    assert found is not None
    _draw_trust(axes, places[:, :2], found, coverage)
    frame(axes, (0, 1))
    axes.set(title=title)
    return axes


def thumbnails(
    estimator: Points,
    images: ArrayLike,
    *,
    new: Data | None = None,
    new_images: ArrayLike | None = None,
    size: float = 0.075,
    axes: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw small images at their coordinates in the embedding, as many as have room; new ones have a red frame.

    The next image is always the one farthest from those drawn already, until it would cover another.

    Parameters
    ----------
    estimator : fitted estimator, or array of shape (n, at least 2)
    images : array of shape (n, height, width), or with 3 or 4 colours last
    new : rows as ``estimator.transform`` takes them (coordinates, if ``estimator`` is an array), optional
    new_images : as ``images``, of the new rows
    size : float
        Longer side of an image, relative to the shorter side of the axes.
    axes, title : as in ``embedding``
    """
    seen = PlottedPoints.of(estimator, None, (0, 1), "estimator", "", TRAINING_MARKERS)
    clouds, pictures = [seen], [pictures_of(images, seen.rows, "images")]
    if (new is None) != (new_images is None):
        raise ValueError("new and new_images belong together: rows to embed, and a picture of each.")
    if new is not None and new_images is not None:
        coordinates = _embed(estimator, new)[0] if isinstance(estimator, Transformer) else new
        clouds.append(PlottedPoints.of(coordinates, None, (0, 1), "new", "", NEW_MARKERS))
        pictures.append(pictures_of(new_images, clouds[1].rows, "new_images"))
    axes = ready(axes, (0, 1))
    for cloud, shade in zip(clouds, (FAINT, ALERT)):
        cloud.scatter(axes, (0, 1), c=shade, s=10, linewidths=0)
    frame(axes, (0, 1))
    axes.margins(0.08)
    if new is not None:
        line = part("lines").Line2D
        look: dict[str, Any] = {"linestyle": "", "marker": "s"}
        keys = [line([], [], color=c, label=name, **look) for name, c in (("training", INK), ("new", ALERT))]
        axes.legend(handles=keys, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False, borderpad=0)
    figure: Any = axes.figure
    figure.draw_without_rendering()  # fixes the layout, from which `transData` computes pixels
    side = size * min(axes.bbox.width, axes.bbox.height)
    taken = np.empty((0, 2))
    for cloud, stack, shade in reversed(list(zip(clouds, pictures, (INK, ALERT)))):  # new images come first
        places = axes.transData.transform(cloud.place[:, :2])
        room = 1.25 if cloud is seen else 2.0  # new images leave room for training images between them
        for row in spread_apart(places, taken, room * side):
            taken = np.vstack([taken, places[row]])
            hang(axes, stack[row], cloud.place[row, :2], side, shade, (stack.min(), stack.max()))
    axes.set(title=title)
    return axes


# -- spectra and bandwidths ----------------------------------------------------------------


def spectrum(
    eigenvalues: ArrayLike | SpectralEstimator,
    *,
    t: float | Sequence[float] = 1.0,
    delta: float = 0.1,
    axes: Axes | None = None,
) -> Axes:
    """Draw ``|lambda|^t``, largest first, and the number of those above ``delta |lambda_1|^t``.

    Parameters
    ----------
    eigenvalues : fitted estimator, or array
        Eigenvalues of a Markov kernel, without the trivial 1. For a random-walk Laplacian they are 1 - mu; those of an
        estimator are converted.
    t : float or several
        Diffusion times. A single one is drawn as bars, several as lines ``|lambda / lambda_1|^t``.
    delta : float
        Threshold, relative to the largest.
    axes : matplotlib axes, optional
    """
    sizes = np.sort(np.abs(_eigenvalues(eigenvalues)))[::-1]
    times = np.atleast_1d(np.asarray(t, dtype=float))
    if times.ndim != 1 or not len(times) or not (times > 0).all():
        raise ValueError(f"t={t!r} must be a number above 0, or several.")
    kept = [spectral_dimension(sizes, t=time, delta=delta) for time in times]
    axes = ready(axes, (0, 1))
    number = np.arange(1, len(sizes) + 1)
    if len(times) == 1:
        above = len(sizes) if kept[0] is None else kept[0]
        heights = sizes ** times[0]
        axes.bar(number, heights, color=np.where(number <= above, PLAIN, FAINT), width=0.75)
        axes.axhline(delta * heights[0], color=INK, linestyle="--", linewidth=1, label=f"{delta:g} of the largest")
        power = "" if times[0] == 1 else f"^{times[0]:g}"
        axes.set(ylabel=f"|eigenvalue|{power}", title=f"Spectrum: {above} of {len(sizes)} above the line")
        axes.set_ylim(0, 1.15 * heights[0])  # room for the legend
        axes.legend(loc="upper right", frameon=False)
    else:
        for time, count, shade in zip(times, kept, shades_of(len(times))):
            told = f"all {len(sizes)}" if count is None else count
            look: dict[str, Any] = {"color": shade, "marker": "o", "markersize": 4, "linewidth": 1.4}
            axes.plot(number, (sizes / sizes[0]) ** time, label=f"t = {time:g}: {told} above", **look)
        axes.axhline(delta, color=INK, linestyle="--", linewidth=1, label=f"delta = {delta:g}")
        axes.set(ylabel="|eigenvalue / largest|^t", title="Spectrum at several diffusion times", ylim=(0, 1.03))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False)
    axes.xaxis.set_major_locator(part("ticker").MaxNLocator(integer=True))
    axes.set(xlabel="number", xlim=(0.25, len(sizes) + 0.75))
    return axes


def decay(
    X: Data | SpectralEstimator,
    *,
    epsilons: Sequence[Any] = tuple(map(Percentile, (1, 2, 5, 15, 30, 50))),
    method: SpectralEstimator | None = None,
    components: int = 20,
    axes: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the spectra of fits at several epsilons.

    Parameters
    ----------
    X : rows, or a fitted estimator
        An estimator gives its parameters and its training rows, all of which it must hold.
    epsilons : numbers, names or rules, as the method takes them
        By default sigma is the 1st to 50th percentile of the distances.
    method : estimator with ``epsilon`` and ``n_components``, optional
        Default: DiffusionMaps().
    components : int
        Number of eigenvalues; fewer are drawn if the kernel has fewer.
    axes, title : as in ``embedding``
    """
    from ..methods import DiffusionMaps

    if isinstance(X, SpectralEstimator):
        method, X = method or X, _training_rows(X)
    rows: Array = check_array(require_in_memory(X), dtype=[np.float64, np.float32])
    method = DiffusionMaps() if method is None else method
    lacking = {"epsilon", "n_components"} - method.get_params().keys()
    if lacking:
        raise ValueError(f"{type(method).__name__} has no {' and no '.join(sorted(lacking))} to set.")
    if not 1 <= components < len(rows):
        raise ValueError(f"components={components}: {len(rows)} rows have 1 to {len(rows) - 1} eigenvalues to draw.")
    if not len(epsilons):
        raise ValueError("epsilons is empty: pass at least one number or rule.")
    axes = ready(axes, (0, 1))
    for epsilon, shade in zip(epsilons, shades_of(len(epsilons))):
        fitted = _fit_at(method, rows, epsilon, components)
        sizes = np.sort(np.abs(_eigenvalues(fitted)))[::-1]
        label = f"{fitted.epsilon_:.3g}" + (f" (percentile {epsilon.q:g})" if isinstance(epsilon, Percentile) else "")
        look: dict[str, Any] = {"color": shade, "marker": "o", "markersize": 3.5, "linewidth": 1.4}
        axes.plot(np.arange(1, len(sizes) + 1), sizes, label=label, **look)
    axes.xaxis.set_major_locator(part("ticker").MaxNLocator(integer=True))
    axes.set(xlabel="number", ylabel="|eigenvalue|", ylim=(0, 1.03), title=title)
    axes.legend(title="epsilon", loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False)
    return axes


def kernel_sum(
    estimator: Data | SpectralEstimator, X: Data | None = None, *, axes: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw log sum_ij exp(-d_ij^2 / (2 epsilon)) against log epsilon; its steepest slope is half the dimension.

    Parameters
    ----------
    estimator : fitted estimator, or rows
        An estimator with a Gaussian kernel gives the metric, the landmarks (unless X is passed) and its epsilon, which
        is marked. Kernels in local units have no such epsilon: pass rows.
    X : rows to take the distances of, optional
        With metric="precomputed": the square matrix of distances. A random sample of 2000 rows if there are more.
    axes, title : as in ``embedding``
    """
    survey, epsilon = _distances(estimator, X)
    total = Growth.of(survey)
    best = int(total.slopes.argmax())
    dimension = 2 * total.slopes[best]
    axes = ready(axes, (0, 1))
    axes.loglog(total.epsilons, total.sums, color=PLAIN, linewidth=2, label=f"sum over {len(survey.measure)} points")
    tangent = total.sums[best] * (total.epsilons / total.epsilons[best]) ** total.slopes[best]
    inside = np.abs(np.log10(total.epsilons / total.epsilons[best])) < 1
    look: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 1}
    axes.loglog(total.epsilons[inside], tangent[inside], label=f"steepest: dimension {dimension:.2f}", **look)
    if np.isfinite(epsilon):
        height = np.exp(np.interp(np.log(epsilon), np.log(total.epsilons), np.log(total.sums)))
        axes.plot([epsilon, epsilon], [total.sums[0], height], color=ALERT, linewidth=1)
        axes.plot([epsilon], [height], "o", color=ALERT, label=f"epsilon = {epsilon:.3g}")
    axes.set(xlabel="epsilon", ylabel="kernel sum", title=title)
    axes.legend(loc="upper left", frameon=False)
    return axes


def tuning(result: Tuning, *, axes: Axes | None = None) -> Axes:
    """Draw held-out error, stability, bias and their total against the width, with bands of one standard error.

    The width is epsilon, or n_neighbors if that was searched. For alphas other than the chosen one only the total is
    drawn, in grey. If one width was tried, the residual of each eigenvector is drawn instead, and which were kept.

    Parameters
    ----------
    result : what ``outfold.selection.tune`` returns
    axes : matplotlib axes, optional
    """
    alphas = sorted({row.alpha for row in result.table}, key=lambda alpha: alpha or 0.0)
    axes = ready(axes, (0, 1))
    if len(result.table) == len(alphas):
        return _draw_residuals(result, axes)
    name = "epsilon" if result.chosen.n_neighbors is None else "n_neighbors"
    for at, alpha in enumerate(alphas):
        rows = [row for row in result.table if row.alpha == alpha]
        width = np.array([getattr(row, name) for row in rows])
        total = np.array([row.total for row in rows])
        if alpha != result.chosen.alpha:
            look: dict[str, Any] = {"color": FAINT, "linestyle": ("-", "--", ":")[at % 3], "zorder": 1}
            axes.plot(width, total, label=f"all, alpha {alpha:g}", **look)
            continue
        for kind, shade in (("error", PLAIN), ("stability", "#228833")):
            values, bands = (np.array([getattr(row, kind + end) for row in rows]) for end in ("", "_band"))
            axes.plot(width, values, color=shade, label="held-out error" if kind == "error" else kind)
            low = np.maximum(values - bands, 0)
            axes.fill_between(width, low, values + bands, color=shade, alpha=0.2, linewidth=0)
        axes.plot(width, [row.bias for row in rows], color="#cc6677", label="bias")
        axes.plot(width, total, color=INK, linewidth=2, label="all" if alpha is None else f"all, alpha {alpha:g}")
    best = getattr(result.chosen, name)
    axes.plot(best, result.chosen.total, "o", color=INK, zorder=4)
    axes.axvline(best, color=INK, linestyle="--", linewidth=1)
    axes.set(xlabel=name, ylabel="relative to the spread", xscale="log")
    axes.set_title(f"{result.method}: {name} {best:.3g}, {result.dimension} coordinates")
    axes.set_ylim(0, 1.05 * max(min(1.2, max(row.total for row in result.table)), 2 * result.chosen.total))
    axes.legend(frameon=False)
    return axes


def _draw_residuals(result: Tuning, axes: Axes) -> Axes:
    """Draw the residual of each eigenvector, with those that are kept in colour."""
    number = np.arange(1, len(result.residuals) + 1)
    kept = np.isin(number, result.coordinates)
    for some, shade, label in ((kept, PLAIN, "kept"), (~kept, FAINT, "not kept")):
        axes.bar(number[some], result.residuals[some], color=shade, label=label)
    axes.axhline(LEAST_RESIDUAL, color=INK, linestyle="--", linewidth=1, label="a new direction exceeds")
    axes.set(xlabel="eigenpair", ylabel="residual", xticks=number, ylim=(0, 1.05 * max(1.0, result.residuals.max())))
    axes.set_title(f"{result.method}: {result.dimension} coordinates")
    axes.legend(frameon=False)
    return axes


# -- helpers -------------------------------------------------------------------------------


def _embed(estimator: Transformer, new: Data, coverage: float = 0.9) -> tuple[Array, Trust | None]:
    """Return the coordinates of new rows, and their Trust (None if the estimator has no ``trust``)."""
    check_is_fitted(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutfoldWarning)  # the picture marks the rows outside the data
        places = np.asarray(estimator.transform(require_in_memory(new)), dtype=float)
        return places, estimator.trust(new, coverage=coverage) if hasattr(estimator, "trust") else None


def _eigenvalues(values: ArrayLike | SpectralEstimator) -> Array:
    """Return the eigenvalues of a Markov kernel: an array as it is, or those of a fitted estimator."""
    if not isinstance(values, Storable):
        found = np.asarray(values, dtype=float)
        if found.ndim != 1 or not np.isfinite(found).all():
            raise ValueError(f"eigenvalues of shape {found.shape}, or not all finite: pass a row of numbers.")
        return found
    check_is_fitted(values)
    found = np.asarray(values.eigenvalues_, dtype=float)
    if getattr(values, "laplacian", None) == "random_walk":
        return 1 - found
    if len(found) > 1 and (np.diff(np.abs(found)) > 0).all():
        raise ValueError(
            f"The eigenvalues of {type(values).__name__} are the smallest of their matrix and grow: there is no decay "
            "to draw. Fit DiffusionMaps with another kernel than 'variable', or pass an array; of rates mu, exp(-mu)."
        )
    return found


def _training_rows(estimator: SpectralEstimator) -> Array:
    """Return the training rows of an estimator; raise if it does not hold all of them."""
    check_is_fitted(estimator)
    rows = np.asarray(estimator.landmarks_)
    if rows.ndim != 2 or len(rows) != estimator.report_.n_samples:
        raise ValueError(
            f"{type(estimator).__name__} holds {len(rows)} landmarks of {estimator.report_.n_samples} rows, not the "
            "rows themselves. Pass X, and the estimator as method=."
        )
    return rows


def _fit_at(method: SpectralEstimator, X: Array, epsilon: object, components: int) -> SpectralEstimator:
    """Return a fit at ``epsilon``; the number of components is halved until the kernel has that many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutfoldWarning)  # some epsilons are too small or too large: that is the point
        while True:
            try:
                fitted: SpectralEstimator = clone(method).set_params(epsilon=epsilon, n_components=components).fit(X)
                return fitted
            except ValueError:
                if components == 1:
                    raise
                components //= 2


def _distances(estimator: Data | SpectralEstimator, X: Data | None) -> tuple[DenseStatistics, float]:
    """Return the distances between at most 2000 rows, and the estimator's epsilon (NaN if there is no estimator)."""
    metric: Metric | None = Metric()
    epsilon = np.nan
    if not isinstance(estimator, Storable):
        X = estimator if X is None else X
    else:
        check_is_fitted(estimator)
        if not _has_gaussian(estimator):
            raise ValueError(
                f"{type(estimator).__name__} as fitted has no Gaussian kernel of distances, hence no epsilon to mark. "
                "Pass rows instead of it, kernel_sum(X), or fit it with kernel='gaussian' if it takes one."
            )
        metric, epsilon = parameters.metric(estimator.metric), float(estimator.epsilon_)
        if X is None and metric is None:
            raise ValueError("metric='precomputed' leaves no rows to measure: pass the square matrix as X.")
        X = estimator.landmarks_ if X is None else X
    rows = check_array(require_in_memory(X), dtype=float, ensure_min_samples=2)
    columns = len(rows) if metric is None else getattr(estimator, "n_features_in_", rows.shape[1])
    if rows.shape[1] != columns:
        raise ValueError(f"X has shape {rows.shape}, but {columns} columns are expected.")
    if len(rows) > _MOST_PAIRED:
        some = sample(len(rows), _MOST_PAIRED)
        rows = rows[some] if metric else rows[np.ix_(some, some)]
    if metric is None:
        given = Given(np.arange(len(rows)))
        return DenseStatistics(distances=given, squared=given.cross(rows), measure=np.ones(len(rows))), epsilon
    distances = metric.fit(rows)
    return DenseStatistics(distances=distances, squared=distances.gram(Threads()), measure=np.ones(len(rows))), epsilon


def _has_gaussian(estimator: Storable) -> bool:
    """Whether the kernel of a fit is a Gaussian of distances in the units of the data."""
    named = getattr(estimator, "kernel", "gaussian") in ("auto", "gaussian")
    rule = getattr(getattr(estimator, "model_", None), "rule", None)
    in_local_units = isinstance(getattr(rule, "geometry", None), NearestAnchors)
    return named and not in_local_units and hasattr(estimator, "epsilon_")


def _draw_trust(axes: Axes, places: Array, found: Trust, coverage: float) -> None:
    """Draw points in the colour of their trust (with a colour bar), and points outside the data as crosses."""
    values, name, look, off = _trust_rows(found, coverage)
    if not off.all():
        drawn = axes.scatter(places[~off, 0], places[~off, 1], c=values[~off], **look, **NEW_MARKERS)
        axes.figure.colorbar(drawn, ax=axes, label=name, format="{x:g}")
    if off.any():
        axes.scatter(*places[off].T, **OUTSIDE_MARKERS, label=f"outside the data: {off.sum()}")
        axes.legend(loc="best", fontsize="small")


def _trust_rows(found: Trust, coverage: float) -> tuple[Array, str, dict[str, Any], Array]:
    """Return values to draw of a Trust, their name, their colours (light is good), and which rows are outside."""
    if found.error is None:
        scale = part("colors").LogNorm(LEVEL, 1.0)
        return found.p_value, "p-value", {"cmap": "viridis", "norm": scale}, found.flag
    off = found.flag | ~np.isfinite(found.error)
    return found.error, f"radius of the {100 * coverage:g} % band", {"cmap": "viridis_r"}, off


def _trust_of_plane(
    estimator: SpectralEstimator, new: Data | None, coverage: float, axes: Axes | None, title: str | None
) -> Axes:
    """Draw trust over the plane of the two features, and return the axes."""
    X = np.asarray(estimator.landmarks_)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(
            f"Only data with two features lies in a plane; this has {estimator.n_features_in_}. Pass new rows, and "
            "their trust is drawn in the embedding."
        )
    rows = X if new is None else np.vstack([X, check_array(require_in_memory(new), dtype=float)])
    margin = 0.15 * np.ptp(rows, axis=0).max()
    ticks = [np.linspace(low - margin, high + margin, 160) for low, high in zip(rows.min(axis=0), rows.max(axis=0))]
    across, up = np.meshgrid(*ticks)
    found = estimator.trust(np.column_stack([across.ravel(), up.ravel()]), coverage=coverage)
    values, name, look, off = _trust_rows(found, coverage)
    axes = ready(axes, (0, 1))
    field = np.where(off, np.nan, values).reshape(across.shape)
    drawn = axes.pcolormesh(across, up, field, **look, shading="nearest", rasterized=True)
    axes.figure.colorbar(drawn, ax=axes, label=name, format="{x:g}")
    axes.scatter(X[:, 0], X[:, 1], s=3, c=INK, alpha=0.5, linewidths=0)
    if new is not None:
        flag = estimator.trust(new).flag
        axes.scatter(*rows[len(X) :][~flag].T, **{**NEW_MARKERS, "c": ALERT}, label=f"new: {(~flag).sum()}")
        axes.scatter(*rows[len(X) :][flag].T, **OUTSIDE_MARKERS, label=f"outside the data: {flag.sum()}")
        axes.legend(loc="best", fontsize="small")
    axes.set(xlabel="feature 1", ylabel="feature 2", title=title)
    axes.set_aspect("equal", adjustable="datalim")
    return axes


__all__ = [
    "decay",
    "embedding",
    "grid",
    "kernel_sum",
    "overlay",
    "pairs",
    "panels",
    "spectrum",
    "thumbnails",
    "trust_map",
    "tuning",
]
