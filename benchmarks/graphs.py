"""Sparse graphs and text: a graph of a million nodes, a grid, and documents, with time, memory and residuals.

``python benchmarks/graphs.py`` runs everything, each in a process of its own; ``--only NAME`` one of them. The rows of
docs/benchmarks.md are what it prints. ``--python`` names an interpreter that has SnapATAC2.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy.sparse import csr_array, csr_matrix, diags_array, eye_array, kron, load_npz, save_npz

FOLDER = pathlib.Path.home() / ".cache" / "outfold-benchmarks"


def clusters(n, seed=0):
    """Twenty clusters of 12 dimensions in 50 features: other rows of the same clusters for another seed."""
    rng = np.random.default_rng(0)
    C = rng.normal(size=(20, 12)) * 2.5
    A = rng.normal(size=(12, 50)) / np.sqrt(12)
    rng = np.random.default_rng(seed) if seed else rng
    z = C[rng.integers(20, size=n)] + rng.normal(size=(n, 12))
    return np.tanh(z / 3) * 3 @ A + 0.15 * rng.normal(size=(n, 50))


def nearest(X, k=15, local=False):
    """Gaussian affinities to the k nearest neighbours: directed, without the nodes themselves.

    The bandwidth is one for all, or local: of both ends, the root mean square of the distances to their neighbours.
    """
    from outfold import neighbors
    from outfold._runtime.threads import Threads
    from outfold.distances import Distances

    n, runner = len(X), Threads()
    lists = neighbors.build(Distances(np.ascontiguousarray(X)), "auto", runner).closest(X, k + 1, runner)
    rows = lists.rows()
    lists = lists.select(lists.index != rows)
    place = np.arange(len(lists.index)) - np.repeat(lists.ptr[:-1], np.diff(lists.ptr))
    lists = lists.select(place < k)  # of neighbours at equal distances, the first
    squared, found, starts = lists.squared, lists.index, lists.ptr
    scale = np.median(squared[squared > 0])
    if local:
        own = np.sqrt(np.add.reduceat(squared, starts[:-1]) / np.diff(starts))
        own = np.maximum(own, own[own > 0].min())  # copies
        scale = own[lists.rows()] * own[found]
    return csr_matrix((np.exp(-squared / (2 * scale)), found, starts), shape=(n, n))


def neighbor_graph(n, k=15):
    """The graph of nearest neighbours of the clusters, kept in a file."""
    path = FOLDER / f"graph-{n}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_npz(path, nearest(clusters(n), k), compressed=False)
    return load_npz(path)


def grid(m):
    path = diags_array([np.ones(m - 1), np.ones(m - 1)], offsets=[-1, 1])
    return csr_array(kron(path, eye_array(m)) + kron(eye_array(m), path))


def documents(n=100_000, words=20_000, topics=50, seed=0):
    """Documents of 50 topics, about 0.5 % filled: other documents of the same topics for another seed."""
    path = FOLDER / f"text-{n}-{words}{f'-{seed}' if seed else ''}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        of_topic = rng.dirichlet(np.full(words, 0.05), size=topics).cumsum(axis=1)
        rng = np.random.default_rng(seed) if seed else rng
        main, side = rng.integers(topics, size=(2, n))
        rows, columns = [], []
        for row in range(n):
            length = rng.poisson(105)
            chosen = np.where(rng.uniform(size=length) < 0.8, main[row], side[row])
            at = [np.searchsorted(of_topic[t], rng.uniform(size=int((chosen == t).sum()))) for t in np.unique(chosen)]
            columns.append(np.concatenate(at))
            rows.append(np.full(len(columns[-1]), row))
        where = np.concatenate(rows), np.minimum(np.concatenate(columns), words - 1)
        table = csr_matrix((np.ones(len(where[0])), where), shape=(n, words))
        table.sum_duplicates()
        save_npz(path, table, compressed=False)
    return load_npz(path)


def measure(fit):
    """Return seconds, the peak of the process in GB, and what ``fit`` returns."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        facts = fit()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"seconds": round(seconds, 1), "GB": round(peak, 2), "GB before": round(before, 2), **facts} | {
        "warnings": [str(w.message)[:100] for w in told]
    }


def ours(model, X):
    model.fit(X)
    report = model.report_
    found = {"solver": report.solver, "residual": float(f"{report.residual:.2g}")}
    return found | {"gap": float(f"{report.extension_gap:.2g}"), "first": model.eigenvalues_[:3].round(6).tolist()}


def warm():
    from outfold import DiffusionMaps

    ring = csr_array(np.eye(2000) + np.eye(2000, k=1) + np.eye(2000, k=-1))
    DiffusionMaps(kernel="precomputed").fit(ring)
    DiffusionMaps(2, kernel="cosine").fit(
        csr_array(np.random.default_rng(0).uniform(size=(2000, 30)) > 0.7, dtype=float)
    )


def run(name):
    return run_peer(name) if name in PEERS else run_outfold(name)


def run_outfold(name):
    from outfold import DiffusionMaps, LaplacianEigenmaps

    if name.startswith("graph"):
        graph = neighbor_graph(int(name.split("-")[1]))
        warm()
        return measure(lambda: ours(DiffusionMaps(10, kernel="precomputed"), graph))
    if name.startswith("grid"):
        square = grid(int(name.split("-")[1]))
        warm()
        return measure(lambda: ours(LaplacianEigenmaps(4, kernel="precomputed"), square))
    X = documents()
    warm()
    return measure(lambda: ours(DiffusionMaps(10, kernel="cosine"), X))


def run_peer(name):
    X = documents()
    if name == "text-scikit-learn":
        from sklearn.manifold import SpectralEmbedding
        from sklearn.metrics.pairwise import cosine_similarity

        some = X[:10_000]  # it needs the table of pairs: 100,000 rows would take 80 GB

        def theirs():
            SpectralEmbedding(10, affinity="precomputed").fit(cosine_similarity(some))
            return {"rows": 10_000}

        return measure(theirs)
    import anndata
    import snapatac2

    table = anndata.AnnData(X.astype(np.float32))

    def snap():
        found = snapatac2.tl.spectral(table, n_comps=11, features=None, weighted_by_sd=False, inplace=False)
        return {"first": np.asarray(found[0])[:4].round(6).tolist()}

    return measure(snap)


PEERS = ("text-scikit-learn", "text-snapatac2")
EVERY = ("graph-1000000", "grid-1000", "text-outfold", *PEERS)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", choices=EVERY)
    options.add_argument("--python", default=sys.executable, help="the interpreter that has SnapATAC2")
    chosen = options.parse_args()
    if chosen.only:
        print(json.dumps({"name": chosen.only} | run(chosen.only)), flush=True)
        return
    neighbor_graph(1_000_000), documents()
    for name in EVERY:
        python = chosen.python if name == "text-snapatac2" else sys.executable
        subprocess.run([python, __file__, "--only", name], check=False)


if __name__ == "__main__":
    main()
