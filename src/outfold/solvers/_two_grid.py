"""Block LOBPCG for the small end of A = top I - S, preconditioned on two grids.

The coarse grid is a cover of the graph by neighbourhoods (cells), so it needs the graph alone. Functions are
interpolated from it by the indicators of the cells, smoothed twice by the kernel and scaled so that the trivial vector
is interpolated exactly. In the preconditioner two Chebyshev steps remove oscillating errors (a kernel damps them
strongly) and the coarse solve removes smooth errors. The iteration starts from the coarse eigenvectors. The
preconditioner works in single precision, everything else in double. Blocks of vectors are processed in row pieces that
fit the cache, and sums over pieces are taken in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg
from scipy.sparse import csc_array, csr_array, dia_array, vstack
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from .._loops import csr
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array
from ..exceptions import ConvergenceError
from ..operators.operator import Operator

CELLS_PER_POINT = 8  # most cells from which a point is interpolated
WATCHED = 12  # iterations over which the pace of LOBPCG is measured
SHIFT = 1e-9  # times `operator.spread`: makes the coarse matrix regular
DENSE_FACTORS = 6000  # up to this number of cells, a coarse matrix whose factors fill up is factorised as dense
DENSE_COARSE = 500  # up to this number of cells, LAPACK solves the coarse eigenproblem


def sparse_product(A: csr_array, B: csr_array, runner: Threads) -> csr_array:
    """Return A B for sparse matrices, computed in blocks of rows.

    The indices of a row are not sorted: they come in the order in which the terms of the sum reach them.
    """
    blocks = row_blocks(A.shape[0], 64)
    parts: dict[int, csr_array] = {}

    def multiply(block: slice) -> None:
        parts[block.start] = A[block] @ B

    runner.run(multiply, blocks)
    product = vstack([parts[block.start] for block in blocks], format="csr")
    first, last = product.indptr[:-1], product.indptr[1:]
    # SciPy lists the columns of a row in reverse
    back = np.repeat(first + last - 1, last - first) - np.arange(product.nnz)
    return csr_array((product.data[back], product.indices[back], product.indptr), shape=product.shape)


def _interpolation(smoother: csr_array, labels: Array, count: int, sums: Array, runner: Threads) -> csr_array:
    """Return the interpolation (n, cells): indicators of the cells, smoothed twice.

    Each row has its ``CELLS_PER_POINT`` largest entries, scaled so that they sum to ``sums``.
    """
    n = len(labels)
    carry = csr_array((sums, labels.astype(np.int32), np.arange(n + 1)), shape=(n, count))
    for _ in range(2):
        carry = sparse_product(smoother, carry, runner)

        def cut(block: slice, carry: csr_array = carry) -> None:
            csr.largest_in_rows(carry.indptr, carry.data, CELLS_PER_POINT, sums, block.start, block.stop)

        runner.run(cut, row_blocks(n, 64))
        carry.eliminate_zeros()
    used = np.bincount(carry.indices, minlength=count) > 0
    if not used.all():  # drop cells that lost every point to larger cells
        carry = csr_array((carry.data, (np.cumsum(used) - 1)[carry.indices], carry.indptr), shape=(n, int(used.sum())))
    return carry


@dataclass(frozen=True, kw_only=True)
class TwoGrid:
    """An operator with its coarse grid."""

    operator: Operator
    single: csr_array  # the operator's matrix in single precision
    relax: Array  # (n, 1), single: the diagonal of a relaxation step
    carry: csr_array  # (n, cells): the interpolation
    mass: csc_array  # carry' carry
    coarse: csc_array  # carry' A carry
    solve: Callable[[Array], Array]  # solves with `coarse`, slightly shifted, by its factors
    pairs: tuple[Array, Array]  # coarse eigenvalues of A, smallest first, and vectors
    highest: float  # upper bound on the spectrum of relax A
    space: dict[str, Array] = field(default_factory=dict, repr=False)  # reused buffers: fresh memory is slow

    @classmethod
    def of(cls, operator: Operator, count: int) -> TwoGrid:
        """Build the coarse grid of an operator, with at most ``count`` coarse eigenpairs."""
        S, n, runner = operator.entries, operator.size, operator.runner
        assert not isinstance(S, np.ndarray)
        relax, plain = operator.relaxation(), False
        if relax is None:
            relax, plain = np.ones(n), True
        single = csr_array((S.data.astype(np.float32), S.indices, S.indptr), shape=S.shape)
        sample = np.abs(S.data[:: max(1, S.nnz // 100_000)])
        least = float(np.median(sample)) if S.nnz else 0.0
        labels, cells = csr.aggregate(S.indptr, S.indices, S.data, least)
        smoother = S if plain else _jacobi(S, operator.top, relax)
        carry = _interpolation(smoother, labels, cells, np.sqrt(operator.stationary * n), runner)
        if carry.shape[1] < 2:
            raise ConvergenceError(f"All {n} points of this graph are near each other: there is no coarser grid.", None)
        back = csr_array(carry.T)
        mass, image = sparse_product(back, carry, runner), sparse_product(S, carry, runner)
        coarse = operator.top * mass - sparse_product(back, image, runner)
        mass, coarse = (_symmetric_csc(M) for M in (mass, coarse))
        solve = _factorise(coarse, mass, SHIFT * operator.spread)
        pairs = _coarse_pairs(coarse, mass, solve, min(count, coarse.shape[0] - 1), operator.spread)
        column = relax.astype(np.float32)[:, None]
        return cls(
            operator=operator,
            single=single,
            relax=column,
            carry=carry,
            mass=mass,
            coarse=coarse,
            solve=solve,
            pairs=pairs,
            highest=highest(operator, relax[:, None]),
        )

    @cached_property
    def single_carry(self) -> csr_array:
        return csr_array((self.carry.data.astype(np.float32), self.carry.indices, self.carry.indptr), self.carry.shape)

    @cached_property
    def carry_back(self) -> csr_array:
        return csr_array(self.single_carry.T)

    @cached_property
    def _null(self) -> tuple[Array, Array]:
        """Return N, the coarse eigenvectors with eigenvalue 0, and ``mass @ N``, which projects right-hand sides."""
        values, vectors = self.pairs
        null = vectors[:, np.abs(values) < 1e-12 * self.operator.spread]
        return null, self.mass @ null

    def room(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return the buffer ``name``, with its old contents if the shape is the same."""
        if name not in self.space or self.space[name].shape != shape:
            self.space[name] = np.empty(shape, dtype)
        return self.space[name]

    def apply(self, V: Array) -> Array:
        """Return A V, in a buffer that the next call overwrites."""
        image = self.operator.matmat(V, self.room("image", V.shape, float))
        pieces = _Pieces(self.operator.runner, len(V), V.shape[1])

        def turn(at: slice) -> None:
            np.subtract(self.operator.top * V[at], image[at], out=image[at])

        pieces.each(turn)
        return image

    def precondition(self, R: Array) -> Array:
        """Return M R, M a symmetric approximation of the inverse of A: relax, correct on the coarse grid, relax.

        In single precision, in a buffer that the next call overwrites.
        """
        lacking = -R.shape[1] % 8
        if lacking:  # the compiled loops take eight columns at once
            return self.precondition(np.pad(R, ((0, 0), (0, lacking))))[:, :-lacking]
        pieces = _Pieces(self.operator.runner, *R.shape)
        first, mix, more = _chebyshev(0.3 * self.highest, self.highest)
        one, zero, gain = np.ones(len(R), np.float32), np.float32(0), more * self.relax[:, 0]

        step, X, rest = (self.room(name, R.shape, np.float32) for name in ("step", "X", "rest"))

        def smooth(R: Array, onto: Array, add: np.float32, out: Array) -> Array:
            def first_step(at: slice) -> None:
                np.multiply(self.relax[at] * first, R[at], out=step[at])

            pieces.each(first_step)
            return self._step(step, R, 1 + mix, gain, onto, add, out)

        smooth(R, R, zero, X)
        below = self._product(self.carry_back, self._step(X, R, zero, one, R, zero, rest)).astype(float)
        null, against = self._null
        lift = self.solve(below - against @ (null.T @ below)).astype(np.float32)
        self._product(self.single_carry, lift, step)

        def correct(at: slice) -> None:
            X[at] += step[at]

        pieces.each(correct)
        return smooth(self._step(X, R, zero, one, R, zero, rest), X, np.float32(1), self.room("W", R.shape, np.float32))

    def _step(
        self, V: Array, R: Array, keep: np.float32, gain: Array, onto: Array, add: np.float32, out: Array
    ) -> Array:
        """Return ``out`` = keep V + gain (R - A V) + add onto."""
        self.operator.products.count += V.shape[1]
        S, top = self.single, np.float32(self.operator.top)

        def fill(block: slice) -> None:
            csr.smooth(S.indptr, S.indices, S.data, top, V, R, keep, gain, onto, add, out, block.start, block.stop)

        self.operator.runner.run(fill, row_blocks(len(V), 16 * V.shape[1]))
        return out

    def _product(self, M: csr_array, V: Array, out: Array | None = None) -> Array:
        out = np.empty((M.shape[0], V.shape[1]), V.dtype) if out is None else out

        def fill(block: slice) -> None:
            csr.times_block(M.indptr, M.indices, M.data, V, out, block.start, block.stop)

        self.operator.runner.run(fill, row_blocks(M.shape[0], 16 * V.shape[1]))
        return out

    def start(self, known: Array, width: int) -> Array:
        """Return a starting block (n, width): interpolated coarse eigenvectors, least in the span of ``known``.

        If there are too few, smooth random columns fill the block.
        """
        vectors = self.pairs[1]
        first = self._product(self.carry, np.ascontiguousarray(vectors))
        first /= np.linalg.norm(first, axis=0)
        fresh = 1 - np.square(known.T @ first).sum(axis=0)
        order = np.argsort(-np.round(fresh, 1), kind="stable")[:width]
        first = first[:, np.sort(order[fresh[order] > 0.1])]
        lacking = width - first.shape[1]
        if lacking > 0:
            noise = np.random.default_rng(lacking).standard_normal((self.mass.shape[0], lacking))
            null, against = self._null
            noise = self.solve(noise - against @ (null.T @ noise))  # the inverse amplifies the smooth part of the noise
            noise = self._product(self.carry, np.ascontiguousarray(noise))
            first = np.hstack([first, noise / np.linalg.norm(noise, axis=0)])
        return np.ascontiguousarray(first)


