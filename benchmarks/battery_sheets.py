"""The contact sheets of the second part of the battery: pictures of all methods, and clusters beside classes."""

from __future__ import annotations

import pathlib
import warnings

import default_sheet
import numpy as np
from battery import METHODS
from battery_measures import match
from battery_sets import CLASSES, FITTED
from battery_tables import title
from defaults import picture_name
from sklearn.metrics import adjusted_rand_score

import outfold

SHOWN = (
    "digits",
    "MNIST 3000",
    "cytometry 3000",
    "blood cells",
    "faces",
    "vowels",
    "rotated digits",
    "penguins, standardised",
    "wine, standardised",
    "iris",
    "Swiss roll",
    "sphere",
    "twenty centres",
)
SAME = ("outfold ClassicalMDS", "scikit-learn KernelPCA")  # the pictures of our KernelPCA
CLUSTERED = {  # set: rows; sets of more than two features are drawn in the coordinates of PHATE
    "long blobs": 2000,
    "noisy moons": 2000,
    "rings": 2000,
    "blobs of unequal density": 2000,
    "twenty centres": 2000,
    "digits": 1797,
    "rotated digits": 1080,
    "blood cells": 700,
    "MNIST": 3000,
    "cytometry": 3000,
    "penguins, standardised": 342,
    "wine, standardised": 178,
}
COLUMNS = {"outfold clusters": "outfold", "scikit-learn clusters": "scikit-learn", "k-means": "k-means"}


def draw_methods(folder: pathlib.Path, path: pathlib.Path) -> None:
    pictures, labels = {}, {}
    for name in SHOWN:
        for who in METHODS:
            if who in SAME:
                continue
            if (found := folder / picture_name(name, who)).exists():
                pictures[name, title(who) if who.startswith("outfold") else title(who).replace(" ", "\n")] = np.load(
                    found
                )
                labels[name] = FITTED[name](0).labels
    default_sheet.draw(pictures, labels, path)


def picture(X: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings(action="ignore"):  # components, which the classes are
        return outfold.PHATE(random_state=0).fit(X).embedding_


def draw_clusters(folder: pathlib.Path, path: pathlib.Path) -> None:
    pictures, labels, notes = {}, {}, {}
    for name, n in CLUSTERED.items():
        found = {who: folder / picture_name(f"{name} {n}", who) for who in COLUMNS}
        if not all(place.exists() for place in found.values()):
            continue
        sample = CLASSES[name].draw(n, 0)
        places = sample.rows if sample.rows.shape[1] == 2 else picture(sample.rows)
        column = name.replace(" of ", "\nof ").replace(", ", "\n")
        pictures["classes", column] = places
        labels["classes", column] = np.unique(sample.labels, return_inverse=True)[1]
        for who, place in found.items():
            clusters = np.load(place)
            pictures[COLUMNS[who], column] = places
            labels[COLUMNS[who], column] = match(clusters, sample.labels)
            notes[COLUMNS[who], column] = f"{adjusted_rand_score(sample.labels, clusters):.2f}"
    default_sheet.draw(pictures, labels, path, notes)


def draw_all(folder: pathlib.Path, images: pathlib.Path) -> None:
    draw_methods(folder, images / "defaults-methods.png")
    draw_clusters(folder, images / "defaults-clusters.png")
