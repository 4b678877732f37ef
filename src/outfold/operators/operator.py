"""The operator over the anchors, whose eigenpairs a solver computes, and the rows of points over the anchors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Matrix, Sparse
from ..graphs import components
from ..graphs.components import Components
from ..trust import Isolation
from .concerns import Concern, Importance
from .spectrum import spectral_dimension

DENSE_SOLVER_UP_TO = 1000  # anchors up to which the dense solver is chosen
LANCZOS_UP_TO = 3000  # anchors of a sparse graph up to which plain Lanczos is chosen
RELAXATIONS = 20.0  # relaxation times after which a coordinate has fading_concerns
FAR_UNITS = 1e-6, 1e6  # of the spectrum's width: within these, solvers take eigenvalues as they are
BLOCK_WIDTH = 24  # least number of vectors of subspace iteration


class Product(Protocol):
    """Weights of rows on the anchors: dense, CSR, or any object with ``@``."""

    def __matmul__(self, basis: Array, /) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The weights of points on the anchors: ``rows @ basis`` is their embedding."""

    weights: Product  # (r, n)
    log_degree: Array  # (r,), log sum_j m_j w(x, x_j)
    log_mass: Array  # (r,), the support: log_degree, or with weights that decrease with distance if w does not
    surroundings: Array | None = None  # (r, 2): isolation and distance, if the rule knows the nearest training rows
    divisor: Array | None = None  # (r, components) or (r, 1): divides the products; None: 1
    centre: Array | None = None  # (n,): subtracted from every row of weights
    measure: Array | None = None  # (n,): multiplies every row

    def __matmul__(self, basis: Array) -> Array:
        if self.measure is not None:
            basis = basis * self.measure[:, None]
        values = self.weights @ basis
        if self.centre is not None:
            values -= self.centre @ basis
        return values if self.divisor is None else values / self.divisor

    def divide(self, divisor: Array) -> Rows:
        """Return the rows divided by ``divisor`` as well."""
        return replace(self, divisor=divisor if self.divisor is None else divisor * self.divisor)


def fill_empty_rows(measured: Sparse, empty: Array, nearest: Array) -> Sparse:
    """Give empty rows one entry, at distance 0, for their nearest anchor."""
    one = csr_array((np.zeros(len(empty)), nearest, np.arange(len(empty) + 1)), shape=(len(empty), measured.shape[1]))
    return put_rows(measured, empty, one)


def put_rows(measured: Sparse, empty: Array, others: Sparse) -> Sparse:
    """Give empty rows the entries of ``others``, one row for each."""
    counts, more = np.diff(measured.indptr), np.diff(others.indptr)
    rows = np.append(np.repeat(np.arange(len(counts)), counts), np.repeat(empty, more))
    order = np.argsort(rows, kind="stable")
    counts[empty] = more
    data, columns = np.append(measured.data, others.data), np.append(measured.indices, others.indices)
    result: Sparse = csr_array((data[order], columns[order], np.append(0, np.cumsum(counts))), shape=measured.shape)
    return result


