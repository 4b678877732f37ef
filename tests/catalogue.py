"""The one list of all methods, the clouds they are tried on, and how close is close."""

from __future__ import annotations

import os
import pathlib
import warnings

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsRegressor

from outfold import (
    GRAE,
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    DiffusionNet,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
    graphs,
    kernels,
    landmarks,
)
from outfold.exceptions import OutfoldWarning
from outfold.extensions import Auto, Barycentric, KernelRidge, Nystrom
from outfold.neural import Net
from outfold.operators import gaussian_pairs
from outfold.operators.low_rank import LowRankRule
from outfold.operators.neighbor_walk import NeighborWalk
from outfold.solvers import LowRank

ROOT = pathlib.Path(__file__).parents[1]  # of the repository


def falling_kernel(x, y):
    """An affinity that falls with the distance, in units of the sizes of x and y; at least 1/e^4 anywhere."""
    size = max(np.abs(x).max(), np.abs(y).max(), np.finfo(float).tiny)
    between = np.square(x / size - y / size).sum()
    return np.exp(-4 * between / (between + np.square(x / size).sum() + np.square(y / size).sum() + 1e-300))


ALL_METHODS = {
    "diffusion-maps": DiffusionMaps(),
    "diffusion-maps alpha=0 t=0": DiffusionMaps(alpha=0, t=0),
    "diffusion-maps alpha=1/2 t=3": DiffusionMaps(alpha=0.5, t=3),
    "diffusion-maps t=1/2 indices": DiffusionMaps([1, 3], t=0.5),
    "diffusion-maps landmarks": DiffusionMaps(landmarks=0.7, random_state=0),
    "diffusion-maps lanczos": DiffusionMaps(solver="lanczos"),
    "diffusion-maps manhattan": DiffusionMaps(metric="manhattan", epsilon=0.7, kernel="adaptive"),
    "diffusion-maps 6 nearest": DiffusionMaps(n_neighbors=6),
    "diffusion-maps 6 nearest, largest component": DiffusionMaps(n_neighbors=6, components="largest"),
    "diffusion-maps 6 nearest, joined": DiffusionMaps(n_neighbors=6, components="join"),
    "diffusion-maps canonical": DiffusionMaps(coordinates="canonical"),
    "diffusion-maps canonical alpha=1/2 6 nearest": DiffusionMaps(
        coordinates="canonical", n_neighbors=6, alpha=0.5, t=2
    ),
    "diffusion-maps variable": DiffusionMaps(kernel="variable", t=0),
    "diffusion-maps variable of dimension 2": DiffusionMaps(kernel=kernels.Variable(2), n_neighbors=8, alpha=0.5, t=0),
    "diffusion-maps variable landmarks": DiffusionMaps(kernel="variable", t=0, landmarks=0.7, random_state=0),
    "diffusion-maps gaussian": DiffusionMaps(kernel="gaussian"),
    "diffusion-maps gaussian alpha=0 t=0": DiffusionMaps(kernel="gaussian", alpha=0, t=0),
    "diffusion-maps gaussian alpha=1/2 t=3": DiffusionMaps(kernel="gaussian", alpha=0.5, t=3),
    "diffusion-maps gaussian landmarks": DiffusionMaps(kernel="gaussian", landmarks=0.7, random_state=0),
    "diffusion-maps gaussian manhattan": DiffusionMaps(kernel="gaussian", metric="manhattan"),
    "diffusion-maps union": DiffusionMaps(kernel="gaussian", n_neighbors=6),
    "diffusion-maps union by brute force": DiffusionMaps(
        kernel="gaussian", n_neighbors=graphs.Union(6, search="brute")
    ),
    "diffusion-maps union manhattan": DiffusionMaps(kernel="gaussian", n_neighbors=6, metric="manhattan"),
    "diffusion-maps mutual": DiffusionMaps(kernel="gaussian", n_neighbors=graphs.Mutual(8)),
    "diffusion-maps ball": DiffusionMaps(kernel="gaussian", n_neighbors=graphs.Ball("auto"), alpha=0),
    "diffusion-maps threshold": DiffusionMaps(kernel="gaussian", threshold=1e-3),
    "diffusion-maps self-tuning": DiffusionMaps(kernel="self_tuning", n_neighbors=None),
    "diffusion-maps self-tuning union": DiffusionMaps(kernel="self_tuning", n_neighbors=9, t=2),
    "diffusion-maps largest component": DiffusionMaps(kernel="gaussian", n_neighbors=6, components="largest"),
    "diffusion-maps joined": DiffusionMaps(kernel="gaussian", n_neighbors=6, components="join"),
    "diffusion-maps gaussian canonical": DiffusionMaps(kernel="gaussian", coordinates="canonical"),
    "diffusion-maps canonical alpha=0 union": DiffusionMaps(
        kernel="gaussian", coordinates="canonical", n_neighbors=6, alpha=0, t=2
    ),
    "diffusion-maps gaussian without the diagonal": DiffusionMaps(kernel="gaussian", diagonal=False, alpha=0.5),
    "diffusion-maps union without the diagonal": DiffusionMaps(
        kernel="gaussian", n_neighbors=6, diagonal=False, alpha=0, t=2
    ),
    "diffusion-maps canonical without the diagonal": DiffusionMaps(
        kernel="self_tuning", n_neighbors=None, diagonal=False, coordinates="canonical"
    ),
    "laplacian-eigenmaps binary": LaplacianEigenmaps(n_neighbors=6, epsilon=np.inf),
    "laplacian-eigenmaps continuous k-nn": LaplacianEigenmaps(kernel="continuous_knn", laplacian="unnormalized"),
    "laplacian-eigenmaps": LaplacianEigenmaps(),
    "laplacian-eigenmaps unnormalized": LaplacianEigenmaps(laplacian="unnormalized"),
    "laplacian-eigenmaps gaussian": LaplacianEigenmaps(kernel="gaussian"),
    "laplacian-eigenmaps gaussian unnormalized": LaplacianEigenmaps(kernel="gaussian", laplacian="unnormalized"),
    "laplacian-eigenmaps variable": LaplacianEigenmaps(kernel="variable"),
    "spectral-clustering": SpectralClustering(3),
    "spectral-clustering ng-jordan-weiss": SpectralClustering(3, normalize_rows=True),
    "kernel-pca": KernelPCA(),
    "kernel-pca rbf": KernelPCA(kernel="rbf", gamma="auto"),
    "kernel-pca poly": KernelPCA(kernel="poly"),
    "kernel-pca cosine landmarks": KernelPCA(1, kernel="cosine", landmarks=0.7, random_state=0),
    "kernel-pca lanczos": KernelPCA(kernel="rbf", gamma="auto", solver="lanczos"),
    "classical-mds": ClassicalMDS(),
    "classical-mds manhattan signed": ClassicalMDS(metric="manhattan", signed=True),
    "classical-mds landmarks": ClassicalMDS(landmarks=0.6, random_state=0),
    "isomap": Isomap(n_neighbors=6),
    "isomap mutual": Isomap(n_neighbors=graphs.Mutual(8)),
    "isomap ball": Isomap(n_neighbors=graphs.Ball("auto")),
    "isomap chebyshev signed": Isomap(n_neighbors=6, metric="chebyshev", signed=True),
    "isomap landmarks": Isomap(n_neighbors=6, landmarks=0.6, random_state=0),
    "isomap largest component": Isomap(n_neighbors=6, components="largest"),
    "roseland": Roseland(landmarks=0.6, random_state=0),
    "roseland alpha=0 t=2": Roseland(landmarks=0.5, alpha=0, t=2, random_state=0),
    "roseland 6 nearest": Roseland(landmarks=0.7, n_neighbors=6, t=0, metric="manhattan", random_state=0),
    "roseland gaussian": Roseland(kernel="gaussian", landmarks=0.6, random_state=0),
    "roseland gaussian alpha=0 t=2": Roseland(kernel="gaussian", landmarks=0.5, alpha=0, t=2, random_state=0),
    "roseland nearest landmarks": Roseland(kernel="gaussian", landmarks=0.7, n_neighbors=6, random_state=0),
    "roseland t=0 manhattan": Roseland(
        kernel="gaussian", landmarks=0.7, n_neighbors=6, t=0, metric="manhattan", random_state=0
    ),
    "roseland threshold": Roseland(landmarks=0.6, threshold=1e-3, random_state=0),
    "roseland ball": Roseland(landmarks=0.7, n_neighbors=graphs.Ball("auto"), alpha=0.5, t=2, random_state=0),
    "roseland self-tuning": Roseland(kernel="self_tuning", landmarks=0.7, n_neighbors=6, random_state=0),
    "roseland of a callable kernel": Roseland(kernel=falling_kernel, landmarks=0.5, random_state=0),
    "roseland by farthest points": Roseland(kernel="gaussian", landmarks=landmarks.FarthestPoint(0.5)),
    "diffusion-maps by k-means": DiffusionMaps(kernel="gaussian", landmarks=landmarks.KMeans(0.6), random_state=0),
    "isomap by k-means": Isomap(n_neighbors=6, landmarks=landmarks.KMeans(0.5), random_state=0),
    "isomap by minimal distance": Isomap(n_neighbors=6, landmarks=landmarks.MinDistance(0.6), random_state=0),
    "classical-mds by inverse density": ClassicalMDS(landmarks=landmarks.InverseDensity(0.6), random_state=0),
    "kernel-pca by randomly pivoted Cholesky": KernelPCA(landmarks=landmarks.RPCholesky(0.5), random_state=0),
    "diffusion-maps low rank": DiffusionMaps(landmarks=0.6, solver=LowRank(), random_state=0),
    "diffusion-maps low rank alpha=0 t=2": DiffusionMaps(
        landmarks=landmarks.FarthestPoint(0.5), solver=LowRank(), alpha=0, t=2
    ),
    "laplacian-eigenmaps low rank": LaplacianEigenmaps(
        landmarks=landmarks.KMeans(0.5), solver=LowRank(1e-6), random_state=0
    ),
    "spectral-clustering low rank": SpectralClustering(3, landmarks=0.7, solver=LowRank(), random_state=0),
    "locally-linear-embedding": LocallyLinearEmbedding(n_neighbors=6),
    "locally-linear-embedding landmarks": LocallyLinearEmbedding(n_neighbors=5, landmarks=0.8, random_state=0),
    "locally-linear-embedding largest component": LocallyLinearEmbedding(n_neighbors=6, components="largest"),
    "diffusion-maps by least squares": DiffusionMaps(coordinates="canonical", extension="least_squares"),
}

