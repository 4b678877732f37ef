"""Draw the pictures of the pages: python docs/pictures.py, or some: python docs/pictures.py choosing phate"""

import pathlib
import sys
import warnings

import numpy as np
from matplotlib.patches import Circle, FancyBboxPatch
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from outfold import (
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
)
from outfold.bandwidths import Percentile
from outfold.datasets import helix, noisy_moons, rotated_digits, s_curve, swiss_roll, toroidal_helices
from outfold.exceptions import FarPointsWarning, SpectrumWarning
from outfold.landmarks import KMeans
from outfold.plotting import decay, embedding, grid, kernel_sum, overlay, pairs, panels, spectrum, thumbnails, trust_map

IMAGES = pathlib.Path(__file__).parent / "images"


def save(figure, name):
    figure.set_size_inches(10.5, 4.2)
    figure.savefig(IMAGES / f"{name}.png", dpi=80)


def in_space(axes, X, colors, title):
    """A view of points in space."""
    axes.scatter(*X.T, c=colors, s=6, cmap="viridis")
    axes.set(title=title, xticks=[], yticks=[], zticks=[])
    axes.view_init(12, -72)


def unrolled(method, data, name, title):
    """The data in space, and its embedding with new points, coloured by the true place."""
    X, place = data(1200, random_state=0)
    new, where = data(60, random_state=1)
    model = method.fit(X)
    figure, row = panels(1, 1.2, space=[0])
    in_space(row[0], X, place[:, 0], "data, coloured by place on the sheet")
    embedding(
        model.embedding_, colors=place[:, 0], new=model.transform(new), new_colors=where[:, 0], axes=row[1], title=title
    )
    row[1].set_aspect("auto")
    save(figure, name)


def trust():
    """Bands over the plane around a noisy arc, dense at one end, and those of fresh points in the embedding."""
    random = np.random.default_rng(3)
    angle = 4.2 * random.uniform(size=440) ** 1.7 + 0.6
    rows = np.column_stack([np.cos(angle), np.sin(angle)]) * (1 + 0.07 * random.normal(size=(440, 1)))
    X, new, side = rows[:400], rows[400:], angle[:400]
    maps = DiffusionMaps(2).fit(X).calibrate()
    figure, row = panels(1.1, 1)
    across, up = np.meshgrid(np.linspace(-1.5, 1.3, 160), np.linspace(-1.4, 1.4, 160))
    found = maps.trust(np.column_stack([across.ravel(), up.ravel()]))
    radius = np.where(found.flag, np.nan, found.error).reshape(across.shape)
    drawn = row[0].pcolormesh(across, up, radius, cmap="viridis_r", shading="nearest", rasterized=True)
    figure.colorbar(drawn, ax=row[0], label="radius of the 90 % band")
    row[0].scatter(*X.T, s=2, c="black", alpha=0.35, linewidths=0)
    row[0].set(title="how far off a position may be; blank is outside", xticks=[], yticks=[])
    row[0].set_aspect("equal")
    places, about = maps.transform(new, return_trust=True, on_far="nearest")
    embedding(maps.embedding_, colors=side, axes=row[1], title="fresh points and their bands")
    for place, size in zip(places, about.error):
        if np.isfinite(size):
            row[1].add_patch(Circle(place, size, fill=False, lw=0.7, alpha=0.6))
    row[1].scatter(*places.T, s=10, c="black")
    row[1].set_aspect("auto")
    save(figure, "trust")


def diffusion_maps():
    X, digit = load_digits(n_class=6, return_X_y=True)
    model = DiffusionMaps(10).fit(X[:900])
    figure, row = panels(1.2, 1)
    places = model.transform(X[900:], on_far="nearest")
    embedding(
        model.embedding_, colors=digit[:900], new=places, new_colors=digit[900:], axes=row[0], title="digits 0 to 5"
    )
    row[0].set_aspect("auto")
    spectrum(model.eigenvalues_, axes=row[1])
    save(figure, "diffusion-maps")


