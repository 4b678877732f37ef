"""PHATE: multidimensional scaling of the potentials of heat diffusion."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Fit, Recipe
from ..landmarks import AtMost
from ..operators.heat_potential import HeatPotential
from . import parameters
from .base import SpectralEstimator

AUTO_LANDMARKS = 2000  # landmarks="auto": all rows up to this many, this many landmarks beyond


class PHATE(SpectralEstimator):
    """PHATE: coordinates whose distances are those between the potentials of heat diffusing from each point.

    With K(x, y) = 1/2 exp(-(d / sigma(x))^decay) + 1/2 exp(-(d / sigma(y))^decay), sigma the distance to neighbour k,
    and P = K / row sums, the potential of a point is U = -log(P^t)[x, .], and metric scaling of the distances
    ``|U_i - U_j|`` gives coordinates y. Any point, training or new, is the mean of its anchors' coordinates by its own
    row of P: sum_l p(x, l) y_l (Moon et al., 2019).

    Parameters
    ----------
    n_components : int
        How many coordinates.
    n_neighbors : int
        k: neighbours of a point, beside itself, within sigma. Equal rows count as one.
    decay : float > 0
        How sharply weights fall off beyond sigma: 2 is Gaussian, 40 nearly a ball.
    t : "auto" or int >= 1
        Steps of diffusion; "auto" is the knee of the von Neumann entropy of P^t up to t = 100.
    gamma : float in [-1, 1]
        The potential: 1 is -log(P^t), else 2 / (1 - gamma) P^t^((1 - gamma) / 2): 0 the square root, -1 P^t itself.
    mds : "metric" or "classical"
        Least stress (SMACOF, started from classical scaling), or classical scaling itself.
    landmarks : "auto", None, int, float, array or a choice of :mod:`outfold.landmarks`
        Diffuse between these points only, through all rows. "auto": every row up to 2000, beyond that 2000; None:
        every row.
    metric : name, callable or Metric
        Any of scikit-learn's.
    extension, inverse :
        As in :class:`DiffusionMaps`.
    solver : "auto", "dense", "lanczos", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
        For the eigenvalues of P, which the report shows; coordinates do not depend on it.
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show the progress of steps that take longer than two seconds.

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

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 5,
        decay: float = 40,
        t: Any = "auto",
        gamma: float = 1.0,
        mds: str = "metric",
        landmarks: Any = "auto",
        metric: Any = "euclidean",
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.decay = decay
        self.t = t
        self.gamma = gamma
        self.mds = mds
        self.landmarks = landmarks
        self.metric = metric
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        metric = parameters.metric(self.metric)
        if metric is None:
            raise ValueError("metric='precomputed': PHATE needs features; DiffusionMaps and Isomap take distances.")
        auto = isinstance(self.landmarks, str) and self.landmarks == "auto"
        return Recipe(
            method=type(self).__name__,
            view=HeatPotential(
                metric,
                parameters.count("n_neighbors", self.n_neighbors),
                parameters.number("decay", self.decay, low=0.0, high=1000.0, open_low=True),
                parameters.steps(self.t),
                parameters.number("gamma", self.gamma, low=-1.0, high=1.0),
                classical=parameters.one_of("mds", self.mds, ("metric", "classical")) == "classical",
            ),
            wanted=parameters.count("n_components", self.n_components),
            landmarks=AtMost(AUTO_LANDMARKS) if auto else parameters.landmark_choice(self.landmarks),
            solver=parameters.solver(self.solver),
        )

    def _adopt(self, found: Fit, dtype: Any) -> None:
        super()._adopt(found, dtype)
        self.t_ = found.gathered.t
        self.stress_ = found.gathered.placed.stress
