"""Small data sets: random manifolds with their true coordinates, rotated images, and tables from files or OpenML."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from .._runtime.typing import Array, Seed
from .fetched import (
    VOWELS,
    WINE_FEATURES,
    WINE_FILE,
    clean_red_wine,
    fetch_faces,
    fetch_ionosphere,
    fetch_red_wine,
    fetch_vowel,
    openml,
)

ROTATED_FILE = "grae/rotated_digits.npz"
_ROTATED = {3: 51230, 7: 50147, 2: 38261}  # digit: its row in MNIST
_MNIST_OPENML = 554


# -- manifolds -----------------------------------------------------------------------------


def circle(n: int, *, random_state: Seed = None, noise: float = 0.0) -> Array:
    """Points drawn evenly from the unit circle in the plane.

    >>> circle(100, random_state=0).shape
    (100, 2)
    """
    random = check_random_state(random_state)
    return _blur(_turn(random.uniform(0, 2 * np.pi, n)), noise, random)


def sphere(n: int, *, random_state: Seed = None, noise: float = 0.0) -> Array:
    """Points drawn evenly from the unit sphere in space.

    >>> sphere(100, random_state=0).shape
    (100, 3)
    """
    random = check_random_state(random_state)
    directions = random.standard_normal((n, 3))
    return _blur(directions / np.linalg.norm(directions, axis=1, keepdims=True), noise, random)


def flat_torus(n: int, *, random_state: Seed = None, noise: float = 0.0) -> Array:
    """Points drawn evenly from the product of two unit circles in R^4.

    >>> flat_torus(100, random_state=0).shape
    (100, 4)
    """
    random = check_random_state(random_state)
    angles = random.uniform(0, 2 * np.pi, (n, 2))
    return _blur(np.hstack([_turn(angles[:, 0]), _turn(angles[:, 1])]), noise, random)


def s_curve(n: int, *, random_state: Seed = None, noise: float = 0.0) -> tuple[Array, Array]:
    """Points (n, 3) of an S-shaped sheet, and their coordinates (n, 2) on the flat sheet: length along the S, height.

    >>> X, position = s_curve(100, random_state=0)
    >>> X.shape, position.shape
    ((100, 3), (100, 2))
    """
    random = check_random_state(random_state)
    length, height = random.uniform([-1.5 * np.pi, 0], [1.5 * np.pi, 2], (n, 2)).T
    sheet = np.column_stack([np.sin(length), height, np.sign(length) * (np.cos(length) - 1)])
    return _blur(sheet, noise, random), np.column_stack([length, height])


def swiss_roll(n: int, *, random_state: Seed = None, noise: float = 0.0) -> tuple[Array, Array]:
    """Points (n, 3) drawn evenly from a rolled sheet, and their coordinates (n, 2) on the flat sheet: length, height.

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


def punched_sphere(n: int, *, random_state: Seed = None, noise: float = 0.0) -> tuple[Array, Array]:
    """Points (n, 3) of a unit sphere without its cap, denser at the rim, and their coordinates (n, 2) in a disc.

    Points are drawn evenly from the disc of radius 5; (u, v) goes to (a u, a v, 2 - 2 a), a = 4 / (4 + u^2 + v^2), the
    inverse stereographic projection.

    >>> X, position = punched_sphere(100, random_state=0)
    >>> X.shape, position.shape
    ((100, 3), (100, 2))
    """
    random = check_random_state(random_state)
    radius = 5 * np.sqrt(random.uniform(size=n))
    disc = radius[:, None] * _turn(random.uniform(0, 2 * np.pi, n))
    shrink = 4 / (4 + radius**2)
    return _blur(np.column_stack([shrink[:, None] * disc, 2 - 2 * shrink]), noise, random), disc


def helix(n: int, *, noise: float = 0.05, random_state: Seed = None) -> tuple[Array, Array]:
    """Points of a closed curve, (cos t, sin 2t, sin 3t), and their parameters t, (n,), drawn evenly from [0, 2 pi).

    Lafon's curve as used by Dorado (2018), section 4.2.1. The percentile of distances chosen there is for noise 0.05.

    >>> X, t = helix(100, random_state=0)
    >>> X.shape, t.shape
    ((100, 3), (100,))
    """
    random = check_random_state(random_state)
    t = random.uniform(0, 2 * np.pi, n)
    return _blur(np.column_stack([np.cos(t), np.sin(2 * t), np.sin(3 * t)]), noise, random), t