APPROXIMATE = {  # rules that do not pass through the spectral embedding, and say by how much
    "diffusion-maps by geometric harmonics": DiffusionMaps(extension="geometric_harmonics"),
    "isomap by kernel ridge": Isomap(n_neighbors=6, extension="kernel_ridge"),
    "laplacian-eigenmaps by a pyramid": LaplacianEigenmaps(n_neighbors=6, extension="laplacian_pyramid"),
    "classical-mds manhattan by a pyramid": ClassicalMDS(metric="manhattan", extension="laplacian_pyramid"),
    "kernel-pca by barycentric weights": KernelPCA(kernel="rbf", gamma="auto", extension="barycentric"),
    "roseland by compressed diffusion": Roseland(landmarks=0.6, extension="compressed_diffusion", random_state=0),
    "diffusion-maps landmarks, linear": DiffusionMaps(landmarks=0.7, extension="linear", random_state=0),
    "locally-linear-embedding by neighbours": LocallyLinearEmbedding(
        n_neighbors=6, extension=KNeighborsRegressor(3, weights="distance")
    ),
    "phate": PHATE(random_state=0),
    "phate of every row": PHATE(landmarks=None),
    "phate landmarks": PHATE(landmarks=0.7, random_state=0),
    "phate gamma=0 manhattan": PHATE(landmarks=None, gamma=0, t=3, decay=2, metric="manhattan"),
    "phate by classical scaling of farthest points": PHATE(
        landmarks=landmarks.FarthestPoint(0.6), gamma=-1, mds="classical", n_neighbors=3, random_state=0
    ),
    "diffusion-maps by a network": DiffusionMaps(extension=Net((6,), max_iter=4)),
    "diffusion-maps by the best": DiffusionMaps(
        extension=Auto(folds=2, candidates=(Nystrom(), KernelRidge(), Barycentric(8)))
    ),
}
ALL_METHODS |= APPROXIMATE

