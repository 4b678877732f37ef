"""Eigensolvers as values, and the one place where order, residuals and counts are settled.

A solver is asked for the ``count`` largest eigenpairs of an operator whose trivial eigenvectors are
known exactly. Those are deflated first, so no solver ever has to find a multiple eigenvalue 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

from . import _products, components
from ._twogrid import TwoGrid, highest, smallest
from .exceptions import ConvergenceError
from .normalizations import Operator, links
from .runners import blas_threads, row_blocks

Array = NDArray[Any]

FILTERED_FROM = 20_000  # rows of a sparse matrix from which Lanczos works on a polynomial of it
RESIDUAL_SHIFT = 1e-13  # of locally linear embedding, whose small eigenvalues are squares


@dataclass(frozen=True)
class Spectrum:
    """Eigenpairs of an operator in decreasing order, trivial ones first."""

    values: Array  #: (count,)
    vectors: Array  #: (n, count), orthonormal
    trivial: int  #: how many of them are known exactly (the constant and the contrasts)
    residuals: Array  #: ``|S v - lambda v|``
    solver: str
    why: str


class Session(Protocol):
    """A solver at work on one operator."""

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        """The ``count`` largest eigenpairs orthogonal to the ``known`` ones, largest first.

        ``rough``: how far an eigenvalue may be off, where a rough answer will do.
        """
        ...


@dataclass(frozen=True)
class Dense:
    """LAPACK on the whole matrix: O(n^3), never misses a pair.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Dense()).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-8)
    ('dense', True)
    """

    complete = True  # needs no check for missed pairs

    def start(self, operator: Operator) -> Session:
        return _DenseSession(operator)


@dataclass(frozen=True)
class _DenseSession:
    operator: Operator

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n = self.operator.size
        matrix = self.operator.matrix.toarray() if self.operator.sparse else self.operator.matrix
        deflated = matrix - (self.operator.spread * known) @ known.T
        values, vectors = linalg.eigh(deflated, subset_by_index=(n - count, n - 1), check_finite=False)
        if len(values) < count:  # LAPACK's range driver drops copies of a highly multiple eigenvalue
            values, vectors = linalg.eigh(deflated, driver="evd", overwrite_a=True, check_finite=False)
        return values[::-1][:count], vectors[:, ::-1][:, :count]


@dataclass(frozen=True)
class Lanczos:
    """Implicitly restarted Lanczos (ARPACK) on the deflated operator. ``tol=0`` is machine precision.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Lanczos(tol=1e-10)).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-6)
    ('lanczos', True)
    """

    tol: float = 0.0
    max_iterations: int | None = None
    complete = False

    def start(self, operator: Operator) -> Session:
        return _LanczosSession(operator, self.tol, self.max_iterations)


@dataclass(frozen=True)
class _LanczosSession:
    operator: Operator
    tol: float
    max_iterations: int | None

    @cached_property
    def filter(self) -> _Filter | None:
        """For large sparse matrices, where keeping a Krylov basis orthogonal costs more than the products."""
        operator = self.operator
        if not operator.sparse or operator.kind != "markov" or operator.size <= FILTERED_FROM:
            return None
        return _Filter.of(operator)

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n, spread = self.operator.size, self.operator.spread
        if self.filter is not None:
            found = self.filter.top(known, count, max(self.tol, 1e-10) if rough is None else 1e-2, self.max_iterations)
            if found[0].min() > self.filter.cut:  # else the filter does not keep their order
                return found
        tol = self.tol if rough is None else rough / max(abs(self.operator.top), spread / 2)
        with self.operator.runner.ticker("solving", " products") as bar:

            def product(v: Array) -> Array:
                bar.update()
                v = v.reshape(n, -1)
                return self.operator.matmat(v) - spread * (known @ (known.T @ v))

            return _arpack(product, known, count, tol, self.max_iterations, guess=_guess(self.operator, known))


@dataclass(frozen=True)
class _Filter:
    """Lanczos on T_m(S), the Chebyshev polynomial that is small up to ``cut`` and grows above it.

    Its basis is m times shorter than that of S for about as many products.
    """

    operator: Operator
    low: float  # no eigenvalue lies below
    cut: float
    degree: int

    @classmethod
    def of(cls, operator: Operator) -> _Filter | None:
        low = operator.top - highest(operator, np.ones((operator.size, 1)))
        cut = operator.top - 4 * operator.crowding()
        if cut <= (low + operator.top) / 2:
            return None
        rate = np.arccosh(1 + 2 * (operator.top - cut) / (cut - low))  # of growth at the top, for each degree
        return cls(operator, low, cut, int(np.clip(round(2.5 / rate), 1, 12)))

    def top(self, known: Array, count: int, tol: float, most: int | None) -> tuple[Array, Array]:
        with blas_threads(1), self.operator.runner.ticker("solving", " polynomials") as bar:

            def product(v: Array) -> Array:
                bar.update()
                v = v.ravel()
                v = self._polynomial(v - known @ (known.T @ v))
                return v - known @ (known.T @ v)

            guess = _guess(self.operator, known)
            return _ritz(self.operator, _arpack(product, known, count, tol, most, extra=10, guess=guess)[1])

    def _polynomial(self, v: Array) -> Array:
        S, middle, half = self.operator.matrix, (self.cut + self.low) / 2, (self.cut - self.low) / 2
        blocks = row_blocks(len(v), 16)
        before, now = v, v
        for k in range(self.degree):
            scale, minus, out = (1 if k == 0 else 2) / half, float(k > 0), np.empty(len(v))
            self.operator.runner.run(_three_terms(S, now, before, scale, middle, minus, out), blocks)
            before, now = now, out
        return now


def _three_terms(S: Any, now: Array, before: Array, scale: float, middle: float, minus: float, out: Array) -> Any:
    def fill(block: slice) -> None:
        _products.three_terms(
            S.indptr, S.indices, S.data, now, before, scale, middle, minus, out, block.start, block.stop
        )

    return fill


@dataclass(frozen=True)
class Krylov:
    """Rayleigh-Ritz on a block Krylov space: few products with many columns, for large dense matrices.

    The block is wider than the count, so no copy of a multiple eigenvalue is missed. Stops when every residual
    is below ``tol`` times the largest eigenvalue.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Krylov()).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-8)
    ('krylov', True)
    """

    tol: float = 1e-13
    max_columns: int = 200
    max_products: int = 300
    complete = True

    def start(self, operator: Operator) -> Session:
        return _KrylovSession(operator, self.tol, self.max_columns, self.max_products)


@dataclass(frozen=True)
class _KrylovSession:
    operator: Operator
    tol: float
    max_columns: int
    max_products: int

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n, width = self.operator.size, max(8, count + 3)
        most = min(self.max_columns + 2 * width, n - known.shape[1])
        basis, images = (np.empty((n, most), order="F") for _ in range(2))
        form = np.zeros((most, most))
        fresh, size = _apart(np.random.default_rng(n).standard_normal((n, width)), known), 0
        with self.operator.runner.ticker("solving", " products") as bar:
            for _ in range(self.max_products):
                bar.update()
                new = slice(size, size + fresh.shape[1])
                size = new.stop
                basis[:, new] = fresh
                images[:, new] = self.operator.matmat(fresh)
                form[:size, new] = basis[:, :size].T @ images[:, new]
                values, turn = linalg.eigh(form[:size, :size], lower=False)
                values, best = values[::-1][:count], turn[:, ::-1][:, :count]
                rest = images[:, :size] @ best - (basis[:, :size] @ best) * values
                rest -= known @ (known.T @ rest)
                if np.linalg.norm(rest, axis=0).max() <= self.tol * np.abs(values).max():
                    return values, basis[:, :size] @ best
                fresh = images[:, new].copy()
                if size + width > most:  # go on from the best of what there is
                    kept = turn[:, ::-1][:, : count + width]
                    basis[:, : kept.shape[1]], images[:, : kept.shape[1]] = (
                        basis[:, :size] @ kept,
                        images[:, :size] @ kept,
                    )
                    size, fresh = kept.shape[1], rest
                    form[:size, :size] = basis[:, :size].T @ images[:, :size]
                fresh = _apart(fresh[:, : most - size], np.hstack([known, basis[:, :size]]))
        raise ConvergenceError(
            f"Block Krylov left a residual of {np.linalg.norm(rest, axis=0).max():.1e} after {self.max_products} "
            f"products for {count} pairs of a {n} x {n} operator.",
            (values, basis[:, :size] @ best),
        )


def _apart(block: Array, known: Array) -> Array:
    """An orthonormal basis of a block's part orthogonal to the known columns; what vanishes is replaced."""
    size = np.linalg.norm(block, axis=0)
    for _ in range(3):  # twice is enough, unless something vanished
        block = block - known @ (known.T @ block)
        length = np.linalg.norm(block, axis=0)
        gone = ~(length > 1e-12 * size)
        if gone.any():
            block[:, gone] = np.random.default_rng(known.shape[1]).standard_normal((len(block), int(gone.sum())))
            length[gone] = np.linalg.norm(block[:, gone], axis=0)
        block /= length
        try:
            factor = linalg.cholesky(block.T @ block)
            block = linalg.solve_triangular(factor, block.T, trans="T").T
        except linalg.LinAlgError:
            block = linalg.qr(block, mode="economic")[0]
        size = np.ones(block.shape[1])
    return block


