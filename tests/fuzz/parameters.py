"""Every parameter of every estimator, and every field of the objects that parameters take, with values that are odd."""

from __future__ import annotations

import decimal
import fractions
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

import outfold
from outfold import bandwidths, extensions, graphs, kernels, landmarks, neural, solvers
from outfold.data.checkpoints import Checkpoint
from outfold.distances import Metric
from outfold.methods import Islands
from outfold.selection import LocalLinearSelection, RemoveOutliers

SPECTRAL = ("DiffusionMaps", "LaplacianEigenmaps", "SpectralClustering", "Isomap", "LocallyLinearEmbedding",
            "KernelPCA", "ClassicalMDS", "Roseland", "PHATE")  # fmt: skip
BASES: dict[str, Any] = {  # quick settings, of which one or more parameters are replaced
    **{name: getattr(outfold, name)() for name in SPECTRAL},
    "DiffusionMaps gaussian": outfold.DiffusionMaps(kernel="gaussian"),
    "Roseland gaussian": outfold.Roseland(kernel="gaussian", landmarks=20),
    "KernelPCA rbf": outfold.KernelPCA(kernel="rbf"),
    "Islands": Islands(),
    "RemoveOutliers": RemoveOutliers(),
    "LocalLinearSelection": LocalLinearSelection(),
}
NETWORKS: dict[str, Any] = {
    "DiffusionNet": outfold.DiffusionNet(hidden=(3,), max_iter=1),
    "GRAE": outfold.GRAE(hidden=(3,), epochs=1),
}


class Hostile:
    """An object that is nothing: no number, no text, no array."""

    def __repr__(self) -> str:
        return "Hostile()"


ODD: dict[str, object] = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "-1": -1,
    "0": 0,
    "-0.0": -0.0,
    "1": 1,
    "2": 2,
    "0.5": 0.5,
    "1.0": 1.0,
    "2.5": 2.5,
    "10**9": 10**9,
    "10**19": 10**19,
    "10**400": 10**400,
    "-(10**400)": -(10**400),
    "1e-320": 1e-320,
    "1e-300": 1e-300,
    "1e300": 1e300,
    "-1e300": -1e300,
    "True": True,
    "False": False,
    "None": None,
    "empty text": "",
    "abc": "abc",
    "text of a number": "3",
    "auto": "auto",
    "text with a null": "a\0b",
    "bytes": b"auto",
    "complex": 1 + 2j,
    "np.float64": np.float64(0.5),
    "np.float64 nan": np.float64("nan"),
    "np.float32": np.float32(0.5),
    "np.float16": np.float16(0.5),
    "np.longdouble": np.longdouble("1e4000"),
    "np.int64": np.int64(3),
    "np.int8": np.int8(3),
    "np.uint64": np.uint64(2**63),
    "np.bool": np.True_,
    "np.str": np.str_("auto"),
    "0-D": np.array(3),
    "0-D float": np.array(0.5),
    "array": np.arange(3),
    "array of floats": np.linspace(0.1, 0.9, 6),
    "array 2-D": np.arange(6.0).reshape(2, 3),
    "empty array": np.array([]),
    "objects": np.array([None, "a"], dtype=object),
    "masked": np.ma.array([1, 2], mask=[0, 1]),
    "list": [1, 2],
    "list of floats": [0.5, 1.5],
    "list of text": ["a", "b"],
    "list of None": [None],
    "ragged": [[1, 2], [3]],
    "empty list": [],
    "empty tuple": (),
    "dict": {"a": 1},
    "set": {1, 2},
    "range": range(1, 3),
    "Decimal": decimal.Decimal("0.5"),
    "Fraction": fractions.Fraction(1, 2),
    "type": int,
    "function": len,
    "generator": (i for i in ()),
    "object": Hostile(),
    "an estimator": outfold.DiffusionMaps(),
    "an estimator's type": outfold.DiffusionMaps,
    "a regressor": KNeighborsRegressor(3),
    "a regressor's type": KNeighborsRegressor,
}

