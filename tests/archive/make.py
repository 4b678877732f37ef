"""Make the archived model files: ``python tests/archive/make.py``. Run once for a new format, never to please a test.

Each file was written by the version its folder is named after. ``answers.npz`` holds the rows that were asked and what
the models answered when they were made; files and answers are only ever added.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

from outfold import (
    PHATE,
    DiffusionMaps,
    DiffusionNet,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    SpectralClustering,
)
from outfold.datasets import s_curve

MODELS = {
    "diffusion-maps-union": DiffusionMaps(2, n_neighbors=8, random_state=0),
    "diffusion-maps-landmarks": DiffusionMaps(2, landmarks=40, extension="kernel_ridge", random_state=0),
    "laplacian-eigenmaps-unnormalized": LaplacianEigenmaps(2, laplacian="unnormalized", kernel="self_tuning"),
    "spectral-clustering": SpectralClustering(3, normalize_rows=True, landmarks=60, random_state=0),
    "roseland": Roseland(2, landmarks=50, n_neighbors=8, random_state=0),
    "kernel-pca": KernelPCA(2, kernel="rbf", gamma=0.5, inverse="linear"),
    "isomap-landmarks": Isomap(2, n_neighbors=8, landmarks=15, random_state=0),
    "locally-linear-embedding": LocallyLinearEmbedding(2, n_neighbors=10),
    "phate": PHATE(2, landmarks=40, metric="manhattan", random_state=0),
    "diffusion-net": DiffusionNet(2, hidden=(8,), max_iter=20, random_state=0),
}


def main(folder: pathlib.Path) -> None:
    X, _ = s_curve(120, random_state=0)
    rows = np.vstack([X[::10], X[::10] + 0.03])
    answers = {"rows": rows}
    for name, model in MODELS.items():
        model.fit(X)
        if name in ("roseland", "kernel-pca"):
            model.calibrate(X, folds=4)
            answers[f"{name} error"] = model.trust(rows).error
        answers[name] = model.transform(rows, on_far="keep")
        answers[f"{name} support"] = model.trust(rows).support
        if name in ("kernel-pca", "diffusion-net"):
            answers[f"{name} back"] = model.inverse_transform(answers[name])
        if hasattr(model, "predict"):
            answers[f"{name} label"] = model.predict(rows)
        model.save(folder / f"{name}.outfold")
    np.savez_compressed(folder / "answers.npz", **answers)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True)  # an old one is not replaced
    main(target)