NETWORKS = {  # keep every law that is not about a spectrum
    "diffusion-net": DiffusionNet(hidden=(6,), max_iter=4, random_state=0),
    "grae": GRAE(hidden=(6,), epochs=2, random_state=0),
}

METRICS = {"manhattan": "cityblock"}  # as SciPy calls them
KINDS = ("plain", "duplicates", "collinear", "clusters", "outlier", "constant", "tiny", "huge", "grid")


def cloud(seed: int, kind: str = "plain", rows: int = 40, features: int = 3) -> np.ndarray:
    """A read-only cloud with at least ten distinct rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    if kind == "duplicates":
        X[rows // 2 :] = X[rng.integers(0, rows // 2, rows - rows // 2)]
    elif kind == "collinear":
        X = np.outer(rng.uniform(-1, 1, rows), rng.normal(size=features))
    elif kind == "clusters":
        X += 8 * rng.integers(0, 3, rows)[:, None]
    elif kind == "outlier":
        X[rng.integers(rows)] = 1e4
    elif kind == "constant":
        X = np.column_stack([X, np.full(rows, 7.5)])
    elif kind == "tiny":
        X *= 1e-60
    elif kind == "huge":
        X = X * 1e60 + 1e60
    elif kind == "tenths":  # a grid whose steps floating point cannot hold: ties differ by rounding
        X = rng.integers(0, 4, (rows, max(2, features))) * 0.1 + 0.3
    elif kind == "few":  # many copies of few points
        X = X[rng.integers(0, 12, rows)]
    elif kind == "grid":
        X = rng.integers(0, 4, (rows, max(2, features))).astype(float)
    X.flags.writeable = False
    return X


def new_points(X: np.ndarray, seed: int, rows: int = 7) -> np.ndarray:
    """Points between and a little beyond those of X."""
    rng = np.random.default_rng(seed + 1)
    pairs = rng.integers(0, len(X), (2, rows))
    mix = rng.uniform(-0.2, 1.2, (rows, 1))
    return X[pairs[0]] * mix + X[pairs[1]] * (1 - mix)


clouds = st.builds(
    cloud,
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    rows=st.integers(24, 80),
    features=st.integers(1, 4),
)


def quietly(call, *args, **kwargs):
    """Call, with Outfold's own warnings (which odd clouds deserve) switched off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutfoldWarning)
        return call(*args, **kwargs)