OBJECTS: dict[str, tuple[Any, ...]] = {  # parameter -> objects whose fields are replaced too
    "n_neighbors": (graphs.Union(5), graphs.Mutual(5), graphs.Ball(40.0), graphs.Threshold(0.1)),
    "epsilon": (bandwidths.Fixed(1.0), bandwidths.Percentile(), bandwidths.Neighbor(), bandwidths.CutOff(),
                bandwidths.Slope()),
    "kernel": (kernels.Variable(),),
    "solver": (solvers.LowRank(), solvers.Auto(), solvers.Dense(), solvers.Lanczos(), solvers.Filtered(),
               solvers.ShiftInvert(), solvers.Lobpcg(), solvers.Krylov()),
    "landmarks": (landmarks.Random(9), landmarks.KMeans(9), landmarks.FarthestPoint(9), landmarks.MinDistance(9),
                  landmarks.InverseDensity(9), landmarks.RPCholesky(9), landmarks.Points(np.eye(3)),
                  landmarks.AtMost(9), landmarks.Enough()),
    "extension": (extensions.LeastSquares(), extensions.GeometricHarmonics(), extensions.LaplacianPyramid(),
                  extensions.KernelRidge(), extensions.Barycentric(), extensions.CompressedDiffusion(),
                  extensions.LinearMap(), extensions.Auto(folds=2, candidates=(extensions.Nystrom(),)),
                  neural.Net((3,), max_iter=1)),
    "inverse": (extensions.KernelRidge(), extensions.Barycentric()),
    "metric": (Metric("minkowski", {"p": 3}),),
    "training": (neural.Training(),),
    "checkpoint": (Checkpoint(),),
}  # fmt: skip


def field_names(example: object) -> list[str]:
    """Return the names of the arguments that make an object, which are also its attributes."""
    return [name for name in inspect.signature(type(example)).parameters if not name.startswith("_")]


@dataclass(frozen=True)
class Changed:
    """An object with one field changed."""

    example: object
    field: str
    value: object

    def build(self) -> object:
        same = {name: getattr(self.example, name) for name in field_names(self.example)}
        return type(self.example)(**{**same, self.field: self.value})


@dataclass(frozen=True)
class Setting:
    """An estimator with odd parameters."""

    name: str
    estimator: str  # of BASES or NETWORKS
    parameters: dict[str, object]
    odd: tuple[str, ...]  # names of the parameters and fields that are odd

    def __str__(self) -> str:
        return self.name


def single(bases: dict[str, Any]) -> Iterator[Setting]:
    """Yield every parameter of every estimator with every odd value."""
    for base, estimator in bases.items():
        for parameter in estimator.get_params(deep=False):
            for word, value in ODD.items():
                yield Setting(f"{base}({parameter}={word})", base, {parameter: value}, (parameter,))


def of_objects(bases: dict[str, Any]) -> Iterator[Setting]:
    """Yield every field of every object that a parameter takes with every odd value."""
    for base, estimator in bases.items():
        for parameter in estimator.get_params(deep=False):
            for example in OBJECTS.get(parameter, ()):
                for field in field_names(example):
                    for word, value in ODD.items():
                        name = f"{base}({parameter}={type(example).__name__}({field}={word}))"
                        yield Setting(name, base, {parameter: Changed(example, field, value)}, (parameter, field))


def drawn(bases: dict[str, Any], rng: np.random.Generator, count: int) -> Iterator[Setting]:
    """Yield settings with two or three odd parameters, among them objects."""
    names = list(bases)
    for _ in range(count):
        base = names[rng.integers(len(names))]
        every = list(bases[base].get_params(deep=False))
        chosen = [every[at] for at in rng.permutation(len(every))[: rng.integers(2, 4)]]
        parameters: dict[str, object] = {}
        words = []
        for parameter in chosen:
            examples = OBJECTS.get(parameter, ())
            word = list(ODD)[rng.integers(len(ODD))]
            if examples and rng.uniform() < 0.5:
                example = examples[rng.integers(len(examples))]
                known = field_names(example)
                if known:
                    field = known[rng.integers(len(known))]
                    parameters[parameter] = Changed(example, field, ODD[word])
                    words.append(f"{parameter}={type(example).__name__}({field}={word})")
                    continue
            parameters[parameter] = ODD[word]
            words.append(f"{parameter}={word}")
        yield Setting(f"{base}({', '.join(words)})", base, parameters, tuple(parameters))


def build(setting: Setting):
    """Return the estimator; an object that refuses its field raises here."""
    values = {}
    for name, value in setting.parameters.items():
        values[name] = value.build() if isinstance(value, Changed) else value
    base = {**BASES, **NETWORKS}[setting.estimator]
    return type(base)(**{**base.get_params(deep=False), **values})
