"""The choice of a solver, and ``solve``, which runs it, falls back to others and checks the eigenpairs.

A solver computes the ``count`` largest eigenpairs of an operator whose trivial eigenvectors are known exactly. The
trivial ones are deflated first, so no solver ever has to find a multiple eigenvalue 1.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from .._runtime.threads import blas_threads
from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import DENSE_SOLVER_UP_TO, LANCZOS_UP_TO, CentredOperator, Operator
from .dense import Dense
from .filtered import Filtered
from .krylov import Krylov
from .lanczos import Lanczos
from .lobpcg import Lobpcg
from .session import Session, Solver, Spectrum, ritz_pairs
from .shift_invert import RESIDUAL_SHIFT, ShiftInvert
from .smaller_side import Gram

SPARSE_DENSE_UP_TO = 400  # rows of a sparse graph up to which the dense solver is as quick as Lanczos
DENSE_INSTEAD_UP_TO = 10_000  # rows up to which the dense solver takes the place of one that fails
PRECISE_UP_TO, PRECISE = 200_000, 1e-7  # rows, and the relative residual that subspace iteration reaches for so many
RESTARTS = 60  # of Lanczos where the dense solver can take its place: it converges in 2 to 20 or hardly ever
ONE_THREAD_UP_TO = 8000  # rows of a sparse graph up to which threads of BLAS wait for each other longer than they work
MORE_PRODUCTS = 3000  # of subspace iteration, where LOBPCG fails too

OF_A_KIND: dict[str, Solver] = {  # what `Operator.solver_choice` names
    "residual": ShiftInvert(RESIDUAL_SHIFT),
    "lobpcg": Lobpcg(),
    "shift_invert": ShiftInvert(),
    "krylov": Krylov(),
    "smaller_side": Gram(),
}


@dataclass(frozen=True)
class Auto(Solver):
    """The solver that suits the operator; ``choose`` returns it with the reason.

    Dense for small problems and for many pairs. For dense kernels Lanczos (Krylov if they are centred). Shift-invert
    for residuals (LLE) and for unnormalised Laplacians, unless these are large and sparse. For sparse graphs Lanczos to
    machine precision up to 3000 rows. Of more rows LOBPCG where the features show that eigenvalues crowd near the top,
    as on curves and surfaces; else subspace iteration, which gives way to LOBPCG after its first rounds if these show
    that it would take long.
    """

    dense_up_to: int = DENSE_SOLVER_UP_TO
    lanczos_up_to: int = LANCZOS_UP_TO  # rows of a sparse graph
    crowded: float = 2e-3  # distance of the next eigenvalue from the top below which LOBPCG is quicker

    def start(self, operator: Operator) -> Session:
        return self.choose(operator, 1)[0].start(operator)

    def choose(self, operator: Operator, count: int) -> tuple[Solver, str]:
        n = operator.size
        small = min(SPARSE_DENSE_UP_TO, self.dense_up_to) if operator.sparse else self.dense_up_to
        if n <= small:
            return Dense(), f"n = {n} <= {small}"
        if count > n // 20 and n <= 20_000:
            return Dense(), f"{count} pairs are more than n/20 = {n // 20}"
        told = f"n = {n}, {count} pairs"
        special = operator.solver_choice(n > self.lanczos_up_to, told)
        if special is not None:
            return OF_A_KIND[special[0]], special[1]
        if not operator.sparse or n <= self.lanczos_up_to:
            return Lanczos(max_iterations=RESTARTS if n <= LANCZOS_UP_TO else Lanczos.max_iterations), told
        crowding = operator.crowding()
        if crowding < self.crowded and operator.preconditioned:
            # This keeps the residual, hence the difference between transform and embedding, near 1e-7 whatever the
            # crowding. The error of eigenvalues is the square of tol.
            tol = float(np.clip(8e-9 / crowding, 2e-5, 8e-4))
            return Lobpcg(tol), f"sparse, n = {n}, eigenvalues crowd within {crowding:.1g} of the top"
        why = f"sparse, n = {n}"
        if operator.smooth is not None:
            why += f", the next eigenvalue is about {crowding:.1g} below the top"
        return Filtered(PRECISE if n <= PRECISE_UP_TO else None), why

    def instead(self, solver: Solver, operator: Operator) -> list[Solver]:
        """Return the solvers to try, in order, when ``solver`` fails: other methods, then with more iterations."""
        last: list[Solver] = [Dense()] if operator.size <= DENSE_INSTEAD_UP_TO else []
        if last and operator.size <= LANCZOS_UP_TO:
            return last
        patient = Filtered(tol=1e-3, max_products=MORE_PRODUCTS)
        if not operator.sparse or not operator.preconditioned:
            return [Lanczos(tol=1e-9), *last]
        if isinstance(solver, Lobpcg):
            return [patient, Lobpcg(tol=1e-3, max_iterations=200), *last]
        return [Lobpcg(tol=1e-4), patient, *last]


def solve(operator: Operator, solver: Solver, count: int) -> Spectrum:
    """Return the ``count`` largest eigenpairs with their residuals, the trivial ones first."""
    unit = operator.unit
    if unit != 1:
        with operator.in_units(unit) as scaled:
            spectrum = solve(scaled, solver, count)
        return replace(spectrum, values=spectrum.values / unit, residuals=spectrum.residuals / unit)
    if isinstance(operator, CentredOperator) and operator.both_ends:
        return _both_ends(operator, solver, count)
    order = operator.order
    if order is not None:
        spectrum = solve(operator.reorder(), solver, count)
        back = np.empty_like(spectrum.vectors)
        back[order] = spectrum.vectors
        return replace(spectrum, vectors=back)
    before, trivial = operator.products.count, operator.trivial(count)
    exact = trivial.shape[1]
    values, vectors = np.full(exact, operator.top), trivial
    name, why = "none", "all wanted pairs are contrasts between components"
    if count > exact:
        chosen, why = solver.choose(operator, count - exact) if isinstance(solver, Auto) else (solver, "asked for")
        if not chosen.complete and count - exact >= operator.size - exact - 1:
            chosen, why = Dense(), "an iterative solver cannot compute every eigenpair"
        small = operator.sparse and operator.size <= ONE_THREAD_UP_TO
        with blas_threads(1) if small else nullcontext():
            found, found_vectors, name, why = _try(operator, chosen, trivial, count - exact, why)
        values, vectors = np.append(values, found), np.hstack([trivial, found_vectors])
    residuals = np.linalg.norm(operator.matmat(vectors) - vectors * values, axis=0)
    return Spectrum(
        values=values,
        vectors=vectors,
        trivial=exact,
        residuals=residuals,
        solver=name,
        why=why,
        products=operator.products.count - before,
    )


def _both_ends(operator: CentredOperator, solver: Solver, count: int) -> Spectrum:
    """Return the pairs largest in magnitude: positive ones from the top end, negative ones from the bottom end."""
    n, plain = operator.size, replace(operator, both_ends=False)
    up = solve(plain, solver, n if 2 * count >= n else count)
    values, vectors, residuals = up.values, up.vectors, up.residuals
    if 2 * count < n:
        assert isinstance(operator.matrix, np.ndarray)
        down = solve(replace(plain, matrix=-operator.matrix), solver, count)
        above, below = up.values > 0, down.values >= 0
        values = np.append(up.values[above], -down.values[below])
        vectors = np.hstack([up.vectors[:, above], down.vectors[:, below]])
        residuals = np.append(up.residuals[above], down.residuals[below])
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return replace(up, values=values[order], vectors=vectors[:, order], trivial=0, residuals=residuals[order])


def _try(operator: Operator, solver: Solver, trivial: Array, count: int, why: str) -> tuple[Array, Array, str, str]:
    """Run a solver, then its fallbacks. If all fail, return the pairs with the largest Ritz values.

    Returns values, vectors, the name of the solver and the reason for it. Raises ConvergenceError if no solver has an
    approximation of every pair.
    """
    failures: list[ConvergenceError] = []
    partial: list[tuple[Array, Array, str]] = []
    for attempt in [solver, *Auto().instead(solver, operator)]:
        name = type(attempt).__name__.lower()
        try:
            values, vectors = _all_pairs(operator, attempt, trivial, count)
        except ConvergenceError as error:
            failures.append(error)
            if error.partial is not None and np.shape(error.partial[1]) == (operator.size, count):
                values, vectors = ritz_pairs(operator, error.partial[1])
                partial.append((values, vectors, name))
            continue
        if failures:
            why = f"fallback: {failures[0]}"
        return values, vectors, name, why
    told = " ".join(str(error) for error in failures)
    if not partial:
        raise ConvergenceError(
            f"No solver converged. {told} Raise epsilon or n_neighbors, or ask for fewer components.",
            failures[-1].partial,
        )
    values, vectors, name = max(partial, key=lambda found: float(found[0].sum()))  # Ritz values are never too large
    return values, vectors, name, f"the best so far: no solver converged. {told}"


def _all_pairs(operator: Operator, solver: Solver, trivial: Array, count: int) -> tuple[Array, Array]:
    """Return the largest ``count`` pairs beyond the trivial ones, checked for missed copies of multiple eigenvalues.

    The computed pairs are deflated as well and the largest remaining eigenvalue is computed. As long as it belongs
    among the largest ``count``, its pair is added. A remaining eigenvalue that the solver cannot compute is left out.
    """
    session = solver.start(operator)
    if solver.complete:
        return session.top(trivial, count)
    vectors = _nearly_trivial(operator, trivial, count)
    if vectors.shape[1] < count:
        try:
            more = session.top(np.hstack([trivial, vectors]), count - vectors.shape[1])[1]
        except ConvergenceError as error:
            if error.partial is not None and len(np.atleast_2d(error.partial[1])) == operator.size:
                error.partial = None, np.hstack([vectors, error.partial[1]])
            raise
        vectors = np.hstack([vectors, more])
    for _ in range(operator.size):
        values, vectors = ritz_pairs(operator, vectors)
        known = np.hstack([trivial, vectors])
        if known.shape[1] >= operator.size - 1:
            break
        last = values[:count].min()
        slack = operator.slack(last)
        try:
            if session.top(known, 1, slack / 2)[0][0] <= last + slack:
                break
            more = session.top(known, 1)[1]
        except ConvergenceError:
            break
        vectors = np.hstack([vectors, more])
    return values[:count], vectors[:, :count]


def _nearly_trivial(operator: Operator, trivial: Array, count: int) -> Array:
    """Return contrasts between parts that are connected only by edges of rounding size, (n, at most ``count``).

    Their eigenvalue is 1 to 13 digits, and iterative solvers miss such pairs.
    """
    parts = operator.nearly_separate()
    if parts is None:
        return np.empty((operator.size, 0))
    soft = parts.contrasts(count + trivial.shape[1]) * np.sqrt(operator.stationary)[:, None]
    soft -= trivial @ (trivial.T @ soft)
    basis: Array
    basis, size, _ = linalg.svd(soft, full_matrices=False)
    result: Array = basis[:, size > 1e-6][:, :count]
    return result
