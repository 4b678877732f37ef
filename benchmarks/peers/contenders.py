"""One measurement of one library, in a process of its own: the program every environment runs.

It reads a task as JSON from standard input and prints one JSON line; NumPy and the library measured are all it needs.
A contender is a function of the training rows that gives a `Fitted`: what the library found, and its way to new rows.
Settings are each library's own defaults but for the number of coordinates, and where two libraries have one method,
the same neighbours for both. Choosing a bandwidth, where the library offers it, is part of the fit.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Fitted(NamedTuple):
    embedding: np.ndarray
    values: np.ndarray | None = None  # of the Laplacian, up to a factor, or of the centred kernel
    transform: Callable | None = None
    prepare: Callable | None = None  # what an index does once before it can be asked about new rows
    facts: dict | None = None  # what the fit tells of itself


class Contender(NamedTuple):
    library: str  # its environment, and the distribution whose version is told
    method: str
    fit: Callable
    warm: int = 500  # rows of a first fit that is not timed: what compiles, compiles here


# -- Outfold -------------------------------------------------------------------------------


def ours(name, markov=True, **how):
    """A contender of Outfold's: the estimator of that name."""

    def fit(X):
        import outfold

        maps = getattr(outfold, name)(**how).fit(X)
        values = getattr(maps, "eigenvalues_", None)
        places = getattr(maps, "embedding_", None)
        return Fitted(
            maps.transform(X) if places is None else places,
            1 - values if markov and values is not None else values,
            maps.transform,
            facts=told(maps),
        )

    return fit


def told(maps):
    """What a report says of accuracy: of the solver, of the extension, and of neighbours where it tells them."""
    report, places = maps.report_, getattr(maps, "embedding_", None)
    spread = np.nan if places is None else np.sqrt(np.var(places, axis=0).sum())
    figures = {"residual": report.residual, "gap": report.extension_gap / spread}
    figures |= {name: getattr(report, name, None) for name in ("recall", "products", "components")}
    finite = {name: float(v) for name, v in figures.items() if v is not None and np.isfinite(v)}
    return {"solver": report.solver, **finite}


def tuned(X):
    """Diffusion maps with the epsilon that `tune` finds by held-out error."""
    from outfold import DiffusionMaps
    from outfold.selection import tune

    found = tune(X, DiffusionMaps(kernel="gaussian"), alpha=1.0)
    maps = found.estimator.set_params(n_components=10, t=1).fit(X)
    return Fitted(maps.embedding_, 1 - maps.eigenvalues_, maps.transform)


def our_picture(X):
    """`fit_transform` is the function at the training rows, as for every method of ours; the layout is `embedding_`."""
    from outfold import PHATE

    model = PHATE(random_state=0)
    return Fitted(model.fit_transform(X), None, model.transform)


def our_clusters(X):
    from outfold import SpectralClustering

    model = SpectralClustering(8, random_state=0).fit(X)
    return Fitted(model.labels_, None, model.predict)


# -- scikit-learn --------------------------------------------------------------------------


def theirs(module, name, values=None, **how):
    """A contender of scikit-learn's: the class of that name."""

    def fit(X):
        model = getattr(importlib.import_module(f"sklearn.{module}"), name)(**how)
        places = model.fit_transform(X)
        return Fitted(places, getattr(model, values) if values else None, getattr(model, "transform", None))

    return fit


def their_clusters(X):
    from sklearn.cluster import SpectralClustering

    model = SpectralClustering(8, affinity="nearest_neighbors", n_neighbors=32, random_state=0).fit(X)
    return Fitted(model.labels_)


# -- datafold, pydiffmap, scanpy -----------------------------------------------------------


def datafold_kernel(X):
    """The Gaussian that its own estimate finds for these rows: bandwidth, and the distance beyond which it is zero."""
    from datafold.pcfold import GaussianKernel, PCManifold

    rows = PCManifold(X)
    rows.optimize_parameters(random_state=0)
    return GaussianKernel(epsilon=rows.kernel.epsilon, distance={"cut_off": rows.cut_off})


