"""A dense fit of n = 5000 and 10 pairs against scikit-learn's KernelPCA (same kernel, its own choice of solver)."""

import statistics
import sys
import time

import numpy as np
from sklearn.decomposition import KernelPCA

from outfold import DiffusionMaps, datasets


def seconds(estimator, X):
    start = time.perf_counter()
    estimator.fit(X)
    return time.perf_counter() - start


def main(n=5000, repeats=3):
    digits = np.random.default_rng(0)
    data = {
        "3-D S-curve": (datasets.s_curve(n, random_state=0)[0], 0.1),
        "64-D cloud": (digits.normal(size=(n, 5)) @ digits.normal(size=(5, 64)), 20.0),
    }
    print(f"{'data':>12} {'pairs':>5} {'ours':>8} {'KernelPCA':>10} {'ratio':>6}   (seconds, median of {repeats})")
    for name, (X, epsilon) in data.items():
        for pairs in (10, 5):
            ours, theirs = [], []
            for _ in range(repeats):
                ours.append(seconds(DiffusionMaps(pairs, epsilon=epsilon, n_neighbors=None), X))
                theirs.append(seconds(KernelPCA(pairs, kernel="rbf", gamma=1 / (2 * epsilon)), X))
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{name:>12} {pairs:5d} {a:8.2f} {b:10.2f} {b / a:6.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
