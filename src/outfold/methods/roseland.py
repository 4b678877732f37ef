"""Roseland: landmark diffusion."""

from __future__ import annotations

from typing import Any

from .. import _resolve
from .._engine import Recipe
from .._estimator import SpectralEstimator
from ..roseland import LandmarkDiffusion, LandmarkMarkov


class Roseland(SpectralEstimator):
    """Roseland: diffusion from every row to the landmarks and back, in memory and time linear in the rows.

    With W the Gaussian kernel between rows and landmarks, c = W'm, d = W c and W' diag(m / d) W = V sigma^2 V', the
    embedding is sigma^(2t) psi, psi(x) = sqrt(sum d) w(x, .) V / (sigma d(x)). One step is two steps of
    diffusion maps. A new point is the same line with its own row.

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates; "auto" keeps those with sigma^(2t) > 0.1 sigma_1^(2t); a sequence names eigenpairs (1 is
        the first non-trivial).
    landmarks : "auto", int, float, array or a choice of :mod:`outfold.landmarks`
        How many rows, which fraction of them, or the points themselves. "auto": 4 sqrt(n), at least 500.
    epsilon : float, rule name or rule
        w = exp(-d^2 / (2 epsilon)); rules look at the landmarks.
    alpha : float in [0, 1]
        How much of the density, of rows and of landmarks, to remove: 1 leaves none (Laplace-Beltrami), 0 is
        Roseland as published.
    t : float >= 0
        Diffusion time.
    n_neighbors : None, int, "auto" or ``Union(k)`` of :mod:`outfold.graphs`
        How many of its nearest landmarks a row keeps: all (None), that many, or all up to 3000 landmarks and
        32 beyond ("auto").
    metric : name, callable or Metric
        Any of scikit-learn's.
    extension, inverse :
        As in :class:`DiffusionMaps`.
    solver : "auto", "dense", "lanczos", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
    memory : "auto", int or str
        How much the fit may take, in bytes or as "4GB"; "auto" is 70 % of what is free. More means fewer searches;
        a fit that cannot do with it is refused.
    checkpoint : None, folder or ``Checkpoint`` of :mod:`outfold.checkpoints`
        Where to keep what the passes have so far. The same fit, begun again after it was killed, goes on from
        there and ends bitwise the same.
    random_state : int, RandomState or None
        Seeds the choice of landmarks; nothing else is random.
    n_jobs : int or None
        Threads; None is every core.
    verbose : bool
        Show progress for what takes longer than two seconds.

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(2000, random_state=0)
    >>> maps = Roseland(2, landmarks=300, random_state=0).fit(X)
    >>> maps.transform(X[:3]).shape, maps.landmarks_.shape
    ((3, 2), (300, 3))
    """

    def __init__(
        self,
        n_components: Any = 2,
        *,
        landmarks: Any = "auto",
        epsilon: Any = "auto",
        alpha: float = 1.0,
        t: float = 1,
        n_neighbors: Any = "auto",
        metric: Any = "euclidean",
        extension: Any = "nystrom",
        inverse: Any = "auto",
        solver: Any = "auto",
        memory: Any = "auto",
        checkpoint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.landmarks = landmarks
        self.epsilon = epsilon
        self.alpha = alpha
        self.t = t
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.extension = extension
        self.inverse = inverse
        self.solver = solver
        self.memory = memory
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _recipe(self) -> Recipe:
        alpha = _resolve.number("alpha", self.alpha, low=0.0, high=1.0)
        normalization = LandmarkMarkov(_resolve.number("t", self.t, low=0.0))
        if self.landmarks is None:
            raise ValueError("landmarks=None: Roseland needs landmarks; pass 'auto', a count, a fraction or points.")
        return Recipe(
            method=type(self).__name__,
            view=LandmarkDiffusion(
                **_resolve.landmark_stages(self),
                alpha=alpha,
                normalization=normalization,
                memory=_resolve.memory(self.memory),
                checkpoint=_resolve.checkpoint(self.checkpoint),
            ),
            wanted=_resolve.wanted(self.n_components),
            landmarks=_resolve.landmark_choice(self.landmarks),
            solver=_resolve.solver(self.solver),
        )


__all__ = ["Roseland"]
