"""Extensions and bands on many data sets: is "auto" near the best candidate, and do bands hold what they promise?

python benchmarks/extensions.py            # prints the tables
python benchmarks/extensions.py --write    # and writes them into docs/trust.md
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
from sets import SETS

from outfold import ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LocallyLinearEmbedding, Roseland, datasets
from outfold._runtime.threads import Threads
from outfold.extensions import auto as extensions_auto
from outfold.extensions import samples
from outfold.extensions.alignment import Alignment

TRAIN, SPLITS = 600, 20
COMPONENTS = {"sphere": 3, "punched sphere": 3, "flat torus": 4}  # where fewer would cut through equal eigenvalues
EPSILON = {"wine": "median"}  # with a smaller one its coordinates tell outliers from the rest
CHOICES = 6  # splits on which "auto" is tried


def joint(name, model, train, test):
    """Where a fit of all rows puts the test rows, and what brings the model's coordinates onto it."""
    whole = (
        DiffusionMaps(COMPONENTS.get(name, 2), epsilon=model.epsilon_, n_jobs=1)
        .fit(np.vstack([train, test]))
        .embedding_
    )
    return whole[len(train) :], Alignment.of(model.embedding_, whole[: len(train)], rescale=False)


def choice(task):
    """Test errors of every candidate, and which "auto" chose."""
    name, seed = task
    rows = SETS[name](TRAIN + 200, seed)
    train, test = rows[: len(rows) * 3 // 4], rows[len(rows) * 3 // 4 :]
    model = DiffusionMaps(COMPONENTS.get(name, 2), epsilon=EPSILON.get(name, "auto"), extension="auto", n_jobs=1).fit(
        train
    )
    target, onto = joint(name, model, train, test)
    plain = DiffusionMaps(COMPONENTS.get(name, 2), epsilon=model.epsilon_, n_jobs=1).fit(train)
    known = samples.Samples.of(train, plain.embedding_, np.ones(len(train)), model=plain.model_)
    errors = []
    for extension in extensions_auto.candidates(known):
        places = extension.fit(known, Threads(1)).embed(test, Threads(1))
        errors.append(float(np.sqrt(((onto(places) - target) ** 2).sum(axis=1).mean())))
    return name, str(model.report_.candidates[0].extension), [str(e) for e in extensions_auto.candidates(known)], errors


def coverage(task):
    """Share of fresh rows inside their band, share flagged, and share of far rows flagged."""
    name, seed = task
    rows = SETS[name](TRAIN + TRAIN // 10, seed)
    test, train = rows[: len(rows) // 11], rows[len(rows) // 11 :]
    model = DiffusionMaps(COMPONENTS.get(name, 2), epsilon=EPSILON.get(name, "auto"), n_jobs=1).fit(train).calibrate()
    places, trust = model.transform(test, on_far="warn", return_trust=True)
    target, onto = joint(name, model, train, test)
    error, inside = np.linalg.norm(onto(places) - target, axis=1), ~trust.flag
    centre = train.mean(axis=0)
    away = np.random.default_rng(seed).normal(size=(100, train.shape[1]))
    away *= 10 * np.linalg.norm(train - centre, axis=1).max() / np.linalg.norm(away, axis=1, keepdims=True)
    held = error[inside] <= trust.error[inside]
    ratio = np.median(trust.error[inside]) / max(np.quantile(error[inside], 0.9), 1e-300)
    return name, held.mean(), trust.flag.mean(), model.trust(centre + away).flag.mean(), ratio


def quiet(function, tasks):
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(function, tasks)


def middle(values):
    """The geometric mean over splits."""
    return np.exp(np.log(values).mean(axis=0))


def choices_table(names, first):
    """The error of "auto", and of the one candidate that is best on all splits of a data set together."""
    lines = [
        "| data | chosen most often | auto | best candidate | Nystrom | auto / best |",
        "|---|---|---|---|---|---|",
    ]
    found = {name: [] for name in names}
    for name, *figures in quiet(choice, [(name, 10 + first + seed) for name in names for seed in range(CHOICES)]):
        found[name].append(figures)
        if len(found[name]) < CHOICES:
            continue
        runs = found[name]
        auto = middle([errors[told.index(chosen)] for chosen, told, errors in runs])
        size = min(len(errors) for *_, errors in runs)
        fixed = middle(np.array([errors[:size] for *_, errors in runs]))
        kinds = [chosen.split("(")[0] for chosen, *_ in runs]
        often = max(set(kinds), key=kinds.count)
        best = f"{fixed.min():.3g} ({runs[0][1][fixed.argmin()].split('(')[0]})"
        lines.append(f"| {name} | {often} | {auto:.3g} | {best} | {fixed[0]:.3g} | {auto / fixed.min():.3f} |")
        print(lines[-1], flush=True)
    return lines


def coverage_table(names, first):
    lines = ["| data | inside the 90 % band | fresh rows flagged | far rows flagged | band / 90 % of errors |"]
    lines.append("|---|---|---|---|---|")
    found = {name: [] for name in names}
    for name, *figures in quiet(coverage, [(name, 100 + first + seed) for name in names for seed in range(SPLITS)]):
        found[name].append(figures)
        if len(found[name]) == SPLITS:
            held, flagged, far, ratio = np.mean(found[name], axis=0)
            lines.append(f"| {name} | {100 * held:.1f} % | {100 * flagged:.1f} % | {100 * far:.1f} % | {ratio:.2f} |")
            print(lines[-1], flush=True)
    return lines


COSTS = {  # model, training rows and rows to embed
    "DiffusionMaps, 1000 x 3": (DiffusionMaps(2), (1000, 3), 20_000),
    "DiffusionMaps, 10,000 x 3, neighbours": (DiffusionMaps(2), (10_000, 3), 50_000),
    "DiffusionMaps, 1500 x 64": (DiffusionMaps(2), (1500, 64), 10_000),
    "Roseland, 1000 landmarks": (Roseland(2, landmarks=1000, random_state=0), (20_000, 3), 50_000),
    "Roseland, 10,000 landmarks, neighbours": (Roseland(2, landmarks=10_000, random_state=0), (50_000, 3), 50_000),
    "Isomap, 1500 x 3": (Isomap(2), (1500, 3), 20_000),
    "LocallyLinearEmbedding, 1500 x 3": (LocallyLinearEmbedding(2), (1500, 3), 50_000),
    "KernelPCA, rbf, 1500 x 3": (KernelPCA(2, kernel="rbf"), (1500, 3), 20_000),
    "ClassicalMDS, 1500 x 3": (ClassicalMDS(2), (1500, 3), 20_000),
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


def cost_table():
    lines = ["| model | rows | transform | trust | ratio |", "|---|---|---|---|---|"]
    for name, (model, (n, features), rows) in COSTS.items():
        curve = datasets.s_curve(n + rows, random_state=0)[0]
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(features, 3)))[0]
        X = curve @ turn.T + 0.01 * np.random.default_rng(1).normal(size=(n + rows, features))
        model = model.set_params(n_jobs=1).fit(X[:n])
        plain, trust = seconds(lambda: model.transform(X[n:])), seconds(lambda: model.trust(X[n:]))  # noqa: B023
        lines.append(f"| {name} | {rows:,} | {plain:.3f} | {trust:.3f} | {trust / plain:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into docs/trust.md")
    parser.add_argument("--only", choices=["choices", "coverage", "cost"])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seed", type=int, default=0, help="added to the seeds of the splits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    made = {
        "cost": cost_table,
        "choices": lambda: choices_table(options.sets, options.seed),
        "coverage": lambda: coverage_table(options.sets, options.seed),
    }
    tables = {name: make() for name, make in made.items() if options.only in (None, name)}
    if options.write:
        for name, lines in tables.items():
            pages.write("trust.md", name, "\n".join(lines))


if __name__ == "__main__":
    main()
