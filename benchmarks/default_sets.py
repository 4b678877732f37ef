"""Data of the battery of defaults: manifolds whose eigenfunctions are known, and real tables."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import sph_harm_y
from sets import FOLDER, standard
from sklearn import datasets as sk

AXES = np.array([1.0, 0.8, 0.6])  # of the ellipsoid
SHEET_MODES = 3  # eigenfunctions of a sheet that are compared: the next eigenvalue is half as large again or more


class Sample(NamedTuple):
    rows: np.ndarray
    functions: np.ndarray | None = None  # eigenfunctions of Laplace-Beltrami at the rows
    local: np.ndarray | None = None  # those of the metric in which sampling is even, if they are known
    labels: np.ndarray | None = None  # classes (whole numbers) or, for regression, real numbers


# -- manifolds -----------------------------------------------------------------------------


def density(name: str, phase: np.ndarray) -> np.ndarray:
    """Density over a phase in [0, 1], at most 1: "even", "1+.8cos", or "ninefold" (a step from 9 to 1 at half)."""
    if name == "even":
        return np.ones(len(phase))
    if name == "1+.8cos":
        return (1 + 0.8 * np.cos(2 * np.pi * phase)) / 1.8
    return np.where(phase < 0.5, 1.0, 1 / 9)


def thin(name: str, draw: Callable, phase: Callable, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n points of the density."""
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < n:
        points = draw(2 * n, rng)
        kept.append(points[rng.uniform(size=len(points)) < density(name, phase(points))])
    return np.concatenate(kept)[:n]


def waves(angle: np.ndarray, most: int) -> np.ndarray:
    return np.column_stack([f(k * angle) for k in range(1, most + 1) for f in (np.cos, np.sin)])


def circle(name: str, n: int, rng: np.random.Generator) -> Sample:
    angle = thin(name, lambda m, r: r.uniform(0, 1, m), lambda p: p, n, rng)
    grid = np.linspace(0, 1, 20_001)
    summed = np.append(0, np.cumsum(density(name, (grid[1:] + grid[:-1]) / 2)))
    cumulative = np.interp(angle, grid, summed / summed[-1])
    rows = waves(2 * np.pi * angle, 1)
    return Sample(rows, waves(2 * np.pi * angle, 2), waves(2 * np.pi * cumulative, 2))


