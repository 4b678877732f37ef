"""Which rule for epsilon sees the true spectrum? iid samples, default alpha, median of five seeds.

The first eight eigenvalues of 1 - lambda, divided by the mean of the first multiplet, against those of
the Laplacian; the mean relative error in percent.
"""

import numpy as np

from outfold import DiffusionMaps, datasets
from outfold.bandwidths import Neighbor

MANIFOLDS = {
    "circle": (datasets.circle, [1, 1, 4, 4, 9, 9, 16, 16]),
    "sphere": (datasets.sphere, [1, 1, 1, 3, 3, 3, 3, 3]),
    "flat torus": (datasets.flat_torus, [1] * 4 + [2] * 4),
}
RULES = {
    "auto": "auto",
    **{f"neighbour {k}": Neighbor(k) for k in (8, 16, 24, 32)},
    "median": "median",
    "1st percentile": "percentile",
    "slope": "slope",
}


def error(X, truth, epsilon):
    mu = 1 - DiffusionMaps(8, epsilon=epsilon).fit(X).eigenvalues_
    return 100 * np.mean(np.abs(mu / mu[: truth.count(1)].mean() / truth - 1))


def main():
    for n in (500, 2000):
        print(f"\nn = {n}\n{'rule':>16}" + "".join(f"{name:>12}" for name in MANIFOLDS))
        for name, rule in RULES.items():
            row = [
                np.median([error(make(n, random_state=seed), truth, rule) for seed in range(5)])
                for make, truth in MANIFOLDS.values()
            ]
            print(f"{name:>16}" + "".join(f"{value:12.2f}" for value in row), flush=True)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main()
