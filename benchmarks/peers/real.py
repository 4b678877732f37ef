"""Real data, and data like them: tables, clusters and words of documents, with new rows kept apart."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors


class Table(NamedTuple):
    rows: Callable  # of a count: rows to fit
    new: Callable  # of a count: rows that are not among them
    file: str = ""  # what it needs of the data folder


def beside(name):
    """A module of the folder above, with what several benchmarks share."""
    folder = str(pathlib.Path(__file__).parents[1])
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def folder():
    """The data folder: OUTFOLD_DATA, or shared/data beside the repository."""
    return beside("sets").FOLDER


def split(load, file=""):
    """A table in a random order: rows from the front, new ones from the back."""

    def mixed():
        X = load()
        return X[np.random.default_rng(0).permutation(len(X))]

    return Table(lambda n: mixed()[:n], lambda count: mixed()[::-1][:count], file)


# -- tables --------------------------------------------------------------------------------


def s_curve(seed, n):
    from outfold import datasets

    return datasets.s_curve(n, random_state=seed)[0]


def images(name, n):
    """Handwritten digits, 28 x 28, grey values from 0 to 1 in single precision."""
    with np.load(folder() / "mnist" / "mnist.npz") as file:
        return file[name][:n].astype(np.float32) / 255


def flights():
    """Hour, weekday, month, delay and distance of three million flights, standardised."""
    from pyarrow import parquet

    table = parquet.read_table(folder() / "flights" / "flights-3m.parquet", columns=["date", "delay", "distance"])
    date = table["date"].to_numpy().astype("M8[h]")
    day, month = date.astype("M8[D]"), date.astype("M8[M]")
    parts = (date - day).astype(int), (day.astype(int) + 3) % 7, month.astype(int) % 12
    columns = *parts, table["delay"].to_numpy(), table["distance"].to_numpy()
    return beside("sets").standard(np.column_stack(columns).astype(float))


def clusters(seed, n):
    return beside("graphs").clusters(n, seed)


def words(seed, n):
    return beside("graphs").documents(n, seed=seed)


CELLS = "cytof_bodenmiller/bodenmiller_untreated.npz"
TABLES = {
    "S-curve, new rows": Table(partial(s_curve, 0), partial(s_curve, 1000)),
    "digits, new rows": split(lambda: load_digits().data),
    "red wine": split(lambda: beside("default_sets").red_wine(0).rows, "wine_red/winequality-red.csv"),
    "cytometry": split(lambda: beside("sets").cells(), CELLS),
    "MNIST": Table(partial(images, "X"), partial(images, "X_test"), "mnist/mnist.npz"),
    "words": Table(partial(words, 0), partial(words, 1000)),
    "clusters in 50-D": Table(partial(clusters, 0), partial(clusters, 1000)),
    "flights": split(flights, "flights/flights-3m.parquet"),
}


def missing(data):
    """Why the data cannot be measured here; "" if they can."""
    file = TABLES[data].file if data in TABLES else ""
    absent = file and not (folder() / file).exists()
    return f"{file} is not in {folder()} (OUTFOLD_DATA names another folder)" if absent else ""


def recall(X, found, some=300):
    """Share of the neighbours found, of some rows, that are no farther than the last of as many true ones."""
    at = np.random.default_rng(0).permutation(X.shape[0])[:some]
    metric, k = "cosine" if issparse(X) else "euclidean", found.shape[1]
    exact = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric).fit(X)
    last = exact.kneighbors(X[at])[0][:, -1]
    right = []
    for row, radius in zip(at, last):
        these = found[row][found[row] >= 0]  # an index that finds too few says -1
        metric_of = NearestNeighbors(n_neighbors=len(these), algorithm="brute", metric=metric).fit(X[these])
        right.append((metric_of.kneighbors(X[row : row + 1])[0] <= radius * (1 + 1e-5) + 1e-9).sum() / k)
    return float(np.mean(right))