class Products:
    """A count of the products of a matrix with vectors: what an iterative solver costs."""

    def __init__(self) -> None:
        self.count = 0


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A symmetric matrix whose largest eigenpairs are wanted, with its exact trivial eigenpairs.

    The kinds below say what is particular to each. Here: the largest eigenvalue is ``top``, for the constant.
    """

    matrix: Matrix = field(repr=False)
    top: float  # the largest eigenvalue, exact (centred: an upper bound)
    spread: float  # no eigenvalue lies below top - spread (centred: below -spread)
    measure: Array  # m
    stationary: Array  # pi: eigenfunctions are orthonormal in it
    parts: Components
    runner: Threads = field(default_factory=Threads)
    smooth: Array | None = None  # (n, few): smooth functions, see `crowding`
    guess: Array | None = None  # (n, few): approximate eigenvectors, from which a solver may start
    square_root: Sparse | None = field(default=None, repr=False)  # B, if S = B B' and products through B are quicker
    products: Products = field(default_factory=Products, repr=False, compare=False)

    order: ClassVar[Array | None] = None  # of the anchors, for products that take less time; see `reorder`
    both_ends: ClassVar[bool] = False  # the eigenvalues largest in magnitude are wanted, whatever their sign
    near: ClassVar[float] = 1e-8  # eigenvalues closer than this to ``top``, relative to ``spread``, equal it
    cancellation: ClassVar[float] = 1.0  # how many times larger the kernel is than what centring leaves of it
    rounding: ClassVar[float] = 0.0  # eigenvalues of this size are rounding of the kernel from which the matrix is made
    preconditioned: ClassVar[bool] = True  # LOBPCG and shift-invert may stand in for a solver that fails

    @property
    def size(self) -> int:
        return len(self.measure)

    @property
    def sparse(self) -> bool:
        return not isinstance(self.matrix, np.ndarray)

    @property
    def unit(self) -> float:
        """A power of 4 by which eigenvalues reach about 1, as solvers expect; 1 if they are not far from it."""
        if FAR_UNITS[0] <= self.spread <= FAR_UNITS[1] or not 0 < self.spread < np.inf:
            return 1.0
        return 4.0 ** -max(min(round(float(np.log2(self.spread)) / 2), 500), -500)

    @contextmanager
    def in_units(self, unit: float) -> Iterator[Self]:
        """Give the operator times ``unit``, a power of 4. Its matrix is multiplied in place, and back at the end."""
        parts = [(self.matrix, unit)]
        if self.square_root is not None:
            parts.append((self.square_root, float(np.sqrt(unit))))
        arrays = [(M if isinstance(M, np.ndarray) else M.data, factor) for M, factor in parts]
        try:
            for values, factor in arrays:
                values *= factor
            yield self._times_unit(unit)
        finally:
            for values, factor in arrays:
                values /= factor

    def _times_unit(self, unit: float) -> Self:
        return replace(self, top=self.top * unit, spread=self.spread * unit)

    def matmat(self, V: Array, out: Array | None = None) -> Array:
        """Return S V, in ``out`` if there is one (fresh memory costs as much as a product)."""
        self.products.count += V.shape[1]
        if self.square_root is None:
            return self._times(self.matrix, V, out)
        return self._times(self.square_root, self._times(self._transposed_root, V), out)

    def factors(self) -> tuple[Sparse, ...]:
        """Return the sparse matrix S, or the two that are multiplied by for it, in their order; none if S is dense."""
        if self.square_root is not None:
            return self._transposed_root, self.square_root
        return () if isinstance(self.matrix, np.ndarray) else (self.matrix,)

    @cached_property
    def _transposed_root(self) -> Sparse:
        B = self.square_root
        assert B is not None
        transposed: Sparse = csr_array((B.data, B.indices, B.indptr), shape=B.shape).T.tocsr()
        return transposed

    def _times(self, M: Matrix, V: Array, out: Array | None = None) -> Array:
        product = np.empty((M.shape[0], V.shape[1])) if out is None else out
        if isinstance(M, np.ndarray):
            np.matmul(M, V, out=product)
            return product
        if V.shape[1] == 1:
            product[:] = M @ V
            return product
        V = np.ascontiguousarray(V)

        def fill(block: slice) -> None:
            csr.times_block(M.indptr, M.indices, M.data, V, product, block.start, block.stop)

        self.runner.run(fill, row_blocks(len(product), 16 * V.shape[1]))
        return product

    def reorder(self) -> Operator:
        """Return the same operator of the anchors in ``order``."""
        raise AssertionError("this operator has no other order")

    @property
    def entries(self) -> Matrix:
        """The matrix with its entries, for what does not go by products."""
        return self.matrix

    def diagonal(self) -> Array:
        return self.matrix.diagonal()

    def trace(self) -> float:
        """Return the trace if it says something of the fit, else NaN."""
        return float("nan")

    def trivial(self, most: int) -> Array:
        """Return orthonormal eigenvectors of ``top``, at most ``most``: the constant, then component contrasts."""
        result: Array = self.parts.contrasts(most) * np.sqrt(self.stationary / self.stationary.sum())[:, None]
        return result

    def functions(self, vectors: Array) -> Array:
        """Return eigenvectors of the symmetric matrix as functions, orthonormal in ``stationary``."""
        functions: Array = vectors / np.sqrt(self.stationary)[:, None]
        return functions

    def distance(self, values: Array) -> Array:
        """Return the distance of each eigenvalue from the trivial one, to which residuals are relative."""
        distance: Array = self.top - values
        return distance

    def trivial_among(self, values: Array) -> int:
        """Return how many of the eigenvalues equal the trivial one up to rounding."""
        return int((self.top - values <= self.near * self.spread).sum())

    def slack(self, last: float) -> float:
        """Return how far a missed eigenvalue may lie above ``last``, the smallest computed one, without being added."""
        return 1e-10 * self.spread + 1e-2 * float(self.top - last)

    def nearly_separate(self) -> Components | None:
        """Return the parts that only edges of rounding size connect; None if there are no more than ``parts``."""
        return None

    def relaxation(self) -> Array | None:
        """Return the step of a Jacobi smoother for each anchor; None: 1."""
        return None

    def solver_choice(self, large: bool, told: str) -> tuple[str, str] | None:
        """Return the solver that this kind needs beyond dense sizes, and why; None: any that suits the spectrum.

        ``large``: there are more anchors than plain Lanczos takes. ``told``: the size in words.
        """
        return None

    @property
    def smaller_side(self) -> SmallerSide | None:
        """Return the eigenproblem of B'B, if the operator is B B' and B has fewer columns than rows."""
        return None

    def crowding(self) -> float:
        """Return an upper bound on the distance of the next eigenvalue from ``top``.

        It is the least Rayleigh quotient of ``top`` - matrix over the functions ``smooth``.
        """
        if self.smooth is None:
            return self.spread
        root = np.sqrt(self.stationary)[:, None]
        V = (self.smooth - self.stationary @ self.smooth) * root
        V = V[:, np.linalg.norm(V, axis=0) > 0]
        return float((self.top - (V * self.matmat(V)).sum(axis=0) / (V * V).sum(axis=0)).min(initial=self.spread))


class SmallerSide(NamedTuple):
    """The operator B'B in the place of B B', and the way between their eigenvectors."""

    operator: Operator
    there: Callable[[Array], Array]  # B' times vectors
    back: Callable[[Array], Array]  # B times vectors


@dataclass(frozen=True, kw_only=True)
class MarkovOperator(Operator):
    """The symmetric conjugate of a Markov matrix: largest eigenvalue 1, for the constant."""

    top: float = 1.0
    spread: float = 2.0
    gain: Array  # factor of the affinity to each anchor in a row
    mass: Array  # q = W m
    total: float = 1.0  # sum m d, so that m d / total is ``stationary``
    pace: Array | None = None  # 1 - probability of staying, per anchor; None if no anchor waits
    # The weight of one copy of the anchor in its row, relative to the degree; None: the walk may stay where it is.
    own: Array | None = None

    def trace(self) -> float:
        return float(self.diagonal().sum())

    def nearly_separate(self) -> Components | None:
        linked = links(self.matrix, 1e-13)
        if linked is self.matrix:  # no edge is below 1e-13
            return None
        parts = components.find(linked, self.stationary)
        return None if parts.count == self.parts.count else parts

    def relaxation(self) -> Array | None:
        return None if self.pace is None else 1 / self.pace


@dataclass(frozen=True, kw_only=True)
class LaplacianOperator(Operator):
    """Minus an unnormalised Laplacian, made symmetric by the measure: largest eigenvalue 0, for the constant."""

    top: float = 0.0
    degree: Array  # d = W m

    def _times_unit(self, unit: float) -> Self:
        return replace(super()._times_unit(unit), degree=self.degree * unit)

    def relaxation(self) -> Array | None:
        return 1 / self.degree

    def solver_choice(self, large: bool, told: str) -> tuple[str, str] | None:
        if self.sparse and large:
            return "lobpcg", f"the small end of an unnormalised Laplacian, sparse and n = {self.size}"
        return "shift_invert", "the small end of an unnormalised Laplacian is found by its inverse"


@dataclass(frozen=True, kw_only=True)
class ResidualOperator(Operator):
    """-(I - W)' diag(m) (I - W), made symmetric by the measure: largest eigenvalue 0, for the constant."""

    matrix: Sparse = field(repr=False)
    top: float = 0.0
    near: ClassVar[float] = 64 * np.finfo(float).eps  # eigenvalues are squares, so small ones may be far from zero
    preconditioned: ClassVar[bool] = False

    def slack(self, last: float) -> float:
        return 1e-13 * self.spread + 1e-2 * float(-last)

    def solver_choice(self, large: bool, told: str) -> tuple[str, str] | None:
        return ("residual", f"the small end of a residual, sparse and n = {self.size}") if self.sparse else None


