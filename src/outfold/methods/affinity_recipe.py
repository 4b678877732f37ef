"""The recipe that diffusion maps, Laplacian eigenmaps and spectral clustering share."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from ..operators.affinity_graph import Affinities
from ..operators.low_rank import LowRankDiffusion
from ..solvers import LowRank
from . import parameters


def affinity_recipe(estimator: Any, n_components: Any, normalization: Any) -> Recipe:
    """Return the recipe of a method over affinities, from the parameters that these methods share."""
    if isinstance(estimator.solver, LowRank):
        return _low_rank(estimator, n_components, normalization)
    policy = parameters.one_of("components", estimator.components, parameters.COMPONENT_CHOICES)
    given_distances = estimator._precomputed_parameter() == "metric"
    stages = parameters.stages(estimator)
    return Recipe(
        method=type(estimator).__name__,
        view=Affinities(**stages, normalization=normalization, components=policy, given_distances=given_distances),
        wanted=parameters.parse_components(n_components),
        landmarks=parameters.landmark_choice(estimator.landmarks),
        solver=parameters.solver(estimator.solver),
    )


def _low_rank(estimator: Any, n_components: Any, normalization: Any) -> Recipe:
    """Return the recipe of the same operator over all rows, by a low-rank kernel."""
    stages = parameters.low_rank_stages(estimator, normalization)
    return Recipe(
        method=type(estimator).__name__,
        view=LowRankDiffusion(**stages, alpha=normalization.alpha, power=normalization.power),
        wanted=parameters.parse_components(n_components),
        landmarks=parameters.landmark_choice(estimator.landmarks),
        solver=estimator.solver,
    )
