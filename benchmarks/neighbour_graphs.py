"""Sparse diffusion maps of the S-curve, 10 pairs: Outfold's solvers against scikit-learn's SpectralEmbedding.

For every run: seconds (median), and the largest relative error of the eigenvalues mu = 1 - lambda on the graph
that the library itself built, against shift-invert on the same graph. Absolute residuals mislead here:
mu is 1e-5 and smaller. Beyond 200,000 points our own solver alone, with its peak memory.

    python benchmarks/neighbour_graphs.py [n] [repeats]
"""

import resource
import statistics
import sys
import time
import warnings

import numpy as np
from scipy.sparse import csgraph, csr_array
from scipy.sparse.linalg import eigsh

from outfold import DiffusionMaps, datasets
from outfold.runners import Threads


def seconds(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def ours(X, solver):
    return DiffusionMaps(10, n_neighbors=32, solver=solver).fit(X)


def search(X):
    """The limit: the neighbour search alone."""
    from scipy.spatial import cKDTree

    points = X[cKDTree(X, balanced_tree=False).indices]
    return seconds(lambda: cKDTree(points, balanced_tree=False).query(points, k=33, workers=Threads().workers))[0]


def peer_error(model, count):
    """SpectralEmbedding's coordinates as eigenvectors of its own Laplacian: relative error of Rayleigh quotients."""
    laplacian, scale = csgraph.laplacian(csr_array(model.affinity_matrix_), normed=True, return_diag=True)
    vectors = model.embedding_ * scale[:, None]
    vectors /= np.linalg.norm(vectors, axis=0)
    quotients = np.sort((vectors * (laplacian @ vectors)).sum(axis=0))
    trivial = scale / np.linalg.norm(scale)
    lifted = laplacian + 1e-12 * csr_array((np.ones(len(scale)), (np.arange(len(scale)),) * 2))
    truth = np.sort(eigsh(lifted, count + 1, sigma=-1e-9, v0=trivial, return_eigenvectors=False))[1:]
    return np.max(np.abs(quotients / truth - 1))


def main(n=100_000, repeats=3):
    from sklearn.manifold import SpectralEmbedding

    warnings.simplefilter("ignore")
    X = datasets.s_curve(n, random_state=0)[0]
    ours(datasets.s_curve(25_000, random_state=1)[0], "auto")  # compile
    limit = statistics.median(search(X) for _ in range(repeats))
    print(f"n = {n}; the neighbour search alone takes {limit:.2f} s\n{'':>28} {'seconds':>8} {'x search':>9}  accuracy")
    base = None
    small = n <= 200_000
    for solver in ("auto", "shift_invert") if small else ("auto",):
        runs = [seconds(lambda s=solver: ours(X, s)) for _ in range(repeats)]
        took = statistics.median(t for t, _ in runs)
        report = runs[-1][1].report_
        base = base or took
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        told = f"residual/mu {report.residual:.1e} ({report.solver}), peak {peak:.1f} GB"
        print(f"{'outfold ' + solver:>28} {took:8.2f} {took / limit:9.1f}  {told}", flush=True)
    for solver in ("amg", "lobpcg", "arpack") if small else ():
        peer = SpectralEmbedding(10, affinity="nearest_neighbors", n_neighbors=32, eigen_solver=solver, random_state=0)
        try:
            took, model = seconds(lambda p=peer: p.fit(X))
        except ValueError as error:
            print(f"{'scikit-learn ' + solver:>28}   {error}")
            continue
        error = peer_error(model, 10)
        ratio = f"mu off by {100 * error:.2g} %, {took / base:.1f}x our time"
        print(f"{'scikit-learn ' + solver:>28} {took:8.2f} {took / limit:9.1f}  {ratio}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
