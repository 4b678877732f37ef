"""Extensions: functions fitted to points and their values. They extend an embedding to new points, or invert it.

Every extension is a specification with ``fit(known, runner)``, which returns a model with ``embed(Z, runner)``. The
inverse of an embedding is an extension with points and values exchanged. "nystrom" is the row rule of the method itself
and exact on the training points; the others are approximate there, and the fit reports by how much.
"""

from .auto import Auto
from .barycentric import Barycentric
from .base import Extension, Nystrom
from .kernel_sums import CompressedDiffusion, GeometricHarmonics, KernelRidge, LaplacianPyramid
from .least_squares import LeastSquares
from .regressors import LinearMap, Regressor

__all__ = [
    "Auto",
    "Barycentric",
    "CompressedDiffusion",
    "Extension",
    "GeometricHarmonics",
    "KernelRidge",
    "LaplacianPyramid",
    "LeastSquares",
    "LinearMap",
    "Nystrom",
    "Regressor",
]
