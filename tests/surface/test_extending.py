"""A new method with an eigenproblem of its own: two new files, and an entry in at most three others."""

import os
import pathlib
import shutil
import subprocess
import sys

from catalogue import ROOT

OPERATOR = '''
"""Principal components of the rows: a linear kernel between all anchors, centred."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..data.sources import Source
from ..graphs.protocols import ValueGeometry
from ..landmarks import Anchors
from ..trust import Nearness
from .centred import CentredProblem, Centring, distinct_nearest
from ..distances import Distances, Metric
from .problem import BuiltProblem


@dataclass(frozen=True)
class InnerProducts(ValueGeometry):
    """x . x_j for every anchor."""

    distances: Distances
    nearness: Nearness

    @property
    def anchors(self) -> Array:
        return self.distances.anchors

    @property
    def row_entries(self) -> int:
        return len(self.anchors)

    def nearest(self, Z: Array) -> Array:
        return self.distances.nearest(Z)

    def values(self, Z: Array) -> tuple[Array, Array]:
        return Z @ self.anchors.T, self.nearness.log_mass(self.distances.cross(Z).min(axis=1))

    def pairs(self, X: Array, Y: Array) -> Array:
        return np.asarray(X @ Y.T)


@dataclass(frozen=True)
class Linear(CentredProblem):
    """Inner products between all anchors, centred."""

    normalization: Centring

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        distances = Metric().fit(anchors.points)
        nearest = distinct_nearest(distances.gram(runner), runner)
        nearness, reference = Nearness.of(nearest, anchors.measure)
        K = anchors.points @ anchors.points.T
        return self._problem(K, InnerProducts(distances, nearness), anchors, reference, runner)
'''

METHOD = '''
"""Principal component analysis by inner products."""

from __future__ import annotations

from ..operators.centred import Centring
from ..operators.linear import Linear
from . import parameters
from .declaration import estimator
from .spectral_base import SpectralMethod


@estimator
class LinearPCA(SpectralMethod):
    """Principal components, as a kernel method.

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
    """

    _solver_names = parameters.CENTRED_SOLVERS
    _refuses_sparse = "its products are those of arrays."

    def _eigenproblem(self) -> Linear:
        return Linear(Centring(definite=True))
'''

ENTRIES = {  # file: (text, text with the entry)
    "methods/__init__.py": (
        '    "KernelPCA": "kernel_pca",\n',
        '    "KernelPCA": "kernel_pca",\n    "LinearPCA": "linear_pca",\n',
    ),
    "_runtime/registry.py": (
        '    "methods.kernel_pca": "KernelPCA",\n',
        '    "methods.kernel_pca": "KernelPCA",\n    "methods.linear_pca": "LinearPCA",\n',
    ),
}
STORED = (
    '    "operators.low_rank": "LowRankRule LowRankDiffusion",\n',
    '    "operators.low_rank": "LowRankRule LowRankDiffusion",\n    "operators.linear": "Linear InnerProducts",\n',
)

PROGRAM = """
import numpy as np
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import check_estimator
import outfold
from outfold import quality

assert outfold.__file__.startswith({copy!r})
X = np.random.default_rng(0).normal(size=(120, 5)) * [5, 4, 3, 2, 1]
new = np.random.default_rng(1).normal(size=(30, 5))
maps = outfold.LinearPCA(3).fit(X)
peer = PCA(3).fit(X)
signs = np.sign((maps.embedding_ * peer.transform(X)).sum(axis=0))
assert np.allclose(maps.transform(new) * signs, peer.transform(new), atol=1e-9)
assert np.allclose(maps.transform(X[::7]), maps.embedding_[::7], atol=1e-9)
assert maps.trust(new).support.shape == (30,)
assert maps.report_.extension_gap < 1e-9
few = outfold.LinearPCA(3, landmarks=60, random_state=0).fit(X)
assert few.transform(new).shape == (30, 3)
maps.save({file!r})
assert np.array_equal(outfold.load({file!r}).transform(new), maps.transform(new))
assert "all pairs" in str(outfold.plan((1000, 5), outfold.LinearPCA(3)))
full = outfold.LinearPCA(5).fit(X)
loss = quality.kernel_loss(full, X)
assert loss[-1] < 1e-9 * loss[0]
check_estimator(outfold.LinearPCA(), on_skip=None)
print("done")
"""


def test_a_new_eigenproblem_needs_an_entry_in_two_other_files(tmp_path):
    """It fits, embeds, saves, plans, expands its kernel and passes scikit-learn's checks."""
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    package = copy / "outfold"
    (package / "operators" / "linear.py").write_text(OPERATOR)
    (package / "methods" / "linear_pca.py").write_text(METHOD)
    for name, (before, after) in ENTRIES.items():
        _enter(package / name, before, after)
    _enter(package / "_runtime" / "registry.py", *STORED)
    assert len(ENTRIES) <= 3
    code = PROGRAM.format(copy=str(copy), file=str(tmp_path / "pca.outfold"))
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("done\n")


def _enter(path: pathlib.Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, f"{path.name} has moved on: enter the new class another way"
    path.write_text(text.replace(before, after))
