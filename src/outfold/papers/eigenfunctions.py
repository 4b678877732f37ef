"""What eigenfunctions reveal: figures 1 to 3 of Bengio et al. (2004)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.cluster import KMeans

from .. import Isomap, KernelPCA, LaplacianEigenmaps, LocallyLinearEmbedding, SpectralClustering, plotting
from .._runtime.typing import Array
from ..datasets import connected_clusters, fetch_faces, noisy_moons
from ..exceptions import OutfoldWarning
from ..extensions.alignment import Alignment
from ..methods.base import SpectralEstimator
from .record import Effort, Experiment, Finding, Outcome, Picture, ResultTable, measurement, relative_error

SIGMA = 0.2  # sigma of exp(-d^2 / sigma^2), equation 4
EPSILON, GAMMA = SIGMA**2 / 2, 1 / SIGMA**2
NEIGHBORS = 20  # of Isomap and LLE in figure 2
MOONS, MOON_NOISE = 400, 0.05
FACES, TRAINED, FACE_NEIGHBORS = 113, 70, 10  # figure 3
BANDS = (0.1, 0.3, 0.5, 0.7, 0.9)  # quantiles of the light; the faces nearest to one are a data set
BAND = 0.5  # the quantile of figure 3
PIXELS = 120  # pixels of the plane along each axis


def rank_by_size(a: Array, b: Array) -> float:
    """Return |Spearman's rank correlation|: the sign of an eigenfunction is arbitrary."""
    return float(abs(np.corrcoef(rankdata(a), rankdata(b))[0, 1]))


def agreement(found: Array, truth: Array) -> float:
    """Return the share of points in the right one of two clusters; the clusters may be exchanged."""
    share = float((found == truth).mean())
    return max(share, 1 - share)


# -- figure 1: what spectral clustering does to two manifolds -------------------------------


def moons(seed: int, *, count: int = MOONS) -> Outcome:
    """Measure how well an embedding shows two moons and the position along each of them."""
    X, label = noisy_moons(count, noise=MOON_NOISE, random_state=seed)
    Z, new_label = noisy_moons(count, noise=MOON_NOISE, random_state=seed + 1)
    clusters = SpectralClustering(2, normalize_rows=True, epsilon=EPSILON, n_neighbors=None).fit(X)
    embedding = LaplacianEigenmaps(2, epsilon=EPSILON, n_neighbors=None).fit(X).embedding_
    plain = agreement(KMeans(2, n_init=10, random_state=seed).fit_predict(X), label)
    seen, new = agreement(clusters.labels_, label), agreement(clusters.predict(Z), new_label)
    angle = np.arctan(clusters.embedding_[:, 0])  # angle of the vector (1, psi_1)
    between = cdist(angle[label == 0, None], angle[label == 1, None]).min()
    within = max(np.ptp(angle[label == moon]) for moon in (0, 1))
    place = along_moon(X, label)
    inside = min(rank_by_size(embedding[label == moon, 1], place[label == moon]) for moon in (0, 1))
    findings = [
        measurement("figure 1: k-means on the data, share of points in the right cluster", plain).against(
            "fails miserably", plain < 0.9, "two moons; the paper's data is not given"
        ),
        measurement("k-means after the transformation, the same share", seen).against(
            "reveals the clusters", seen == 1.0
        ),
        measurement("spectral clustering of points the fit has not seen, the same share", new).against(
            "a function of the plane", new > 0.99, "by the Nystrom formula"
        ),
        measurement(
            "least angle between two clusters over the largest within one", between / within, "rows of length 1"
        ),
        measurement("rank correlation of a coordinate with the position along each moon, the worse", inside).against(
            "reveals the internal structure of the two manifolds", inside > 0.95
        ),
    ]
    figure, (row,) = plotting.grid(1, 2, size=(5.0, 4.2))
    for axes, points, title in zip(row, (X, embedding), ("data", "first two eigenfunctions")):
        for moon, marker in enumerate("ox"):
            look = {"s": 24, "marker": marker, "linewidths": 0.9, "cmap": "gray", "vmin": 0.0, "vmax": 3.9}
            axes.scatter(*points[label == moon].T, c=place[label == moon], **look)
        axes.set_title(title)
    caption = (
        "Figure 1. Two moons, and where spectral clustering takes them. Circle or cross: the moon; grey level: the "
        "position along it. The first coordinate tells the moons apart, the second runs along both."
    )
    return Outcome(findings, [Picture("figure-1", figure, caption)])


