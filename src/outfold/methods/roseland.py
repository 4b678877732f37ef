"""Roseland: landmark diffusion."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import bandwidths, graphs
from .._runtime.typing import FLAG, Array, Data, Interval, Weights
from ..data.checkpoints import Checkpoint
from ..distances import Metric, PointMetric
from ..engine import plan as planning
from ..engine import update as updating
from ..engine.fit import Fit, Recipe
from ..graphs.protocols import EdgeRule
from ..graphs.rules import DenseOrNearest
from ..kernels import Affinity, CallableKernel, Gaussian
from ..landmarks import Columns
from ..operators.given_landmarks import columns_of
from ..operators.landmark_diffusion import LandmarkDiffusion, LandmarkMarkov
from ..operators.neighbor_walk import WIDTH
from . import parameters
from .declaration import After, estimator
from .parameters import Epsilon, LandmarkChoice, MetricChoice, Neighbors
from .rows import check_positive
from .spectral_base import LOCAL_NEIGHBOR, SpectralMethod

KERNELS = ("auto", "adaptive", "gaussian", "self_tuning", "continuous_knn", "precomputed")
AUTO_LANDMARK_NEIGHBORS = 15  # nearest landmarks of a row, for the adaptive kernel
DENSE_LANDMARKS = 1000  # up to this many, a row uses all landmarks; beyond, the 32 nearest are as exact and far cheaper


@estimator
class Roseland(SpectralMethod):
    """Roseland: diffusion from every row to the landmarks and back, in memory and time linear in the rows.

    With W the Gaussian kernel between rows and landmarks, c = W'm, d = W c and W' diag(m / d) W = V sigma^2 V', the
    embedding is sigma^(2t) psi, psi(x) = sqrt(sum d) w(x, .) V / (sigma d(x)). One step is two steps of
    diffusion maps. A new point has the same formula with its own row.

    Parameters
    ----------
    n_components : int, "auto" or sequence of int
        How many coordinates. "auto": up to the last of 12 eigenpairs that is not a function of earlier ones
        (:func:`outfold.selection.residuals` > 0.4), and at least as many as the landmarks have dimensions, of those
        with sigma^(2t) > 0.1 sigma_1^(2t). A sequence names eigenpairs (1 is the first non-trivial).
    landmarks : "auto", int, float, array or a choice of :mod:`outfold.landmarks`
        How many rows, which fraction of them, or the points themselves. "auto": 4 sqrt(n), at least 500.
    epsilon : float, rule name or rule
        Gaussian kernel: w = exp(-d^2 / (2 epsilon)); rules use the distances between landmarks. Adaptive kernel: the
        width in local units, 1 by default.
    kernel : "auto", "adaptive", "gaussian", "self_tuning", "continuous_knn", "precomputed" or callable
        "auto": "gaussian" if ``epsilon`` is given, or ``threshold``, or a rule other than a number of landmarks, or
        ``n_neighbors=None``; else "adaptive". "adaptive": w = exp(-d^2 / (epsilon (r(x)^2 + r_k^2))), r the root mean
        square distance to the nearest landmarks: diffusion in local units, for tables, images, clusters and noise.
        "self_tuning": d^2 / (sigma(x) sigma_k), sigma the distance to the 7th landmark, of the 15 nearest;
        "continuous_knn": d^2 <= delta^2 sigma(x) sigma_k, all of weight 1 (``n_neighbors=Ball(delta)`` sets delta, an
        int the landmark that sigma is the distance to). A callable k(x, y) of a row and a landmark returns an affinity
        >= 0. "precomputed": X holds affinities, rows x landmarks, dense or sparse; new rows likewise.
    alpha : float in [0, 1]
        How much of the density, of rows and of landmarks, to remove: 1 leaves none (Laplace-Beltrami; of the metric in
        local units for kernels in local units), 0 is Roseland as published. A callable is taken for a function of the
        distance. A precomputed matrix does not say how the landmarks lie to each other: they are taken for a random
        sample of the rows, so omega is p_X^(-3 alpha); pass 0 if they are not.
    t : float >= 0
        Diffusion time.
    n_neighbors : None, int, "auto" or a rule of :mod:`outfold.graphs`
        How many of its nearest landmarks a row uses. Adaptive: 15 by default. Gaussian: all (None), this many, or all
        up to 1000 landmarks and 32 beyond ("auto"); or those that a rule keeps: ``Ball(radius)``, ``Threshold(eta)``,
        ``Mutual(k)`` (no farther than the k nearest landmarks of the row, and of the landmark), ``Union(k,
        search=...)`` (the k nearest of the row).
    threshold : float in (0, 1), optional
        Use the landmarks whose Gaussian weight reaches it instead. A row that has none in reach has no weight in the
        fit; its embedding is that of its nearest landmark, and ``trust`` flags it.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances, rows x landmarks, dense, or sparse: then a distance
        that is not stored is out of reach.
    memory : "auto", int or str
        How much memory the fit may take, in bytes or as "4GB"; "auto" is 70 % of the free memory. More memory means
        fewer searches; a fit that needs more than this is refused.
    checkpoint : None, folder or ``Checkpoint`` of :mod:`outfold.data`
        Where to store the intermediate results of the passes. If the fit is killed and started again, it resumes from
        there, and its result is bitwise the same.
    updatable : bool
        Store the sums that ``update`` starts from: a table of landmarks times landmarks, or its nonzero entries.

    Examples
    --------
    >>> from outfold.datasets import s_curve
    >>> X, position = s_curve(2000, random_state=0)
    >>> maps = Roseland(2, landmarks=300, random_state=0).fit(X)
    >>> maps.transform(X[:3]).shape, maps.landmarks_.shape
    ((3, 2), (300, 3))
    """

    landmarks: LandmarkChoice = "auto"
    epsilon: Epsilon = "auto"
    kernel: str | Callable[[Array, Array], float] = "auto"
    alpha: Annotated[float, Interval(0, 1)] = 1.0
    t: Annotated[float, Interval(0)] = 1
    n_neighbors: Neighbors = "auto"
    threshold: Annotated[float | None, Interval(0, 1, open_low=True)] = None
    metric: MetricChoice = "euclidean"
    memory: Annotated[float | str, After("solver")] = "auto"
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    updatable: Annotated[bool, FLAG] = False
    _stored: ClassVar[dict[str, str]] = {"_past": "Past None; optional; axes n>a d c"}

    def _eigenproblem(self) -> LandmarkDiffusion:
        if self.landmarks is None:
            raise ValueError("landmarks=None: Roseland needs landmarks; pass 'auto', a count, a fraction or points.")
        kernel = self._resolved_kernel()
        metric = parameters.metric(self.metric)
        if kernel == "precomputed" or metric is None:
            return self._of_given_matrix(kernel)
        if callable(kernel):
            self._refuse_cut("a kernel callable")
            return self._landmark_diffusion(CallableKernel(kernel), graphs.AllPairs(), Affinity())
        if kernel == "adaptive":
            return self._in_local_units(metric)
        local = LOCAL_NEIGHBOR.get(kernel)
        edges = parameters.edge_rule(self.n_neighbors, self.threshold, kernel, local)
        if isinstance(edges, DenseOrNearest) and local is None:
            edges = replace(edges, dense_up_to=DENSE_LANDMARKS)
        return self._landmark_diffusion(metric, edges, self._gaussian(kernel, edges, local))

    def _resolved_kernel(self) -> str | Callable[[Array, Array], float]:
        """Return the kernel that "auto" means, or the given one."""
        if callable(self.kernel):
            return self.kernel
        if parameters.one_of("kernel", self.kernel, KERNELS) != "auto":
            return self.kernel
        given = not (isinstance(self.epsilon, str) and self.epsilon == "auto")
        counts = self.threshold is None and isinstance(self.n_neighbors, int | np.integer | str | graphs.Union)
        precomputed = isinstance(self.metric, str) and self.metric == "precomputed"
        return "adaptive" if counts and not (given or precomputed) else "gaussian"

    def _of_given_matrix(self, kernel: str | Callable[[Array, Array], float]) -> LandmarkDiffusion:
        """Return the eigenproblem of a precomputed matrix, rows times landmarks."""
        given = "kernel" if kernel == "precomputed" else "metric"
        if kernel not in ("gaussian", "precomputed"):
            raise ValueError(
                f"kernel={self.kernel!r} needs the features of the landmarks, which metric='precomputed' does not "
                "hold: pass kernel='gaussian', or features."
            )
        if not (isinstance(self.landmarks, str) and self.landmarks == "auto"):
            raise ValueError(
                f"{given}='precomputed' takes a matrix of rows x landmarks: its columns are the landmarks. Leave "
                "landmarks at 'auto'."
            )
        if self.updatable:
            raise ValueError(
                f"updatable=True: an update compares landmarks before and after, and {given}='precomputed' does not "
                "hold how they see each other. Fit again with old and new rows, or fit on features."
            )
        if kernel == "precomputed":
            self._refuse_cut("kernel='precomputed'")
            view = self._landmark_diffusion(None, graphs.AllPairs(), Affinity())
            return replace(view, given_distances=False)
        edges = parameters.edge_rule(self.n_neighbors, self.threshold, "gaussian", None)
        if self.threshold is None and isinstance(self.n_neighbors, str):
            edges = graphs.AllPairs()
        if isinstance(edges, graphs.Mutual) or (isinstance(edges, graphs.Ball) and edges.radius == "auto"):
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r} needs distances between landmarks, and metric='precomputed' holds "
                "those from rows to landmarks. Pass a number, or a Ball with a radius."
            )
        if edges.neighbors and self.alpha > 0:
            raise ValueError(
                f"alpha={self.alpha} with n_neighbors={self.n_neighbors!r}: the correction for the cut needs distances "
                "between landmarks, which metric='precomputed' does not hold. Pass alpha=0, or a cut at the same "
                "distance everywhere: threshold=1e-3 or n_neighbors=outfold.graphs.Ball(radius)."
            )
        return self._landmark_diffusion(None, edges, self._gaussian("gaussian", edges, None))

    def _gaussian(self, kernel: str, edges: EdgeRule, local: int | None) -> Gaussian:
        """Return the Gaussian in the units of the data, or in those of landmark ``local``."""
        auto = bandwidths.Neighbor() if local is None else bandwidths.Fixed(0.5)
        rule = parameters.bandwidth(self.epsilon, auto=auto)
        if kernel == "continuous_knn":
            if not (isinstance(self.epsilon, str) and self.epsilon == "auto"):
                raise ValueError(
                    f"kernel='continuous_knn' has no epsilon (given {self.epsilon!r}): its edges all weigh 1. Its "
                    "delta is set by n_neighbors=outfold.graphs.Ball(delta)."
                )
            rule = bandwidths.Fixed(math.inf)
        elif local is not None and not isinstance(rule, bandwidths.Fixed):
            raise ValueError(
                f"kernel={kernel!r} measures in local units, so epsilon={self.epsilon!r} must be 'auto' (0.5) or a "
                "number near 1."
            )
        if rule == bandwidths.Fixed(math.inf) and not isinstance(edges, graphs.Ball):
            raise ValueError(
                "epsilon=inf weighs all kept landmarks alike; landmark diffusion needs a finite one, or a radius that "
                "is the same everywhere: n_neighbors=outfold.graphs.Ball(radius)."
            )
        return Gaussian(rule, None if local is None else 0.5)

    def _in_local_units(self, metric: Metric) -> LandmarkDiffusion:
        """Return the eigenproblem with the adaptive kernel."""
        rule = parameters.bandwidth(self.epsilon, auto=bandwidths.Fixed(WIDTH))
        if not isinstance(rule, bandwidths.Fixed) or not math.isfinite(rule.epsilon):
            raise ValueError(
                f"kernel='adaptive' measures in local units, so epsilon={self.epsilon!r} must be 'auto' ({WIDTH:g}) "
                "or a number near 1."
            )
        if self.n_neighbors is None:
            raise ValueError(
                "kernel='adaptive' measures by the nearest landmarks of each row: n_neighbors must be a number or "
                "'auto'. For all landmarks pass kernel='gaussian'."
            )
        if self.threshold is not None or not isinstance(self.n_neighbors, int | np.integer | str | graphs.Union):
            raise ValueError(
                "kernel='adaptive' keeps a number of nearest landmarks, at whose distance its weights fall to 0: "
                f"n_neighbors={self.n_neighbors!r}, threshold={self.threshold!r} will not do. Pass kernel='gaussian' "
                "or 'self_tuning'."
            )
        chosen = isinstance(self.n_neighbors, str)
        edges = parameters.edge_rule(AUTO_LANDMARK_NEIGHBORS if chosen else self.n_neighbors, None, "gaussian", None)
        if chosen:
            parameters.one_of("n_neighbors", str(self.n_neighbors), ("auto",))
        return replace(self._landmark_diffusion(metric, edges, Gaussian(rule)), local=True, chosen=chosen)

    def _refuse_cut(self, what: str) -> None:
        """Refuse the parameters of a Gaussian, which has none of its own if affinities are given."""
        if not (isinstance(self.epsilon, str) and self.epsilon == "auto"):
            raise ValueError(f"{what} gives affinities as they are, so epsilon={self.epsilon!r} would do nothing.")
        if self.threshold is not None or not (self.n_neighbors is None or isinstance(self.n_neighbors, str)):
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r}, threshold={self.threshold!r} cut off distances; {what} gives "
                "affinities. Leave them at their defaults: an affinity of 0 is no landmark in reach."
            )

    def _landmark_diffusion(
        self, metric: PointMetric | None, edges: EdgeRule, kernel: Gaussian | Affinity
    ) -> LandmarkDiffusion:
        return LandmarkDiffusion(
            metric=metric,
            edges=edges,
            kernel=kernel,
            alpha=float(self.alpha),
            normalization=LandmarkMarkov(float(self.t)),
            memory=parameters.memory(self.memory),
            checkpoint=parameters.checkpoint(self.checkpoint),
            updatable=bool(self.updatable),
        )

    # -- new rows in the model -------------------------------------------------------------

    def update(self, X: Data, y: object = None, *, sample_weight: Weights = None, source: Data | None = None) -> Self:
        """Add new rows to the model; coordinates of old rows change as little as the data allow.

        The old rows are not needed. New rows enter the sums over rows exactly; the degrees of old rows, which new rows
        change, are rescaled by an estimate from the landmarks (:mod:`outfold.engine.update`). Epsilon stays the same.
        With the Gaussian kernel, where many new rows have little support, some of them become landmarks; the affinities
        of old rows to these are computed through the old landmarks. The adaptive kernel keeps its
        landmarks. Other rows outside the data are still flagged by ``trust``.

        Columns follow the old ones: well-separated eigenpairs get the index and sign of the column they overlap with
        most, so ``eigenvalues_`` need not be in order; within groups of nearly equal eigenvalues, which drift may
        mix, they are rotated, and ``eigenvalues_`` are those of the rotated functions. ``report_.drift`` says how
        far landmarks moved nevertheless. There is no ``embedding_`` after an update: call ``transform``.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or what ``fit`` takes block by block
        y : ignored
        sample_weight : array, optional
            Numbers of copies of the new rows, as in ``fit``; with ``source``, of all its rows.
        source : what ``fit`` takes, optional
            All rows, old and new: sums are computed over them again, and the result is that of a fit with the same
            landmarks and epsilon, in the old coordinates.
        """
        check_is_fitted(self)
        updated = copy.copy(self)
        updated._update(X, sample_weight, source)
        return self._become(updated)

    def _recipe(self) -> Recipe:
        recipe = super()._recipe()
        return replace(recipe, landmarks=Columns()) if recipe.view.given else recipe

    def _check_graph(self, values: Array, given: str) -> Array:
        """Return a precomputed matrix, rows x landmarks, which need not be square."""
        check_positive(values, given)
        return values

    def _adopt(self, found: Fit, dtype: np.dtype[Any]) -> None:
        super()._adopt(found, dtype)
        if self._precomputed_parameter() is not None:
            self.landmarks_ = columns_of(found.anchors)
            self._columns = np.arange(self.n_features_in_)
        kept = found.gathered is not None  # the sums that `update` starts from
        self._past: updating.UpdateState | None = (
            updating.begin(found, self._recipe().wanted, self._runner()) if kept else None
        )

    def _update(self, X: Data, sample_weight: Weights, source: Data | None) -> None:
        past = self._past
        if past is None:
            raise ValueError(
                "update needs sums over the rows that this model did not keep. Fit it with updatable=True first."
            )
        recipe, runner = self._recipe(), self._runner()
        new = self._open_given_rows(X)
        rows = [new] if source is None else [new, self._open_given_rows(source)]
        planning.refuse_beyond_memory(past.recipe(recipe), rows[-1].shape, runner, False)
        found, past = updating.update(past, recipe, rows, sample_weight, runner)
        super()._adopt(self._extend_fit(found, new, recipe, self._chosen_extension(), runner), np.dtype(float))
        self._past = past
