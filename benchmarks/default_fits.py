"""Fits of one library with its default settings: the program that every environment of the battery runs.

It reads tasks as JSON lines from standard input, {"contender", "rows", "answer"}, writes the embedding to ``answer``
and prints one JSON line for each: seconds, or why there is none. NumPy and the library are all it needs.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np

COMPONENTS = 10


def outfold_maps(X, **how):
    import outfold

    model = outfold.DiffusionMaps(min(COMPONENTS, len(X) // 4), **how).fit(X)
    return model.embedding_, list(model.report_.warnings)


def outfold_rates(X):
    return outfold_maps(X, kernel="variable", t=0)


def outfold_eigenmaps(X):
    import outfold

    model = outfold.LaplacianEigenmaps(COMPONENTS).fit(X)
    return model.embedding_, list(model.report_.warnings)


def outfold_roseland(X):
    import outfold

    model = outfold.Roseland(COMPONENTS, random_state=0).fit(X)
    return model.embedding_, list(model.report_.warnings)


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
}
PEERS = ("PCA", "SpectralEmbedding", "scanpy", "datafold", "pydiffmap", "pydiffmap variable")


def main() -> None:
    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        task = json.loads(line)
        X = np.load(task["rows"])
        start = time.perf_counter()
        try:
            found = CONTENDERS[task["contender"]][1](X)
        except Exception as error:  # the line says so
            answer = {"failed": f"{type(error).__name__}: {error}"[:200]}
        else:
            answer = {"seconds": time.perf_counter() - start}
            if isinstance(found, tuple):
                found, answer["warnings"] = found
            np.save(task["answer"], np.asarray(found, dtype=float))
        print(json.dumps(task | answer), file=out, flush=True)


if __name__ == "__main__":
    main()
