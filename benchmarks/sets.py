"""Data sets that extensions and bands are tried on: functions of a count and a seed."""

from __future__ import annotations

import os
import pathlib

import numpy as np
from sklearn.datasets import load_digits

from outfold import datasets

FOLDER = pathlib.Path(os.environ.get("OUTFOLD_DATA", pathlib.Path(__file__).parents[2] / "shared" / "data"))


def standard(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def helix(n, seed):
    """A closed helix of eight coils on a torus."""
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, n)
    radius = 2 + np.cos(8 * angle)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), np.sin(8 * angle)])


def drawn(X):
    """Rows of a table, without repeats, in an order of the seed's."""
    X = np.unique(np.asarray(X, dtype=float), axis=0)
    return lambda n, seed: X[np.random.default_rng(seed).permutation(len(X))[:n]]


def cells():
    """All rows of the mass cytometry, copies too."""
    return np.load(FOLDER / "cytof_bodenmiller" / "bodenmiller_untreated.npz")["X"].astype(float)


def tables():
    """Tables that lie in the data folder."""
    wine = FOLDER / "wine_red" / "winequality-red.csv"
    if wine.exists():
        X, y = datasets.fetch_red_wine(return_X_y=True, path=wine)
        X, _ = datasets.clean_red_wine(X, y, classes=None, outliers=None)
        yield "wine", drawn(standard(X))
    vowel = FOLDER / "vowel" / "vowel-context.data"
    if vowel.exists():
        yield "vowel", drawn(standard(datasets.fetch_vowel(path=vowel).data))
    faces = FOLDER / "isomap_faces" / "isomap_faces_32.npz"
    if faces.exists():
        yield "faces", drawn(datasets.fetch_faces(path=faces).data)
    if (FOLDER / "cytof_bodenmiller").exists():
        yield "cytometry", drawn(cells())


SETS = {  # name: rows(count, seed)
    "circle, noisy": lambda n, seed: datasets.circle(n, random_state=seed, noise=0.05),
    "S-curve": lambda n, seed: datasets.s_curve(n, random_state=seed)[0],
    "Swiss roll": lambda n, seed: datasets.swiss_roll(n, random_state=seed)[0],
    "sphere": lambda n, seed: datasets.sphere(n, random_state=seed),
    "punched sphere": lambda n, seed: datasets.punched_sphere(n, random_state=seed)[0],
    "flat torus": lambda n, seed: datasets.flat_torus(n, random_state=seed),
    "helix": helix,
    "moons": lambda n, seed: datasets.noisy_moons(n, random_state=seed)[0],
    "digits": drawn(load_digits().data),
    **dict(tables()),
}
