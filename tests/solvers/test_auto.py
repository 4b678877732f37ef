"""The choice of a solver, and what is tried after a failure."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from outfold import DiffusionMaps, datasets, solvers
from outfold.exceptions import ConvergenceError
from outfold.solvers import auto as solvers_auto
from outfold.solvers import lanczos as solvers_lanczos

X = np.random.default_rng(0).normal(size=(300, 3))


def test_auto_says_what_it_chose_and_why():
    assert solvers.Auto().choose(_operator(), 5)[0] == solvers.Dense()
    maps = DiffusionMaps(3).fit(np.random.default_rng(0).normal(size=(1200, 2)))
    assert maps.report_.solver == "lanczos"
    assert "1200" in maps.report_.solver_why
    small = DiffusionMaps(3).fit(X)
    assert (small.report_.solver, small.report_.solver_why) == ("dense", "n = 300 <= 1000")


def _operator():
    from scipy.spatial.distance import cdist

    from outfold.operators.markov import Markov

    return Markov(1.0).fit(np.exp(-cdist(X, X, "sqeuclidean")), np.ones(len(X)))


def test_auto_decides_sparse_problems_by_how_crowded_the_top_is(monkeypatch):
    sheet = np.random.default_rng(0).uniform(size=(3000, 2))
    ball = np.random.default_rng(0).normal(size=(3000, 12))
    small = solvers.Auto(dense_up_to=100, lanczos_up_to=200)
    maps = DiffusionMaps(3, n_neighbors=12, solver=small).fit(sheet)
    assert maps.report_.solver == "lobpcg"
    assert "crowd" in maps.report_.solver_why
    assert DiffusionMaps(3, n_neighbors=12, solver=small).fit(ball).report_.solver == "lanczos"


def test_every_solver_failing_is_an_error_with_what_was_found(monkeypatch):
    class Stuck:
        complete = False

        def start(self, operator):
            raise ConvergenceError("stuck", "a partial result")

    monkeypatch.setattr(solvers.Auto, "instead", lambda self, solver, operator: [Stuck()])
    with pytest.raises(ConvergenceError, match="No solver converged") as caught:
        DiffusionMaps(3, solver=Stuck()).fit(X)
    assert caught.value.partial == "a partial result"


def test_what_is_tried_after_a_failure():
    large, small = _operator(), _operator()
    assert solvers.Auto().instead(solvers.Lanczos(), small) == [solvers.Dense()]
    many = replace(large, measure=np.ones(50_000), matrix=csr_array((3, 3)))
    tried = [type(s).__name__ for s in solvers.Auto().instead(solvers.Lobpcg(), many)]
    assert tried == ["Lobpcg", "Lanczos", "ShiftInvert"]  # the same with more patience, then another way


def flat_torus(n, dimension):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (n, dimension))
    return np.hstack([np.cos(angle), np.sin(angle)])


def test_auto_takes_lanczos_where_the_top_is_not_crowded(monkeypatch):
    for module in (solvers_lanczos, solvers_auto):
        monkeypatch.setattr(module, "FILTERED_FROM", 3000)
    assert DiffusionMaps(4, n_neighbors=16).fit(flat_torus(4000, 5)).report_.solver == "lanczos"
    assert DiffusionMaps(4, n_neighbors=16).fit(datasets.s_curve(4000, random_state=0)[0]).report_.solver == "lobpcg"
