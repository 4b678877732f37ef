"""Data of the second part of the battery: classes to find, dimensions to estimate, and fits that should warn."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from default_sets import TABLES, Sample, cytometry, manifold, mnist, some
from peers import environments
from sets import FOLDER, standard
from sklearn import datasets as sk

SIZES = (500, 2000, 3000, 10_000)
Draw = Callable[[int, int], Sample]  # of a number of rows and a seed

# -- classes -------------------------------------------------------------------------------


def twenty_centres(n: int, seed: int) -> Sample:
    """Gaussian clouds about 20 centres in 12 dimensions, squashed into 50 noisy features."""
    rng = np.random.default_rng(seed)
    centres, mixing = rng.normal(size=(20, 12)) * 2.5, rng.normal(size=(12, 50)) / np.sqrt(12)
    labels = rng.integers(20, size=n)
    hidden = centres[labels] + rng.normal(size=(n, 12))
    return Sample(np.tanh(hidden / 3) * 3 @ mixing + 0.15 * rng.normal(size=(n, 50)), labels=labels)


def gaussian_mixture(n: int, seed: int) -> Sample:
    """Six round clouds of unequal width in 10 dimensions."""
    rng = np.random.default_rng(seed)
    centres, labels = 2 * rng.normal(size=(6, 10)), rng.integers(6, size=n)
    return Sample(centres[labels] + rng.uniform(0.5, 1.5, 6)[labels, None] * rng.normal(size=(n, 10)), labels=labels)


def long_blobs(n: int, seed: int) -> Sample:
    rows, labels = sk.make_blobs(n, centers=4, random_state=170 + seed)
    return Sample(rows @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels=labels)


def noisy_moons(n: int, seed: int) -> Sample:
    rows, labels = sk.make_moons(n, noise=0.1, random_state=seed)
    return Sample(rows, labels=labels)


def rings(n: int, seed: int) -> Sample:
    rows, labels = sk.make_circles(n, noise=0.05, factor=0.5, random_state=seed)
    return Sample(rows, labels=labels)


def uneven_blobs(n: int, seed: int) -> Sample:
    """Five clouds in 5 dimensions: the widest is ten times as wide as the narrowest and has a seventh of its rows."""
    rng = np.random.default_rng(seed)
    centres, width = 6 * rng.normal(size=(5, 5)), np.array([0.2, 0.5, 1, 1.5, 2])
    labels = rng.choice(5, n, p=np.array([14, 8, 4, 3, 2]) / 31)
    return Sample(centres[labels] + width[labels, None] * rng.normal(size=(n, 5)), labels=labels)


@cache
def penguin_table() -> Sample:
    """Bill length and depth, flipper length and body mass of the penguins that have all four; species."""
    try:
        environments.python("palmerpenguins")
    except subprocess.CalledProcessError as error:
        raise FileNotFoundError("penguins: the package palmerpenguins could not be installed") from error
    place = environments.folder() / "palmerpenguins"
    (path,) = place.glob("lib/python*/site-packages/palmerpenguins/data/penguins.csv")
    with open(path) as file:
        table = [row for row in csv.DictReader(file) if not {"", "NA"} & {row[name] for name in PENGUIN_COLUMNS}]
    rows = np.array([[float(row[name]) for name in PENGUIN_COLUMNS] for row in table])
    return Sample(rows, labels=np.unique([row["species"] for row in table], return_inverse=True)[1])


PENGUIN_COLUMNS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")


def penguins(seed: int) -> Sample:
    return penguin_table()


def standard_penguins(seed: int) -> Sample:
    return penguin_table()._replace(rows=standard(penguin_table().rows))


def rotated_digits(seed: int) -> Sample:
    """Three digits, each turned by 360 angles."""
    found = np.load(FOLDER / "grae" / "rotated_digits.npz")
    return Sample(found["X"] / 255.0, labels=found["label"].astype(int))


def raw_red_wine(seed: int) -> Sample:
    table = np.loadtxt(FOLDER / "wine_red" / "winequality-red.csv", delimiter=";", skiprows=1)
    return Sample(table[:, :-1], labels=table[:, -1].astype(int))


class Classes(NamedTuple):
    """A set whose classes clusters are compared with."""

    draw: Draw
    most: int = SIZES[-1]

    @property
    def sizes(self) -> list[int]:
        return sorted({min(n, self.most) for n in SIZES})


def of_table(load: Callable[[int], Sample], most: int) -> Classes:
    def draw(n: int, seed: int) -> Sample:
        whole = load(0)
        return some(whole.rows, whole.labels, n, seed)

    return Classes(draw, most)


CLASSES: dict[str, Classes] = {
    "MNIST": Classes(lambda n, seed: mnist(n)(seed)),
    "cytometry": Classes(lambda n, seed: cytometry(n)(seed)),
    "twenty centres": Classes(twenty_centres),
    "Gaussian mixture": Classes(gaussian_mixture),
    "long blobs": Classes(long_blobs),
    "blobs of unequal density": Classes(uneven_blobs),
    "noisy moons": Classes(noisy_moons),
    "rings": Classes(rings),
    "digits": of_table(TABLES["digits"], 1797),
    "rotated digits": of_table(rotated_digits, 1080),
    "vowels": of_table(TABLES["vowels"], 990),
    "blood cells": of_table(TABLES["blood cells"], 700),
    "breast cancer": of_table(TABLES["breast cancer"], 569),
    "breast cancer, standardised": of_table(TABLES["breast cancer, standardised"], 569),
    "penguins": of_table(penguins, 342),
    "penguins, standardised": of_table(standard_penguins, 342),
    "wine": of_table(TABLES["wine"], 178),
    "wine, standardised": of_table(TABLES["wine, standardised"], 178),
    "iris": of_table(TABLES["iris"], 150),
}

# -- dimensions ----------------------------------------------------------------------------


def shape(name: str) -> Callable[[int], Sample]:
    """2000 even rows of a manifold of the first part; its first eigenfunction is the label."""

    def load(seed: int) -> Sample:
        found = manifold(name, "even", 0, 2000, seed)
        return Sample(found.rows, labels=found.functions[:, 0])

    return load


def unit_sphere(dimension: int) -> Callable[[int], Sample]:
    def load(seed: int) -> Sample:
        rows = np.random.default_rng(seed).normal(size=(2000, dimension + 1))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return Sample(rows, labels=rows[:, 0])

    return load


def gaussian(seed: int) -> Sample:
    rows = np.random.default_rng(seed).normal(size=(2000, 10))
    return Sample(rows, labels=rows[:, 0])


def noisy_ball(seed: int) -> Sample:
    """A ball of 3 dimensions in 20 features, with noise of a hundredth of its radius."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(2000, 3))
    points *= (rng.uniform(size=2000) ** (1 / 3) / np.linalg.norm(points, axis=1))[:, None]
    rows = np.zeros((2000, 20))
    rows[:, :3] = points
    return Sample(rows + 0.01 * rng.normal(size=rows.shape), labels=points[:, 0])