def along_moon(X: Array, label: Array) -> Array:
    """Return the angle of each point on its own half circle; without noise it is from 0 to pi."""
    x, y = X.T
    angle = np.where(label == 0, np.arctan2(y, x), np.arctan2(0.5 - y, 1 - x))
    place: Array = np.where(angle < -np.pi / 2, angle + 2 * np.pi, angle)
    return place


# -- figure 2: the first eigenfunction over the plane ---------------------------------------


def along_curve(X: Array, label: Array) -> Array:
    """Return the position of each point on the curve through both clusters; without noise minus to plus 1.3 pi."""
    side = np.where(label == 1, 1.0, -1.0)
    x, y = (side[:, None] * X).T
    angle = np.arctan2(-y, 0.5 - x)
    place: Array = side * np.where(angle < -np.pi / 4, angle + 2 * np.pi, angle)
    return place


def touches(values: Array) -> float:
    """Return the share of points where f is large, (sum f^2)^2 / (n sum f^4): 1 / n if f is 0 at all points but one."""
    return float((values**2).sum() ** 2 / (len(values) * (values**4).sum()))


def plane(seed: int, *, sizes: tuple[int, int] = (100, 400), pixels: int = PIXELS) -> Outcome:
    """Measure the first eigenfunction of each method, at the data, at new points and over the plane."""
    X, label = connected_clusters(sizes, random_state=seed)
    Z, new_label = connected_clusters(sizes, random_state=seed + 1)
    fitted: dict[str, SpectralEstimator] = {
        "kernel PCA": KernelPCA(1, kernel="rbf", gamma=GAMMA).fit(X),
        "spectral clustering": LaplacianEigenmaps(1, epsilon=EPSILON, n_neighbors=None).fit(X),
        "Isomap": Isomap(1, n_neighbors=NEIGHBORS).fit(X),
        "LLE": LocallyLinearEmbedding(1, n_neighbors=NEIGHBORS).fit(X),
    }
    values = {name: orient(model.embedding_[:, 0], label) for name, model in fitted.items()}
    axis = np.linspace(-1.35, 1.35, pixels)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    levels = {
        name: np.sign(values[name] @ model.embedding_[:, 0]) * model.transform(points)[:, 0]
        for name, model in fitted.items()
    }
    near = cdist(points, X).min(axis=1) < SIGMA
    gauss = {s: KernelPCA(1, kernel="rbf", gamma=1 / s**2).fit(X).embedding_[:, 0] for s in (0.2, 0.1, 0.05, 50)}
    place, new_place = along_curve(X, label), along_curve(Z, new_label)
    along = {name: rank_by_size(value, place) for name, value in values.items()}
    along_new = {name: rank_by_size(model.transform(Z)[:, 0], new_place) for name, model in fitted.items()}
    alike = rank_by_size(levels["Isomap"][near], levels["LLE"][near])
    shares = [touches(value) for sigma, value in gauss.items() if sigma < 1]
    linear = rank_by_size(gauss[50], KernelPCA(1).fit(X).embedding_[:, 0])
    clusters = values["spectral clustering"]
    middle = [clusters[label == k].mean() for k in (0, 1)]
    spread = float(clusters[label == 1].std() / abs(middle[1] - middle[0]))
    right = agreement(clusters > np.mean(middle), label == 1)
    why = "rank correlation with the position along the curve"
    regions = "kernel PCA, share of points its eigenfunction lives on, sigma = 0.2, 0.1 and 0.05"
    findings = [
        measurement(f"figure 2: kernel PCA, {why}", along["kernel PCA"]).against(
            "does not discover the manifold", along["kernel PCA"] < 0.9
        ),
        measurement(regions, ", ".join(f"{share:.2g}" for share in shares)).against(
            "smaller regions as the bandwidth decreases", shares == sorted(shares, reverse=True)
        ),
        measurement("kernel PCA at sigma = 50 and linear PCA, rank correlation", linear).against(
            "a high bandwidth is linear PCA", linear > 0.999
        ),
        measurement("spectral clustering, share of points on their cluster's side of the middle", right).against(
            "obviously reveals the clusters", right > 0.99
        ),
        measurement(
            "spectral clustering, spread within the large cluster over the distance of the two", spread
        ).against("almost all points in it are given the same value", spread < 0.05),
        *(
            measurement(f"{name}, {why}", along[name]).against("captured the manifold", along[name] > 0.99)
            for name in ("Isomap", "LLE")
        ),
        measurement("Isomap and LLE over the plane, up to 0.2 from the data, rank correlation", alike).against(
            "very similar", alike > 0.95
        ),
        *(measurement(f"{name}, {why}, of points the fit has not seen", along_new[name]) for name in fitted),
    ]
    return Outcome(findings, [_over_the_plane(X, axis, levels)])