def datafold_maps(X):
    from datafold.dynfold import DiffusionMaps

    maps = DiffusionMaps(datafold_kernel(X), n_eigenpairs=11).fit(X)
    return Fitted(maps.transform(X)[:, 1:], 1 - maps.eigenvalues_[1:], lambda Z: maps.transform(Z)[:, 1:])


def datafold_roseland(count):
    """The bandwidth is chosen on the landmarks, which is the quickest of its ways."""

    def fit(X):
        from datafold.dynfold import Roseland

        some = X[np.random.default_rng(0).choice(len(X), min(count, len(X)), replace=False)]
        maps = Roseland(datafold_kernel(some), n_svdtriplet=11, landmarks=some).fit(X)
        return Fitted(maps.transform(X)[:, 1:], 1 - maps.svdvalues_[1:] ** 2, lambda Z: maps.transform(Z)[:, 1:])

    return fit


def pydiffmap_maps(X):
    from pydiffmap.diffusion_map import DiffusionMap

    maps = DiffusionMap.from_sklearn(n_evecs=10, alpha=1.0, k=64, epsilon="bgh")
    places = maps.fit_transform(X)
    return Fitted(places, -maps.evals, maps.transform)


def scanpy_maps(**how):
    def fit(X):
        import anndata
        import scanpy

        table = anndata.AnnData(X.astype(np.float32))
        scanpy.pp.neighbors(table, use_rep="X", random_state=0, **how)
        scanpy.tl.diffmap(table, n_comps=11, random_state=0)
        return Fitted(table.obsm["X_diffmap"][:, 1:], 1 - table.uns["diffmap_evals"][1:])

    return fit


# -- of sparse rows ------------------------------------------------------------------------


def snapatac2_maps(X):
    import anndata
    import snapatac2

    table = anndata.AnnData(X.astype(np.float32))
    values, places = snapatac2.tl.spectral(table, n_comps=11, features=None, weighted_by_sd=False, inplace=False)
    return Fitted(np.asarray(places)[:, 1:], 1 - np.asarray(values)[1:])


def of_unit_length(fit):
    """For a library without cosines: of rows of length one, Euclidean neighbours are those of the largest cosine."""

    def scaled(X):
        from sklearn.preprocessing import normalize

        return fit(normalize(X))

    return scaled


# -- pictures ------------------------------------------------------------------------------


def phate_picture(**how):
    def fit(X):
        import phate

        model = phate.PHATE(random_state=0, verbose=0, n_jobs=-1, **how)
        return Fitted(model.fit_transform(X), None, model.transform)

    return fit


def umap_picture(**how):
    def fit(X):
        import umap

        model = umap.UMAP(n_jobs=-1, **how)  # a seed would keep it to one thread
        return Fitted(model.fit_transform(X), None, model.transform)

    return fit


def opentsne_picture(**how):
    def fit(X):
        import openTSNE

        model = openTSNE.TSNE(random_state=0, n_jobs=-1, **how).fit(X)
        return Fitted(np.asarray(model), None, lambda Z: np.asarray(model.transform(Z)))

    return fit


# -- neighbours alone: 15 of each row, which no method with a graph of neighbours can do without -----------------


def nndescent(**how):
    def fit(X):
        import pynndescent

        index = pynndescent.NNDescent(X, n_neighbors=15, random_state=0, **how)
        return Fitted(index.neighbor_graph[0], None, lambda Z: index.query(Z, k=15)[0], index.prepare)

    return fit


def faiss_index(cells):
    """The rows in as many cells as the square root of their number, of which 8 are searched; or without cells, all."""

    def fit(X):
        import faiss

        X, count, features = X.astype(np.float32), *X.shape
        index = faiss.IndexFlatL2(features)
        if cells:
            index = faiss.IndexIVFFlat(index, features, int(np.sqrt(count)))
            index.nprobe = 8
            index.train(X)
        index.add(X)
        return Fitted(index.search(X, 15)[1], None, lambda Z: index.search(Z.astype(np.float32), 15)[1])

    return fit


