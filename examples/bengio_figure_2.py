"""
Eigenfunctions over the plane
=============================

The first eigenfunction of four methods over the whole plane, after Bengio et al. (2004), figure 2.

Two bent clusters of 100 and 400 points meet where there are few. Each panel is the first coordinate of
``transform`` on a grid: an embedding is a function, so it can be drawn where there is no data. The paper's kernel
exp(-d^2 / sigma^2) with sigma = 0.2 is epsilon = 0.02 here; Isomap and LLE have 20 neighbours. ::

    python examples/bengio_figure_2.py [picture.png]
"""

import sys
import warnings

import numpy as np
from matplotlib.figure import Figure

from outfold import Isomap, KernelPCA, LaplacianEigenmaps, LocallyLinearEmbedding
from outfold.datasets import connected_clusters
from outfold.exceptions import FarPointsWarning
from outfold.kernels import epsilon_from_plain

SIGMA = 0.2


def eigenfunctions(X, places):
    """The first coordinate of every method at the places, as the paper shows it."""
    epsilon = epsilon_from_plain(SIGMA**2)
    methods = {
        "kernel PCA": KernelPCA(1, kernel="rbf", gamma=1 / (2 * epsilon)),
        "spectral clustering (logarithm)": LaplacianEigenmaps(1, epsilon=epsilon, n_neighbors=None),
        "Isomap": Isomap(1, n_neighbors=20),
        "LLE": LocallyLinearEmbedding(1, n_neighbors=20),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FarPointsWarning)  # the corners of the picture are outside the data, and meant
        values = {name: method.fit(X).transform(places)[:, 0] for name, method in methods.items()}
    at_data = methods["spectral clustering (logarithm)"].embedding_[:, 0]
    values["spectral clustering (logarithm)"] = logarithm(values["spectral clustering (logarithm)"], at_data)
    return values


def logarithm(values, at_data):
    """log of an eigenfunction, measured from its value on most of the data, so that it can be taken."""
    plateau = np.median(at_data)
    return np.log(np.abs(values - plateau) + 1e-4 * np.ptp(at_data))


def main(picture="bengio_figure_2.png", steps=160):
    X, _ = connected_clusters(random_state=0)
    low, high = X.min(axis=0) - 0.15, X.max(axis=0) + 0.15
    grid = np.meshgrid(*(np.linspace(a, b, steps) for a, b in zip(low, high)))
    values = eigenfunctions(X, np.column_stack([g.ravel() for g in grid]))
    figure = Figure(figsize=(11, 7.2), layout="constrained")
    for axes, (name, function) in zip(figure.subplots(2, 2).ravel(), values.items()):
        extent = (low[0], high[0], low[1], high[1])
        field = function.reshape(steps, steps)
        axes.imshow(field, origin="lower", extent=extent, cmap="gray", aspect="equal")
        axes.scatter(*X.T, s=7, c="white", edgecolors="#222222", linewidths=0.4)
        axes.set(title=name, xticks=[], yticks=[])
    figure.suptitle("First eigenfunction, by transform on a grid; dots are the 500 training points")
    figure.savefig(picture, dpi=110)
    print(f"wrote {picture}")
    return values


if __name__ == "__main__":
    main(*sys.argv[1:2])