def laplacian_eigenmaps():
    unrolled(
        LaplacianEigenmaps(2, n_neighbors=16), s_curve, "laplacian-eigenmaps", "two smoothest functions on the graph"
    )


def roseland():
    unrolled(Roseland(2, landmarks=300, random_state=0), s_curve, "roseland", "landmark diffusion, 300 landmarks")


def tree(random):
    """Six branches in 30 dimensions, and where on them a point is."""
    ends, rows, colors = [np.zeros(30)], [], []
    for branch, start in enumerate((0, 1, 1, 2, 2, 3)):
        along, step = random.uniform(size=(230, 1)), random.normal(size=30)
        rows.append(ends[start] + 10 * along * step / np.linalg.norm(step))
        ends.append(ends[start] + 10 * step / np.linalg.norm(step))
        colors.append(branch + along[:, 0])
    return np.vstack(rows) + random.normal(scale=0.35, size=(1380, 30)), np.concatenate(colors)


def phate():
    """Branches that diffusion maps would fold into corners, from the side and as PHATE lays them out."""
    random = np.random.default_rng(2)
    X, side = tree(random)
    order = random.permutation(len(X))
    old, new = order[:1320], order[1320:]
    model = PHATE(2, random_state=0).fit(X[old])
    figure, row = panels(1, 1)
    row[0].scatter(*PCA(2).fit_transform(X[old]).T, c=side[old], s=6, cmap="viridis")
    row[0].set(title="a tree in 30 dimensions, by PCA", xticks=[], yticks=[])
    embedding(
        model.transform(X[old]),
        colors=side[old],
        new=model.transform(X[new], on_far="nearest"),
        new_colors=side[new],
        axes=row[1],
        title=f"PHATE, t = {model.t_}",
    )
    row[1].set_aspect("auto")
    save(figure, "phate")


def over_the_plane(axes, values, X, shades, title):
    """A function on a grid under the points."""
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    grid = np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FarPointsWarning)
        field = values(np.column_stack([g.ravel() for g in grid])).reshape(200, 200)
    axes.imshow(field, origin="lower", extent=(low[0], high[0], low[1], high[1]), cmap="coolwarm", alpha=0.5)
    axes.scatter(*X.T, s=8, c=shades, cmap="coolwarm", edgecolors="#222222", linewidths=0.3)
    axes.set(title=title, xticks=[], yticks=[])


def spectral_clustering():
    X, _ = noisy_moons(400, random_state=0)
    model = SpectralClustering(2).fit(X)
    figure, row = panels(1, 1)
    over_the_plane(row[0], model.predict, X, model.labels_, "predict, over the plane")
    over_the_plane(row[1], lambda Z: model.transform(Z)[:, 0], X, model.embedding_[:, 0], "its first eigenfunction")
    save(figure, "spectral-clustering")


def kernel_pca():
    digits = load_digits().data / 16
    old, new = digits[:1400], digits[1400:]
    noisy = new[:10] + 0.3 * np.random.default_rng(0).normal(size=(10, 64))
    figure, row = panels(1)
    row[0].remove()
    models = {"PCA": PCA(24).fit(old), "KernelPCA": KernelPCA(24, kernel="rbf", gamma=0.02).fit(old)}
    back = {"new": new[:10], "with noise": noisy}
    for name, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FarPointsWarning)
            back[name] = model.inverse_transform(model.transform(noisy))
    for axes, (name, rows) in zip(figure.subplots(4, 1), back.items()):
        axes.imshow(np.hstack(rows.reshape(-1, 8, 8)), cmap="gray", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, loc="left", fontsize=9)
    save(figure, "kernel-pca")