def smallest(estimator) -> float:
    """The lambda of the contract, from ``eigenvalues_`` and parameters alone.

    Never from the report: code that claims to magnify rounding would then be allowed to be wrong by as much.
    """
    small_end = getattr(estimator, "laplacian", "") == "unnormalized" or has_rates(estimator)
    if small_end or isinstance(estimator, LocallyLinearEmbedding | PHATE | DiffusionNet | GRAE):
        return 1.0
    values = np.abs(estimator.eigenvalues_)
    if isinstance(estimator, KernelPCA | ClassicalMDS | Isomap):
        return float(values.min() / values.max())
    if isinstance(estimator, LaplacianEigenmaps):  # its eigenvalues are 1 - lambda
        values = np.abs(1 - estimator.eigenvalues_)
    return float(values.min())


def has_rates(estimator) -> bool:
    """Whether ``eigenvalues_`` are rates, of a kernel whose row divides by 1 - mu s >= 1/4."""
    kernel = getattr(estimator, "kernel", "")
    return isinstance(kernel, kernels.Variable) or kernel == "variable"


def places_by_eigenpairs(model) -> np.ndarray | None:
    """The embedding of ``landmarks_`` from eigenvalues and eigenvectors, if ``embedding_`` is computed by rows.

    It is for kernels over the nearest anchors. None for other methods: the anchors of most have their spectral
    coordinates as they are, and landmarks of Roseland are no rows of the operator.
    """
    if not isinstance(getattr(getattr(model, "_fitted_recipe", None), "view", None), NeighborWalk):
        return None
    time = getattr(model, "t", 0)
    if has_rates(model):
        return model.eigenvectors_ * np.exp(-model.eigenvalues_ * time)
    if getattr(model, "coordinates", "") != "canonical":
        return model.eigenvectors_ * model.eigenvalues_**time
    rule = model.model_.rule
    return model.eigenvectors_ * model.eigenvalues_ ** (time / 2) * rule.root[rule.nearest(model.landmarks_), None]


