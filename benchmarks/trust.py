"""Trust on many data sets: p-values of fresh rows, rows that are no data, unknown classes, error radii, cost.

python benchmarks/trust.py            # prints the tables
python benchmarks/trust.py --write    # and writes them into docs/trust.md
python benchmarks/trust.py --only coverage --sets digits wine --seed 1000
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pages
from scipy.stats import ks_2samp
from sets import FOLDER, SETS, drawn, standard
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from outfold import (
    PHATE,
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    datasets,
)
from outfold.extensions.alignment import Alignment

TRAIN, SPLITS = 600, 20
COMPONENTS = {"sphere": 3, "punched sphere": 3, "flat torus": 4}  # where fewer would cut through equal eigenvalues


# -- data ----------------------------------------------------------------------------------


def mnist(rows=12_000):
    """Rows and labels of MNIST, in an order of its own."""
    with np.load(FOLDER / "mnist" / "mnist.npz") as file:
        some = np.random.default_rng(0).permutation(len(file["X"]))[:rows]
        return file["X"][some] / 255.0, file["y"][some]


def vowels():
    table = np.loadtxt(FOLDER / "vowel" / "vowel-context.data", delimiter=",")
    return standard(table[:, 3:13]), table[:, 13].astype(int)


def cytometry():
    with np.load(FOLDER / "cytof_bodenmiller" / "bodenmiller_untreated.npz", allow_pickle=True) as file:
        X, kinds = file["X"].astype(float), file["Cells"]
    some = np.random.default_rng(0).permutation(len(X))[:8000]
    return X[some], np.unique(kinds, return_inverse=True)[1][some]


def blood_cells():
    with np.load(FOLDER / "pbmc68k_reduced" / "pbmc68k_reduced.npz", allow_pickle=True) as file:
        return file["X_pca"].astype(float), np.unique(file["label"], return_inverse=True)[1]


def more_sets():
    """Sets beside those of ``sets.py``."""
    yield "breast cancer", drawn(standard(load_breast_cancer().data))
    if (FOLDER / "mnist").exists():
        yield "MNIST", drawn(mnist()[0])
    if (FOLDER / "pbmc68k_reduced").exists():
        yield "blood cells", drawn(blood_cells()[0])


ALL_SETS = {**SETS, **dict(more_sets())}


def split(name, seed):
    """600 training rows (or 10 of 11 parts of fewer), and a tenth as many fresh ones."""
    rows = ALL_SETS[name](TRAIN + TRAIN // 10, seed)
    return rows[len(rows) // 11 :], rows[: len(rows) // 11]


def in_parallel(function, tasks):
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(function, tasks)


def grouped(function, names, seeds):
    """Yield (name, results over the seeds)."""
    found = {name: [] for name in names}
    for name, result in in_parallel(function, [(name, seed) for name in names for seed in seeds]):
        found[name].append(result)
        if len(found[name]) == len(seeds):
            yield name, found.pop(name)


# -- fresh rows ----------------------------------------------------------------------------


def fresh(task):
    """Of the default model and of a calibrated one: is the hypothesis of equal scores rejected, and rows flagged."""
    name, seed = task
    warnings.simplefilter("ignore")
    rows = ALL_SETS[name](2 * TRAIN, seed)
    train, test = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    model, found = DiffusionMaps(COMPONENTS.get(name, 2), n_jobs=1).fit(train), []
    for calibrated in (False, True):
        judge = model.calibrate().calibration_.judge if calibrated else model._domain().judge
        trust = model.trust(test)
        known = np.repeat(judge.scores, np.maximum(1, np.round(judge.weight).astype(int)))
        found += [ks_2samp(known, trust.score).pvalue < 0.01, trust.flag.mean()]
    return name, found


def fresh_table(options):
    lines = [
        "| data | flagged | KS rejected | flagged, calibrated | KS rejected, calibrated |",
        "|---|---|---|---|---|",
    ]
    for name, found in grouped(fresh, options.sets, range(options.seed, options.seed + SPLITS)):
        rejected, flagged, rejected_too, flagged_too = np.array(found, dtype=float).T
        lines.append(
            f"| {name} | {flagged.mean():.2%} ({flagged.min():.1%} to {flagged.max():.1%}) | {rejected.sum():.0f} of "
            f"{SPLITS} | {flagged_too.mean():.2%} ({flagged_too.min():.1%} to {flagged_too.max():.1%}) | "
            f"{rejected_too.sum():.0f} of {SPLITS} |"
        )
        print(lines[-1], flush=True)
    return lines


# -- rows that are no data -----------------------------------------------------------------


def images():
    """Images as rows: training rows and others, by name."""
    yield "digits", load_digits().data / 16.0, 1000
    if (FOLDER / "mnist").exists():
        yield "MNIST", mnist(6000)[0], 1000
    if (FOLDER / "isomap_faces").exists():
        yield "faces", datasets.fetch_faces(path=FOLDER / "isomap_faces" / "isomap_faces_32.npz").data, 550


def strange(X, rng, count=200):
    """Rows that are no images of the set X."""
    low, high = X.min(), X.max()
    some = X[rng.integers(len(X), size=count)]
    return {
        "random pixels": rng.choice(X.ravel(), size=(count, X.shape[1])),
        "each pixel at random": np.column_stack([rng.choice(column, count) for column in X.T]),
        "uniform noise": rng.uniform(low, high, size=(count, X.shape[1])),
        "shuffled pixels": np.array([rng.permutation(row) for row in some]),
        "inverted": low + high - some,
        "constant": np.tile(rng.uniform(low, high, size=(count, 1)), X.shape[1]),
        "ten times as far": X.mean(axis=0) + 10 * (some - X.mean(axis=0)),
    }


METHODS = {
    "DiffusionMaps": DiffusionMaps(2),
    "LaplacianEigenmaps": LaplacianEigenmaps(2),
    "Roseland": Roseland(2, random_state=0),
    "Isomap": Isomap(2),
    "LLE": LocallyLinearEmbedding(2),
    "kernel PCA": KernelPCA(2, kernel="rbf"),
    "PHATE": PHATE(2, random_state=0),
}


def strange_task(task):
    name, (method, seed) = task
    warnings.simplefilter("ignore")
    rows, count = next((rows, count) for label, rows, count in images() if label == name)
    rng = np.random.default_rng(seed)
    rows = rows[rng.permutation(len(rows))]
    train, test = rows[:count], rows[count : count + 1000]
    model = clone(METHODS[method]).set_params(n_jobs=1).fit(train)
    flagged = [model.trust(Z).flag.mean() for Z in (test, *strange(test, rng).values())]
    model.calibrate(train, folds=5)
    radius = np.median(model.trust(test).error[~model.trust(test).flag])
    widest = [np.mean(model.trust(Z).error >= 10 * radius) for Z in strange(test, rng).values()]
    return name, (method, flagged, widest)


def strange_table(options):
    kinds = list(strange(np.eye(3), np.random.default_rng(0), 2))
    head = " | ".join(["data", "method", "fresh rows", *kinds])
    lines = [f"| {head} |", "|" + "---|" * (3 + len(kinds))]
    names = [name for name, *_ in images()]
    tasks = [(name, (method, options.seed + seed)) for name in names for method in METHODS for seed in range(3)]
    runs = {}
    for name, (method, flagged, widest) in in_parallel(strange_task, tasks):
        found = runs.setdefault((name, method), [])
        found.append([*flagged, *widest])
        if len(found) == 3:
            mean = np.mean(found, axis=0)
            shown = [f"{mean[0]:.1%}"]
            shown += [f"{a:.0%}" if a == b else f"{a:.0%} ({b:.0%})" for a, b in zip(mean[1:8], mean[8:])]
            lines.append(f"| {name} | {method} | " + " | ".join(shown) + " |")
            print(lines[-1], flush=True)
    return lines


# -- unknown classes -----------------------------------------------------------------------


def unknown_sets():
    """Rows, labels, known classes, training rows."""
    yield "digits, 5 of 10 known", load_digits(return_X_y=True), 5, 600
    yield "digits, 8 of 10 known", load_digits(return_X_y=True), 8, 1000
    if (FOLDER / "mnist").exists():
        yield "MNIST, 5 of 10 known", mnist(), 5, 1500
        yield "MNIST, 8 of 10 known", mnist(), 8, 3000
    if (FOLDER / "vowel").exists():
        yield "vowels, 6 of 11 known", vowels(), 6, 400
        yield "vowels, 9 of 11 known", vowels(), 9, 600
    if (FOLDER / "cytof_bodenmiller").exists():
        yield "cytometry, 7 of 14 known", cytometry(), 7, 2000
        yield "cytometry, 11 of 14 known", cytometry(), 11, 2000


FACTS = ("support", "isolation", "distance", "amplitude", "remainder", "residual", "disagreement")


def unknown(task):
    """AUROC of the score, of every fact and of three detectors, for rows of known and of unknown classes."""
    name, seed = task
    warnings.simplefilter("ignore")
    (X, y), classes, count = next(found[1:] for found in unknown_sets() if found[0] == name)
    rng = np.random.default_rng(seed)
    known = np.isin(y, rng.permutation(np.unique(y))[:classes])
    inside, outside = (rng.permutation(np.flatnonzero(mask)) for mask in (known, ~known))
    count = min(count, len(inside) * 3 // 4)
    train, Z = X[inside[:count]], X[np.append(inside[count:][:1000], outside[:1000])]
    truth = np.arange(len(Z)) >= len(inside[count:][:1000])
    model = DiffusionMaps(2, n_jobs=1).fit(train)
    trust, calibrated = model.trust(Z), model.calibrate(folds=5).trust(Z)
    values = {"score": trust.score, "score, calibrated": calibrated.score}
    values["local outlier factor"] = -LocalOutlierFactor(novelty=True).fit(train).score_samples(Z)
    values["isolation forest"] = -IsolationForest(random_state=seed).fit(train).score_samples(Z)
    values["5-NN distance"] = NearestNeighbors(n_neighbors=5).fit(train).kneighbors(Z)[0][:, -1]
    for fact in FACTS:
        if getattr(trust, fact) is not None:
            values[fact] = -trust.support if fact == "support" else getattr(trust, fact)
    finite = {key: np.clip(value, -1e300, 1e300) for key, value in values.items()}
    flagged = trust.flag[truth].mean(), calibrated.flag[truth].mean()
    return name, ({key: roc_auc_score(truth, value) for key, value in finite.items()}, flagged)


def unknown_table(options):
    others = ["local outlier factor", "isolation forest", "5-NN distance", *FACTS]
    head = " | ".join(["data", "score", "score, calibrated", *others, "score - best", "unknown flagged"])
    lines = [f"| {head} |", "|" + "---|" * (5 + len(others))]
    names = [found[0] for found in unknown_sets()]
    for name, found in grouped(unknown, names, range(options.seed, options.seed + 10)):
        areas = {key: np.mean([run[0][key] for run in found]) for key in found[0][0]}
        best = max(value for key, value in areas.items() if key in others)
        shown = [f"{areas[key]:.3f}" if key in areas else "–" for key in ("score", "score, calibrated", *others)]
        flagged = np.mean([run[1] for run in found], axis=0)
        shown += [
            f"{areas['score'] - best:+.3f}, {areas['score, calibrated'] - best:+.3f}",
            f"{flagged[0]:.0%}, {flagged[1]:.0%}",
        ]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
        print(lines[-1], flush=True)
    return lines


# -- error radii ---------------------------------------------------------------------------


def coverage(task):
    """Share of fresh rows inside their radius: in all, by quartile of support; rows flagged; warned or not; width."""
    name, seed = task
    train, test = split(name, seed)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = DiffusionMaps(COMPONENTS.get(name, 2), n_jobs=1).fit(train)
        model.calibrate()
    warned = any(kind in str(w.message) for w in heard for kind in ("component", "Error radii", "subspace"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        places, trust = model.transform(test, return_trust=True)
        inside = ~trust.flag
        whole = clone(model).fit(np.vstack([train, test[inside]])).embedding_
    onto = Alignment.of(model.embedding_, whole[: len(train)], rescale=False)
    error = np.linalg.norm(onto(places[inside]) - whole[len(train) :], axis=1)
    held, support = error <= trust.error[inside], trust.support[inside]
    order = np.argsort(np.argsort(support)) * 4 // len(support)
    quarters = [held[order == at].mean() for at in range(4)]
    ratio = np.median(trust.error[inside]) / max(np.quantile(error, 0.9), 1e-300)
    return name, [held.mean(), trust.flag.mean(), warned, ratio, *quarters]


def coverage_table(options):
    lines = [
        "| data | inside the 90 % radius | worst split | worst split without a warning | by quartile of support | "
        "splits with a warning | radius / 90 % of errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in grouped(coverage, options.sets, range(100 + options.seed, 100 + options.seed + SPLITS)):
        held, _, warned, ratio, *quarters = np.array(found, dtype=float).T
        unwarned = f"{held[warned == 0].min():.0%}" if (warned == 0).any() else "–"
        shown = ", ".join(f"{part.mean():.0%}" for part in quarters)
        lines.append(
            f"| {name} | {held.mean():.1%} | {held.min():.0%} | {unwarned} | {shown} | {warned.sum():.0f} of {SPLITS} "
            f"| {np.median(ratio):.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


# -- cost ----------------------------------------------------------------------------------

COSTS = {  # model, training rows and rows to embed
    "DiffusionMaps, 1000 x 3": (DiffusionMaps(2), (1000, 3), 20_000),
    "DiffusionMaps, 10,000 x 3": (DiffusionMaps(2), (10_000, 3), 50_000),
    "DiffusionMaps, 1500 x 64": (DiffusionMaps(2), (1500, 64), 10_000),
    "DiffusionMaps, Gaussian, 1500 x 64": (DiffusionMaps(2, kernel="gaussian"), (1500, 64), 10_000),
    "Roseland, 1000 landmarks": (Roseland(2, landmarks=1000, random_state=0), (20_000, 3), 50_000),
    "Isomap, 1500 x 3": (Isomap(2), (1500, 3), 20_000),
    "LocallyLinearEmbedding, 1500 x 3": (LocallyLinearEmbedding(2), (1500, 3), 50_000),
    "KernelPCA, rbf, 1500 x 3": (KernelPCA(2, kernel="rbf"), (1500, 3), 20_000),
    "ClassicalMDS, 1500 x 3": (ClassicalMDS(2), (1500, 3), 20_000),
    "PHATE, 1500 x 3": (PHATE(2, random_state=0), (1500, 3), 20_000),
}


def seconds(call):
    """Median of five, of one core."""
    call()
    taken = []
    for _ in range(5):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return np.median(taken)


def cost_table(options):
    lines = [
        "| model | fit | first use | share of the fit | rows | transform, no flags | transform | trust | "
        "trust / transform |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (model, (n, features), rows) in COSTS.items():
        curve = datasets.s_curve(n + rows, random_state=0)[0]
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(features, 3)))[0]
        X = curve @ turn.T + 0.01 * np.random.default_rng(1).normal(size=(n + rows, features))
        model = clone(model).set_params(n_jobs=1)
        fit = seconds(lambda: model.fit(X[:n]))  # noqa: B023
        first = seconds(model._find_domain)
        bare = seconds(lambda: model.transform(X[n:], on_far="keep"))  # noqa: B023
        plain, trust = seconds(lambda: model.transform(X[n:])), seconds(lambda: model.trust(X[n:]))  # noqa: B023
        lines.append(
            f"| {name} | {fit:.3f} | {first:.3f} | {first / fit:.0%} | {rows:,} | {bare:.3f} | {plain:.3f} "
            f"| {trust:.3f} | {trust / plain:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


TABLES = {
    "cost": cost_table,
    "fresh": fresh_table,
    "strange": strange_table,
    "unknown": unknown_table,
    "coverage": coverage_table,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into docs/trust.md")
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--sets", nargs="*", default=list(ALL_SETS))
    parser.add_argument("--seed", type=int, default=0, help="added to the seeds of the splits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, table in TABLES.items():
        if options.only in (None, name):
            lines = table(options)
            if options.write:
                pages.write("trust.md", name, "\n".join(lines))


if __name__ == "__main__":
    main()
