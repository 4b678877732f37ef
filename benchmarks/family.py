"""Isomap, kernel PCA and LLE against scikit-learn: fit and transform, medians, ratios and peak memory.

Every measurement has a process of its own, ours and theirs in turn, so that peak memory is each one's. Landmark
Isomap, which scikit-learn does not have, is measured alone.

    python benchmarks/family.py [repeats [part of a name]]
"""

import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from sklearn import decomposition, manifold

import outfold
from outfold.datasets import s_curve, swiss_roll


def curve(n, seed):
    return s_curve(n, random_state=seed)[0]


def sheet(n, seed):
    """A smooth surface in 64 dimensions."""
    place = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    waves = np.random.default_rng(99).normal(size=(2, 64))
    return np.sin(place @ waves)


ISOMAP = (outfold.Isomap(2, n_neighbors=12), manifold.Isomap(n_neighbors=12, n_components=2))
LLE = (
    outfold.LocallyLinearEmbedding(2, n_neighbors=12),
    manifold.LocallyLinearEmbedding(n_components=2, n_neighbors=12),
)


def pca(gamma=None, **how):
    return (
        outfold.KernelPCA(10, kernel="rbf", gamma=gamma),
        decomposition.KernelPCA(10, kernel="rbf", gamma=gamma, **how),
    )


CASES = {  # name: (ours and theirs, data, training rows, new rows (0: time the fit))
    "Isomap fit 5k": (ISOMAP, curve, 5000, 0),
    "Isomap transform, 10k trained": (ISOMAP, curve, 10_000, 20_000),
    "KernelPCA fit 5k, 10 pairs": (pca(1.0), curve, 5000, 0),
    "KernelPCA transform 3-D, 5k trained": (pca(1.0, eigen_solver="arpack"), curve, 5000, 100_000),
    "KernelPCA transform 64-D, 5k trained": (pca(eigen_solver="arpack"), sheet, 5000, 100_000),
    "LLE fit 10k": (LLE, curve, 10_000, 0),
    "LLE transform 3-D, 10k trained": (LLE, curve, 10_000, 100_000),
    "LLE transform 64-D, 10k trained": (LLE, sheet, 10_000, 100_000),
}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def one(name, side):
    """One measurement: seconds and peak memory in GB, as JSON."""
    pair, data, n, new = CASES[name]
    model = pair[side == "theirs"]
    X, Z = data(n, 0), data(max(new, 2), 1)
    if side == "ours":  # what numba compiles once and keeps is not what is measured
        type(model)(**model.get_params()).fit(X[:1100]).transform(Z[:64])
    if new:
        model.fit(X)
    start = time.perf_counter()
    model.transform(Z) if new else model.fit(X)
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak()}))


def landmark():
    """Landmark Isomap: 1000 landmarks on the Swiss roll of 100,000 points."""
    X, place = swiss_roll(100_000, random_state=0)
    outfold.Isomap(2).fit(X[:1100])
    start = time.perf_counter()
    roll = outfold.Isomap(2, landmarks=1000, random_state=0).fit(X)
    seconds = time.perf_counter() - start
    right = abs(np.corrcoef(roll.embedding_[:, 0], place[:, 0])[0, 1])
    print(json.dumps({"seconds": seconds, "peak": peak(), "correlation": right}))


def run(*arguments):
    found = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


def main(repeats=3, only=""):
    print(f"{'':>37} {'ours':>9} {'peak':>7} {'theirs':>9} {'peak':>7} {'ratio':>6}   (median of {repeats})")
    for name, (*_, new) in CASES.items():
        if only not in name:
            continue
        pairs = [(run(name, "ours"), run(name, "theirs")) for _ in range(repeats)]
        a, b = (statistics.median(p[side]["seconds"] for p in pairs) for side in (0, 1))
        tops = [max(p[side]["peak"] for p in pairs) for side in (0, 1)]
        shown = [f"{new / t:7.0f}/s" if new else f"{t:7.2f} s" for t in (a, b)]
        print(f"{name:>37} {shown[0]} {tops[0]:4.1f} GB {shown[1]} {tops[1]:4.1f} GB {b / a:6.1f}", flush=True)
    if only:
        return
    found = [run("landmark") for _ in range(repeats)]
    print(
        f"landmark Isomap, 1000 of 100k: {statistics.median(f['seconds'] for f in found):.1f} s, "
        f"{max(f['peak'] for f in found):.1f} GB, correlation with the unrolled length {found[0]['correlation']:.5f}"
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["landmark"]:
        landmark()
    elif given[1:] in (["ours"], ["theirs"]):
        one(*given)
    else:
        main(int((given or [3])[0]), *given[1:])
