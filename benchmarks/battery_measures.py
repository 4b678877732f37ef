"""What the second part of the battery holds against the fits, computed without Outfold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import confusion_matrix
from sklearn.neighbors import NearestNeighbors, kneighbors_graph


def nearest_distances(X: np.ndarray, count: int) -> np.ndarray:
    """Return the distances to the nearest other rows, (distinct rows, count)."""
    X = np.unique(X, axis=0)
    return NearestNeighbors(n_neighbors=count).fit(X).kneighbors()[0]


def likelihood_dimension(X: np.ndarray, first: int = 10, last: int = 20) -> float:
    """Return the dimension of maximum likelihood.

    Levina and Bickel (2004), equation 8, for k = first, ..., last neighbours; the inverses are averaged over the rows
    (MacKay and Ghahramani, 2005), then the estimates over k.
    """
    logs = np.log(nearest_distances(X, last))
    inverse = [(logs[:, k - 1] - logs[:, : k - 1].mean(axis=1)).mean() for k in range(first, last + 1)]
    return float(np.mean(1 / np.array(inverse)))


def two_nearest_dimension(X: np.ndarray, kept: float = 0.9) -> float:
    """Return the dimension by TwoNN (Facco, d'Errico, Rodriguez and Laio, 2017).

    The ratio of the second to the first distance has the distribution F(mu) = 1 - mu^-d: d is the slope of
    -log(1 - F) over log mu, through the origin, without the tenth of the rows with the largest ratios.
    """
    first, second = nearest_distances(X, 2).T
    ratio = np.sort(np.log(second / first))
    used = int(kept * len(ratio))
    height = -np.log1p(-np.arange(1, used + 1) / len(ratio))
    return float(ratio[:used] @ height / (ratio[:used] @ ratio[:used]))


class Scales(NamedTuple):
    """Facts of a table that a fit by distances should mention."""

    share: float  # of the total variance, in the column that varies most
    ratio: float  # of the largest deviation to the median one of the columns that vary
    plane: float  # share of the variance in two principal components
    pieces: int  # components of the graph of 20 nearest neighbours

    @property
    def dominated(self) -> bool:
        return self.share > 0.5 and self.ratio > 10


def scales(X: np.ndarray) -> Scales:
    variances = np.sort(X.var(axis=0))
    variances = variances[variances > 0]
    spectrum = np.square(np.linalg.svd(X - X.mean(axis=0), compute_uv=False))
    graph = kneighbors_graph(X, min(20, len(X) - 1))
    return Scales(
        float(variances[-1] / variances.sum()),
        float(np.sqrt(variances[-1] / variances[(len(variances) - 1) // 2])),
        float(spectrum[:2].sum() / spectrum.sum()),
        int(connected_components(graph, directed=False)[0]),
    )


def linear_share(X: np.ndarray, places: np.ndarray, components: int = 10, folds: int = 5) -> float:
    """Return R^2 of the first two coordinates as linear functions of principal components: that of the worse one.

    R^2 is that of held-out rows, and there are few components: any map is linear in more features than rows.
    """
    places, centred = places[:, :2], X - X.mean(axis=0)
    scores = centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
    design = np.column_stack([np.ones(len(X)), scores / np.maximum(scores.std(axis=0), 1e-9 * scores.std())])
    fold = np.random.default_rng(0).permutation(len(X)) % folds
    left = np.empty_like(places)
    for one in range(folds):
        rest, out = fold != one, fold == one
        left[out] = places[out] - design[out] @ np.linalg.lstsq(design[rest], places[rest], rcond=1e-9)[0]
    return float((1 - np.square(left).mean(axis=0) / places.var(axis=0)).min())


def match(clusters: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return clusters with the numbers of the classes they share most rows with; spare ones come after all classes."""
    classes, found = np.unique(labels), np.unique(clusters)
    size = max(len(classes), len(found))
    table = confusion_matrix(np.searchsorted(found, clusters), np.searchsorted(classes, labels), labels=np.arange(size))
    return linear_sum_assignment(-table)[1][np.searchsorted(found, clusters)]