DIMENSIONS: dict[str, tuple[Callable[[int], Sample], int | None]] = {  # name: (rows, true dimension)
    "circle": (shape("circle"), 1),
    "sphere": (shape("sphere"), 2),
    "S-curve": (shape("S-curve"), 2),
    "Swiss roll": (shape("Swiss roll"), 2),
    "flat torus": (shape("flat torus"), 2),
    "ball, 20 noisy features": (noisy_ball, 3),
    "5-sphere": (unit_sphere(5), 5),
    "9-sphere": (unit_sphere(9), 9),
    "Gaussian, 10-D": (gaussian, 10),
    "digits": (TABLES["digits"], None),
    "MNIST 3000": (TABLES["MNIST 3000"], None),
    "faces": (TABLES["faces"], None),
    "blood cells": (TABLES["blood cells"], None),
    "cytometry 3000": (TABLES["cytometry 3000"], None),
    "vowels": (TABLES["vowels"], None),
    "rotated digits": (rotated_digits, None),
}

# -- fits ----------------------------------------------------------------------------------


def with_outliers(seed: int) -> Sample:
    """A cloud of 495 rows in 5 dimensions and five rows, each far out on its own."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(500, 5))
    rows[:5] *= 40
    return Sample(rows, labels=rows[:, 0].clip(-3, 3))


LABELLED: dict[str, Callable[[int], Sample]] = {  # tables of at most 3000 rows
    **{name: load for name, load in TABLES.items() if "10,000" not in name},
    "red wine": raw_red_wine,
    "penguins": penguins,
    "penguins, standardised": standard_penguins,
    "rotated digits": rotated_digits,
}
SHAPES: dict[str, Callable[[int], Sample]] = {
    **{name: load for name, (load, truth) in DIMENSIONS.items() if truth is not None},
    "twenty centres": lambda seed: twenty_centres(2000, seed),
    "outliers": with_outliers,
}
FITTED = LABELLED | SHAPES
QUIET = ("digits", "S-curve", "sphere", "iris", "faces")  # nothing is wrong with these
# Sets whose true coordinates, eigenfunctions or distances along the manifold, are nearly linear.
LINEAR = ("circle", "sphere", "flat torus", "5-sphere", "9-sphere", "Gaussian, 10-D", "ball, 20 noisy features")