def sphere_points(m: int, rng: np.random.Generator) -> np.ndarray:
    points = rng.normal(size=(m, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def sphere(name: str, n: int, rng: np.random.Generator) -> Sample:
    def phase(points: np.ndarray) -> np.ndarray:  # from pole to pole; "1+.8cos" needs half a turn
        share = (1 - points[:, 2]) / 2
        return share / 2 if name == "1+.8cos" else share

    rows = thin(name, sphere_points, phase, n, rng)
    return Sample(rows, rows.copy())


def torus(name: str, n: int, rng: np.random.Generator) -> Sample:
    angle = thin(name, lambda m, r: r.uniform(0, 1, (m, 2)), lambda p: p[:, 0], n, rng)
    rows = np.hstack([waves(2 * np.pi * angle[:, [k]], 1) for k in (0, 1)])
    return Sample(rows, rows.copy())


def sheet_functions(place: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """First eigenfunctions of a rectangle."""
    pairs = np.array([(k, l) for k in range(9) for l in range(9)][1:])
    rates = ((pairs / sides) ** 2).sum(axis=1)
    first = pairs[np.argsort(rates)[:SHEET_MODES]]
    return np.cos(np.pi * place[:, None] / sides * first).prod(axis=2)


def swiss_roll(name: str, n: int, rng: np.random.Generator) -> Sample:
    """The usual roll, even in arc length times height."""
    turn = np.linspace(1.5 * np.pi, 4.5 * np.pi, 20_001)
    length = np.append(0, np.cumsum(np.hypot(np.diff(turn * np.cos(turn)), np.diff(turn * np.sin(turn)))))
    share = thin(name, lambda m, r: r.uniform(0, 1, (m, 2)), lambda p: p[:, 0], n, rng)
    at = np.interp(share[:, 0] * length[-1], length, turn)
    rows = np.column_stack([at * np.cos(at), 21 * share[:, 1], at * np.sin(at)])
    sides = np.array([length[-1], 21.0])
    return Sample(rows, sheet_functions(share * sides, sides))


def s_curve(name: str, n: int, rng: np.random.Generator) -> Sample:
    share = thin(name, lambda m, r: r.uniform(0, 1, (m, 2)), lambda p: p[:, 0], n, rng)
    at = 3 * np.pi * (share[:, 0] - 0.5)
    rows = np.column_stack([np.sin(at), 2 * share[:, 1], np.sign(at) * (np.cos(at) - 1)])
    sides = np.array([3 * np.pi, 2.0])
    return Sample(rows, sheet_functions(share * sides, sides))


def real_harmonics(points: np.ndarray, degree: int) -> np.ndarray:
    polar, around = np.arccos(points[:, 2].clip(-1, 1)), np.arctan2(points[:, 1], points[:, 0])
    columns = []
    for l in range(degree + 1):
        for m in range(-l, l + 1):
            value = sph_harm_y(l, abs(m), polar, around)
            columns.append(value.real if m >= 0 else value.imag)
    return np.column_stack(columns)


@cache
def ellipsoid_modes(degree: int = 8) -> np.ndarray:
    """Coefficients in spherical harmonics of the first eigenfunctions of the ellipsoid: Galerkin's method."""
    z, of_z = np.polynomial.legendre.leggauss(48)
    turn = 2 * np.pi * (np.arange(96) + 0.5) / 96
    Z, T = (grid.ravel() for grid in np.meshgrid(z, turn, indexing="ij"))
    weight = np.repeat(of_z, len(turn)) * 2 * np.pi / len(turn)

    def harmonics(Z, T):
        ring = np.sqrt(1 - Z**2)
        return real_harmonics(np.column_stack([ring * np.cos(T), ring * np.sin(T), Z]), degree)

    step = 1e-5
    by_z = (harmonics(Z + step, T) - harmonics(Z - step, T)) / (2 * step)
    by_turn = (harmonics(Z, T + step) - harmonics(Z, T - step)) / (2 * step)
    ring = np.sqrt(1 - Z**2)
    along_z = AXES * np.column_stack([-Z / ring * np.cos(T), -Z / ring * np.sin(T), np.ones(len(Z))])
    along_turn = AXES * np.column_stack([-ring * np.sin(T), ring * np.cos(T), np.zeros(len(Z))])
    E, F, G = (a * b for a, b in ((along_z, along_z), (along_z, along_turn), (along_turn, along_turn)))
    E, F, G = E.sum(axis=1), F.sum(axis=1), G.sum(axis=1)
    area = np.sqrt(E * G - F**2)
    value = harmonics(Z, T)
    energy = sum(
        first.T @ (second * (weight * factor / area)[:, None])
        for first, second, factor in ((by_z, by_z, G), (by_turn, by_turn, E), (by_z, by_turn, -F), (by_turn, by_z, -F))
    )
    used = np.abs(value).max(axis=0) > 1e-12  # m = 0 has no imaginary part, but has no column here either
    mass = value.T @ (value * (weight * area)[:, None])
    _, modes = linalg.eigh(energy[np.ix_(used, used)], mass[np.ix_(used, used)])
    full = np.zeros((value.shape[1], 3))
    full[used] = modes[:, 1:4]
    return full


def ellipsoid(name: str, n: int, rng: np.random.Generator) -> Sample:
    """Even in area."""
    most = AXES[0] * AXES[1]

    def draw(m, rng):
        unit = sphere_points(3 * m, rng)
        stretch = np.prod(AXES) * np.linalg.norm(unit / AXES, axis=1) / most
        return unit[rng.uniform(size=len(unit)) < stretch]

    def phase(points: np.ndarray) -> np.ndarray:
        share = (1 - points[:, 0]) / 2
        return share / 2 if name == "1+.8cos" else share

    unit = thin(name, draw, phase, n, rng)
    return Sample(unit * AXES, real_harmonics(unit, 8) @ ellipsoid_modes())


MANIFOLDS = {
    "circle": circle,
    "sphere": sphere,
    "flat torus": torus,
    "Swiss roll": swiss_roll,
    "S-curve": s_curve,
    "ellipsoid": ellipsoid,
}
DENSITIES = ("even", "1+.8cos", "ninefold")
NOISE = (0, 20, 100)  # features that hold noise


def manifold(shape: str, name: str, noisy: int, n: int, seed: int) -> Sample:
    """Return a sample; ``noisy`` features of noise, with a deviation of a tenth of the spread if there are 20."""
    rng = np.random.default_rng([seed, n, noisy])
    found = MANIFOLDS[shape](name, n, rng)
    if not noisy:
        return found
    spread = float(np.sqrt(found.rows.var(axis=0).sum()))
    padded = np.zeros((n, noisy))
    padded[:, : found.rows.shape[1]] = found.rows
    padded += 0.1 * spread * np.sqrt(20 / noisy) * rng.normal(size=padded.shape)
    return found._replace(rows=padded)


# -- tables --------------------------------------------------------------------------------


def some(X: np.ndarray, y: np.ndarray, n: int | None, seed: int) -> Sample:
    if n is not None and n < len(X):
        rows = np.sort(np.random.default_rng(seed).choice(len(X), n, replace=False))
        X, y = X[rows], y[rows]
    return Sample(np.ascontiguousarray(X, dtype=float), labels=np.asarray(y))


def mnist(n: int) -> Callable[[int], Sample]:
    def load(seed: int) -> Sample:
        found = np.load(FOLDER / "mnist" / "mnist.npz")
        rows = np.sort(np.random.default_rng(seed).choice(len(found["y"]), n, replace=False))
        return Sample(found["X"][rows] / 255.0, labels=found["y"][rows])

    return load


def red_wine(seed: int) -> Sample:
    with open(FOLDER / "wine_red" / "winequality-red.csv") as file:
        table = np.array([[float(v) for v in row] for row in list(csv.reader(file, delimiter=";"))[1:]])
    return Sample(standard(table[:, :-1]), labels=table[:, -1].astype(int))


def cells(seed: int) -> Sample:
    found = np.load(FOLDER / "pbmc68k_reduced" / "pbmc68k_reduced.npz", allow_pickle=True)
    return Sample(found["X_pca"].astype(float), labels=np.unique(found["label"], return_inverse=True)[1])


def cytometry(n: int) -> Callable[[int], Sample]:
    def load(seed: int) -> Sample:
        found = np.load(FOLDER / "cytof_bodenmiller" / "bodenmiller_untreated.npz", allow_pickle=True)
        return some(found["X"].astype(float), np.unique(found["Cells"], return_inverse=True)[1], n, seed)

    return load


def faces(seed: int) -> Sample:
    found = np.load(FOLDER / "isomap_faces" / "isomap_faces_32.npz")
    return Sample(found["X"].astype(float), labels=found["light_pan_tilt_z"][:, 1].astype(float))


def vowels(seed: int) -> Sample:
    table = np.loadtxt(FOLDER / "vowel" / "vowel-context.data", delimiter=",")
    return Sample(standard(table[:, 3:13]), labels=table[:, 13].astype(int))


def blobs(seed: int) -> Sample:
    """Five clusters of very unequal density."""
    rng = np.random.default_rng(seed)
    spread, count = (0.2, 0.5, 1, 1.5, 2), (700, 400, 200, 150, 100)
    parts = [c + s * rng.normal(size=(m, 5)) for c, s, m in zip(6 * rng.normal(size=(5, 5)), spread, count)]
    return Sample(np.concatenate(parts), labels=np.repeat(np.arange(5), list(map(len, parts))))


def moons(seed: int) -> Sample:
    rows, labels = sk.make_moons(1000, noise=0.08, random_state=seed)
    return Sample(rows, labels=labels)


def classic(load: Callable, scaled: bool) -> Callable[[int], Sample]:
    def fetch(seed: int) -> Sample:
        X, y = load(return_X_y=True)
        return Sample(standard(X) if scaled else np.asarray(X, dtype=float), labels=y)

    return fetch


TABLES: dict[str, Callable[[int], Sample]] = {
    "digits": classic(sk.load_digits, False),
    "MNIST 1500": mnist(1500),
    "MNIST 3000": mnist(3000),
    "MNIST 10,000": mnist(10_000),
    "wine": classic(sk.load_wine, False),
    "wine, standardised": classic(sk.load_wine, True),
    "breast cancer": classic(sk.load_breast_cancer, False),
    "breast cancer, standardised": classic(sk.load_breast_cancer, True),
    "iris": classic(sk.load_iris, False),
    "red wine, standardised": red_wine,
    "blood cells": cells,
    "cytometry 3000": cytometry(3000),
    "cytometry 10,000": cytometry(10_000),
    "faces": faces,
    "vowels": vowels,
    "moons": moons,
    "blobs": blobs,
}