def toroidal_helices(
    n: int, *, coils: int = 8, noise: float = 0.0, random_state: Seed = None
) -> tuple[Array, Array, Array]:
    """Points of two closed helices on a torus that do not meet, the helix of each point (0 or 1), and its angle phi.

    With radii R = 3 and r = 1 and a = phi + label pi / coils (half a coil further),
    ((R + r cos(coils phi)) cos a, (R + r cos(coils phi)) sin a, r sin(coils phi)), phi drawn evenly from
    [0, 2 pi). The first helix has half of the points, rounded up: the data of Duque, Morin, Wolf and Moon (2020).

    >>> X, label, phi = toroidal_helices(100, random_state=0)
    >>> X.shape, label.sum().item(), phi.shape
    ((100, 3), 50, (100,))
    """
    random = check_random_state(random_state)
    label = np.repeat([0, 1], [n - n // 2, n // 2])
    phi = random.uniform(0, 2 * np.pi, n)
    radius = 3 + np.cos(coils * phi)
    curve = np.column_stack([radius[:, None] * _turn(phi + label * np.pi / coils), np.sin(coils * phi)])
    return _blur(curve, noise, random), label, phi


def rectangle(
    n: int, *, sides: tuple[float, float] = (3.0, 5.0), grid: bool = False, random_state: Seed = None
) -> Array:
    """Points of a rectangle in the plane with a corner at the origin: drawn evenly, or on a regular grid.

    A grid has nearly square cells with a point in the middle of each, so the number of points is only about n.

    >>> rectangle(100, random_state=0).shape, rectangle(100, grid=True).shape
    ((100, 2), (96, 2))
    """
    if not grid:
        points: Array = check_random_state(random_state).uniform(0, sides, (n, 2))
        return points
    across = max(1, round(np.sqrt(n * sides[0] / sides[1])))
    counts = across, max(1, round(n / across))
    ticks = [(np.arange(count) + 0.5) * (side / count) for count, side in zip(counts, sides)]
    return np.column_stack([place.ravel() for place in np.meshgrid(*ticks, indexing="ij")])


def smooth_manifold(
    n: int, *, dimension: int = 2, features: int = 784, manifold: int = 0, noise: float = 0.0, random_state: Seed = None
) -> tuple[Array, Array]:
    """Points of a bent cube in many features, and their coordinates u in the cube, drawn evenly from [0, 1]^dimension.

    ``x(u) = A [cos(w_k . u + b_k) / sqrt(1 + |w_k|^2)]``, k = 1 ... 64, with random waves w_k, phases b_k and a random
    matrix A: smooth functions of u whose amplitude falls with frequency. The intrinsic dimension is
    ``dimension``, and the linear dimension is far larger. ``manifold`` seeds the manifold; ``random_state`` its points.

    >>> X, place = smooth_manifold(100, random_state=0)
    >>> X.shape, place.shape
    ((100, 784), (100, 2))
    """
    if not 1 <= dimension <= (features - 1) / 2:
        raise ValueError(
            f"A manifold of dimension {dimension} in {features} features may have to cross itself. Take dimension at "
            f"least 1 and features at least {2 * max(dimension, 1) + 1}."
        )
    random, shape = check_random_state(random_state), np.random.default_rng(manifold)
    waves = 64
    frequency = 4 * shape.normal(size=(dimension, waves))
    phase = shape.uniform(0, 2 * np.pi, waves)
    mix = shape.normal(size=(waves, features)) / np.sqrt(features)
    place = random.uniform(size=(n, dimension))
    bent = (np.cos(place @ frequency + phase) / np.hypot(1, np.linalg.norm(frequency, axis=0))) @ mix
    return _blur(bent, noise, random), place


def clusters_3d(n: int, *, clusters: int = 3, bridge: int = 9, random_state: Seed = None) -> tuple[Array, Array]:
    """Points of cubes in space, each joined to the next by a few points on a line, and the cube of each point.

    Centres are drawn from a cube of side 10; sides are sqrt(1 / 12) of the least distance between two centres. Points
    on a line belong to the nearer end.

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


def noisy_moons(n: int, *, noise: float = 0.07, random_state: Seed = None) -> tuple[Array, Array]:
    """Points of two interlocked half circles with noise, and the half circle of each point (0 or 1).

    >>> X, label = noisy_moons(100, random_state=0)
    >>> X.shape, label.sum().item()
    ((100, 2), 50)
    """
    from sklearn.datasets import make_moons

    X, label = make_moons(n, noise=noise, random_state=random_state)
    return X, label


def blobs(
    n: int, *, centers: int = 3, dimension: int = 2, spread: float = 1.0, random_state: Seed = None
) -> tuple[Array, Array]:
    """Points of Gaussian clouds around random centres, and the cloud of each point.

    >>> X, label = blobs(90, dimension=5, random_state=0)
    >>> X.shape, sorted(set(label.tolist()))
    ((90, 5), [0, 1, 2])
    """
    from sklearn.datasets import make_blobs

    X, label = make_blobs(n, dimension, centers=centers, cluster_std=spread, random_state=random_state)[:2]
    return X, label


def connected_clusters(
    sizes: tuple[int, int] = (100, 400), *, noise: float = 0.04, random_state: Seed = None
) -> tuple[Array, Array]:
    """Points of two bent clusters along one curve, few where they meet, and the cluster of each point (0 or 1).

    Similar to the toy data of Bengio et al. (2004), figure 2: the smaller cluster top left, the larger
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
    """Return the arc length of the spiral r = angle, from its centre."""
    return (angle * np.hypot(1, angle) + np.arcsinh(angle)) / 2


# -- images --------------------------------------------------------------------------------


def rotated_digits(*, source: str = "auto", rotations: int = 360) -> tuple[Array, Array, Array]:
    """Images of three rotated digits (a 3, a 7 and a 2), 28 x 28 pixels in [0, 1], the digit of each and its angle.

    Parameters
    ----------
    source : {"auto", "file", "digits", "mnist"}
        "file" is grae/rotated_digits.npz in the folder that OUTFOLD_DATA names, three digits of MNIST as rotated by
        Duque, Morin, Wolf and Moon (2020). "digits" are the first three of scikit-learn's 8 x 8 digits, enlarged and
        rotated by cubic splines: no file, no network. "mnist" are the same digits as in the file, from OpenML's data
        set 554 through scikit-learn, which needs the network once. "auto" is the file if it exists, else "digits".
    rotations : int
        Number of images of each digit, at evenly spaced angles (in radians) from 0; a divisor of 360.

    >>> X, label, angle = rotated_digits(source="digits", rotations=90)
    >>> X.shape, sorted(set(label.tolist())), round(float(angle[1]), 4)
    ((270, 784), [0, 1, 2], 0.0698)
    """
    if source not in ("auto", "file", "digits", "mnist"):
        raise ValueError(f"source={source!r} is none of 'auto', 'file', 'digits' and 'mnist'.")
    if rotations < 1 or 360 % rotations:
        raise ValueError(f"rotations={rotations} does not divide 360, so angles would not be whole degrees.")
    degrees = np.arange(0, 360, 360 // rotations)
    label = np.repeat(np.arange(3), rotations)
    angle = np.tile(np.deg2rad(degrees), 3)
    file = Path(os.environ.get("OUTFOLD_DATA", "")) / ROTATED_FILE
    if source == "file" or (source == "auto" and file.is_file()):
        if not file.is_file():
            raise OSError(f"{file} is not there. Set OUTFOLD_DATA to a folder that holds {ROTATED_FILE}.")
        with np.load(file) as arrays:
            return arrays["X"].reshape(3, 360, 784)[:, degrees].reshape(-1, 784) / 255.0, label, angle
    upright = _mnist_digits() if source == "mnist" else _enlarged_digits()
    return np.vstack([_rotate_digits(image, degrees) for image in upright]), label, angle


def _rotate_digits(image: Array, degrees: Array) -> Array:
    """Return the image rotated by each of the angles, (angles, pixels)."""
    from scipy.ndimage import rotate

    turned = [rotate(image, degree, reshape=False, order=3) for degree in degrees]
    return np.clip(np.reshape(turned, (len(degrees), -1)), 0, 1)


def _enlarged_digits() -> Array:
    """Return the first 3, 7 and 2 of scikit-learn's digits, (3, 28, 28), with the margin of MNIST."""
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    digits = load_digits()
    small = digits.images[[int(np.argmax(digits.target == digit)) for digit in _ROTATED]] / 16
    large = [zoom(image, 20 / 8, order=3, mode="grid-constant", grid_mode=True) for image in small]
    digits_in_28: Array = np.clip(np.pad(large, ((0, 0), (4, 4), (4, 4))), 0, 1)
    return digits_in_28


def _mnist_digits() -> Array:
    found = openml(_MNIST_OPENML, "MNIST table", "pass source='digits'")
    return np.asarray(found.data[list(_ROTATED.values())], dtype=float).reshape(3, 28, 28) / 255


__all__ = [
    "VOWELS",
    "WINE_FEATURES",
    "WINE_FILE",
    "blobs",
    "circle",
    "clean_red_wine",
    "clusters_3d",
    "connected_clusters",
    "fetch_faces",
    "fetch_ionosphere",
    "fetch_red_wine",
    "fetch_vowel",
    "flat_torus",
    "helix",
    "noisy_moons",
    "punched_sphere",
    "rectangle",
    "rotated_digits",
    "s_curve",
    "smooth_manifold",
    "sphere",
    "swiss_roll",
    "toroidal_helices",
]
