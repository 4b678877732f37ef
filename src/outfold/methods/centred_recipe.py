"""The recipe that kernel PCA, classical MDS and Isomap share."""

from __future__ import annotations

from typing import Any

from ..engine.fit import Recipe
from . import parameters


def centred_recipe(estimator: Any, view: Any) -> Recipe:
    return Recipe(
        method=type(estimator).__name__,
        view=view,
        wanted=parameters.parse_components(estimator.n_components),
        landmarks=parameters.landmark_choice(estimator.landmarks),
        solver=parameters.solver(estimator.solver, among=parameters.CENTRED_SOLVERS),
    )
