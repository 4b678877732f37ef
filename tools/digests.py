"""Digests of what every setting of the catalogue answers, to compare two versions of the code to the bit.

    python tools/digests.py --write before.json      fit everything, write a digest of each answer
    python tools/digests.py --compare before.json    the same, and name every answer that differs

Answers are: the embedding of the training rows, eigenvalues, ``transform`` of new rows, all of ``trust`` and
``inverse_transform``. They are taken on one thread, on a small cloud, on a cloud with copies and, for the spectral
methods with their default arguments, on an S-curve of 3,200 rows, where the graph is sparse and the solver iterates.
Bits depend on the machine and on the versions of NumPy and SciPy: compare on one machine only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import sys
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

import numpy as np
from sklearn.base import clone

from catalogue import ALL_METHODS, NETWORKS, cloud, new_points
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    datasets,
    graphs,
)

LARGE = {
    "diffusion-maps": DiffusionMaps(),
    "diffusion-maps self-tuning mutual": DiffusionMaps(kernel="self_tuning", n_neighbors=graphs.Mutual(20)),
    "laplacian-eigenmaps": LaplacianEigenmaps(n_neighbors=10, epsilon=np.inf),
    "laplacian-eigenmaps unnormalized": LaplacianEigenmaps(n_neighbors=10, laplacian="unnormalized"),
    "roseland": Roseland(landmarks=1200, random_state=0),
    "kernel-pca landmarks": KernelPCA(kernel="rbf", landmarks=300, random_state=0),
    "classical-mds landmarks": ClassicalMDS(landmarks=300, random_state=0),
    "isomap landmarks": Isomap(landmarks=300, random_state=0),
    "locally-linear-embedding": LocallyLinearEmbedding(),
}
EVIDENCE = ("support", "flag", "distance", "residual", "disagreement")


def digest(values: object) -> str:
    array = np.ascontiguousarray(values)
    return hashlib.sha256(repr((array.shape, array.dtype.str)).encode() + array.tobytes()).hexdigest()[:20]


def answers(estimator: object, X: np.ndarray) -> dict[str, str]:
    """A digest for each answer of one fit; the text of the error where the fit refuses."""
    model = clone(estimator).set_params(n_jobs=1)
    Z = new_points(X, 5, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = {"fit_transform": digest(model.fit_transform(X)), "embedding_": digest(model.embedding_)}
        except ValueError as error:
            return {"refused": str(error)}
        if hasattr(model, "eigenvalues_"):
            found["eigenvalues_"] = digest(model.eigenvalues_)
        new = model.transform(Z)
        found["transform"] = digest(new)
        if hasattr(model, "predict"):
            found["predict"] = digest(model.predict(Z))
        trust = model.trust(Z)
        found |= {name: digest(getattr(trust, name)) for name in EVIDENCE if getattr(trust, name, None) is not None}
        found["inverse_transform"] = digest(model.inverse_transform(new))
        return found


def collect() -> dict[str, dict[str, str]]:
    found = {}
    for name, estimator in (ALL_METHODS | NETWORKS).items():
        for kind in ("plain", "duplicates"):
            found[f"{name}, {kind}"] = answers(estimator, cloud(11, kind, rows=70))
    X, _ = datasets.s_curve(3200, random_state=0)
    for name, estimator in LARGE.items():
        found[f"{name}, 3200 rows"] = answers(estimator, X)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--write", type=pathlib.Path)
    chosen.add_argument("--compare", type=pathlib.Path)
    given = parser.parse_args()
    found = collect()
    if given.write:
        given.write.write_text(json.dumps(found, indent=1))
        print(f"{sum(map(len, found.values()))} answers of {len(found)} fits written to {given.write}")
        return
    before = json.loads(given.compare.read_text())
    differ = [
        f"{name}: {what}"
        for name in sorted(found.keys() | before.keys())
        for what in sorted(found.get(name, {}).keys() | before.get(name, {}).keys())
        if found.get(name, {}).get(what) != before.get(name, {}).get(what)
    ]
    print(f"{sum(map(len, found.values()))} answers of {len(found)} fits; {len(differ)} differ")
    print("\n".join(differ))
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
