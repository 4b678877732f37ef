"""Approximate neighbours by faiss against exact ones: seconds, eigenvalues, and the gap between transform and fit.

python benchmarks/approximate.py
"""

import time
import warnings

import numpy as np
from sklearn.datasets import load_digits

from outfold import DiffusionMaps, graphs


def manifold(n, features, rng):
    """A smooth 3-D sheet in many dimensions."""
    u = rng.uniform(-1, 1, size=(n, 3))
    return np.sin(u @ rng.normal(size=(3, features)) * 2 + rng.uniform(0, 6, features))


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    data = {"digits": load_digits().data, "sheet 20k x 64": manifold(20_000, 64, rng), "sheet 60k x 64": None}
    data["sheet 60k x 64"] = manifold(60_000, 64, rng)
    print(f"{'data':>16} {'search':>7} {'seconds':>8} {'gap':>9}  largest change of mu")
    for name, X in data.items():
        exact = None
        for search in ("brute", "faiss"):
            start = time.perf_counter()
            maps = DiffusionMaps(5, n_neighbors=graphs.Union(16, search=search)).fit(X)
            took = time.perf_counter() - start
            mu = 1 - maps.eigenvalues_
            exact = mu if exact is None else exact
            change = np.abs(mu / exact - 1).max()
            print(f"{name:>16} {search:>7} {took:8.2f} {maps.report_.extension_gap:9.1e}  {change:.1e}", flush=True)


if __name__ == "__main__":
    main()