@dataclass(frozen=True)
class ShiftInvert:
    """Lanczos on the inverse of (top + shift) - S, factorised once (SuperLU, or Cholesky if dense).

    Very accurate for eigenvalues crowded near the top; the factors of graphs of dimension above two fill up.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=ShiftInvert()).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-8)
    ('shiftinvert', True)
    """

    shift: float = 1e-8
    complete = False

    def start(self, operator: Operator) -> Session:
        shifted = operator.top + self.shift * operator.spread
        if operator.sparse:
            matrix = csc_array(shifted * eye_array(operator.size, format="csc") - operator.matrix)
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
            return _InverseSession(operator, factors.solve)
        factor = linalg.cho_factor(shifted * np.eye(operator.size) - operator.matrix, overwrite_a=True)
        return _InverseSession(operator, lambda v: linalg.cho_solve(factor, v, check_finite=False))


@dataclass(frozen=True)
class _InverseSession:
    operator: Operator
    solve: Any

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        def product(v: Array) -> Array:
            v = v.reshape(self.operator.size, -1)
            v = self.solve(v - known @ (known.T @ v))
            return v - known @ (known.T @ v)

        guess = _guess(self.operator, known)
        vectors = _arpack(product, known, count, 1e-10 if rough is None else 1e-2, None, guess=guess)[1]
        return _ritz(self.operator, vectors)