AGAIN = 60.0  # seconds beyond which a transform is not done a second time
SPARSE = 25_000  # Outfold takes other ways beyond, compiled on first use
CONTENDERS = {
    "outfold DiffusionMaps": Contender("outfold", "DiffusionMaps", ours("DiffusionMaps", n_components=10), SPARSE),
    "outfold DiffusionMaps, tuned": Contender("outfold", "DiffusionMaps, tuned", tuned),
    "outfold LaplacianEigenmaps": Contender(  # epsilon=inf: edges without weights, as scikit-learn has them
        "outfold",
        "LaplacianEigenmaps",
        ours("LaplacianEigenmaps", False, n_components=10, n_neighbors=32, epsilon=np.inf),
        SPARSE,
    ),
    **{
        f"outfold Roseland, {count}": Contender(
            "outfold",
            f"Roseland, {count:,} landmarks",
            ours("Roseland", n_components=10, landmarks=count, random_state=0),
            SPARSE,
        )
        for count in (1000, 2000, 10_000)
    },
    "outfold Isomap": Contender("outfold", "Isomap", ours("Isomap", False, n_neighbors=12), 2000),
    "outfold LLE": Contender("outfold", "LLE", ours("LocallyLinearEmbedding", False, n_neighbors=12), SPARSE),
    "outfold KernelPCA": Contender(
        "outfold", "KernelPCA", ours("KernelPCA", False, n_components=10, kernel="rbf", gamma=1.0), 2000
    ),
    "outfold ClassicalMDS": Contender("outfold", "ClassicalMDS", ours("ClassicalMDS", False), 1000),
    "outfold SpectralClustering": Contender("outfold", "SpectralClustering", our_clusters, SPARSE),
    "outfold PHATE": Contender("outfold", "PHATE", our_picture, 2000),
    "scikit-learn SpectralEmbedding": Contender(
        "scikit-learn",
        "SpectralEmbedding (arpack)",
        theirs("manifold", "SpectralEmbedding", n_components=10, n_neighbors=32, eigen_solver="arpack", n_jobs=-1),
    ),
    "scikit-learn SpectralEmbedding, amg": Contender(
        "scikit-learn",
        "SpectralEmbedding (amg)",
        theirs(
            "manifold",
            "SpectralEmbedding",
            n_components=10,
            n_neighbors=32,
            eigen_solver="amg",
            random_state=0,
            n_jobs=-1,
        ),
    ),
    "scikit-learn Isomap": Contender(
        "scikit-learn", "Isomap", theirs("manifold", "Isomap", n_neighbors=12, n_components=2, n_jobs=-1)
    ),
    "scikit-learn LLE": Contender(
        "scikit-learn",
        "LLE",
        theirs("manifold", "LocallyLinearEmbedding", n_neighbors=12, n_components=2, random_state=0, n_jobs=-1),
    ),
    "scikit-learn KernelPCA": Contender(
        "scikit-learn",
        "KernelPCA",
        theirs("decomposition", "KernelPCA", "eigenvalues_", n_components=10, kernel="rbf", gamma=1.0, n_jobs=-1),
    ),
    "scikit-learn ClassicalMDS": Contender(
        "scikit-learn", "ClassicalMDS", theirs("manifold", "ClassicalMDS", "eigenvalues_", n_components=2)
    ),
    "scikit-learn SpectralClustering": Contender("scikit-learn", "SpectralClustering", their_clusters),
    "datafold DiffusionMaps": Contender("datafold", "DiffusionMaps", datafold_maps),
    **{
        f"datafold Roseland, {count}": Contender("datafold", f"Roseland, {count:,} landmarks", datafold_roseland(count))
        for count in (1000, 2000, 10_000)
    },
    "pydiffmap": Contender("pydiffmap", "DiffusionMap", pydiffmap_maps),
    "scanpy": Contender("scanpy", "neighbors, diffmap", scanpy_maps(n_neighbors=32), 10_000),
    "PHATE": Contender("phate", "PHATE", phate_picture()),
    "UMAP": Contender("umap-learn", "UMAP", umap_picture(), 5000),
    "openTSNE": Contender("openTSNE", "TSNE", opentsne_picture()),
}
CONTENDERS |= {  # of real data: no neighbours in common, everyone as it comes
    "outfold Roseland": Contender("outfold", "Roseland", ours("Roseland", n_components=10, random_state=0), SPARSE),
    **{
        f"scikit-learn SpectralEmbedding, {name}": Contender(  # by itself it takes a tenth of the rows for neighbours
            "scikit-learn",
            f"SpectralEmbedding ({solver})",
            theirs(
                "manifold",
                "SpectralEmbedding",
                n_components=10,
                affinity="nearest_neighbors",
                n_neighbors=15,
                eigen_solver=solver,
                random_state=0,
                n_jobs=-1,
            ),
        )
        for name, solver in (("15", "arpack"), ("15, amg", "amg"))
    },
    "scanpy, 15": Contender("scanpy", "neighbors, diffmap", scanpy_maps(n_neighbors=15), 10_000),
    "pynndescent": Contender("pynndescent", "pynndescent", nndescent(), 5000),
    "faiss, cells": Contender("faiss-cpu", "IVFFlat", faiss_index(True)),
    "faiss, all": Contender("faiss-cpu", "Flat", faiss_index(False)),
}
CONTENDERS |= {  # of sparse rows, by cosines
    "outfold DiffusionMaps, cosine": Contender(
        "outfold", "DiffusionMaps", ours("DiffusionMaps", n_components=10, kernel="cosine"), SPARSE
    ),
    "scikit-learn SpectralEmbedding, cosine": Contender(
        "scikit-learn",
        "SpectralEmbedding",
        of_unit_length(CONTENDERS["scikit-learn SpectralEmbedding, 15"].fit),
    ),
    "scanpy, cosine": Contender("scanpy", "neighbors, diffmap", scanpy_maps(n_neighbors=15, metric="cosine"), 10_000),
    "SnapATAC2": Contender("snapatac2", "spectral", snapatac2_maps),
    "UMAP, cosine": Contender("umap-learn", "UMAP", umap_picture(metric="cosine"), 5000),
    "PHATE, cosine": Contender("phate", "PHATE", phate_picture(knn_dist="cosine"), 2000),
    "openTSNE, cosine": Contender("openTSNE", "TSNE", opentsne_picture(metric="cosine"), 2000),
    "pynndescent, cosine": Contender("pynndescent", "pynndescent", nndescent(metric="cosine"), 5000),
}