@dataclass(frozen=True, kw_only=True)
class CentredOperator(Operator):
    """A centred kernel: any eigenvalues; the constant has 0 and is not wanted."""

    centre: Array  # column means of the kernel
    both_ends: bool = False  # type: ignore[misc]  # a field here, a constant of the other kinds
    rounding: float = 0.0  # type: ignore[misc]
    cancellation: float = 1.0  # type: ignore[misc]
    preconditioned: ClassVar[bool] = False

    def _times_unit(self, unit: float) -> Self:
        return replace(super()._times_unit(unit), rounding=self.rounding * unit)

    def trivial(self, most: int) -> Array:
        return np.empty((self.size, 0))

    def functions(self, vectors: Array) -> Array:
        functions = super().functions(vectors)
        # Make the mean exactly 0: rows may have large means, which must cancel.
        functions -= self.stationary @ functions / self.stationary.sum()
        return functions

    def distance(self, values: Array) -> Array:
        return np.abs(values)

    def trivial_among(self, values: Array) -> int:
        return 1

    def slack(self, last: float) -> float:
        return 1e-6 * float(abs(last))

    def solver_choice(self, large: bool, told: str) -> tuple[str, str] | None:
        return "krylov", f"a dense kernel of {told}"


# -- from eigenpairs to a model --------------------------------------------------------------


