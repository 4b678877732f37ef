"""Small data sets: seeded manifolds whose truth is known, and the red wine table."""

from __future__ import annotations

import os
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import Bunch, check_random_state

Array = NDArray[Any]

WINE_FILE = "wine_red/winequality-red.csv"
WINE_FEATURES = (
    "fixed acidity",
    "volatile acidity",
    "citric acid",
    "residual sugar",
    "chlorides",
    "free sulfur dioxide",
    "total sulfur dioxide",
    "density",
    "pH",
    "sulphates",
    "alcohol",
)
_WINE_ROWS = 1599
_WINE_OPENML = 40691


# -- manifolds -----------------------------------------------------------------------------


def circle(n: int, *, random_state: Any = None, noise: float = 0.0) -> Array:
    """Points drawn evenly from the unit circle in the plane.

    >>> circle(100, random_state=0).shape
    (100, 2)
    """
    random = check_random_state(random_state)
    return _blur(_turn(random.uniform(0, 2 * np.pi, n)), noise, random)


def sphere(n: int, *, random_state: Any = None, noise: float = 0.0) -> Array:
    """Points drawn evenly from the unit sphere in space.

    >>> sphere(100, random_state=0).shape
    (100, 3)
    """
    random = check_random_state(random_state)
    directions = random.standard_normal((n, 3))
    return _blur(directions / np.linalg.norm(directions, axis=1, keepdims=True), noise, random)


def flat_torus(n: int, *, random_state: Any = None, noise: float = 0.0) -> Array:
    """Points drawn evenly from the product of two unit circles in R^4.

    >>> flat_torus(100, random_state=0).shape
    (100, 4)
    """
    random = check_random_state(random_state)
    angles = random.uniform(0, 2 * np.pi, (n, 2))
    return _blur(np.hstack([_turn(angles[:, 0]), _turn(angles[:, 1])]), noise, random)


def s_curve(n: int, *, random_state: Any = None, noise: float = 0.0) -> tuple[Array, Array]:
    """An S-shaped sheet in space, and each point's place on the sheet laid flat: length along the S, height.

    >>> X, position = s_curve(100, random_state=0)
    >>> X.shape, position.shape
    ((100, 3), (100, 2))
    """
    random = check_random_state(random_state)
    length, height = random.uniform([-1.5 * np.pi, 0], [1.5 * np.pi, 2], (n, 2)).T
    sheet = np.column_stack([np.sin(length), height, np.sign(length) * (np.cos(length) - 1)])
    return _blur(sheet, noise, random), np.column_stack([length, height])


def swiss_roll(n: int, *, random_state: Any = None, noise: float = 0.0) -> tuple[Array, Array]:
    """A rolled sheet in space, evenly covered, and each point's place on the sheet laid flat: length, height.

    >>> X, position = swiss_roll(100, random_state=0)
    >>> X.shape, position.shape
    ((100, 3), (100, 2))
    """
    random = check_random_state(random_state)
    grid = np.linspace(1.5 * np.pi, 4.5 * np.pi, 10_000)
    lengths = _spiral_length(grid)
    angle = np.interp(random.uniform(lengths[0], lengths[-1], n), lengths, grid)
    height = random.uniform(0, 21, n)
    sheet = np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])
    return _blur(sheet, noise, random), np.column_stack([_spiral_length(angle), height])


def punched_sphere(n: int, *, random_state: Any = None, noise: float = 0.0) -> tuple[Array, Array]:
    """A unit sphere without its cap, crowded at the rim, and each point's place in the disc it is the image of.

    The disc of radius 5 is evenly covered; (u, v) goes to (a u, a v, 2 - 2 a), a = 4 / (4 + u^2 + v^2), the inverse
    stereographic projection.

    >>> X, position = punched_sphere(100, random_state=0)
    >>> X.shape, position.shape
    ((100, 3), (100, 2))
    """
    random = check_random_state(random_state)
    radius = 5 * np.sqrt(random.uniform(size=n))
    disc = radius[:, None] * _turn(random.uniform(0, 2 * np.pi, n))
    shrink = 4 / (4 + radius**2)
    return _blur(np.column_stack([shrink[:, None] * disc, 2 - 2 * shrink]), noise, random), disc


def clusters_3d(n: int, *, clusters: int = 3, bridge: int = 9, random_state: Any = None) -> tuple[Array, Array]:
    """Cubes of points in space, each joined to the next by a few points on a line, and which one each point is from.

    Centres are drawn from a cube of side 10; sides are sqrt(1 / 12) of the least distance of two. Points on a line
    belong to the nearer end.

    >>> X, label = clusters_3d(90, random_state=0)
    >>> X.shape, sorted(set(label.tolist()))
    ((90, 3), [0, 1, 2])
    """
    random = check_random_state(random_state)
    inside = n - bridge * (clusters - 1)
    if clusters < 2 or inside < clusters:
        raise ValueError(
            f"n={n} is too few for {clusters} clusters (at least 2) with {bridge} points between them. Raise n, or "
            "lower bridge."
        )
    centres = random.uniform(0, 10, (clusters, 3))
    side = pdist(centres).min() / np.sqrt(12)
    along = np.arange(1, bridge + 1)[:, None] / (bridge + 1)
    lines = [start + along * (end - start) for start, end in pairwise(centres)]
    label = np.arange(inside) * clusters // inside
    cubes = centres[label] + random.uniform(-side / 2, side / 2, (inside, 3))
    nearer = np.arange(clusters - 1)[:, None] + (along > 0.5).T
    return np.vstack([cubes, *lines]), np.append(label, nearer)


