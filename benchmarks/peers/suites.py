"""What is measured: data whose truth is known, the error of what was found there, and the suites of tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import real
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

from outfold import datasets, quality

# -- data: rows, and what is true of them --------------------------------------------------


class Sample(NamedTuple):
    rows: np.ndarray
    truth: dict  # "functions" and "values" of the Laplacian, "position" on the sheet, or "label"


def s_curve(n, seed):
    """A rectangle of 3 pi by 2, bent: its Laplacian has cosines for eigenfunctions."""
    rows, position = datasets.s_curve(n, random_state=seed)
    waves = np.pi * (position + np.array([1.5 * np.pi, 0])) / (sides := np.array([3 * np.pi, 2]))
    modes = sorted((((np.pi * np.array([i, j]) / sides) ** 2).sum().item(), i, j) for i in range(9) for j in range(9))
    values, *shapes = zip(*modes[1:9])
    functions = np.column_stack([np.cos(i * waves[:, 0]) * np.cos(j * waves[:, 1]) for i, j in zip(*shapes)])
    return Sample(rows, {"functions": functions, "values": np.array(values), "position": position})


def sheet(n, seed):
    """A smooth surface in 64 dimensions."""
    place = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    waves = np.random.default_rng(99).normal(size=(2, 64))
    return Sample(np.sin(place @ waves), {"position": place})


def on_circle(angle):
    functions = np.column_stack([f(k * angle) for k in range(1, 5) for f in (np.cos, np.sin)])
    return Sample(
        np.column_stack([np.cos(angle), np.sin(angle)]),
        {"functions": functions, "values": np.repeat(np.arange(1, 5) ** 2, 2)},
    )


def circle(n, seed):
    return on_circle(np.random.default_rng(seed).uniform(0, 2 * np.pi, n))


def uneven_circle(n, seed):
    """Nine times as many points on one side as on the other: density 1 + 0.8 cos."""
    random = np.random.default_rng(seed)
    angle = random.uniform(0, 2 * np.pi, 4 * n)
    return on_circle(angle[random.uniform(0, 1.8, 4 * n) < 1 + 0.8 * np.cos(angle)][:n])


def sphere(n, seed):
    x, y, z = (rows := datasets.sphere(n, random_state=seed)).T
    functions = np.column_stack([x, y, z, x * y, y * z, z * x, x**2 - y**2, 3 * z**2 - 1])
    return Sample(rows, {"functions": functions, "values": np.repeat([2, 6], [3, 5])})


def torus(n, seed):
    a, b = (angle := np.random.default_rng(seed).uniform(0, 2 * np.pi, (n, 2))).T
    functions = [f(v) for v in (a, b, a + b, a - b) for f in (np.cos, np.sin)]
    rows = np.column_stack([f(angle[:, k]) for k in (0, 1) for f in (np.cos, np.sin)])
    return Sample(rows, {"functions": np.column_stack(functions), "values": np.repeat([1, 2], 4)})


def tree(n, seed, branches=8, features=30):
    """Straight branches of length 10, each from the end of one of the last three, with noise."""
    random = np.random.default_rng(seed)
    shape = np.random.default_rng(7)
    ends, rows = [np.zeros(features)], []
    for part in np.array_split(np.arange(n), branches):
        start = ends[shape.integers(max(0, len(ends) - 3), len(ends))]
        step = shape.normal(size=features)
        step *= 10 / np.linalg.norm(step)
        rows.append(start + random.uniform(size=(len(part), 1)) * step)
        ends.append(start + step)
    return Sample(random.permutation(np.vstack(rows) + random.normal(scale=0.4, size=(n, features))), {})


def clusters(n, seed):
    """Eight curved strings in ten dimensions, which k-means on the rows cannot tell apart."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 8, n)
    along = random.uniform(0, 3, n)
    turns = np.random.default_rng(11).normal(size=(8, 10))
    bend = np.random.default_rng(12).normal(size=(8, 10))
    rows = turns[label] * along[:, None] + bend[label] * np.sin(2 * along)[:, None] + 4 * np.eye(8, 10)[label]
    return Sample(rows + random.normal(scale=0.05, size=rows.shape), {"label": label})


def digits(n, seed):
    order = np.random.default_rng(seed).permutation(1797)
    return Sample(load_digits().data[order[:n]], {})


DATA = {
    "S-curve": s_curve,
    "sheet in 64-D": sheet,
    "circle": circle,
    "uneven circle": uneven_circle,
    "sphere": sphere,
    "flat torus": torus,
    "tree in 30-D": tree,
    "strings in 10-D": clusters,
    "digits": digits,
    **{name: partial(lambda table, n, seed: Sample(table.rows(n), {}), table) for name, table in real.TABLES.items()},
}


