"""Sparse diffusion maps of flat tori, 10 pairs: dimensions in which a coarse grid fills up, and what "auto" does there.

For every dimension: seconds (best and median), the neighbour search alone, the solver chosen and residual/mu.

    python benchmarks/tori.py [n] [repeats]
"""

import statistics
import sys

import numpy as np
from sparse import search, seconds

from outfold import DiffusionMaps


def torus(n, dimension):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (n, dimension))
    return np.hstack([np.cos(angle), np.sin(angle)])


def main(n=100_000, repeats=3):
    for dimension in (2, 3, 5):
        X = torus(n, dimension)
        DiffusionMaps(10, n_neighbors=32).fit(torus(25_000, dimension))  # compile
        limit = min(search(X) for _ in range(repeats))
        runs = [seconds(lambda X=X: DiffusionMaps(10, n_neighbors=32).fit(X)) for _ in range(repeats)]
        took, report = [t for t, _ in runs], runs[-1][1].report_
        print(
            f"dimension {dimension}: {min(took):.2f} s (median {statistics.median(took):.2f}), search {limit:.2f} s, "
            f"{report.solver}, residual/mu {report.residual:.1e}: {report.solver_why}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