def size_of(values) -> float:
    return max(1.0, float(np.abs(values).max()))


def _of_low_rank(estimator) -> float:
    """Rounding of a low-rank row: its weights are as large as tolerance^(-1/2) lambda^(t - 1/2); 0 for others."""
    solver = getattr(estimator, "solver", None)
    if not isinstance(solver, LowRank):  # a Gaussian of all pairs may be of low rank by itself
        model = getattr(estimator, "model_", None)
        if not isinstance(getattr(model, "rule", None), LowRankRule):
            return 0.0
        solver = LowRank(gaussian_pairs.TOLERANCE)
    power = min(0.0, getattr(estimator, "t", 0) - 0.5)
    return 1e-15 * solver.tolerance**-0.5 * smallest(estimator) ** power


def tolerance(estimator, values) -> float:
    """Consistency: max(1e-10, 1e-14 / lambda) in units of the embedding's own size (float32: 1e-6 / lambda)."""
    small, floor = (1e-14, 1e-10) if np.asarray(values).dtype == np.float64 else (1e-6, 1e-6)
    return max(floor, small / smallest(estimator), _of_low_rank(estimator)) * size_of(values)


def row_tolerance(estimator, values, rows, places) -> float:
    """Row independence: 1e-12 in units of the embedding's own size, with the exceptions of the contract.

    ``values``: the embedding of the training rows; ``places``: that of ``rows``.
    """
    allowed = max(1e-12, _of_low_rank(estimator)) * size_of(values)
    if getattr(estimator, "laplacian", "") == "unnormalized":  # near a pole, where d(x) meets mu
        allowed *= max(1.0, size_of(places) / size_of(values)) ** 2
    if isinstance(estimator, KernelPCA | ClassicalMDS | Isomap):
        allowed = max(allowed, 1e-15 * smallest(estimator) ** -0.5 * size_of(values))
    if isinstance(estimator, ClassicalMDS):  # rows far from all anchors: d^2 is rounded, and nearly cancels
        farthest = cdist(rows, estimator.landmarks_, METRICS.get(estimator.metric, estimator.metric)).max()
        least = np.abs(estimator.eigenvalues_).min()
        allowed = max(allowed, 1e-15 * farthest**2 / 2 * np.sqrt(len(estimator.landmarks_) / least))
    return allowed


def aligned_error(A: np.ndarray, B: np.ndarray) -> float:
    """Largest distance between two embeddings after the best orthogonal alignment."""
    u, _, v = np.linalg.svd(A.T @ B)
    return float(np.abs(A @ (u @ v) - B).max())


def up_to_signs(A: np.ndarray, B: np.ndarray) -> float:
    """Largest difference of two embeddings whose columns may differ in sign."""
    return float(np.abs(A - B * np.sign((A * B).sum(axis=0))).max())


def sparse_matrix(seed, rows, columns, density):
    values = np.random.default_rng(seed).uniform(size=(2, rows, columns))
    return csr_array(np.where(values[0] < density, values[1], 0.0))


def pattern(seed, rows=12, columns=9):
    matrix = sparse_matrix(seed, rows, columns, 0.3)
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix


def triangulated(squared, rows, count):
    """Landmark MDS: -L# (row - mean row) / 2 (de Silva and Tenenbaum, 2004)."""
    n = len(squared)
    H = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * H @ squared @ H)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    return -0.5 * (rows - squared.mean(axis=0)) @ (vectors / np.sqrt(values))


def whole(table, features, carried=()):
    batches = list(table.batches(features, carried))
    starts = np.cumsum([0, *(len(batch.values) for batch in batches)])[:-1]
    assert [batch.start for batch in batches] == starts.tolist()
    others = [[value for batch in batches for value in batch.carried[at]] for at in range(len(carried))]
    return np.concatenate([batch.values for batch in batches]), others


def data_folder() -> pathlib.Path | None:
    """Where the shared data sets are, or None."""
    named = os.environ.get("OUTFOLD_DATA")
    for folder in [named] if named else [ROOT.parent / "shared" / "data"]:
        if folder and pathlib.Path(folder).is_dir():
            return pathlib.Path(folder)
    return None