@dataclass(frozen=True)
class Lobpcg:
    """Block LOBPCG preconditioned on two grids, for large sparse graphs with eigenvalues crowded near the top.

    Stops when every residual is below ``tol`` times the distance of its eigenvalue from the top.

    >>> from outfold import DiffusionMaps
    >>> from outfold.datasets import s_curve
    >>> X, _ = s_curve(300, random_state=0)
    >>> maps = DiffusionMaps(n_neighbors=20, solver=Lobpcg(tol=1e-4)).fit(X)
    >>> maps.report_.solver, bool(maps.report_.residual < 1e-3)
    ('lobpcg', True)
    """

    tol: float = 1e-5
    max_iterations: int = 60
    complete = False

    def start(self, operator: Operator) -> Session:
        if not operator.sparse:
            raise ValueError("solver='lobpcg' works on sparse graphs; pass n_neighbors, or solver='auto'.")
        return _LobpcgSession(operator, self.tol, self.max_iterations)


@dataclass
class _LobpcgSession:
    operator: Operator
    tol: float
    max_iterations: int
    grid: TwoGrid | None = None  # made for the first call

    def top(self, known: Array, count: int, rough: float | None = None) -> tuple[Array, Array]:
        n = self.operator.size
        width = min(-(-(count + max(3, count // 4)) // 8) * 8, n - known.shape[1])  # products run by eight columns
        if self.grid is None:
            with blas_threads(1):
                self.grid = TwoGrid.of(self.operator, width + known.shape[1])
        goal = self.tol if rough is None else 2e-2
        with blas_threads(1):  # the blocks are cut for our own threads
            guess = _guess(self.operator, known)[:, :width]
            first = self.grid.start(np.hstack([known, guess]), width - guess.shape[1])
            first = np.ascontiguousarray(np.hstack([guess, first]))
            values, vectors, relative, used = smallest(self.grid, known, first, count, goal, self.max_iterations)
        if relative.max() > goal or len(values) < count:
            raise ConvergenceError(
                f"LOBPCG reached a relative residual of {relative.max():.1e} instead of {goal:.0e} after {used} "
                f"iterations for {count} pairs of a {n} x {n} operator.",
                (self.operator.top - values, vectors),
            )
        return self.operator.top - values, vectors


def _guess(operator: Operator, known: Array) -> Array:
    """Orthonormal vectors to start from: what the operator's guess has beyond the known ones."""
    if operator.guess is None or not operator.guess.size:
        return known[:, :0]
    rest = operator.guess - known @ (known.T @ operator.guess)
    basis, size, _ = linalg.svd(rest, full_matrices=False)
    return basis[:, size > 1e-2 * np.linalg.norm(operator.guess, axis=0).max()]


def _arpack(
    product: Any, known: Array, count: int, tol: float, most: int | None, extra: int = 30, guess: Any = None
) -> tuple[Array, Array]:
    n = len(known)
    start = np.random.default_rng(n).standard_normal(n)
    if guess is not None and guess.shape[1]:  # noise still, for what the guess lacks
        start = guess.sum(axis=1) + 0.1 / np.sqrt(n) * start
    start -= known @ (known.T @ start)
    action = LinearOperator((n, n), matvec=product, matmat=product, dtype=float)
    subspace = min(n - 1, 2 * count + extra)
    try:
        values, vectors = eigsh(action, k=count, which="LA", v0=start, tol=tol, ncv=subspace, maxiter=most)
    except ArpackError as error:
        partial = (getattr(error, "eigenvalues", None), getattr(error, "eigenvectors", None))
        raise ConvergenceError(
            f"Lanczos did not find {count} eigenpairs of a {n} x {n} operator ({error}).", partial
        ) from error
    return values[::-1], vectors[:, ::-1]


def _ritz(operator: Operator, vectors: Array) -> tuple[Array, Array]:
    """Best eigenpairs of the operator within a span, largest first."""
    basis = linalg.qr(vectors, mode="economic")[0]
    form = basis.T @ operator.matmat(basis)
    values, turn = linalg.eigh((form + form.T) / 2)
    return values[::-1], (basis @ turn)[:, ::-1]


@dataclass(frozen=True)
class LowRank:
    """For ``DiffusionMaps``, ``LaplacianEigenmaps`` and ``SpectralClustering`` with ``landmarks=``: the kernel of all
    rows is taken to be W ~ C A^-1 C', C = W(rows, landmarks) and A = W(landmarks, landmarks), and the operator of all
    rows is solved exactly for it (Erichson, Mathelin, Brunton and Kutz, 2018). See :mod:`outfold.lowrank`.

    ``tolerance``: landmarks whose kernel the others explain up to this part are left out.
    """

    tolerance: float = 1e-10
    complete = True

    def start(self, operator: Operator) -> Session:
        return (Dense() if operator.size <= Auto.dense_up_to else Krylov()).start(operator)


@dataclass(frozen=True)
class Auto:
    """Chooses by size: ask ``choose`` what it would take and why.

    Dense for small problems and many pairs; for dense kernels Lanczos (Krylov if they are centred); the inverse for
    residuals and for unnormalised Laplacians, unless these are large and sparse; for sparse graphs Lanczos up to 3000
    rows or where the next eigenvalue is far from the top, else LOBPCG.
    """

    dense_up_to: int = 1000
    lanczos_up_to: int = 3000  # of sparse graphs
    crowded: float = 1e-2

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
        if crowding > (self.crowded if large else 0.3 * self.crowded):  # a coarse grid pays off later in small ones
            return Lanczos(
                tol=1e-7 if n > FILTERED_FROM else 1e-10
            ), f"sparse, n = {n}, the next eigenvalue is about {crowding:.1g} below the top"
        # The residual, and with it what transform and embedding differ by, stays near 1e-7 whatever the crowding;
        # eigenvalues err by the square of tol. In dimensions above two, where they crowd less, near 1e-6 must do.
        tol = float(np.clip(8e-9 / crowding, 1e-4 if large and crowding > 1e-3 else 2e-5, 8e-4))
        return Lobpcg(tol), f"sparse, n = {n}, eigenvalues crowd within {crowding:.1g} of the top"

    def instead(self, solver: Any, operator: Operator) -> list[Any]:
        """What to try, in order, when a solver fails: with more patience, then another way."""
        if operator.size <= 10_000:
            chain: list[Any] = [Dense()]
        elif operator.kind in ("centred", "residual"):
            chain = [Lanczos(tol=1e-9, max_iterations=3000)]
        else:
            chain = [Lobpcg(tol=1e-3, max_iterations=120)] if operator.sparse else []
            chain += [Lanczos(tol=1e-9, max_iterations=3000), ShiftInvert()]
        return [other for other in chain if other != solver]


def solve(operator: Operator, solver: Any, count: int) -> Spectrum:
    """The trivial eigenpairs and as many more as make ``count``, with their residuals."""
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
    """The pairs largest in magnitude: the positive ones of one end and the negative ones of the other."""
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
    """Run a solver; if it fails, the others; if all do, say so with the best partial result."""
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
    """The largest ``count`` pairs beyond the trivial ones, verified: what was found is deflated too and the
    largest remaining eigenvalue sought; as long as it belongs among the found ones it is added."""
    session = solver.start(operator)
    if solver.complete:
        return session.top(trivial, count)
    vectors = _nearly_trivial(operator, trivial, count)
    if vectors.shape[1] < count:
        more = session.top(np.hstack([trivial, vectors]), count - vectors.shape[1])[1]
        vectors = np.hstack([vectors, more])
    for _ in range(operator.size):
        values, vectors = _ritz(operator, vectors)
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
    """How far above the last of the found eigenvalues a missed one may lie unnoticed."""
    if operator.kind == "centred":
        return 1e-6 * float(abs(last))
    if operator.kind == "residual":
        return 1e-13 * operator.spread + 1e-2 * float(-last)
    return 1e-10 * operator.spread + 1e-2 * float(operator.top - last)


def _nearly_trivial(operator: Operator, trivial: Array, count: int) -> Array:
    """Contrasts between parts that only edges of rounding size connect: eigenvalue 1 to 13 digits, and
    just what an iterative solver misses."""
    if operator.kind != "markov":
        return np.empty((operator.size, 0))
    linked = links(operator.matrix, 1e-13)
    if linked is operator.matrix:  # no edge is that weak
        return np.empty((operator.size, 0))
    parts = components.find(linked, operator.stationary)
    if parts.count == operator.parts.count:
        return np.empty((operator.size, 0))
    soft = parts.contrasts(count + trivial.shape[1]) * np.sqrt(operator.stationary)[:, None]
    soft -= trivial @ (trivial.T @ soft)
    basis, size, _ = linalg.svd(soft, full_matrices=False)
    return basis[:, size > 1e-6][:, :count]
