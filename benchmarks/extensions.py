"""Extensions on many data sets: is "auto" near the best candidate?

python benchmarks/extensions.py            # prints the table
python benchmarks/extensions.py --write    # and writes it into docs/extensions.md
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pages
from sets import SETS

from outfold import DiffusionMaps
from outfold._runtime.threads import Threads
from outfold.extensions import auto as extensions_auto
from outfold.extensions import samples
from outfold.extensions.alignment import Alignment

TRAIN = 600
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into docs/extensions.md")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seed", type=int, default=0, help="added to the seeds of the splits")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = choices_table(options.sets, options.seed)
    if options.write:
        pages.write("extensions.md", "choices", "\n".join(lines))


if __name__ == "__main__":
    main()