class RowRule(Protocol):
    """How any point sees the anchors: its row over them, from kernel and normalisation. Frozen, stored in models."""

    if TYPE_CHECKING:  # a field or a property; at run time a dataclass would take a property for the field's default

        @property
        def row_entries(self) -> int:
            """About how many entries a row has, which sets the size of blocks."""

    def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:
        """Return the rows of the points; ``measured``: their squared distances to anchors, if they are known."""
        ...

    def nearest(self, Z: Array) -> Array:
        """Return the index of the nearest anchor of each row."""
        ...

    def at_nearest(self, Z: Array) -> Rows:
        """Return the rows of the anchors that are nearest to the points, if anchors are embedded by their rows."""
        raise AssertionError("the embedding of these anchors is basis * scale")

    def arrange(self, Z: Array, runner: Threads) -> Array | None:
        """Return an order of the points in which their rows are found faster; None: any."""
        return None

    def sees_nothing(self, Z: Array) -> Array | None:
        """Return which rows of a precomputed matrix have no entry; None: every row has some, or rows are features."""
        return None

    @property
    def roots(self) -> Array | None:
        """Factors of basis * scale at the anchors, (n,); None: 1."""
        return None

    @property
    def training_rows(self) -> tuple[Isolation, Array] | None:
        """The isolation of the training rows and a sample of them, if ``rows`` has that of any row; None: it has not.

        Rows of a precomputed matrix have no sample: it is empty then.
        """
        return None

    def at(self, eigenvalues: Array) -> RowRule:
        """Return the rule for these eigenvalues, if it depends on them."""
        return self

    def markov_chain(self) -> MarkovChain | None:
        """Return the Markov chain to which the rows belong; None: they are not steps of one."""
        return None


@dataclass(frozen=True, kw_only=True)
class MarkovChain:
    """A Markov chain whose next place from any row x is an anchor: (P f)(x) = row(x) back f."""

    rule: RowRule
    anchors: Array
    measure: Array  # m of the anchors
    stationary: Array | None  # pi of the anchors
    back: Sparse | None = None  # from functions on the anchors to what the rows multiply; None: the same

    def pull_back(self, functions: Array) -> Array:
        """Return back f."""
        pulled: Array = functions if self.back is None else self.back @ functions
        return pulled