NEIGHBOURS = ("pynndescent", "faiss")  # the names of those that find neighbours alone begin so


# -- measuring -----------------------------------------------------------------------------


def forget_peak():
    """Start the peak anew, where the system lets a process do that (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def peak():
    """Peak memory of this process in MB, imports and data included."""
    try:
        with open("/proc/self/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) / 1e3
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def timed(call, rows):
    """What a call gives, and what it took: seconds, peak memory, and how far that is above what was there before."""
    forget_peak()
    before = peak()
    start = time.perf_counter()
    found = call(rows)
    seconds = time.perf_counter() - start
    return found, {"seconds": seconds, "peak_mb": peak(), "work_mb": peak() - before}


def character(fitted, X, Z):
    """How a transform behaves: the same rule for training rows, for rows alone, and for a row far away."""
    spread = np.sqrt(np.var(fitted.embedding, axis=0).sum())
    some = np.random.default_rng(0).permutation(len(X))[:200]
    again, batch = fitted.transform(X[some]), fitted.transform(Z[:20])
    alone = np.vstack([fitted.transform(Z[i : i + 1]) for i in range(20)])
    return {
        "consistency": float(np.abs(again - fitted.embedding[some]).max() / spread),
        "independence": float(np.abs(batch - alone).max() / spread),
        "far": far(fitted.transform, X, Z, spread),
    }


def far(transform, X, Z, spread):
    """What a row a thousand spreads away from the data, among nineteen ordinary ones, gets."""
    rows = np.vstack([Z[:19], X.mean(axis=0) + 1000 * X.std(axis=0).max()])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            places = transform(rows)
        except Exception as error:
            return f"the batch is lost ({type(error).__name__})"
    told = f", with a {said[-1].category.__name__}" if said else ", silently"
    if not np.isfinite(places[-1]).all():
        return "not a number" + told
    if np.abs(places[-1]).max() < 1e-9 * spread:
        return "the origin" + told
    return "a position" + told


def apart(fit):
    """Whether a fit of two pieces without any edge between them says so."""
    random = np.random.default_rng(0)
    rows = np.vstack([random.normal(size=(150, 3)), random.normal(size=(150, 3)) + 1e4])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            fit(rows)
        except Exception as error:
            return f"an error ({type(error).__name__})"
    words = " ".join(str(one.message).lower() for one in said)
    return "a warning" if re.search(r"connect|component", words) else "nothing"


def versions(library):
    names = ("numpy", "scipy", "scikit-learn", library)
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}


def warm(contender, X, Z):
    """A first fit of some rows, thrown away: imports, thread pools and compiled code are not what is measured."""
    first = contender.fit(X[: contender.warm])
    if Z is not None and first.transform is not None:
        if first.prepare is not None:
            first.prepare()
        first.transform(Z[:500])


def read(path):
    """Rows of a table, sparse or not."""
    if not path.endswith(".npz"):
        return np.load(path)
    from scipy.sparse import load_npz

    return load_npz(path)


def clock(seconds):
    """End this process after so long, in compiled code too, on a system that can do that."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def stages(fitted, Z, line, limit):
    """After a fit: what prepares for new rows, their transform, and the same again, with the line as it grows."""
    calls = {"prepare": lambda rows: fitted.prepare(), "transform": fitted.transform, "again": fitted.transform}
    for name, call in calls.items():
        if (fitted.prepare is None and name == "prepare") or line.get("transform_seconds", 0) > AGAIN:
            continue
        clock(limit)
        _, found = timed(call, Z)
        line |= {f"{name}_seconds": found["seconds"], f"{name}_peak_mb": found["peak_mb"]}
        yield line


def measure(task):
    """Fit, and transform where the task has new rows: a line about it, again and longer if there is more to say."""
    contender = CONTENDERS[task["contender"]]
    X = read(task["rows"])
    Z = read(task["new_rows"]) if task.get("new_rows") else None
    warm(contender, X, Z)
    clock(task["limit"])
    fitted, line = timed(contender.fit, X)
    about = (fitted.facts or {}) | {"versions": versions(contender.library)}
    np.savez(task["answer"], embedding=fitted.embedding, values=[] if fitted.values is None else fitted.values)
    if task["suite"] == "real":
        clock(0)
        yield line | about
        if Z is not None and fitted.transform is not None:
            yield from (more | about for more in stages(fitted, Z, line, task["limit"]))
        return
    if Z is not None and fitted.transform is not None:
        fit_seconds = line["seconds"]
        _, line = timed(fitted.transform, Z)
        line["fit_seconds"] = fit_seconds
    if task["suite"] == "character":
        line["apart"] = "no graph" if "KernelPCA" in contender.method else apart(contender.fit)
        line |= character(fitted, X, Z) if fitted.transform is not None else {"far": "no transform"}
    yield line | about


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for line in measure(json.load(sys.stdin)):
        print("\n" + json.dumps(line), flush=True)