def _over_the_plane(X: Array, axis: Array, levels: dict[str, Array]) -> Picture:
    """Draw each eigenfunction over the square of ``axis``, with the points it is learnt from."""
    figure, grid = plotting.grid(2, 2, size=(4.2, 4.2))
    for axes, (name, level) in zip(grid.flat, levels.items()):
        title = name
        if name == "spectral clustering":
            title, level = f"{name}, logarithm", np.log(level - level.min() + 1e-3 * np.ptp(level))
        low, high = np.quantile(level, [0.01, 0.99])
        level = level.reshape(len(axis), len(axis))
        axes.pcolormesh(axis, axis, level, cmap="gray", vmin=low, vmax=high, rasterized=True)
        axes.scatter(*X.T, s=7, c="white", edgecolors="#222222", linewidths=0.3)
        axes.set(title=title, xticks=[], yticks=[])
        axes.set_aspect("equal")
    caption = (
        "Figure 2. The first eigenfunction over the plane (grey levels) and the 500 points it is learnt from. Spectral "
        "clustering: the logarithm above its least value, without which the clusters are two flat shades."
    )
    return Picture("figure-2", figure, caption)


def orient(values: Array, label: Array) -> Array:
    """Return ``values`` or ``-values``, so that the mean of cluster 0, the smaller one, is above that of the other."""
    return values if values[label == 0].mean() > values[label == 1].mean() else -values


# -- figure 3: faces -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Faces:
    """Isomap of faces under similar light: some are training faces, the others are embedded by the Nystrom formula."""

    rows: Array  # numbers of these faces in the data set
    seen: Array  # embedding of the training faces
    new: Array  # embedding of the others
    explained: Array  # (2, 2): R^2 of pan and tilt, training faces and new ones
    off: tuple[float, float]  # distance from the fit of all, relative to its deviation: training faces, new ones

    @classmethod
    def of(cls, X: Array, pose: Array, band: float = BAND) -> Faces:
        light = pose[:, 0]
        rows = np.sort(np.argsort(np.abs(light - np.quantile(light, band)), kind="stable")[:FACES])
        train, test = rows[:TRAINED], rows[TRAINED:]
        model = Isomap(2, n_neighbors=FACE_NEIGHBORS).fit(X[train])
        seen, new = model.embedding_, model.transform(X[test])
        explained = np.array(
            [explain(seen, pose[train, 1:], *pair) for pair in ((seen, pose[train, 1:]), (new, pose[test, 1:]))]
        )
        target = Isomap(2, n_neighbors=FACE_NEIGHBORS).fit(X[rows]).embedding_
        onto = Alignment.of(seen, target[:TRAINED])
        off = relative_error(onto(seen), target[:TRAINED]), relative_error(onto(new), target[TRAINED:])
        return cls(rows=rows, seen=seen, new=new, explained=explained, off=off)

    def findings(self) -> list[Finding]:
        (pan, tilt), (new_pan, new_tilt) = self.explained
        whole, words = "captured the intrinsic 2-dimensional manifold", "generalizes well"
        return [
            measurement("figure 3: variance of pan explained by the embedding, training faces", pan).against(
                whole, pan > 0.8, "regression on a quadratic of the two coordinates"
            ),
            measurement("variance of tilt explained by the embedding, training faces", tilt).against(whole, tilt > 0.8),
            measurement("variance of pan explained by the same regression, projected faces", new_pan).against(
                words, new_pan > pan - 0.1
            ),
            measurement("variance of tilt explained by the same regression, projected faces", new_tilt).against(
                words, new_tilt > tilt - 0.1
            ),
            measurement(
                "distance of projected faces from a fit of all 113, over that of the training faces",
                self.off[1] / self.off[0],
            ).against(
                words,
                self.off[1] < 1.5 * self.off[0],
                f"{self.off[1]:.2f} of the spread, after alignment on the training faces",
            ),
        ]