def noisy_moons(n: int, *, noise: float = 0.07, random_state: Any = None) -> tuple[Array, Array]:
    """Two interlocked half circles with noise, and which one each point is from.

    >>> X, label = noisy_moons(100, random_state=0)
    >>> X.shape, label.sum().item()
    ((100, 2), 50)
    """
    from sklearn.datasets import make_moons

    return make_moons(n, noise=noise, random_state=random_state)


def blobs(
    n: int, *, centers: int = 3, dimension: int = 2, spread: float = 1.0, random_state: Any = None
) -> tuple[Array, Array]:
    """Gaussian clouds around random centres, and which one each point is from.

    >>> X, label = blobs(90, dimension=5, random_state=0)
    >>> X.shape, sorted(set(label.tolist()))
    ((90, 5), [0, 1, 2])
    """
    from sklearn.datasets import make_blobs

    X, label = make_blobs(n, dimension, centers=centers, cluster_std=spread, random_state=random_state)[:2]
    return X, label


def connected_clusters(
    sizes: tuple[int, int] = (100, 400), *, noise: float = 0.04, random_state: Any = None
) -> tuple[Array, Array]:
    """Two bent clusters along one curve, with few points where they meet, and which one each point is from.

    In the manner of the toy data of Bengio et al. (2004), figure 2: the smaller cluster top left, the larger
    bottom right.

    >>> X, label = connected_clusters(random_state=0)
    >>> X.shape, label.sum().item()
    ((500, 2), 400)
    """
    random = check_random_state(random_state)
    halves = []
    for count, side in zip(sizes, (-1, 1)):
        angle = 1.3 * np.pi * random.beta(2.0, 1.2, count)
        halves.append(side * np.column_stack([0.5 - 0.5 * np.cos(angle), -0.5 * np.sin(angle)]))
    return _blur(np.vstack(halves), noise, random), np.repeat([0, 1], sizes)


def _turn(angle: Array) -> Array:
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _blur(X: Array, noise: float, random: np.random.RandomState) -> Array:
    return X + noise * random.standard_normal(X.shape) if noise else X


def _spiral_length(angle: Array) -> Array:
    """Arc length of the spiral r = angle, from its centre."""
    return (angle * np.hypot(1, angle) + np.arcsinh(angle)) / 2


# -- red wine ------------------------------------------------------------------------------


def fetch_red_wine(return_X_y: bool = False, path: str | os.PathLike[str] | None = None) -> Any:
    """The red wine table of Cortez et al. (2009): 1599 wines, 11 measurements, a quality from 3 to 8.

    Parameters
    ----------
    return_X_y : bool
        Return (X, y) instead of a Bunch with ``data``, ``target`` and ``feature_names``.
    path : str or path, optional
        The file. Without it: wine_red/winequality-red.csv in the folder that the environment variable
        OUTFOLD_DATA names, and then OpenML's data set 40691, which needs the network once.
    """
    X, y = _read_wine(Path(path)) if path is not None else _find_wine()
    if X.shape != (_WINE_ROWS, len(WINE_FEATURES)):
        raise ValueError(
            f"The red wine table has {_WINE_ROWS} rows of {len(WINE_FEATURES)} features, but this one has shape "
            f"{X.shape}. Is it another file, or one cut short?"
        )
    return (X, y) if return_X_y else Bunch(data=X, target=y, feature_names=list(WINE_FEATURES))


def clean_red_wine(X: Array, y: Array) -> tuple[Array, Array]:
    """Drop every row that repeats an earlier one in all features and quality, keeping the order.

    >>> X, y = clean_red_wine([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0], [1.0, 2.0]], [5, 6, 5, 7])
    >>> X.tolist(), y.tolist()
    ([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0]], [5, 6, 7])
    """
    X, y = np.asarray(X), np.asarray(y)
    _, first = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    kept = np.sort(first)
    return X[kept], y[kept]


def _find_wine() -> tuple[Array, Array]:
    folder = os.environ.get("OUTFOLD_DATA")
    if folder and (Path(folder) / WINE_FILE).is_file():
        return _read_wine(Path(folder) / WINE_FILE)
    try:
        return _download_wine()
    except OSError as error:
        raise OSError(
            f"The red wine table is not at hand: OUTFOLD_DATA is {folder or 'not set'}"
            f"{f' and has no {WINE_FILE}' if folder else ''}, and OpenML did not answer ({error}). Either pass "
            f"path= with the file winequality-red.csv, or set OUTFOLD_DATA to a folder that holds {WINE_FILE}, or "
            f"go online so that OpenML's data set {_WINE_OPENML} can be fetched."
        ) from error


def _read_wine(file: Path) -> tuple[Array, Array]:
    with file.open(encoding="utf-8") as lines:
        names = [name.strip().strip('"') for name in next(lines, "").split(";")]
        if names != [*WINE_FEATURES, "quality"]:
            raise ValueError(
                f"{file} is not the red wine table: its first line should name 11 features and quality, separated "
                f"by ';', but starts with {names[0]!r}."
            )
        table = np.loadtxt(lines, delimiter=";", ndmin=2)
    return table[:, :-1], table[:, -1].astype(int)


def _download_wine() -> tuple[Array, Array]:
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about retries: what matters is raised
        X, y = fetch_openml(
            data_id=_WINE_OPENML, return_X_y=True, as_frame=False, parser="liac-arff", n_retries=1, delay=0.1
        )
    return X.astype(float), y.astype(float).astype(int)