def classical_mds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12)) * 0.8 ** np.arange(12)
    model = ClassicalMDS(4, metric="manhattan", landmarks=60, random_state=0).fit(X)
    figure, row = panels(1, 1)
    embedding(model.embedding_, colors=X[:, 0], axes=row[0], title="distances by manhattan, 60 landmarks")
    pairs = rng.integers(0, 300, (2, 3000))
    given = np.abs(X[pairs[0]] - X[pairs[1]]).sum(axis=1)
    found = np.linalg.norm(model.embedding_[pairs[0]] - model.embedding_[pairs[1]], axis=1)
    row[1].scatter(given, found, s=3, alpha=0.4, c="#4477aa")
    row[1].set(xlabel="given distance", ylabel="distance in four coordinates", title="how much of it is kept")
    save(figure, "classical-mds")


def isomap():
    unrolled(Isomap(2), swiss_roll, "isomap", "length and height of the sheet")


def locally_linear_embedding():
    unrolled(
        LocallyLinearEmbedding(2, n_neighbors=12),
        s_curve,
        "locally-linear-embedding",
        "neighbourhoods kept, scale free",
    )


# -- the page about plotting ---------------------------------------------------------------


def plot_embedding():
    X, label, phi = toroidal_helices(1200, random_state=0)
    model = KernelPCA(3, kernel="linear").fit(X)
    figure, row = panels(1, 1, space=[1])
    embedding(model, colors=phi, axes=row[0], title="coloured by a number")
    embedding(model, colors=np.array(["first", "second"])[label], axes=row[1], title="three coordinates, two groups")
    save(figure, "plot-embedding")


def plot_pairs():
    X, place = s_curve(1000, random_state=0)
    axes = pairs(DiffusionMaps(5).fit(X), colors=place[:, 1])
    axes[0, 0].figure.set_size_inches(9.6, 7.6)
    axes[0, 0].figure.savefig(IMAGES / "plot-pairs.png", dpi=80)


def plot_new_points():
    X, _ = helix(600, random_state=0)
    new = np.vstack([helix(30, random_state=1)[0], np.random.default_rng(0).uniform(-1, 1, (6, 3))])
    model = DiffusionMaps(2, epsilon=0.03).fit(X)
    figure, row = panels(1, 1.15)
    overlay(model, new, axes=row[0], title="overlay")
    trust_map(model, new, axes=row[1], title="trust_map")
    save(figure, "plot-new-points")


def plot_trust_of_the_plane():
    X, _ = noisy_moons(300, random_state=0)
    figure, row = panels(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectrumWarning)
        model = DiffusionMaps(2).fit(X)
        trust_map(model, axes=row[0], title="p-values")
        trust_map(model.calibrate(), axes=row[1], title="bands, once calibrated")
    save(figure, "plot-trust")


def plot_thumbnails():
    X, label, _ = rotated_digits(source="digits")
    X = X[label == 0]
    seen = np.arange(360) % 5 > 0
    images = X.reshape(-1, 28, 28)
    model = DiffusionMaps(2).fit(X[seen])
    axes = thumbnails(model, images[seen], new=X[~seen], new_images=images[~seen], size=0.09)
    axes.figure.set_size_inches(6.4, 5.6)
    axes.figure.savefig(IMAGES / "plot-thumbnails.png", dpi=80)


def plot_spectra():
    X, _ = helix(1000, random_state=0)
    figure, row = panels(1, 1.05)
    spectrum(DiffusionMaps(20, epsilon=Percentile(15)).fit(X), axes=row[0])
    spectrum(DiffusionMaps(20, epsilon=0.03).fit(X), t=(1, 10, 40), axes=row[1])
    save(figure, "plot-spectrum")


def plot_epsilon():
    X, _ = helix(1000, random_state=0)
    figure, row = grid(1, 2, widths=(1.1, 1))
    decay(X, axes=row[0, 0], title="decay")
    kernel_sum(DiffusionMaps(2, kernel="gaussian").fit(X), axes=row[0, 1], title="kernel_sum")
    save(figure, "plot-epsilon")


# -- the page about choosing ---------------------------------------------------------------


