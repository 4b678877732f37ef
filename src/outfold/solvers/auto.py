"""The choice of a solver, and ``solve``, which runs it, falls back to others and checks the eigenpairs.

A solver computes the ``count`` largest eigenpairs of an operator whose trivial eigenvectors are known exactly. The
trivial ones are deflated first, so no solver ever has to find a multiple eigenvalue 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..graphs import components
from ..operators.operator import Operator, links
from .dense import Dense
from .krylov import Krylov
from .lanczos import FILTERED_FROM, Lanczos
from .lobpcg import Lobpcg
from .session import Spectrum, ritz_pairs
from .shift_invert import RESIDUAL_SHIFT, ShiftInvert


@dataclass(frozen=True)
class Auto:
    """The solver chosen by size and kind of the operator; ``choose`` returns it with the reason.

    Dense for small problems and for many pairs. For dense kernels Lanczos (Krylov if they are centred). Shift-invert
    for residuals (LLE) and for unnormalised Laplacians, unless these are large and sparse. For sparse graphs Lanczos up
    to 3000 rows or if the next eigenvalue is far from the top, else LOBPCG.
    """

    dense_up_to: int = 1000
    lanczos_up_to: int = 3000  # rows of a sparse graph
    crowded: float = 1e-2  # distance of the next eigenvalue from the top below which LOBPCG is faster

    def choose(self, operator: Operator, count: int) -> tuple[Any, str]:
        n = operator.size
        if n <= self.dense_up_to:
            return Dense(), f"n = {n} <= {self.dense_up_to}"
        if count > n // 20 and n <= 20_000:
            return Dense(), f"{count} pairs are more than n/20 = {n // 20}"
        if operator.kind == "residual" and operator.sparse:
            return ShiftInvert(RESIDUAL_SHIFT), f"the small end of a residual, sparse and n = {n}"
        if operator.kind == "laplacian" and operator.sparse and n > self.lanczos_up_to:
            return Lobpcg(), f"the small end of an unnormalised Laplacian, sparse and n = {n}"
        if operator.kind == "laplacian":
            return ShiftInvert(), "the small end of an unnormalised Laplacian is found by its inverse"
        if operator.kind == "centred":
            return Krylov(), f"a dense kernel of n = {n} > {self.dense_up_to}, {count} pairs"
        if not operator.sparse or n <= self.lanczos_up_to:
            return Lanczos(), f"n = {n} > {self.dense_up_to}, {count} pairs"
        crowding = operator.crowding()
        large = n > FILTERED_FROM
        # On small graphs a coarse grid pays off only if eigenvalues are more crowded.
        if crowding > (self.crowded if large else 0.3 * self.crowded):
            return Lanczos(
                tol=1e-7 if n > FILTERED_FROM else 1e-10
            ), f"sparse, n = {n}, the next eigenvalue is about {crowding:.1g} below the top"
        # This keeps the residual, hence the difference between transform and embedding, near 1e-7 whatever the
        # crowding. The error of eigenvalues is the square of tol. In dimensions above two, where eigenvalues crowd
        # less, a residual near 1e-6 must do.
        tol = float(np.clip(8e-9 / crowding, 1e-4 if large and crowding > 1e-3 else 2e-5, 8e-4))
        return Lobpcg(tol), f"sparse, n = {n}, eigenvalues crowd within {crowding:.1g} of the top"

    def instead(self, solver: Any, operator: Operator) -> list[Any]:
        """Return the solvers to try, in order, when ``solver`` fails: with more iterations, then other methods."""
        if operator.size <= 10_000:
            chain: list[Any] = [Dense()]
        elif operator.kind in ("centred", "residual"):
            chain = [Lanczos(tol=1e-9, max_iterations=3000)]
        else:
            chain = [Lobpcg(tol=1e-3, max_iterations=120)] if operator.sparse else []
            chain += [Lanczos(tol=1e-9, max_iterations=3000), ShiftInvert()]
        return [other for other in chain if other != solver]


def solve(operator: Operator, solver: Any, count: int) -> Spectrum:
    """Return the ``count`` largest eigenpairs with their residuals, the trivial ones first."""
    if operator.both_ends:
        return _both_ends(operator, solver, count)
    trivial = operator.trivial(count)
    exact = trivial.shape[1]
    values, vectors = np.full(exact, operator.top), trivial
    name, why = "none", "all wanted pairs are contrasts between components"
    if count > exact:
        chosen, why = solver.choose(operator, count - exact) if isinstance(solver, Auto) else (solver, "asked for")
        if not chosen.complete and count - exact >= operator.size - exact - 1:
            chosen, why = Dense(), "an iterative solver cannot compute every eigenpair"
        found, found_vectors, name, why = _try(operator, chosen, trivial, count - exact, why)
        values, vectors = np.append(values, found), np.hstack([trivial, found_vectors])
    residuals = np.linalg.norm(operator.matmat(vectors) - vectors * values, axis=0)
    return Spectrum(values, vectors, exact, residuals, name, why)


def _both_ends(operator: Operator, solver: Any, count: int) -> Spectrum:
    """Return the pairs largest in magnitude: positive ones from the top end, negative ones from the bottom end."""
    n, plain = operator.size, replace(operator, both_ends=False)
    up = solve(plain, solver, n if 2 * count >= n else count)
    values, vectors, residuals = up.values, up.vectors, up.residuals
    if 2 * count < n:
        down = solve(replace(plain, matrix=-operator.matrix), solver, count)
        above, below = up.values > 0, down.values >= 0
        values = np.append(up.values[above], -down.values[below])
        vectors = np.hstack([up.vectors[:, above], down.vectors[:, below]])
        residuals = np.append(up.residuals[above], down.residuals[below])
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return Spectrum(values[order], vectors[:, order], 0, residuals[order], up.solver, up.why)


def _try(operator: Operator, solver: Any, trivial: Array, count: int, why: str) -> tuple[Array, Array, str, str]:
    """Run a solver, then its fallbacks; if all fail, raise ConvergenceError with the last partial result.

    Returns values, vectors, the name of the solver and the reason for it.
    """
    failures: list[ConvergenceError] = []
    for attempt in [solver, *Auto().instead(solver, operator)]:
        try:
            values, vectors = _all_pairs(operator, attempt, trivial, count)
        except ConvergenceError as error:
            failures.append(error)
            continue
        if failures:
            why = f"fallback: {failures[0]}"
        return values, vectors, type(attempt).__name__.lower(), why
    told = " ".join(str(error) for error in failures)
    raise ConvergenceError(
        f"No solver converged. {told} Raise epsilon or n_neighbors, or ask for fewer components.",
        failures[-1].partial,
    )


def _all_pairs(operator: Operator, solver: Any, trivial: Array, count: int) -> tuple[Array, Array]:
    """Return the largest ``count`` pairs beyond the trivial ones, checked for missed copies of multiple eigenvalues.

    The computed pairs are deflated as well and the largest remaining eigenvalue is computed. As long as it belongs
    among the largest ``count``, its pair is added.
    """
    session = solver.start(operator)
    if solver.complete:
        return session.top(trivial, count)
    vectors = _nearly_trivial(operator, trivial, count)
    if vectors.shape[1] < count:
        more = session.top(np.hstack([trivial, vectors]), count - vectors.shape[1])[1]
        vectors = np.hstack([vectors, more])
    for _ in range(operator.size):
        values, vectors = ritz_pairs(operator, vectors)
        known = np.hstack([trivial, vectors])
        if known.shape[1] >= operator.size - 1:
            break
        last = values[:count].min()
        slack = _slack(operator, last)
        if session.top(known, 1, slack / 2)[0][0] <= last + slack:
            break
        vectors = np.hstack([vectors, session.top(known, 1)[1]])
    return values[:count], vectors[:, :count]


def _slack(operator: Operator, last: float) -> float:
    """Return how far a missed eigenvalue may lie above ``last``, the smallest computed one, without being added."""
    if operator.kind == "centred":
        return 1e-6 * float(abs(last))
    if operator.kind == "residual":
        return 1e-13 * operator.spread + 1e-2 * float(-last)
    return 1e-10 * operator.spread + 1e-2 * float(operator.top - last)


def _nearly_trivial(operator: Operator, trivial: Array, count: int) -> Array:
    """Return contrasts between parts that are connected only by edges of rounding size, (n, at most ``count``).

    Their eigenvalue is 1 to 13 digits, and iterative solvers miss such pairs.
    """
    if operator.kind != "markov":
        return np.empty((operator.size, 0))
    linked = links(operator.matrix, 1e-13)
    if linked is operator.matrix:  # no edge is below 1e-13
        return np.empty((operator.size, 0))
    parts = components.find(linked, operator.stationary)
    if parts.count == operator.parts.count:
        return np.empty((operator.size, 0))
    soft = parts.contrasts(count + trivial.shape[1]) * np.sqrt(operator.stationary)[:, None]
    soft -= trivial @ (trivial.T @ soft)
    basis, size, _ = linalg.svd(soft, full_matrices=False)
    return basis[:, size > 1e-6][:, :count]
