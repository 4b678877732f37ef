"""Ten updates of 10 % each against one fit of everything.

    python benchmarks/updates.py [--write]                  (--write: into docs/methods/roseland.md)

Roseland, 2000 rows and 300 landmarks, then ten times 200 rows more. "error": how far the updated model puts fresh
points from where a full fit with the same landmarks and epsilon puts them, aligned, relative to their spread. "moved":
how far the landmarks of the fit have moved since, relative to their spread. The worst of three seeds.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pages

from outfold import Roseland
from outfold.datasets import circle, flat_torus, s_curve
from outfold.quality import aligned_error

ROWS, MORE, STEPS, SEEDS = 2000, 200, 10, 3


def uneven(n, random_state):
    """A circle of density 1 + 0.8 cos."""
    X = circle(6 * n, random_state=random_state)
    kept = np.random.default_rng(random_state).uniform(size=len(X)) * 1.8 < 1 + 0.8 * X[:, 0]
    return X[kept][:n]


SETS = {  # components, epsilon, rows(count, seed)
    "S-curve": (2, "auto", lambda n, seed: s_curve(n, random_state=seed)[0]),
    "flat torus": (4, "auto", lambda n, seed: flat_torus(n, random_state=seed)),
    "uneven circle": (2, 0.05, uneven),
    "uneven circle, nearly cut": (2, "auto", uneven),
}


def run(components, epsilon, X, fresh, alpha, neighbors, seed):
    maps = Roseland(
        components,
        landmarks=300,
        epsilon=epsilon,
        alpha=alpha,
        n_neighbors=neighbors,
        updatable=True,
        random_state=seed,
    ).fit(X[:ROWS])
    for step in range(STEPS):
        maps.update(X[ROWS + step * MORE : ROWS + (step + 1) * MORE])
    whole = Roseland(
        components, landmarks=maps.landmarks_, alpha=alpha, n_neighbors=neighbors, epsilon=maps.epsilon_
    ).fit(X)
    error = aligned_error(maps.transform(fresh), whole.transform(fresh), rescale=False)
    return error, maps.report_.drift.moved_since_fit


def main():
    warnings.simplefilter("ignore")
    table = ["| data | alpha | landmarks a row | error | old points moved |", "|---|---|---|---|---|"]
    for name, (components, epsilon, draw) in SETS.items():
        for alpha in (1, 0):
            for neighbors in (None, 24):
                found = [
                    run(
                        components,
                        epsilon,
                        draw(ROWS + STEPS * MORE, seed),
                        draw(500, 50 + seed),
                        alpha,
                        neighbors,
                        seed,
                    )
                    for seed in range(SEEDS)
                ]
                error, moved = np.max(found, axis=0)
                table.append(f"| {name} | {alpha} | {neighbors or 'all'} | {100 * error:.2g} % | {100 * moved:.2g} % |")
                print(table[-1], flush=True)
    if "--write" in sys.argv:
        pages.write("methods/roseland.md", "updates", "\n".join(table))


if __name__ == "__main__":
    main()
