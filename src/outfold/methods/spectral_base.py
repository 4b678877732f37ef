"""The parents of spectral methods: ``SpectralMethod`` and, for methods over affinities, ``AffinityMethod``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from typing import Annotated, ClassVar, TypedDict

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.validation import check_is_fitted

from .. import bandwidths, distances, extensions, graphs, kernels, solvers
from .._runtime.typing import FLAG, Array, Data, Interval, Options, Sparse
from ..engine import matrices
from ..engine.fit import Recipe
from ..graphs import rules
from ..graphs.given import SYMMETRIZE
from ..graphs.protocols import EdgeRule
from ..landmarks import AllRows, Enough, Landmarks
from ..operators.affinity_graph import BINARY, Affinities
from ..operators.cosine_pairs import CosinePairs, CosineRule, refuse_negative
from ..operators.gaussian_pairs import GaussianPairs
from ..operators.laplacian import Unnormalized
from ..operators.low_rank import LowRankDiffusion
from ..operators.markov import GraphNormalization, Markov
from ..operators.neighbor_walk import WIDTH, NeighborWalk
from ..operators.problem import Eigenproblem
from ..operators.variable_rates import Generator
from . import parameters
from .base import SpectralEstimator
from .declaration import After, estimator
from .parameters import (
    Components,
    Epsilon,
    ExtensionChoice,
    LandmarkChoice,
    MetricChoice,
    Neighbors,
    SolverChoice,
)

AFFINITY_KERNELS = (
    "auto",
    "adaptive",
    "variable",
    "gaussian",
    "cosine",
    "self_tuning",
    "continuous_knn",
    "precomputed",
)
LOCAL_NEIGHBOR = {"self_tuning": 7, "continuous_knn": 7}  # kernels in local units: the neighbour that sets the unit
IN_LOCAL_UNITS = ("adaptive", "variable")


@estimator
class SpectralMethod(SpectralEstimator):
    """A method that solves an eigenproblem, which ``_eigenproblem`` declares.

    Parameters
    ----------
    landmarks : None, int, float, array or a choice of :mod:`outfold.landmarks`
        Solve on these points only (a count, a fraction, or the points) and extend to the rest.
    extension : "nystrom", "auto", another name, an object of :mod:`outfold.extensions` or a regressor
        How the embedding is extended to points: by the method's own rows, exactly ("nystrom"); by "least_squares",
        "geometric_harmonics", "laplacian_pyramid", "kernel_ridge", "barycentric", "compressed_diffusion", "linear" or
        "net" (needs PyTorch), fitted to the anchors; or by the one with the least error on held-out rows ("auto").
    inverse : "auto" or any of these but the first and "least_squares"
        The extension from coordinates to features that ``inverse_transform`` uses.
    solver : "auto", "dense", "lanczos", "filtered", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
    """

    n_components: Components = field(default=2, kw_only=False)
    landmarks: LandmarkChoice = None
    extension: ExtensionChoice = "nystrom"
    inverse: ExtensionChoice = "auto"
    solver: SolverChoice = "auto"
    _stored: ClassVar[dict[str, str]] = {
        "eigenvalues_": "[c]",
        "eigenvectors_": "[a c]",
        "epsilon_": "float; optional",
        "landmarks_": "landmarks",
        "landmark_indices_": "index r",
        "_anchor_measure": "[a]; weights",
        "_columns": "index d",
        "_carriers": "extensions",
        "_fitted_recipe": "Recipe",
    }
    _solver_names: ClassVar[tuple[str, ...]] = parameters.MARKOV_SOLVERS
    _auto_landmarks: ClassVar[Landmarks] = Enough()

    def _recipe(self) -> Recipe:
        parameters.check(self)
        parameters.refuse_class("kernel", getattr(self, "kernel", None))
        return Recipe(
            method=type(self).__name__,
            view=self._eigenproblem(),
            wanted=self._component_choice(),
            landmarks=parameters.landmark_choice(self.landmarks, self._auto_landmarks),
            solver=self._solver(),
        )

    def _eigenproblem(self) -> Eigenproblem:
        raise AssertionError("a method defines its eigenproblem")

    def _component_choice(self) -> int | str | tuple[int, ...]:
        return parameters.parse_components(self.n_components)

    def _solver(self) -> solvers.Solver:
        return parameters.solver(self.solver, self._solver_names)


class Stages(TypedDict):
    """The stages before the normalisation."""

    metric: distances.Metric | kernels.CallableKernel | None
    edges: EdgeRule
    kernel: kernels.Gaussian | kernels.Affinity


def _is_plain_gaussian(stages: Stages) -> bool:
    """Return whether the kernel is a Gaussian in plain units and ``n_neighbors`` is "auto"."""
    edges = stages["edges"]
    return isinstance(edges, rules.DenseOrNearest) and edges.local is None


@estimator
class AffinityMethod(SpectralMethod):
    """A method over affinities between points.

    Parameters
    ----------
    epsilon : float, rule name or rule
        Gaussian kernel: w = exp(-d^2 / (2 epsilon)). Names of rules: "auto", "median", "neighbor", "percentile",
        "slope", "cut_off" (datafold's). Adaptive and variable kernels: the width in local units, 1 by default.
    kernel : "auto", "adaptive", "variable", "gaussian", "cosine", "self_tuning", ... or callable
        "auto": "gaussian" if ``epsilon`` is given, or ``threshold``, or a rule other than a number of neighbours, or
        ``solver=LowRank()``, or ``extension="least_squares"``; else "adaptive". "adaptive":
        w = exp(-d^2 / (epsilon (r(x)^2 + r(y)^2))), r the root mean square distance to the nearest neighbours:
        diffusion in local units, for tables, images, clusters and noise. "variable": the same, with the generator of
        Laplace-Beltrami whatever the density (Berry and Harlim, 2016), for clean samples of a manifold;
        ``outfold.kernels.Variable(dim=2)`` if its dimension is known. "cosine": the cosine between all pairs of rows
        with entries >= 0 (counts, words of documents, peaks of cells), dense or sparse, without a table of pairs: time
        and memory are linear in the entries that are not 0. "self_tuning":
        d^2 / (sigma(x) sigma_j), sigma the distance to the 7th neighbour, of the 15 nearest; "continuous_knn":
        edges with d^2 <= delta^2 rho(x) rho_j, all of weight 1 (``n_neighbors=Ball(delta)`` sets delta, an int
        the neighbour rho is measured to); "precomputed": X holds affinities, and
        of a sparse X what is not stored is no edge; a callable k(x, y) returns one.
    n_neighbors : None, int, "auto" or a rule of :mod:`outfold.graphs`
        Which pairs the kernel keeps. Adaptive and variable: the k nearest of each point; "auto" is 20, or more for
        "variable", at any n. Gaussian: all (None); x and y if either is among the other's k nearest, counting itself
        (int); or "auto", which is all pairs at any n: as a table up to 5000 anchors; beyond, without pairs whose weight
        cannot matter or by a kernel of low rank, as ``report_.edges`` says; or refused with the numbers; or a rule,
        ``Mutual(k)``, ``Ball(radius)``, ``Threshold(eta)``, ``Union(k, search=...)``.
    threshold : float in (0, 1), optional
        Keep the pairs whose weight reaches it instead.
    metric : name, callable or Metric
        Any of scikit-learn's; "precomputed": X holds distances. A sparse X holds those between neighbours.
    symmetrize : "auto", "mean", "union", "mutual" or "error"
        How a precomputed matrix that is not symmetric becomes so: :func:`outfold.graphs.symmetrize`. "auto": a sparse
        one by "mean" (affinities) or "union" (distances); a dense one is refused, as "error" refuses both.
    components : "warn", "error", "largest" or "join"
        If the graph is disconnected: make contrasts between its components the first coordinates; raise; embed
        the largest and extend to the rest; or join them by the shortest bridges (each with the weight of the longest
        edge at its ends).
    diagonal : bool
        False: a sample is not its own neighbour. Degrees and walk leave out one copy of each sample (a weight of 3
        counts as two copies beside it; of weights below 1, the least is left out). For kernels "gaussian",
        "cosine", "self_tuning" and "continuous_knn".
    solver : "auto", "dense", "lanczos", "filtered", "shift_invert", "lobpcg" or a solver of :mod:`outfold.solvers`
        ``LowRank()`` with landmarks solves the operator of all rows by a low-rank kernel through the landmarks
        (Gaussian kernel, n_neighbors "auto" or None, components "warn" or "error").
    """

    epsilon: Epsilon = "auto"
    kernel: str | Callable[[Array, Array], float] | kernels.Variable = "auto"
    n_neighbors: Neighbors = "auto"
    threshold: Annotated[float | None, Interval(0, 1, open_low=True)] = None
    metric: MetricChoice = "euclidean"
    symmetrize: Annotated[str, Options(*SYMMETRIZE)] = "auto"
    components: Annotated[str, Options("warn", "error", "largest", "join"), After("landmarks")] = "warn"
    diagonal: Annotated[bool, FLAG, After("components")] = True
    _takes_graphs = True

    @property
    def graph_(self) -> Sparse:
        """The affinities between ``landmarks_`` as the fit used them, a symmetric ``csr_array``; computed anew."""
        check_is_fitted(self)
        given = self._precomputed_parameter()
        rows = self.__dict__.get("_graph")
        if given is not None and rows is None:
            raise ValueError(f"{given}='precomputed': the graph is the matrix that was passed; this model keeps none.")
        rule = self.model_.rule  # type: ignore[attr-defined]  # a spectral model has one
        graph = matrices.affinity_graph(rule, self.landmarks_, self._anchor_measure, rows, self._columns)
        return graph if self.diagonal else matrices.without_diagonal(graph, self._anchor_measure)

    @property
    def operator_(self) -> Sparse | LinearOperator:
        """The Markov matrix between ``landmarks_``, or the unnormalised Laplacian, a ``csr_array``; computed anew.

        Its eigenvectors are ``eigenvectors_``; landmarks with weights count as often. With ``kernel="cosine"`` it is a
        ``scipy.sparse.linalg.LinearOperator``, since no table of pairs is made.
        """
        check_is_fitted(self)
        rule = self.model_.rule  # type: ignore[attr-defined]  # a spectral model has one
        if isinstance(rule, CosineRule):
            return matrices.cosine_operator(rule, self.landmarks_, self._anchor_measure)
        graph = self.graph_
        if self._resolved_kernel() == "variable":
            raise ValueError("kernel='variable' has a generator, which no matrix of affinities gives: see graph_.")
        if getattr(self, "laplacian", "") == "unnormalized":
            return matrices.laplacian_matrix(graph, self._anchor_measure)
        return matrices.markov_matrix(graph, self._anchor_measure, float(getattr(self, "alpha", 0.0)))

    def _over_affinities(self, normalization: Markov | Unnormalized) -> Eigenproblem:
        """Return the eigenproblem of the normalised affinities; with LowRank() that of all rows, by landmarks."""
        if not self.diagonal:
            self._check_without_diagonal()
            if isinstance(normalization, Markov):  # an unnormalised Laplacian does not depend on the diagonal
                normalization = replace(normalization, diagonal=False)
        if self._walks():
            return self._walk(normalization)
        if self._resolved_kernel() == "cosine":
            return self._cosine_pairs(normalization)
        stages = self._stages()
        if isinstance(self.solver, solvers.LowRank):
            self._check_low_rank(self.solver, stages)
            if not isinstance(normalization, Markov):
                raise ValueError(
                    f"solver={self.solver!r} solves Markov operators: pass laplacian='random_walk', or another solver."
                )
            if normalization.canonical:
                raise ValueError(
                    f"solver={self.solver!r} gives coordinates='diffusion' only; for 'canonical' leave the solver at "
                    "'auto'."
                )
            assert stages["metric"] is not None  # `_check_low_rank` refuses a precomputed matrix
            return LowRankDiffusion(
                metric=stages["metric"],
                kernel=stages["kernel"],
                components=self.components,
                tolerance=float(self.solver.tolerance),
                alpha=normalization.alpha,
                power=normalization.power,
            )
        if _is_plain_gaussian(stages):
            return self._gaussian_pairs(stages, normalization)
        precomputed = self._precomputed_parameter() == "metric"
        return Affinities(
            **stages, normalization=normalization, components=self.components, given_distances=precomputed
        )

    def _check_without_diagonal(self) -> None:
        """Refuse kernels whose walk or matrix has no entry of a sample with itself that could be left out."""
        kernel = self._resolved_kernel()
        if isinstance(self.solver, solvers.LowRank):
            raise ValueError(
                f"diagonal=False changes every row, so the kernel is no longer of low rank: leave out "
                f"solver={self.solver!r}, or pass diagonal=True."
            )
        if callable(kernel):
            raise ValueError(
                "diagonal=False needs a kernel with k(x, x) = 1, and a callable may have any: return 0 for equal rows, "
                "or pass diagonal=True."
            )
        if kernel in IN_LOCAL_UNITS:
            raise ValueError(
                f"kernel={self.kernel!r} walks from a sample to an anchor and on to a sample, so there is no diagonal "
                "to leave out. Pass kernel='gaussian' or 'cosine', or diagonal=True."
            )
        if kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed': the diagonal of the matrix says whether a sample is its own neighbour, so set "
                "it there (np.fill_diagonal(W, 0)) and pass diagonal=True."
            )

    def _resolved_kernel(self) -> str | Callable[[Array, Array], float]:
        """Return the kernel that "auto" means, or the given one; an object by its name."""
        if isinstance(self.kernel, kernels.Variable):
            return "variable"
        if not isinstance(self.kernel, str) or self.kernel != "auto":
            return self.kernel
        gaussian_only = isinstance(self.solver, solvers.LowRank) or _is_least_squares(self.extension)
        return (
            "adaptive" if self._counts_neighbors() and not (self._epsilon_is_given() or gaussian_only) else "gaussian"
        )

    def _counts_neighbors(self) -> bool:
        return self.threshold is None and isinstance(self.n_neighbors, int | np.integer | str)

    def _epsilon_is_given(self) -> bool:
        return not (isinstance(self.epsilon, str) and self.epsilon == "auto")

    def _walks(self) -> bool:
        """Whether the kernel is in local units over the nearest anchors of each point."""
        kernel = self._resolved_kernel()
        if callable(kernel):
            return False
        parameters.one_of("kernel", kernel, AFFINITY_KERNELS)
        if kernel in IN_LOCAL_UNITS and not self._counts_neighbors():
            raise ValueError(
                f"kernel={kernel!r} keeps a number of nearest points: n_neighbors={self.n_neighbors!r}, "
                f"threshold={self.threshold!r} will not do. Leave them at their defaults, or pass kernel='gaussian' or "
                "'self_tuning'."
            )
        return kernel in IN_LOCAL_UNITS

    def _walk(self, normalization: Markov | Unnormalized) -> NeighborWalk:
        """Return the eigenproblem in local units."""
        if isinstance(self.n_neighbors, str):
            k: int | str = parameters.one_of("n_neighbors", self.n_neighbors, ("auto",))
        else:
            k = parameters.count("n_neighbors", self.n_neighbors, low=2)
        chosen: GraphNormalization | Generator = normalization
        if self._resolved_kernel() == "variable":
            chosen = self._generator(normalization)
        return NeighborWalk(
            metric=parameters.metric(self.metric),
            k=k,
            epsilon=self._local_width(),
            normalization=chosen,
            components=self.components,
        )

    def _local_width(self) -> float:
        """Return epsilon of a kernel in local units."""
        rule = parameters.bandwidth(self.epsilon, auto=bandwidths.Fixed(WIDTH))
        if not isinstance(rule, bandwidths.Fixed) or not math.isfinite(rule.epsilon):
            raise ValueError(
                f"kernel={self.kernel!r} measures in local units, so epsilon={self.epsilon!r} must be 'auto' "
                f"({WIDTH:g}) or a number near 1."
            )
        return float(rule.epsilon)

    def _generator(self, normalization: Markov | Unnormalized) -> Generator:
        if not isinstance(normalization, Markov) or normalization.canonical:
            raise ValueError(
                "kernel='variable' gives the rates and eigenfunctions of a generator: leave laplacian at 'random_walk' "
                "and coordinates at 'diffusion', or pass another kernel."
            )
        dim = self.kernel.dim if isinstance(self.kernel, kernels.Variable) else None
        parameters.check(self.kernel) if isinstance(self.kernel, kernels.Variable) else None
        return Generator(self._density_power(normalization), normalization.power, None if dim is None else float(dim))

    def _density_power(self, normalization: Markov) -> float:
        """Return alpha of the generator."""
        return normalization.alpha

    def _gaussian_pairs(self, stages: Stages, normalization: Markov | Unnormalized) -> GaussianPairs:
        """Return the eigenproblem of a Gaussian of all pairs, whatever their number."""
        metric, kernel = stages["metric"], stages["kernel"]
        assert isinstance(metric, distances.Metric)
        if kernel == kernels.Gaussian(bandwidths.Fixed(math.inf)):
            raise ValueError(BINARY)
        return GaussianPairs(metric=metric, kernel=kernel, normalization=normalization, components=self.components)

    def _cosine_pairs(self, normalization: Markov | Unnormalized) -> CosinePairs:
        """Return the eigenproblem of all pairs by their cosine."""
        if not isinstance(normalization, Markov):
            raise ValueError(
                "kernel='cosine' is for Markov operators, of which it needs products only: pass "
                "laplacian='random_walk', or kernel='gaussian' with metric='cosine'."
            )
        if self.n_neighbors not in (None, "auto") or self.threshold is not None:
            raise ValueError(
                f"kernel='cosine' keeps all pairs and makes no table of them: n_neighbors={self.n_neighbors!r}, "
                f"threshold={self.threshold!r} will not do. Leave them at their defaults, or keep the nearest by the "
                "angle: metric='cosine' with kernel='adaptive' or 'gaussian'."
            )
        if self._epsilon_is_given():
            raise ValueError(
                f"kernel='cosine' has no width, so epsilon={self.epsilon!r} would do nothing. Leave it out, or pass "
                "kernel='gaussian' with metric='cosine'."
            )
        if self.metric != "euclidean":
            raise ValueError(
                f"kernel='cosine' is a function of the features alone, so metric={self.metric!r} would do nothing. "
                "Leave it out, or pass kernel='adaptive' or 'gaussian' with metric='cosine'."
            )
        if self.components == "join":
            raise ValueError(
                "components='join' adds edges, and kernel='cosine' stores none: pass 'warn', 'error' or 'largest'."
            )
        if isinstance(self.solver, solvers.LowRank | solvers.ShiftInvert | solvers.Lobpcg) or self.solver in (
            "shift_invert",
            "lobpcg",
        ):
            raise ValueError(
                f"solver={self.solver!r} needs the matrix of all pairs, and kernel='cosine' makes products with it "
                "only: pass 'auto', 'lanczos' or 'dense'."
            )
        every = isinstance(parameters.landmark_choice(self.landmarks, self._auto_landmarks), AllRows)
        return CosinePairs(normalization=normalization, components=self.components, every=every)

    @property
    def _takes_no_negative_features(self) -> bool:  # type: ignore[override]
        return isinstance(self.kernel, str) and self.kernel == "cosine"

    def _validate(self, X: Data, *, reset: bool) -> Array:
        values = super()._validate(X, reset=reset)
        if self._takes_no_negative_features:
            refuse_negative(values if isinstance(values, np.ndarray) else values.data)
        return values

    def _solver(self) -> solvers.Solver:
        return self.solver if isinstance(self.solver, solvers.LowRank) else super()._solver()

    def _stages(self) -> Stages:
        """Return metric, edges and kernel."""
        kernel = self._resolved_kernel()
        if callable(kernel):
            self._refuse_epsilon("a kernel callable")
            return Stages(metric=kernels.CallableKernel(kernel), edges=graphs.AllPairs(), kernel=kernels.Affinity())
        metric = parameters.metric(self.metric)
        local = LOCAL_NEIGHBOR.get(kernel)
        auto = bandwidths.Neighbor() if local is None else bandwidths.Fixed(0.5)
        rule = parameters.bandwidth(self.epsilon, auto=auto)
        if kernel == "continuous_knn" and self.epsilon != "auto":
            raise ValueError(
                f"kernel='continuous_knn' has no epsilon (given {self.epsilon!r}): its edges all weigh 1. Its delta "
                "is set by n_neighbors=outfold.graphs.Ball(delta)."
            )
        if kernel == "self_tuning" and not isinstance(rule, bandwidths.Fixed):
            raise ValueError(
                f"kernel='self_tuning' measures in local units, so epsilon={self.epsilon!r} must be 'auto' (0.5) "
                "or a number near 1."
            )
        if kernel == "precomputed":
            self._refuse_epsilon("kernel='precomputed'")
            return Stages(metric=None, edges=graphs.AllPairs(), kernel=kernels.Affinity())
        edges = parameters.edge_rule(self.n_neighbors, self.threshold, kernel, local)
        if metric is None and isinstance(edges, rules.DenseOrNearest) and local is None:
            edges = graphs.AllPairs()  # or those that a sparse matrix stores
        searched = isinstance(edges, graphs.AllPairs) and metric is not None
        if (searched or isinstance(edges, graphs.Threshold)) and rule == bandwidths.Fixed(math.inf):
            raise ValueError(BINARY)
        chosen = bandwidths.Fixed(math.inf) if kernel == "continuous_knn" else rule
        return Stages(metric=metric, edges=edges, kernel=kernels.Gaussian(chosen, 0.5 if local else None))

    def _refuse_epsilon(self, what: str) -> None:
        """Refuse parameters that have no effect when X or a callable supplies the affinities."""
        self._refuse_sparse_rule(what)
        if not (isinstance(self.epsilon, str) and self.epsilon == "auto"):
            raise ValueError(f"{what} gives affinities as they are, so epsilon={self.epsilon!r} would do nothing.")

    def _refuse_sparse_rule(self, what: str) -> None:
        if self.n_neighbors not in (None, "auto") or self.threshold is not None:
            raise ValueError(f"n_neighbors and threshold search features; with {what} leave them at their defaults.")

    def _check_low_rank(self, solver: solvers.LowRank, stages: Stages) -> None:
        """Refuse parameters that a low-rank kernel cannot have."""
        asked = f"solver={solver!r}"
        if self.landmarks is None:
            raise ValueError(
                f"{asked} needs landmarks: pass a count, a fraction, points or a choice of outfold.landmarks."
            )
        if self._precomputed_parameter():
            raise ValueError(f"{asked} measures from rows to landmarks: pass features, not a precomputed matrix.")
        if self._resolved_kernel() != "gaussian" and not callable(self.kernel):
            raise ValueError(
                f"{asked} needs a positive definite kernel, kernel='gaussian' or a callable that is; "
                f"kernel={self.kernel!r} is not."
            )
        if not isinstance(stages["edges"], graphs.AllPairs | rules.DenseOrNearest):
            raise ValueError(
                f"{asked} keeps all landmarks in a row: leave n_neighbors and threshold at their defaults."
            )
        if stages["kernel"] == kernels.Gaussian(bandwidths.Fixed(math.inf)):
            raise ValueError("epsilon=inf weighs all landmarks alike; a low-rank kernel needs a finite one.")
        if self.components not in ("warn", "error"):
            raise ValueError(
                f"components={self.components!r} edits a graph, and {asked} has none: pass 'warn' or 'error'."
            )
        parameters.check(solver)


def _is_least_squares(extension: ExtensionChoice) -> bool:
    return isinstance(extension, extensions.LeastSquares) or (
        isinstance(extension, str) and extension == "least_squares"
    )
