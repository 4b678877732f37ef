"""Fits of one library with its default settings: the program that every environment of the battery runs.

It reads tasks as JSON lines from standard input, {"contender", "rows", "answer", "options", "warm"}, writes the
embedding (or the labels) to ``answer`` and prints one JSON line for each: seconds and facts, or why there are none.
With "warm", a fit of about 200 rows goes before the first of a contender, so that nothing is imported or compiled
while it is timed. NumPy and the library are all it needs.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
import warnings

import numpy as np

COMPONENTS = 10


def facts(model):
    report = model.report_
    return {"warnings": list(report.warnings), "dimension": getattr(report, "dimension", None)}


def outfold_maps(X, **how):
    import outfold

    model = outfold.DiffusionMaps(min(COMPONENTS, len(X) // 4), **how).fit(X)
    return model.embedding_, facts(model)


def outfold_rates(X):
    return outfold_maps(X, kernel="variable", t=0)


def outfold_eigenmaps(X):
    import outfold

    model = outfold.LaplacianEigenmaps(COMPONENTS).fit(X)
    return model.embedding_, facts(model)


def outfold_roseland(X):
    import outfold

    model = outfold.Roseland(COMPONENTS, random_state=0).fit(X)
    return model.embedding_, facts(model)


def pca(X):
    from sklearn.decomposition import PCA

    return PCA(min(COMPONENTS, *X.shape), random_state=0).fit_transform(X)


def spectral_embedding(X):
    from sklearn.manifold import SpectralEmbedding

    return SpectralEmbedding(COMPONENTS, random_state=0).fit_transform(X)


def scanpy_maps(X):
    import anndata
    import scanpy

    table = anndata.AnnData(np.asarray(X, dtype=np.float32))
    scanpy.pp.neighbors(table, use_rep="X", random_state=0)
    scanpy.tl.diffmap(table, n_comps=COMPONENTS + 1, random_state=0)
    return table.obsm["X_diffmap"][:, 1:]


def datafold_maps(X):
    """With the bandwidth and the cut-off of its own estimate."""
    from datafold.dynfold import DiffusionMaps
    from datafold.pcfold import GaussianKernel, PCManifold

    rows = PCManifold(X)
    rows.optimize_parameters(random_state=0)
    kernel = GaussianKernel(epsilon=rows.kernel.epsilon, distance={"cut_off": rows.cut_off})
    return DiffusionMaps(kernel, n_eigenpairs=COMPONENTS + 1).fit(X).transform(X)[:, 1:]


def pydiffmap_maps(X, **how):
    from pydiffmap.diffusion_map import DiffusionMap

    return DiffusionMap.from_sklearn(n_evecs=COMPONENTS, k=min(64, len(X) - 1), epsilon="bgh", **how).fit_transform(X)


def pydiffmap_variable(X):
    return pydiffmap_maps(X, alpha=0.5, bandwidth_type="-1/(d+2)")


def umap_picture(X):
    import umap

    return umap.UMAP(random_state=0).fit_transform(X)


def phate_picture(X):
    import phate

    return phate.PHATE(random_state=0, verbose=0, n_jobs=1).fit_transform(X)


# -- the second part -----------------------------------------------------------------------


def ours(name, **how):
    """A default fit of one of our methods."""

    def fit(X):
        import outfold

        model = getattr(outfold, name)(**how).fit(X)
        return model.embedding_, facts(model)

    return fit


def theirs(package, name, **how):
    """A default fit of scikit-learn."""

    def fit(X):
        import importlib

        return getattr(importlib.import_module(f"sklearn.{package}"), name)(**how).fit_transform(X)

    return fit


def outfold_clusters(X, clusters):
    import outfold

    model = outfold.SpectralClustering(clusters, random_state=0).fit(X)
    return model.labels_, facts(model) | {"clusters": len(model.cluster_centers_)}


def outfold_auto_clusters(X, clusters):
    """Without the number of clusters."""
    import outfold

    model = outfold.SpectralClustering(n_clusters="auto", random_state=0).fit(X)
    return model.labels_, facts(model) | {"clusters": int(model.n_clusters_)}


def scikit_clusters(X, clusters, seed):
    from sklearn.cluster import SpectralClustering

    return SpectralClustering(clusters, affinity="nearest_neighbors", random_state=seed).fit(X).labels_


def k_means(X, clusters, seed):
    from sklearn.cluster import KMeans

    return KMeans(clusters, n_init=10, random_state=seed).fit(X).labels_


def outfold_dimension(X):
    import outfold

    model = outfold.DiffusionMaps().fit(X)
    return model.embedding_, {"value": model.report_.dimension}


def outfold_tune(X):
    from outfold.selection import tune

    return X[:, :1], {"value": int(tune(X).intrinsic)}


def outfold_auto_components(X):
    import outfold

    model = outfold.DiffusionMaps(n_components="auto").fit(X)
    return model.embedding_, facts(model) | {"value": int(model.embedding_.shape[1])}


def large(name, **how):
    """A fit of many rows and the transform of others: both embeddings, one below the other."""

    def fit(X, test):
        import outfold

        model = getattr(outfold, name)(**how)
        start = time.perf_counter()
        model.fit(X)
        seconds = time.perf_counter() - start
        found, new = (
            (model.labels_, model.predict(np.load(test)))
            if name == "SpectralClustering"
            else (model.embedding_, model.transform(np.load(test)))
        )
        more = {"seconds": seconds, "transform": time.perf_counter() - start - seconds}
        return np.concatenate([found, new]), facts(model) | more

    return fit


def large_k_means(X, test):
    from sklearn.cluster import KMeans

    start = time.perf_counter()
    model = KMeans(10, n_init=10, random_state=0).fit(X)
    more = {"seconds": time.perf_counter() - start}
    return np.concatenate([model.labels_, model.predict(np.load(test))]), more


CONTENDERS = {  # name: (library, fit, most rows: dense ones to 5000)
    "outfold": ("outfold", outfold_maps, np.inf),
    "outfold variable": ("outfold", outfold_rates, np.inf),
    "outfold eigenmaps": ("outfold", outfold_eigenmaps, np.inf),
    "outfold Roseland": ("outfold", outfold_roseland, np.inf),
    "PCA": ("outfold", pca, np.inf),
    "SpectralEmbedding": ("outfold", spectral_embedding, 10_000),
    "scanpy": ("scanpy", scanpy_maps, np.inf),
    "datafold": ("datafold", datafold_maps, 5000),
    "pydiffmap": ("pydiffmap", pydiffmap_maps, 5000),
    "pydiffmap variable": ("pydiffmap", pydiffmap_variable, 5000),
    "UMAP": ("umap-learn", umap_picture, np.inf),
    "PHATE": ("phate", phate_picture, np.inf),
    **{
        f"outfold {name}": ("outfold", ours(name), np.inf)
        for name in ("DiffusionMaps", "LaplacianEigenmaps", "Isomap", "KernelPCA", "ClassicalMDS")
    },
    "outfold LLE": ("outfold", ours("LocallyLinearEmbedding"), np.inf),
    "outfold Gaussian": ("outfold", ours("DiffusionMaps", kernel="gaussian"), np.inf),
    "outfold Roseland, 2": ("outfold", ours("Roseland", random_state=0), np.inf),
    "outfold PHATE": ("outfold", ours("PHATE", random_state=0), np.inf),
    "outfold GRAE": ("outfold", ours("GRAE", random_state=0), 2000),
    "scikit-learn Isomap": ("outfold", theirs("manifold", "Isomap"), 5000),
    "scikit-learn LLE": ("outfold", theirs("manifold", "LocallyLinearEmbedding", random_state=0), 5000),
    "scikit-learn KernelPCA": ("outfold", theirs("decomposition", "KernelPCA", n_components=2), 5000),
    "outfold clusters": ("outfold", outfold_clusters, np.inf),
    "outfold clusters, auto": ("outfold", outfold_auto_clusters, np.inf),
    "scikit-learn clusters": ("outfold", scikit_clusters, np.inf),
    "k-means": ("outfold", k_means, np.inf),
    "outfold dimension": ("outfold", outfold_dimension, np.inf),
    "outfold tune": ("outfold", outfold_tune, np.inf),
    "outfold components": ("outfold", outfold_auto_components, np.inf),
    "DiffusionMaps, 60,000": ("outfold", large("DiffusionMaps", n_components=COMPONENTS), np.inf),
    "LaplacianEigenmaps, 60,000": ("outfold", large("LaplacianEigenmaps", n_components=COMPONENTS), np.inf),
    "Roseland, 60,000": ("outfold", large("Roseland", n_components=COMPONENTS, random_state=0), np.inf),
    "SpectralClustering, 60,000": ("outfold", large("SpectralClustering", n_clusters=10, random_state=0), np.inf),
    "k-means, 60,000": ("outfold", large_k_means, np.inf),
}
PEERS = ("PCA", "SpectralEmbedding", "scanpy", "datafold", "pydiffmap", "pydiffmap variable")


def main() -> None:
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout, sys.stderr
    warm = set()
    for line in sys.stdin:
        task = json.loads(line)
        X = np.load(task["rows"])
        if task.get("warm") and task["contender"] not in warm:
            warm.add(task["contender"])
            with contextlib.suppress(Exception):
                CONTENDERS[task["contender"]][1](X[:: max(1, len(X) // 200)], **task["options"])
        start = time.perf_counter()
        try:
            found = CONTENDERS[task["contender"]][1](X, **task.get("options", {}))
        except Exception as error:  # the line says so
            answer = {"failed": f"{type(error).__name__}: {error}"[:200]}
        else:
            answer = {"seconds": time.perf_counter() - start}
            if isinstance(found, tuple):
                found, more = found
                answer |= more
            answer["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            np.save(task["answer"], np.asarray(found, dtype=float))
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