def laid_out(axes, X, colors, labels, clusters):
    """Every method on the same rows; the last panel has the rows where the first method has them, by cluster."""
    methods = {
        "DiffusionMaps": DiffusionMaps(2),
        "LaplacianEigenmaps": LaplacianEigenmaps(2, n_neighbors=16),
        "Roseland, 500 landmarks": Roseland(2, landmarks=KMeans(500), random_state=0),
        "Isomap": Isomap(2),
        "LocallyLinearEmbedding": LocallyLinearEmbedding(2, n_neighbors=12),
        "PHATE": PHATE(2, random_state=0),
        "KernelPCA, rbf": KernelPCA(2, kernel="rbf", gamma=0.5 / np.median(pdist(X)) ** 2),
        "ClassicalMDS (here: PCA)": ClassicalMDS(2),
    }
    places = {}
    for panel, (name, method) in zip(axes, methods.items()):
        places[name] = method.fit(X).embedding_
        panel.scatter(*places[name].T, c=colors, s=4, cmap=labels, linewidths=0)
        panel.set(title=name, xticks=[], yticks=[])
    found = SpectralClustering(clusters, n_neighbors=16, random_state=0).fit(X).labels_
    axes[-1].scatter(*places["PHATE"].T, c=found, s=4, cmap="tab10", linewidths=0)
    axes[-1].set(title=f"SpectralClustering({clusters}), over PHATE", xticks=[], yticks=[])


def front():
    """Images of a turning digit: the fit, new ones with their radii, two that are no digit, and the way back."""
    X, label, _ = rotated_digits(source="digits")
    X = X[label == 0]
    random = np.random.default_rng(0)
    seen = np.sort(random.choice(360, 240, replace=False))
    new = random.choice(np.setdiff1d(np.arange(360), seen), 14, replace=False)
    strange = X[new[:2]][:, random.permutation(784)]  # the same pixels, shuffled
    maps = DiffusionMaps(2).fit(X[seen]).calibrate(folds=4)
    places, found = maps.transform(np.vstack([X[new], strange]), return_trust=True, on_far="keep")
    figure, (left, middle, right) = panels(1, 1, 1)
    thumbnails(maps, X[seen].reshape(-1, 28, 28), axes=left, size=0.13, title="fit: 240 images of 784 pixels")
    middle.scatter(*maps.embedding_.T, c="#b9c4d0", s=12, linewidths=0)
    for place, radius in zip(places[~found.flag], found.error[~found.flag]):
        middle.add_patch(Circle(place, radius, fc="#4477aa22", ec="#4477aa", lw=1))
    middle.scatter(*places[~found.flag].T, c="#4477aa", s=36, edgecolors="black", linewidths=0.8, zorder=3)
    middle.scatter(*places[found.flag].T, marker="X", c="#d1495b", s=110, edgecolors="black", zorder=4)
    middle.set(title="transform: new images, 90 % radii, flags")
    for axes in (left, middle):
        axes.set_aspect("equal", adjustable="datalim")
    turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    walk = np.median(np.linalg.norm(maps.embedding_, axis=1)) * np.column_stack([np.cos(turn), np.sin(turn)])
    images = maps.inverse_transform(walk).reshape(3, 4, 28, 28).transpose(0, 2, 1, 3).reshape(84, 112)
    right.imshow(images, cmap="gray_r")
    right.set_title("back: images along the circle")
    right.set_anchor("N")
    for axes in (left, middle, right):
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
        axes.spines[:].set_visible(False)
    save(figure, "front")


