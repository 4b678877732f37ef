"""Extensions: functions fitted to points and their values. They extend an embedding to new points, or invert it.

Every extension is a specification with ``fit(samples, runner)``, which returns a function with ``embed(Z, runner)``.
The inverse of an embedding is an extension with points and values exchanged. "nystrom" is the row rule of the method
itself and exact on the training points; the others are approximate there, and the fit reports by how much.

>>> from sklearn.neighbors import KNeighborsRegressor
>>> from outfold import DiffusionMaps
>>> from outfold.datasets import s_curve
>>> X, _ = s_curve(300, random_state=0)
>>> kernel_sums = KernelRidge(ridge=1e-4), GeometricHarmonics(residual=1e-3), LaplacianPyramid(levels=8)
>>> others = CompressedDiffusion(landmarks=100), LinearMap(), Barycentric(20), KNeighborsRegressor(1)
>>> for extension in (*kernel_sums, *others):
...     report = DiffusionMaps(kernel="gaussian", extension=extension).fit(X).report_
...     print(f"{report.extension}: {report.extension_gap:.1f}")
KernelRidge(ridge=0.0001): 0.0
GeometricHarmonics(residual=0.001): 0.0
LaplacianPyramid(levels=8): 0.1
CompressedDiffusion(landmarks=Random(size=100)): 0.2
LinearMap(): 1.5
Barycentric(n_neighbors=20): 0.0
Regressor(regressor=KNeighborsRegressor(n_neighbors=1)): 0.0
"""

from .auto import Auto
from .kernel_sums import CompressedDiffusion, GeometricHarmonics, KernelRidge, LaplacianPyramid
from .least_squares import LeastSquares
from .regressors import Barycentric, LinearMap, Regressor
from .samples import Extension, Nystrom

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
