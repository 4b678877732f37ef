"""Own loops against the library that does the same, as a Markdown table: CPU time on one thread, wall time on two.

``python benchmarks/own_loops.py`` measures all, ``--only products`` or ``--only trees`` a part. Ratios above 1: ours is
quicker.
Every time is the least of several, and the two take turns. Wall times mean something on an idle machine only.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.spatial import cKDTree

from outfold._loops import csr
from outfold._runtime.threads import Threads, blas_threads, row_blocks
from outfold.distances import Metric
from outfold.neighbors.tree import Tree
from outfold.operators.landmark_passes import gram

ONE, TWO = Threads(1), Threads(2)


def measure(ours, library, repeats):
    """Return the least CPU seconds on one thread and wall seconds on two: ((ours, library), (ours, library))."""
    cpu, wall = np.full((2, repeats + 1), np.inf), np.full((2, repeats + 1), np.inf)
    for turn in range(repeats + 1):  # the first turn compiles
        for which, function in enumerate((ours, library)):
            start = time.process_time()
            function(ONE)
            cpu[which, turn] = time.process_time() - start
            start = time.perf_counter()
            function(TWO)
            wall[which, turn] = time.perf_counter() - start
    return cpu[:, 1:].min(axis=1), wall[:, 1:].min(axis=1)


def row(title, ours, library, repeats):
    (a, b), (c, d) = measure(ours, library, repeats)
    print(f"| {title} | {a:.3f} | {b:.3f} | {b / a:.2f} | {c:.3f} | {d:.3f} | {d / c:.2f} |", flush=True)


def sparse_rows(rows, columns, k):
    """Rows with k entries of neighbouring columns, in order, as rows sorted by their landmarks are."""
    rng = np.random.default_rng(0)
    near = np.linspace(0, columns - 1, rows).astype(int)[:, None]
    index = np.sort((near + rng.integers(-2 * k, 2 * k, size=(rows, k))) % columns, axis=1).astype(np.int32)
    ptr = np.arange(0, rows * k + 1, k, dtype=np.int32)
    return csr_array((rng.random(rows * k), index.ravel(), ptr), shape=(rows, columns))


def products(repeats):
    def ours(W):
        return lambda threads: gram(W.indptr, W.indices, W.data, W.shape[1], threads)

    def whole(W):
        def library(threads):
            found = (W.T @ W).tocsr()  # on one thread, whatever `threads` says
            found.sort_indices()

        return library

    def in_parts(W):
        """By blocks of columns in our pool: SciPy releases the lock of the interpreter."""

        def library(threads):
            turned, step = W.T.tocsr(), max(128, W.shape[1] // 128)

            def multiply(block):
                found = turned[block] @ W
                found.sort_indices()
                return found

            cut = [slice(at, at + step) for at in range(0, W.shape[1], step)]
            return vstack(list(threads.map(multiply, cut, "products")), format="csr")

        return library

    def blocks(W, V):
        def own(threads):
            out = np.empty((W.shape[0], V.shape[1]))
            cut = row_blocks(len(out), 16 * V.shape[1])
            threads.run(lambda b: csr.times_block(W.indptr, W.indices, W.data, V, out, b.start, b.stop), cut)

        def library(threads):
            out = np.empty((W.shape[0], V.shape[1]))

            def fill(b):
                a, z = W.indptr[b.start], W.indptr[b.stop]
                part = csr_array(
                    (W.data[a:z], W.indices[a:z], W.indptr[b.start : b.stop + 1] - a),
                    shape=(b.stop - b.start, W.shape[1]),
                )
                out[b] = part @ V

            threads.run(fill, row_blocks(len(out), 16 * V.shape[1]))

        return own, library

    for rows, columns, k in ((300_000, 1000, 15), (300_000, 10_000, 15), (300_000, 10_000, 32)):
        W = sparse_rows(rows, columns, k)
        for library, how in ((whole, "whole"), (in_parts, "in parts")):
            title = f"W'W by SciPy {how}, {rows} x {columns}, {k} entries in a row"
            row(title, ours(W), library(W), repeats)
    for width in (4, 8, 16, 40):
        W = sparse_rows(200_000, 200_000, 20)
        V = np.random.default_rng(0).normal(size=(W.shape[1], width))
        row(f"W V, 200000 rows of 20 entries, {width} columns", *blocks(W, V), repeats)


def points_of(kind, n, features):
    rng = np.random.default_rng(0)
    if kind == "uniform":
        return rng.random((n, features))
    angles = rng.random((n, 2)) * 2 * np.pi  # a surface, smoothly embedded
    waves = [np.outer(angles[:, 0], rng.normal(size=features)), np.outer(angles[:, 1], rng.normal(size=features))]
    return np.sin(sum(waves) + rng.random(features) * 6)


def trees(repeats, n=100_000, k=16):
    for kind in ("uniform", "surface"):
        for features in (2, 3, 8, 16):
            X = points_of(kind, n, features)
            if kind == "uniform" and features == 16:  # no tree is chosen for such points
                X = X[: n // 5]

            def ours(threads, X=X):
                return Tree(Metric("euclidean").fit(X)).closest(X, k, threads)

            def library(threads, X=X):  # one more, to see whether there are ties with the k-th
                return cKDTree(X).query(X, k + 1, workers=threads.workers)

            lists, (_, index) = ours(TWO), library(TWO)
            assert np.mean(lists.index.reshape(len(X), -1)[:, :k] == index[:, :k]) > 0.999
            row(f"{k} nearest of {len(X)} {kind} points in {features} features", ours, library, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["products", "trees"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    print("| what | own, CPU s | library, CPU s | ratio | own, wall s on two | library, wall s on two | ratio |")
    print("|---|---|---|---|---|---|---|")
    with blas_threads(1):
        if options.only != "trees":
            products(options.repeats)
        if options.only != "products":
            trees(options.repeats)


if __name__ == "__main__":
    main()