def choosing():
    """Every spectral method, with little or no tuning, on a sheet with a hole, on a tree and on images."""
    X, place = swiss_roll(1700, random_state=0)
    middle = place - (place.min(axis=0) + place.max(axis=0)) / 2
    kept = np.abs(middle / np.ptp(place, axis=0)).max(axis=1) > 0.17
    digits, digit = load_digits(n_class=6, return_X_y=True)
    branches, side = tree(np.random.default_rng(2))
    figure, axes = grid(6, 5, space=[0], size=(2.5, 2.25))
    axes[0, 0].scatter(*X[kept].T, c=place[kept, 0], s=2, cmap="viridis")
    axes[0, 0].set(title="a roll with a hole", xticks=[], yticks=[], zticks=[])
    axes[0, 0].view_init(12, -72)
    axes[2, 0].imshow(branches[np.argsort(side)], aspect="auto", cmap="coolwarm", interpolation="nearest")
    axes[2, 0].set(title="a tree: 1380 x 30, branch by branch", xticks=[], yticks=[])
    shown = np.pad(digits[:36].reshape(6, 6, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
    axes[4, 0].imshow(shown.swapaxes(1, 2).reshape(60, 60), cmap="gray_r")
    axes[4, 0].set(title="digits 0 to 5: 1083 x 64", xticks=[], yticks=[])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectrumWarning)
        laid_out(axes[:2].ravel()[1:], X[kept], place[kept, 0], "viridis", 4)
        laid_out(axes[2:4].ravel()[1:], branches, side, "viridis", 6)
        laid_out(axes[4:].ravel()[1:], digits, digit, "tab10", 6)
    for panel in axes.ravel():
        panel.title.set_fontsize(8)
        for spine in panel.spines.values():
            spine.set_color("#bbbbbb")
    figure.savefig(IMAGES / "choosing.png", dpi=80)


QUESTIONS = (
    ("Only distances, no features?", "ClassicalMDS"),
    ("A kernel of your own?", "KernelPCA"),
    ("Groups, not coordinates?", "SpectralClustering"),
    ("A picture of branches and transitions?", "PHATE"),
    ("Lengths on a sheet without holes, little noise?", "Isomap"),
    ("A small, quick model with a way back?", "DiffusionNet, GRAE"),
    ("Hundreds of thousands of rows, or more than memory?", "Roseland"),
)


def box(axes, place, width, text, **look):
    """A box with its left end and its middle at a place."""
    shape = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "mutation_aspect": 1.0}
    axes.add_patch(FancyBboxPatch((place[0], place[1] - 0.26), width, 0.52, fc=look["fc"], ec="#4477aa", **shape))
    axes.text(place[0] + width / 2, place[1], text, ha="center", va="center", color=look["color"], fontsize=11)


def deciding():
    """Questions from above; the first yes decides."""
    figure, (axes,) = panels(1)
    question, answer = {"fc": "#eef2f7", "color": "black"}, {"fc": "#4477aa", "color": "white"}
    arrow = {"arrowstyle": "-|>", "color": "#555555", "shrinkA": 0, "shrinkB": 0}
    for number, (text, method) in enumerate(QUESTIONS):
        box(axes, (0, -number), 5, text, **question)
        box(axes, (6, -number), 2.4, method, **answer)
        axes.annotate("", (5.95, -number), (5.05, -number), arrowprops=arrow)
        axes.text(5.5, -number + 0.08, "yes", ha="center", fontsize=9, color="#555555")
        axes.annotate("", (2.5, -number - 0.71), (2.5, -number - 0.29), arrowprops=arrow)
        axes.text(2.58, -number - 0.55, "no", fontsize=9, color="#555555")
    box(axes, (1.3, -len(QUESTIONS)), 2.4, "DiffusionMaps", **answer)
    axes.set(xlim=(-0.1, 8.5), ylim=(-len(QUESTIONS) - 0.4, 0.4))
    axes.set_axis_off()
    figure.set_size_inches(9, 6.6)
    figure.savefig(IMAGES / "deciding.png", dpi=80)


PICTURES = (
    diffusion_maps,
    laplacian_eigenmaps,
    roseland,
    phate,
    spectral_clustering,
    kernel_pca,
    classical_mds,
    isomap,
    locally_linear_embedding,
    trust,
    plot_embedding,
    plot_pairs,
    plot_new_points,
    plot_trust_of_the_plane,
    plot_thumbnails,
    plot_spectra,
    plot_epsilon,
    front,
    choosing,
    deciding,
)

if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for draw in PICTURES:
        if sys.argv[1:] and draw.__name__ not in sys.argv[1:]:
            continue
        draw()
        print(f"drew {draw.__name__}")