def _jacobi(S: csr_array, top: float, relax: Array) -> csr_array:
    """Return I - relax (top - S), a Jacobi smoother."""
    data = S.data * np.repeat(relax, np.diff(S.indptr))
    rows = np.repeat(np.arange(S.shape[0]), np.diff(S.indptr))
    data[rows == S.indices] += 1 - relax * top
    return csr_array((data, S.indices, S.indptr), shape=S.shape)


def _symmetric_csc(M: csr_array) -> csc_array:
    M = csr_array(M)
    M.sort_indices()
    return csc_array((M.data, M.indices, M.indptr), shape=M.shape)


def _factorise(coarse: csc_array, mass: csc_array, shift: float) -> Callable[[Array], Array]:
    """Return a solver for coarse + shift mass + a small diagonal.

    The diagonal is needed because cells may be linearly dependent.
    """
    size, diagonal = coarse.shape[0], dia_array((1e-10 * coarse.diagonal()[None], [0]), shape=coarse.shape)
    lifted = csc_array(coarse + shift * mass + diagonal)
    try:
        if size <= DENSE_FACTORS and lifted.nnz > 0.02 * size**2:  # data of dimension above two: factors fill up
            factor = linalg.cho_factor(lifted.toarray(), overwrite_a=True, check_finite=False)
            cholesky: Callable[[Array], Array] = partial(linalg.cho_solve, factor, check_finite=False)
            return cholesky
        if lifted.nnz > 300 * size > 300 * DENSE_FACTORS:
            raise RuntimeError(f"{lifted.nnz / size:.0f} entries in a row")
        factors = splu(lifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except (RuntimeError, linalg.LinAlgError) as error:  # a singular matrix, in SuperLU or Cholesky
        raise ConvergenceError(f"A coarse grid of {size} cells cannot be factorised ({error}).") from error
    solve: Callable[[Array], Array] = factors.solve
    return solve


def _coarse_pairs(
    coarse: csc_array, mass: csc_array, solve: Callable[[Array], Array], count: int, spread: float
) -> tuple[Array, Array]:
    """Return ``count`` coarse eigenpairs, smallest first, orthonormal in the mass."""
    size = coarse.shape[0]
    if size <= max(DENSE_COARSE, 3 * count):
        return _dense_pairs(coarse.toarray(), mass.toarray(), count)
    inverse = LinearOperator((size, size), matvec=solve, dtype=float)
    first = np.random.default_rng(size).standard_normal(size)
    values, vectors = eigsh(coarse, k=count, M=mass, sigma=-SHIFT * spread, OPinv=inverse, v0=first, tol=1e-3)
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _dense_pairs(coarse: Array, mass: Array, count: int) -> tuple[Array, Array]:
    try:
        values, vectors = linalg.eigh(coarse, mass, subset_by_index=(0, count - 1))
        return values, vectors
    except linalg.LinAlgError:  # linearly dependent cells: leave out the null space of the mass
        sizes, directions = linalg.eigh(mass)
        kept = sizes > 1e-12 * sizes[-1]
        basis = directions[:, kept] / np.sqrt(sizes[kept])
        values, vectors = linalg.eigh(basis.T @ coarse @ basis)
        return values[:count], basis @ vectors[:, :count]


def highest(operator: Operator, relax: Array) -> float:
    """Return 1.1 times an estimate of the largest eigenvalue of relax A, by power iteration on random columns."""
    V = np.random.default_rng(0).standard_normal((operator.size, 8))
    image = np.empty(V.shape)
    for _ in range(4):
        image = operator.matmat(V, image)
        V *= operator.top
        V -= image
        V *= relax
        size = np.sqrt(np.einsum("ij,ij->j", V, V))
        V /= size
    return 1.1 * float(size.max())


def _chebyshev(low: float, high: float) -> tuple[np.float32, np.float32, np.float32]:
    """Return (first, mix, more) of two Chebyshev steps on [low, high].

    The steps are d = first r, then x = (1 + mix) d + more (r - A d).
    """
    middle, half = (high + low) / 2, (high - low) / 2
    before = half / middle
    after = 1 / (2 / before - before)
    return np.float32(1 / middle), np.float32(after * before), np.float32(2 * after / half)


@dataclass(frozen=True)
class _Pieces:
    """Rows in pieces that fit the cache; the thread pool processes the pieces, and sums are taken in order."""

    runner: Threads
    rows: int
    columns: int

    @property
    def slices(self) -> list[slice]:
        return row_blocks(self.rows, 32 * self.columns)

    def each(self, function: Callable[[slice], None]) -> None:
        self.runner.run(function, self.slices)

    def fill(self, out: Array, function: Callable[[slice], Array]) -> Array:
        """Set every piece of ``out`` to ``function(piece)``, which may read that piece, and return ``out``."""

        def fill(at: slice) -> None:
            out[at] = function(at)

        self.each(fill)
        return out

    def total(self, function: Callable[[slice], Array]) -> Array:
        parts: dict[int, Array] = {}

        def put(at: slice) -> None:
            parts[at.start] = function(at)

        self.each(put)
        total: Array = np.sum([parts[at.start] for at in self.slices], axis=0)
        return total


def smallest(
    grid: TwoGrid, known: Array, start: Array, count: int, tol: float, most: int
) -> tuple[Array, Array, Array, int]:
    """Compute the smallest ``count`` eigenpairs of A orthogonal to ``known``, in at most ``most`` iterations.

    Returns values, vectors, relative residuals and the number of iterations.
    """
    with grid.operator.runner.ticker("solving", " iterations") as bar:
        block, sizes = _Block(grid, known, start), []
        for iteration in range(most + 1):
            relative = block.relative(count)
            bar.set_postfix_str(f"residual {relative.max():.0e} of {tol:.0e}", refresh=False)
            bar.update()
            sizes.append(float(relative.max()))
            if sizes[-1] <= tol or iteration == most or _too_slow(sizes, tol, most):
                break
            block.improve()
            if iteration % 8 == 7:  # rounding accumulates in the updated products A X: compute them anew
                block = _Block(grid, known, block.X)
    return block.values[:count], block.X[:, :count], relative, iteration


def _too_slow(sizes: list[float], tol: float, most: int) -> bool:
    """Return whether the residual, at the pace of the last iterations, will not be below ``tol`` in time."""
    if len(sizes) <= WATCHED:
        return False
    pace = float(np.log(sizes[-1 - WATCHED] / max(sizes[-1], 1e-300))) / WATCHED
    return bool(np.log(sizes[-1] / tol) > 2 * max(pace, 0.0) * (most + 1 - len(sizes)))


class _Block:
    """Orthonormal X with A X, its Ritz values and residuals, and the last step P."""

    def __init__(self, grid: TwoGrid, known: Array, start: Array) -> None:
        self.grid, self.known = grid, known
        self.pieces = _Pieces(grid.operator.runner, *start.shape)
        self.X = start[:, :0]
        self.AX = self.P = self.AP = self.R = self.X
        self.values = np.empty(0)
        for _ in range(2):
            start = self._orthonormal(self._apart(start))
        self._ritz(start, start.shape[1])

    def relative(self, count: int) -> Array:
        """Return the residuals of the first ``count`` pairs, relative to their values."""
        floor = 1e-13 * self.grid.operator.spread
        return np.sqrt(self.squares[:count]) / np.maximum(np.abs(self.values[:count]), floor)

    def improve(self) -> None:
        """Rayleigh-Ritz over [X, W, P], W the preconditioned residuals."""
        self._ritz(self._apart(self.grid.precondition(self.R)), self.X.shape[1])

    def _apart(self, W: Array) -> Array:
        """Return the part of W orthogonal to ``known`` and X."""
        X, known = self.X, self.known
        along = self.pieces.total(lambda at: np.hstack([known[at], X[at]]).T @ W[at])
        split = known.shape[1]
        out = self.grid.room("apart", W.shape, float)
        return self.pieces.fill(out, lambda at: W[at] - known[at] @ along[:split] - X[at] @ along[split:])

    def _orthonormal(self, W: Array) -> Array:
        """Return an orthonormal basis of W, by its Gram matrix; directions that vanish are dropped."""
        gram = self.pieces.total(lambda at: W[at].T @ W[at])
        basis = _whitening(gram, 1e-14)
        out = self.grid.room("apart", (len(W), basis.shape[1]), float)  # the memory of W, unless a direction is dropped
        return self.pieces.fill(out, lambda at: W[at] @ basis)

    def _ritz(self, W: Array, width: int) -> None:
        """Replace X and P by the best ``width`` Ritz pairs in the span of X, W and P, and the last step.

        The Ritz problem is posed by Gram matrices of the blocks.
        """
        X, AX, P, AP, AW = self.X, self.AX, self.P, self.AP, self.grid.apply(W)
        a, b = X.shape[1], X.shape[1] + W.shape[1]
        size = b + P.shape[1]

        def products(at: slice) -> Array:
            table: Array = np.hstack([W[at], P[at]]).T @ np.hstack([X[at], W[at], P[at], AX[at], AW[at], AP[at]])
            return table

        found = self.pieces.total(products)  # rows: W, P; columns: X, W, P, A X, A W, A P
        gram, form = np.eye(size), np.zeros((size, size))
        form[:a, :a] = np.diag(self.values)
        for whole, half in ((gram, found[:, :size]), (form, found[:, size:])):
            whole[a:] = half
            whole[:a, a:] = half[:, :a].T
        basis = _whitening(gram, 1e-12)
        values, turn = linalg.eigh(_symmetric(basis.T @ form @ basis))
        turn = basis @ turn[:, :width]
        self.values, width = values[:width], turn.shape[1]
        if width != a:
            self.X, self.AX, self.R = (np.empty((len(W), width), dtype) for dtype in (float, float, np.float32))
        if P.shape[1] != width:
            self.P, self.AP = np.empty((len(W), width)), np.empty((len(W), width))
        keep, fresh = turn[:a], turn[a:]

        def update(at: slice) -> Array:  # in place: each piece is read before it is written
            step, image = np.hstack([W[at], P[at]]) @ fresh, np.hstack([AW[at], AP[at]]) @ fresh
            self.P[at], self.AP[at] = step, image
            step += X[at] @ keep
            image += AX[at] @ keep
            self.X[at], self.AX[at] = step, image
            image -= step * self.values
            self.R[at] = image
            squares: Array = np.square(image).sum(axis=0)
            return squares

        self.squares = self.pieces.total(update)
        if not a:  # in the first call there is no previous step P
            self.P = self.AP = W[:, :0]


def _whitening(gram: Array, least: float) -> Array:
    """Return Q with Q' G Q = I; directions whose relative eigenvalue is at most ``least`` are dropped."""
    length = np.sqrt(np.maximum(np.diagonal(gram), np.finfo(float).tiny))
    scale, turn = linalg.eigh(_symmetric(gram / np.outer(length, length)))
    keep = scale > least * scale[-1]
    basis: Array = turn[:, keep] / np.sqrt(scale[keep]) / length[:, None]
    return basis


def _symmetric(M: Array) -> Array:
    return (M + M.T) / 2