def explain(X: Array, y: Array, Z: Array, wanted: Array) -> Array:
    """Return R^2 of each column of ``wanted`` at Z, by a quadratic regression of y on X.

    It is quadratic since the pose need not be linear in the coordinates.
    """

    def quadratic(points: Array) -> Array:
        a, b = (points / X.std(axis=0)).T
        return np.column_stack([np.ones(len(points)), a, b, a * a, a * b, b * b])

    left = quadratic(Z) @ np.linalg.lstsq(quadratic(X), y, rcond=None)[0] - wanted
    return np.asarray(1 - (left**2).sum(axis=0) / ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0))


def run(effort: Effort) -> Outcome:
    faces = fetch_faces()  # first, so that a missing file raises before any fit
    with warnings.catch_warnings(action="ignore", category=OutfoldWarning):  # most of the plane is far from the data
        first, second = moons(effort.seed), plane(effort.seed)
        found = Faces.of(faces.data, faces.target)
        others = {band: Faces.of(faces.data, faces.target, band) for band in BANDS}
    explained = ["pan, training", "tilt, training", "pan, projected", "tilt, projected"]
    table = ResultTable(
        "Figure 3 under other lights: variance explained, and distance in units of the spread",
        [
            "light, quantile",
            *explained,
            *(f"distance from the fit of all, {kind}" for kind in ("training", "projected")),
        ],
        [[band, *one.explained.ravel(), *one.off] for band, one in others.items()],
    )
    figure, grid = plotting.grid(1, 1, size=(8.0, 6.4))
    seen, new = faces.images[found.rows[:TRAINED]], faces.images[found.rows[TRAINED:]]
    plotting.thumbnails(found.seen, seen, new=found.new, new_images=new, axes=grid[0, 0])
    caption = (
        "Figure 3. Isomap of 70 faces, and 43 others placed by the Nystrom formula (red). Across the head turns, up "
        "and down it nods."
    )
    third = Outcome(found.findings(), [Picture("figure-3", figure, caption)], [table])
    return Outcome.join([first, second, third])


EXPERIMENT = Experiment(
    name="eigenfunctions",
    title="What eigenfunctions reveal",
    source="Bengio, Delalleau, Le Roux, Paiement, Vincent, Ouimet (2004), Spectral dimensionality reduction, figures 1 "
    "to 3",
    settings="Figure 1: two moons of 200 points, noise 0.05 (the paper's data is not given). Figure 2: 100 and 400 "
    "points on a curve, made in the paper's manner; its Gaussian exp(-d^2 / sigma^2) with sigma = 0.2 is epsilon = "
    "0.02 here; 20 neighbours for Isomap and LLE; pixels far from the data are embedded all the same. Figure 3: the "
    "paper takes the 113 of 698 faces with illumination from 180 to 200, in units our copy (32 x 32 pixels, light "
    "standardised) has not kept: we take the 113 whose light is nearest the median, in the order of the file; Isomap "
    "with 10 neighbours on the first 70, the other 43 projected.",
    run=run,
)