class Normalization:
    """From the eigenpairs of an operator to eigenvalues, basis and selection; the defaults fit most methods."""

    skip: ClassVar[int] = 1  # trivial eigenpairs that are not coordinates
    of_all_rows: ClassVar[bool] = False  # the operator is that of all rows, landmarks or not

    @property
    def unit_columns(self) -> bool:
        """Whether coordinates have length 1 over the anchors, so that they shrink as rows are added."""
        return False

    def of_operator(self, operator: Operator) -> Normalization:
        """Return the normalisation with what it must know of its operator, to say how rounding grows."""
        return self

    def basis(self, functions: Array, eigenvalues: Array) -> Array:
        """Return the basis: ``row(x) @ basis`` is the embedding of x."""
        raise AssertionError("a normalisation says what its basis is")

    def basis_of(self, functions: Array, vectors: Array, eigenvalues: Array) -> Array:
        """Return the basis from the eigenvectors of the operator and the same as functions on the anchors."""
        return self.basis(functions, eigenvalues)

    def eigenvalues(self, operator_values: Array) -> Array:
        """Return eigenvalues of the method from those of the operator."""
        return operator_values

    def scale(self, eigenvalues: Array) -> Array | None:
        """Return the factors that turn the basis into the embedding of the anchors; None: their own rows do that."""
        return np.ones(len(eigenvalues))

    @property
    def looked(self) -> int:
        """Eigenpairs among which n_components="auto" counts the new directions; 0: the eigenvalues alone decide."""
        return 0

    def dimension(self, operator: Operator, values: Array) -> int | None:
        """Return how many of the non-trivial eigenvalues to select at most; None: all of these, or more."""
        return spectral_dimension(values)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        """Return ``kept``. Raise ValueError if an eigenvalue is rounding (``clip``: left out)."""
        return kept

    def amplification(self, values: Array) -> float:
        """Return the factor by which the row rule magnifies rounding."""
        return 1.0

    def concerns(self, eigenvalues: Array) -> list[Concern]:
        """Return warnings about coordinates that come from the eigenvalues alone."""
        return []

    def negative_mass(self, operator: Operator, values: Array, vectors: Array) -> float:
        """Return the negative part of sum |lambda|."""
        return 0.0

    def relative_gaps(self, distance: Array, kept: Array) -> tuple[float, ...]:
        """Return | d_next - d | / min(d_next, d) after each pair in ``kept``; none if coordinates are not eigenvectors.

        d is the distance of an eigenvalue from the trivial one.
        """
        following = np.append(np.maximum(distance, 0.0), np.nan)[kept + 1]
        own = np.maximum(distance[kept], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = np.abs(following - own) / np.minimum(following, own)
        gaps[(own == 0) & (following == 0)] = 0.0  # contrasts between components
        return tuple(float(gap) for gap in gaps)


def fading_concerns(eigenvalues: Array, power: float) -> list[Concern]:
    """Return a warning if nothing is left of the first coordinate, lambda^power psi, else nothing."""
    first = float(np.abs(eigenvalues).max())
    if first == 0 or power * np.log(first) > -RELAXATIONS:
        return []
    with np.errstate(under="ignore"):
        text = (
            f"Coordinates are lambda^{power:g} psi, which leaves {first**power:.1e} of the first, whose eigenvalue is "
            f"{first:.3g}: the walk has forgotten where it began. Lower t, to about {-1 / np.log(first):.2g}."
        )
    return [Concern(Importance.WIDTH, text)]


def not_rounding(
    values: Array, kept: Array, operator: Operator, asked: str, clip: bool, skip: int, hint: str = ""
) -> Array:
    """Return ``kept`` without pairs beyond the rank if ``clip``; else raise ValueError if there are such pairs."""
    norm = max(float(np.abs(values).max()), operator.spread / (2 * np.sqrt(operator.size)))  # at most the operator norm
    tiny = max(operator.size * np.finfo(float).eps * norm, operator.rounding)
    beyond = np.abs(values[kept]) <= tiny
    if not beyond.any():
        return kept
    if clip and not beyond.all():
        result: Array = kept[~beyond]
        return result
    rank = int((np.abs(values) > tiny).sum()) - skip
    raise ValueError(
        f"n_components={asked}: that is beyond the rank of the kernel, only {rank} non-trivial eigenvalues exceed "
        f"rounding ({tiny:.1e}). The data may hold few distinct points, or "
        + (hint or f"epsilon may be too large. Ask for at most {rank} components or lower epsilon.")
    )


def least_link(n: int) -> float:
    """Return the entry below which an edge of a graph of n nodes changes eigenvalues by rounding at most."""
    return float(np.finfo(float).eps) / n


def links(S: Matrix, least: float | None = None) -> Matrix:
    """Return the edges above ``least`` (None: eps / n, as smaller ones change eigenvalues by rounding at most)."""
    cut = least_link(S.shape[0]) if least is None else least
    if isinstance(S, np.ndarray):
        edges: Array = cut < S
        return edges
    keep = S.data > cut
    if keep.all():
        return S
    counts = np.add.reduceat(np.append(keep, False), S.indptr[:-1]) * (np.diff(S.indptr) > 0)
    result: Matrix = csr_array((S.data[keep], S.indices[keep], np.append(0, np.cumsum(counts))), shape=S.shape)
    return result


def scale_both_sides(W: Matrix, factor: Array) -> None:
    """Multiply W_ij by factor_i factor_j, in place."""
    if isinstance(W, np.ndarray):
        W *= factor[:, None]
        W *= factor
    else:
        for rows in row_blocks(W.shape[0], 64):
            part = slice(W.indptr[rows.start], W.indptr[rows.stop])
            W.data[part] *= np.repeat(factor[rows], np.diff(W.indptr[rows.start : rows.stop + 1]))
            W.data[part] *= factor[W.indices[part]]


def add_to_diagonal(W: Matrix, values: Array) -> None:
    """Add ``values`` to the diagonal, in place; W must store every entry of its diagonal."""
    if isinstance(W, np.ndarray):
        W[np.diag_indices_from(W)] += values
    else:
        rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
        W.data[rows == W.indices] += values