def fresh(data, new, seed):
    """New rows: those that a table keeps apart, or others drawn in the same way."""
    return real.TABLES[data].new(new) if data in real.TABLES else DATA[data](new, seed + 1000).rows


# -- errors: none of them is ours to define ------------------------------------------------


def eigenfunctions(sample, answer):
    """Share of the first eight true eigenfunctions that the coordinates do not span: 0 is all, 1 is nothing."""
    return left_over(answer["embedding"], sample.truth["functions"])


def position(sample, answer):
    """Share of the position on the sheet that the coordinates do not explain linearly."""
    return left_over(answer["embedding"], sample.truth["position"])


def left_over(found, wanted):
    basis = np.column_stack([np.ones(len(found)), found / np.abs(found).max(axis=0)])
    centred = wanted - wanted.mean(axis=0)
    left = centred - basis @ np.linalg.lstsq(basis, centred, rcond=None)[0]
    return float(np.mean(np.square(left).sum(axis=0) / np.square(centred).sum(axis=0)))


def eigenvalues(sample, answer):
    """Mean relative error of the first eight eigenvalues, as multiples of the first."""
    found, wanted = np.sort(answer["values"])[:8], sample.truth["values"]
    return float(np.mean(np.abs(found / found[0] / (wanted / wanted[0]) - 1))) if len(found) == 8 else None


def residual(values_of):
    """Largest relative residual |K y - rho y| / rho |y| of the coordinates y, K the centred kernel."""

    def of(sample, answer):
        K = values_of(sample.rows)
        K -= K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
        unit = answer["embedding"] / np.linalg.norm(answer["embedding"], axis=0)
        image = K @ unit
        rho = (unit * image).sum(axis=0)
        return float((np.linalg.norm(image - rho * unit, axis=0) / rho).max())

    return of


def halved_squares(X):
    return -euclidean_distances(X, squared=True) / 2


def labels(sample, answer):
    """One minus the adjusted Rand index of clusters and true ones."""
    return 1 - float(adjusted_rand_score(sample.truth["label"], answer["embedding"]))


def neighbours(sample, answer):
    """One minus the trustworthiness: neighbours in the picture that are none in the data."""
    return 1 - float(quality.trustworthiness(sample.rows, answer["embedding"], n_neighbors=10, rows=2000))


# -- suites --------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of a table: one problem, and who is measured at it; the first is ours."""

    title: str
    data: str
    n: int
    contenders: tuple[str, ...]
    error: Callable | None = None
    new: int = 0  # rows to transform: then that is what is timed


MAPS = ("outfold DiffusionMaps", "datafold DiffusionMaps", "pydiffmap", "scanpy")
EIGENMAPS = (
    "outfold LaplacianEigenmaps",
    "scikit-learn SpectralEmbedding",
    "scikit-learn SpectralEmbedding, amg",
)
PICTURES = ("outfold PHATE", "PHATE", "UMAP", "openTSNE")


def pair(name):
    return (f"outfold {name}", f"scikit-learn {name}")


def landmarks(count):
    return (f"outfold Roseland, {count}", f"datafold Roseland, {count}")


