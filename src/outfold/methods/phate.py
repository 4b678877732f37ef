"""PHATE: multidimensional scaling of the potentials of heat diffusion."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from .._runtime.typing import Interval, Options
from ..engine.fit import Fit, Recipe
from ..graphs.given import SYMMETRIZE
from ..landmarks import AllRows, AtMost
from ..operators.heat_potential import HeatPotential, Placement
from . import parameters
from .declaration import estimator
from .parameters import LandmarkChoice, MetricChoice
from .spectral_base import SpectralMethod

AUTO_LANDMARKS = 2000  # landmarks="auto": all rows up to this many, this many landmarks beyond
AUTO_HEAT_NEIGHBORS = 5  # neighbours of a point beside itself


@estimator
class PHATE(SpectralMethod):
    """PHATE: coordinates whose distances are those between the potentials of heat diffusing from each point.

    With K(x, y) = 1/2 exp(-(d / sigma(x))^decay) + 1/2 exp(-(d / sigma(y))^decay), sigma the distance to neighbour k,
    and P = K / row sums, the potential of a point is U = -log(P^t)[x, .], and metric scaling of the distances
    ``|U_i - U_j|`` gives coordinates y. Any point, training or new, is the mean of its anchors' coordinates by its own
    row of P: sum_l p(x, l) y_l (Moon et al., 2019).

    Parameters
    ----------
    n_components : int
        How many coordinates.
    n_neighbors : "auto" or int
        k: neighbours of a point, beside itself, within sigma. Equal rows count as one. "auto": 5, and all others of
        fewer than 6 distinct rows.
    decay : float > 0
        How sharply weights fall off beyond sigma: 2 is Gaussian, 40 nearly a ball.
    t : "auto" or int >= 1
        Steps of diffusion; "auto" is the knee of the von Neumann entropy of P^t up to t = 100.
    gamma : float in [-1, 1]
        The potential: 1 is -log(P^t), else 2 / (1 - gamma) P^t^((1 - gamma) / 2): 0 the square root, -1 P^t itself.
    mds : "metric" or "classical"
        Least stress (SMACOF, started from classical scaling), or classical scaling itself.
    landmarks : "auto", None, int, float, array or a choice of :mod:`outfold.landmarks`
        Diffuse between these points only, through all rows. "auto": every row up to 2000, beyond that 2000 (every row
        of precomputed distances, since few neighbours are landmarks); None: every row.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances. A sparse X holds those between neighbours.
    symmetrize : "auto", "mean", "union", "mutual" or "error"
        How a precomputed matrix that is not symmetric becomes so: :func:`outfold.graphs.symmetrize`. "auto": a sparse
        one by "union", an edge in either direction; a dense one is refused, as "error" refuses both.
    solver : "auto", "dense", "lanczos", "filtered", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
        For the eigenvalues of P, which the report shows; coordinates do not depend on it.

    Attributes
    ----------
    t_ : int
        Steps of diffusion.
    stress_ : float
        Stress of the landmarks' coordinates: the squared error of their distances over the squared distances.

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(500, random_state=0)
    >>> curve = PHATE(2, random_state=0).fit(X)
    >>> curve.transform(X[:3] + 0.01).shape, bool(curve.stress_ < 0.05)
    ((3, 2), True)
    """

    n_components: Annotated[int, Interval(1)] = field(default=2, kw_only=False)
    n_neighbors: Annotated[int | str, Interval(1), Options("auto")] = "auto"
    decay: Annotated[float, Interval(0, 1000, open_low=True)] = 40
    t: Annotated[int | str, Interval(1), Options("auto")] = "auto"
    gamma: Annotated[float, Interval(-1, 1)] = 1.0
    mds: Annotated[str, Options("metric", "classical")] = "metric"
    landmarks: LandmarkChoice = "auto"
    metric: MetricChoice = "euclidean"
    symmetrize: Annotated[str, Options(*SYMMETRIZE)] = "auto"
    _takes_graphs = True
    _stored: ClassVar[dict[str, str]] = {"t_": "count", "stress_": "float"}
    _auto_landmarks = AtMost(AUTO_LANDMARKS)

    def _recipe(self) -> Recipe:
        recipe = super()._recipe()
        if recipe.view.given and isinstance(self.landmarks, str):
            return replace(recipe, landmarks=AllRows())
        return recipe

    def _eigenproblem(self) -> HeatPotential:
        return HeatPotential(
            metric=parameters.metric(self.metric),
            neighbours=AUTO_HEAT_NEIGHBORS if isinstance(self.n_neighbors, str) else int(self.n_neighbors),
            fewer=isinstance(self.n_neighbors, str),
            decay=float(self.decay),
            t=None if isinstance(self.t, str) else int(self.t),
            gamma=float(self.gamma),
            classical=self.mds == "classical",
        )

    def _adopt(self, found: Fit, dtype: np.dtype[Any]) -> None:
        super()._adopt(found, dtype)
        assert isinstance(found.gathered, Placement)
        self.t_ = found.gathered.t
        self.stress_ = found.gathered.placed.stress
