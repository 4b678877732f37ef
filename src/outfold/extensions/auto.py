"""The choice of an extension by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from .._runtime.typing import Interval
from ..data.sparse_rows import SparseRows
from .kernel_sums import CompressedDiffusion, GeometricHarmonics, KernelRidge, LaplacianPyramid
from .regressors import Barycentric, LinearMap
from .samples import Extension, Nystrom, Samples


@dataclass(frozen=True)
class Auto:
    """The candidate of least error on held-out rows, compared with their embedding by the full fit.

    If there are more than ``rows`` training rows, a random sample of ``rows`` is used. This takes ``folds`` additional
    fits.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> chosen = DiffusionMaps(extension=Auto(candidates=("nystrom", "linear"))).fit(X).report_.candidates
    >>> str(chosen[0].extension), len(chosen)
    ('Nystrom()', 2)
    """

    folds: Annotated[int, Interval(2)] = 5
    rows: Annotated[int, Interval(10)] = 10_000
    candidates: tuple[Extension | str, ...] = ()  # empty: those of the function `candidates`

    def specifications(self, known: Samples, *, inverse: bool = False) -> list[Extension]:
        """Return the extensions to compare; names among the candidates were turned into objects before."""
        return [spec for spec in self.candidates if isinstance(spec, Extension)] or candidates(known, inverse=inverse)


def candidates(known: Samples, *, inverse: bool = False) -> list[Extension]:
    """Return the extensions that "auto" compares; bandwidths run from that of near neighbours to that of typical pairs.

    ``inverse``: for the inverse transform, which has no ``Nystrom``.
    """
    near, far = known.scales()
    grid = [float(f"{e:.4g}") for e in np.geomspace(near, far, 5)] if far > 1.01 * near else [near]
    found: list[Extension] = [] if inverse else [Nystrom()]
    if inverse:  # with many coordinates, a kernel wider than the range of the data is often best
        grid = [*grid[::2], 8 * far]
    found += [KernelRidge(epsilon, ridge) for epsilon in grid for ridge in (1e-1, 1e-2, 1e-3, 1e-5)]
    found += [GeometricHarmonics(epsilon, condition) for epsilon in grid for condition in (1e2, 1e4, 1e6)]
    found += [GeometricHarmonics(), LaplacianPyramid()]
    if not isinstance(known.points, SparseRows) and not np.isnan(known.points).any():
        found += [LinearMap(), CompressedDiffusion()]
        found += [Barycentric(k) for k in (5, 10, 20) if k < len(known.points)]
    return found