FIT = [
    *(Row(f"diffusion maps, {n:,} rows", "S-curve", n, MAPS, eigenfunctions) for n in (5000, 20_000, 100_000)),
    *(Row(f"Laplacian eigenmaps, {n:,} rows", "S-curve", n, EIGENMAPS, eigenfunctions) for n in (20_000, 100_000)),
    Row("Roseland, 20,000 rows, 2,000 landmarks", "S-curve", 20_000, landmarks(2000), eigenfunctions),
    Row("Roseland, 100,000 rows, 10,000 landmarks", "S-curve", 100_000, landmarks(10_000), eigenfunctions),
    Row("Isomap, 5,000 rows", "S-curve", 5000, pair("Isomap"), position),
    Row("LLE, 20,000 rows", "S-curve", 20_000, pair("LLE"), position),
    Row("kernel PCA, 5,000 rows", "S-curve", 5000, pair("KernelPCA"), residual(partial(rbf_kernel, gamma=1.0))),
    Row("classical MDS, 3,000 rows", "S-curve", 3000, pair("ClassicalMDS"), residual(halved_squares)),
    Row("spectral clustering, 10,000 rows", "strings in 10-D", 10_000, pair("SpectralClustering"), labels),
    Row("picture of digits", "digits", 1797, PICTURES, neighbours),
    Row("picture of a tree, 5,000 rows", "tree in 30-D", 5000, PICTURES, neighbours),
]
TRANSFORM = [
    *(
        Row(f"diffusion maps of 10,000 rows, {data}", data, 10_000, MAPS[:3], None, 100_000)
        for data in ("S-curve", "sheet in 64-D")
    ),
    *(
        Row(f"Roseland, 1,000 landmarks, {data}", data, 10_000, landmarks(1000), None, 100_000)
        for data in ("S-curve", "sheet in 64-D")
    ),
    Row("Isomap of 5,000 rows", "S-curve", 5000, pair("Isomap"), None, 50_000),
    Row("LLE of 10,000 rows", "S-curve", 10_000, pair("LLE"), None, 50_000),
    Row("kernel PCA of 5,000 rows", "S-curve", 5000, pair("KernelPCA"), None, 50_000),
    Row("picture of a tree of 5,000 rows", "tree in 30-D", 5000, PICTURES, None, 5000),
]
ACCURACY = [
    Row(data, data, 2000, (MAPS[0], "outfold DiffusionMaps, tuned", *MAPS[1:], EIGENMAPS[1]), eigenfunctions)
    for data in ("circle", "uneven circle", "sphere", "flat torus")
]
MEMORY = [
    Row("Isomap, 10,000 rows", "S-curve", 10_000, pair("Isomap")),
    Row("kernel PCA, 10,000 rows", "S-curve", 10_000, pair("KernelPCA")),
    Row("transform by Isomap of 5,000 rows, 100,000 new", "S-curve", 5000, pair("Isomap"), None, 100_000),
    Row("transform by kernel PCA of 5,000 rows, 100,000 new", "S-curve", 5000, pair("KernelPCA"), None, 100_000),
    Row("transform by PHATE of 5,000 rows, 20,000 new", "tree in 30-D", 5000, PICTURES[:2], None, 20_000),
]
SCALING = [
    Row(f"{n:,} rows{of}", "S-curve", n, who)
    for n in (1000, 4000, 16_000, 64_000, 256_000, 1_024_000)
    for of, who in (("", (*MAPS, *EIGENMAPS[1:])), (", 1,000 landmarks", landmarks(1000)))
]
CHARACTER = [
    Row("500 rows", "S-curve", 500, (*MAPS, "outfold LaplacianEigenmaps", EIGENMAPS[1]), None, 20),
    Row(
        "500 rows",
        "S-curve",
        500,
        tuple(one for name in ("Isomap", "LLE", "KernelPCA") for one in pair(name)),
        None,
        20,
    ),
    Row("500 rows", "S-curve", 500, PICTURES, None, 20),
]
SPECTRAL = (
    *("outfold DiffusionMaps", "outfold Roseland", "datafold DiffusionMaps", "pydiffmap", "scanpy, 15"),
    *("scikit-learn SpectralEmbedding, 15", "scikit-learn SpectralEmbedding, 15, amg"),
)
SYSTEMS = (*SPECTRAL, "UMAP", "PHATE", "openTSNE", "pynndescent", "faiss, cells", "faiss, all")
LARGEST = (*SPECTRAL[:2], "scanpy, 15", "scikit-learn SpectralEmbedding, 15, amg", "UMAP", "pynndescent")
COSINES = (
    *("outfold DiffusionMaps, cosine", "SnapATAC2", "scanpy, cosine", "scikit-learn SpectralEmbedding, cosine"),
    *("UMAP, cosine", "PHATE, cosine", "openTSNE, cosine", "pynndescent, cosine"),
)
REAL = [  # fewest rows first: who is stopped is not run at more rows
    Row("S-curve, 1,000 rows", "S-curve, new rows", 1000, SPECTRAL, None, 10_000),
    Row("digits, 1,000 rows", "digits, new rows", 1000, SPECTRAL, None, 797),
    Row("red wine, 1,000 rows", "red wine", 1000, SPECTRAL, None, 599),
    Row("S-curve, 4,000 rows", "S-curve, new rows", 4000, SPECTRAL, None, 10_000),
    Row("cytometry, 4,000 rows", "cytometry", 4000, SPECTRAL, None, 10_000),
    Row("cytometry, 36,144 rows", "cytometry", 36_144, SYSTEMS),
    Row("MNIST, 60,000 rows", "MNIST", 60_000, SYSTEMS, None, 10_000),
    Row("words of 100,000 documents", "words", 100_000, COSINES, None, 10_000),
    *(Row(f"clusters in 50-D, {n:,} rows", "clusters in 50-D", n, SYSTEMS, None, 10_000) for n in (100_000, 1_000_000)),
    Row("flights, 2,990,000 rows", "flights", 2_990_000, LARGEST, None, 10_000),
]
SUITES = {
    "real": REAL,
    "fit": FIT,
    "transform": TRANSFORM,
    "accuracy": ACCURACY,
    "memory": MEMORY,
    "scaling": SCALING,
    "character": CHARACTER,
}
ONCE = {"memory", "scaling", "character"}  # one run says it
