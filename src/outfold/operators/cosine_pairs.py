"""All pairs of rows by the cosine between them, without a table of pairs: W = U U', U the rows scaled to length 1.

    q = U (U'm),    g = U'(m q^-alpha),    d = q^-alpha U g,    B = diag(sqrt(m / d) q^-alpha) U,    S = B B'
    p(x, .) f = u(x) U'(m q^-alpha f) / u(x) g

S is the symmetric conjugate of the Markov operator. A product with it takes time and memory linear in the stored
entries. Its eigenvectors follow from those of B'B, features x features: B'B g = g, and an eigenvector v of B'B with
eigenvalue lambda is psi(x) = sqrt(total / lambda) u(x) v / u(x) g with total = |g|^2 = sum m d. So a model stores
tables of features x components, and no row of the operator. Entries must not be negative: then no weight is, and q
and d are positive.

Rows that are not in memory are read in passes (U'm; g; B'B). B'B is one table, if it fits, else a pass gives its
product with a block of vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._loops import csr
from .._runtime.memory import check_fits, free_memory
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import POSITIVE, SPARSE_ROWS, Array, Axes
from ..data.sources import Answer, InMemory, Join, Look, Source
from ..data.sparse_rows import SparseRows
from ..graphs.components import Components
from ..landmarks import Anchors, AtMost
from ..trust import LOG_FLOOR, REFERENCE_ROWS, Reference
from .affinity_graph import largest_component
from .concerns import Concern, Importance, contrasts_only
from .costs import FLOPS, PRODUCT, Case, Cost, Stage
from .expansion import EigenPairs, Expansion
from .markov import LooplessMarkov, Markov, copy_weight, guard_poles
from .operator import DENSE_SOLVER_UP_TO, MarkovOperator, Operator, RowRule, Rows, SmallerSide, not_rounding
from .problem import BuiltProblem, Eigenproblem, Facts, magnified_rounding

LENGTHS = 1e-150, 1e150  # between these, squares of lengths neither overflow nor lose digits
PIECES = 8  # of the rows, each with a table of its own that is summed afterwards
LEAST_OTHERS = 1e-10  # mass of all others, below which a row stays its own neighbour without the diagonal
GRAM_SHARE = 0.25  # of the free memory, that tables of features x features may take in a pass
GRAM_UP_TO = 8000  # features
DRAW_SEED = 0  # of the rows that a model stores


# -- rows of length 1 ------------------------------------------------------------------------


def unit_rows(points: Array) -> Array:
    """Return the rows scaled to length 1; rows of zeros stay. Raise ValueError for negative entries."""
    refuse_negative(stored_values(points))
    lengths = np.sqrt(_squares(points))
    odd = np.flatnonzero(~((lengths > LENGTHS[0]) & (lengths < LENGTHS[1])))
    if len(odd):  # rows of zeros, or of numbers whose squares are beyond floating point
        points = points.copy()
        _scale(points, odd)
        lengths[odd] = np.sqrt(_squares(points[odd]))
    factor = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return _times_rows(points, factor)


def stored_values(points: Array) -> Array:
    """Return the entries that are stored."""
    values: Array = points.data if isinstance(points, SparseRows) else points
    return values


def _times_rows(points: Array, factor: Array) -> Array:
    """Return diag(factor) points."""
    if isinstance(points, SparseRows):
        data = points.data * np.repeat(factor, np.diff(points.indptr))
        return SparseRows((data, points.indices, points.indptr), shape=points.shape)
    scaled: Array = points * factor[:, None]
    return scaled


def refuse_negative(values: Array) -> None:
    """Raise ValueError if an entry is negative."""
    if values.size and values.min() < 0:
        raise ValueError(
            f"Negative values in data: kernel='cosine' needs entries >= 0, and {int((values < 0).sum())} are negative, "
            f"down to {values.min():.3g}: cosines of such rows may be negative, and a walk has no negative "
            "probabilities. Leave out centring or standardising, or keep nearest neighbours by the angle: "
            "metric='cosine' with kernel='adaptive' takes any sign."
        )


def _squares(points: Array) -> Array:
    """Return the sum of squares of each row."""
    if not isinstance(points, SparseRows):
        dense: Array = np.einsum("ij,ij->i", points, points)
        return dense
    sums: Array = np.add.reduceat(np.append(np.square(points.data), 0.0), points.indptr[:-1])
    sums[np.diff(points.indptr) == 0] = 0.0
    return sums


def _empty(U: Array) -> Array:
    """Return the numbers of the rows that hold only zeros."""
    return np.flatnonzero(~(_squares(U) > 0))


def _scale(points: Array, rows: Array) -> None:
    """Divide some rows by their largest entry, in place."""
    for row in rows:
        part = (
            points.data[points.indptr[row] : points.indptr[row + 1]] if isinstance(points, SparseRows) else points[row]
        )
        largest = part.max(initial=0.0)
        if largest > 0:
            part /= largest


def _multiply(U: Array, V: Array, runner: Threads) -> Array:
    """Return U V."""
    product: Array
    if not isinstance(U, SparseRows) or V.ndim == 1:
        product = U @ V
        return product
    product, V = np.empty((len(U), V.shape[1])), np.ascontiguousarray(V)

    def fill(block: slice) -> None:
        csr.times_block(U.indptr, U.indices, U.data, V, product, block.start, block.stop)

    runner.run(fill, row_blocks(len(U), 16 * V.shape[1]))
    return product


@dataclass(frozen=True)
class GramProduct:
    """Products with U' diag(weights) U. The rows are cut into pieces that depend on their number alone."""

    pieces: list[Any]  # rows of U that share its memory
    weights: list[Array]
    runner: Threads

    @classmethod
    def of(cls, U: Array, weights: Array, runner: Threads) -> GramProduct:
        step = max(1024, -(-len(U) // PIECES))
        blocks = [slice(start, min(start + step, len(U))) for start in range(0, len(U), step)]
        return cls([_view(U, block) for block in blocks], [weights[block] for block in blocks], runner)

    def __call__(self, V: Array) -> Array:
        V = np.ascontiguousarray(V)
        sums = np.zeros((len(self.pieces), *V.shape))

        def fill(block: slice) -> None:
            part, weights = self.pieces[block.start], self.weights[block.start]
            sums[block.start] = part.T @ (weights[:, None] * (part @ V))

        self.runner.run(fill, [slice(at, at + 1) for at in range(len(self.pieces))])
        total: Array = sums.sum(axis=0)
        return total


def _view(U: Array, block: slice) -> Array | csr_array:
    """Return some of the rows, in the same memory."""
    if not isinstance(U, SparseRows):
        return U[block]
    a, b = U.indptr[block.start], U.indptr[block.stop]
    rows = U.data[a:b], U.indices[a:b], U.indptr[block.start : block.stop + 1] - a
    return csr_array(rows, shape=(block.stop - block.start, U.shape[1]))


# -- the row of any point --------------------------------------------------------------------


class UnitRows(NamedTuple):
    """Rows of length 1 over the features; those of ``lost`` are ``instead``."""

    rows: Array
    lost: Array
    instead: Array

    def __matmul__(self, basis: Array) -> Array:
        values: Array = self.rows @ basis
        if len(self.lost):
            values[self.lost] = self.instead @ basis
        return values


@dataclass(frozen=True, kw_only=True)
class CosineRule(RowRule):
    """psi(x) = u(x) U'(m q^-alpha psi) / (lambda u(x) g), u(x) = x / |x|: a row over the features.

    Without the diagonal the divisor is u(x) g (lambda + (1 - lambda) s(x)), see LooplessRule. A row that has no feature
    in common with the training rows is their mean direction, with support -inf.
    """

    mass: Annotated[Array, Axes("d")]  # U'm: u(x) @ mass is q(x)
    degree: Annotated[Array, Axes("b")]  # g
    anchors: Annotated[Array, Axes("m d"), SPARSE_ROWS]  # training rows, at most REFERENCE_ROWS
    alpha: float
    total: Annotated[float, POSITIVE]  # sum m d
    canonical: bool
    eigenvalues: Annotated[Array, Axes("c")]
    copy: float = 0.0  # weight of the copy that a row leaves out; 0: none
    least_mass: float = 0.0  # the smallest q of the training rows

    @property
    def row_entries(self) -> int:
        return len(self.degree)

    @cached_property
    def _units(self) -> Array:
        return unit_rows(self.anchors)

    def nearest(self, Z: Array) -> Array:
        cosines = unit_rows(Z) @ self._units.T
        at: Array = np.asarray(cosines.argmax(axis=1)).ravel()
        return at

    def at_nearest(self, Z: Array) -> Rows:
        return self.rows(self.anchors[self.nearest(Z)])

    def at(self, eigenvalues: Array) -> CosineRule:
        return replace(self, eigenvalues=eigenvalues)

    def rows(self, Z: Array, measured: object = None) -> Rows:
        U = unit_rows(Z)
        q, degree = U @ self.mass, U @ self.degree
        lost = np.flatnonzero(~(degree > 0))
        mean = self.mass / np.linalg.norm(self.mass)
        q[lost], degree[lost] = mean @ self.mass, mean @ self.degree
        log_mass = np.log(q)
        log_mass[lost] = -np.inf
        others = q if not self.copy else np.maximum(q - self.copy, self.least_mass / 2)
        divisor = degree[:, None]
        own = np.zeros(len(q))
        if self.copy:
            own = np.minimum(self.copy * others**-self.alpha / degree, 1.0)
            divisor = divisor * guard_poles(self.eigenvalues + np.multiply.outer(own, 1 - self.eigenvalues))
        if self.canonical:
            root = np.sqrt(degree * np.maximum(1 - own, LEAST_OTHERS) * others**-self.alpha / self.total)
            divisor = divisor / root[:, None]
        return Rows(weights=UnitRows(U, lost, mean), log_degree=log_mass, log_mass=log_mass, divisor=divisor)


# -- the operator ----------------------------------------------------------------------------


class Implicit(NamedTuple):
    """A symmetric matrix of which products are known."""

    shape: tuple[int, int]
    product: Callable[[Array], Array]

    def toarray(self) -> Array:
        """Return the matrix as a table."""
        n = self.shape[0]
        check_fits(16.0 * n * n, f"A table of {n} x {n} entries for solver='dense' needs", "Ask for fewer components.")
        return self.product(np.eye(n))


@dataclass(frozen=True, kw_only=True)
class CosineOperator(MarkovOperator):
    """S = diag(factor) U U' diag(factor) - diag(left_out)."""

    matrix: Any = field(repr=False)
    rows: Array = field(repr=False)  # U
    factor: Array  # sqrt(m / d) q^-alpha
    left_out: Array | None  # entries of the diagonal that are left out; None: the diagonal is in
    labels: Array  # component of each feature
    degrees: Array  # g

    preconditioned: ClassVar[bool] = False

    @property
    def sparse(self) -> bool:
        return False

    def matmat(self, V: Array, out: Array | None = None) -> Array:
        self.products.count += V.shape[1]
        image: Array = self.factor[:, None] * _multiply(self.rows, self._there(V), self.runner)
        if self.left_out is not None:
            image -= self.left_out[:, None] * V
        return image

    def _there(self, V: Array) -> Array:
        images: Array = self.rows.T @ (self.factor[:, None] * V)
        return images

    def _back(self, V: Array) -> Array:
        back: Array = self.factor[:, None] * _multiply(self.rows, V, self.runner)
        return back

    def diagonal(self) -> Array:
        own = np.square(self.factor)
        return own if self.left_out is None else own - self.left_out

    def nearly_separate(self) -> None:
        """Return None: the solvers chosen here miss no copy of an eigenvalue."""
        return None

    def solver_choice(self, large: bool, told: str) -> tuple[str, str] | None:
        if self.smaller_side is not None:
            return "smaller_side", f"products through {self.rows.shape[1]} features, {told}"
        return "krylov", f"products through {self.rows.shape[1]} features, {told}"

    def slack(self, last: float) -> float:
        return 1e-10 + 1e-2 * abs(last)

    @cached_property
    def smaller_side(self) -> SmallerSide | None:
        if self.left_out is not None or self.rows.shape[1] >= len(self.rows):
            return None
        features = self.rows.shape[1]
        product = GramProduct.of(self.rows, np.square(self.factor), self.runner)
        inner = FeatureOperator(
            matrix=Implicit((features, features), product),
            measure=self.measure,
            stationary=self.stationary,
            parts=self.parts,
            runner=self.runner,
            gain=self.gain,
            mass=self.mass,
            total=self.total,
            constant=self.degrees / np.linalg.norm(self.degrees),
            labels=self.labels,
            readout=None,
            whole_trace=self.trace(),
        )
        return SmallerSide(inner, self._there, self._back)


@dataclass(frozen=True, kw_only=True)
class FeatureOperator(MarkovOperator):
    """B'B. Its functions are those at the anchors, which may be a sample of the rows."""

    matrix: Any = field(repr=False)
    constant: Array  # g / |g|
    labels: Array  # component of each feature
    readout: Array | None  # rows of the anchors: sqrt(total) u / u g
    whole_trace: float

    preconditioned: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return len(self.constant)

    @property
    def sparse(self) -> bool:
        return False

    def matmat(self, V: Array, out: Array | None = None) -> Array:
        self.products.count += V.shape[1]
        product: Array = self.matrix @ V if isinstance(self.matrix, np.ndarray) else self.matrix.product(V)
        return product

    def trace(self) -> float:
        return self.whole_trace

    def trivial(self, most: int) -> Array:
        result: Array = replace(self.parts, labels=self.labels).contrasts(most) * self.constant[:, None]
        return result

    def functions(self, vectors: Array) -> Array:
        values = np.maximum((vectors * self.matmat(vectors)).sum(axis=0), np.finfo(float).tiny)
        assert self.readout is not None
        functions: Array = self.readout @ vectors / np.sqrt(values)
        return functions

    def nearly_separate(self) -> None:
        """Return None: the solver chosen here misses no copy of an eigenvalue."""
        return None

    def solver_choice(self, large: bool, told: str) -> tuple[str, str] | None:
        return "krylov", f"features x features, {told}"


@dataclass(frozen=True, kw_only=True)
class CosineMarkov(Markov):
    """``Markov`` with a basis over the features."""

    of_all_rows: bool = False  # type: ignore[misc]  # a field here, a constant of the other normalisations
    rows: Array | None = None  # U; None: eigenvectors are those of B'B
    gain: Array | None = None  # m q^-alpha
    total: float = 1.0
    own: Array | None = None  # without the diagonal: the share of a copy of each row in its row

    def basis_of(self, functions: Array, vectors: Array, eigenvalues: Array) -> Array:
        basis: Array
        if self.rows is None:
            basis = vectors * eigenvalues ** (self.power - 0.5) * np.sqrt(self.total)
            return basis
        assert self.gain is not None
        basis = self.rows.T @ (self.gain[:, None] * functions)
        return basis * eigenvalues ** (self.power - (1 if self.diagonal else 0))

    def scale(self, eigenvalues: Array) -> None:  # type: ignore[override]
        """Return None: the embedding of a row comes from its features."""
        return None

    def amplification(self, values: Array) -> float:
        if self.own is None:
            return super().amplification(values)
        return LooplessMarkov(self.alpha, self.power, self.canonical, False, self.own).amplification(values)

    def within_rank(self, values: Array, kept: Array, operator: Operator, asked: str, clip: bool) -> Array:
        hint = "few directions. Ask for fewer components."
        kept = not_rounding(values, kept, operator, asked, clip, skip=1, hint=hint)
        return super().within_rank(values, kept, operator, asked, clip)


# -- passes over the rows --------------------------------------------------------------------


class MassSums(NamedTuple):
    """The sums of the first pass."""

    mass: Array  # U'm
    empty: int  # number of rows of zeros
    first: int  # the first of them; -1: there is none
    labels: Array  # a feature of the same component, for each feature


@dataclass(frozen=True)
class MassLook:
    """U'm, rows of zeros, and which features are connected."""

    def __call__(self, points: Array, measure: Array, start: int) -> MassSums:
        points, measure, index = _count_places(points, measure)
        U = unit_rows(points)
        empty = _empty(U)
        first = int(start + index[empty[0]]) if len(empty) else -1
        return MassSums(U.T @ measure, len(empty), first, feature_labels(U))

    @staticmethod
    def join(earlier: MassSums, later: MassSums) -> MassSums:
        features = len(earlier.mass)
        pairs = np.column_stack([earlier.labels, later.labels]).astype(np.int64)
        each = np.column_stack([np.arange(features), pairs]).ravel()
        return MassSums(
            earlier.mass + later.mass,
            earlier.empty + later.empty,
            earlier.first if earlier.first >= 0 else later.first,
            csr.label_columns(np.arange(0, 3 * features + 1, 3), each, features),
        )


@dataclass(frozen=True)
class DegreeLook:
    """U'(m q^-alpha)."""

    mass: Array
    alpha: float

    def __call__(self, points: Array, measure: Array, start: int) -> Array:
        points, measure, _ = _count_places(points, measure)
        U = unit_rows(points)
        sums: Array = U.T @ (measure * (U @ self.mass) ** -self.alpha)
        return sums


@dataclass(frozen=True)
class GramLook:
    """B'B V and the trace of B'B; V = None: the identity."""

    mass: Array
    degrees: Array
    alpha: float
    V: Array | None = None

    def __call__(self, points: Array, measure: Array, start: int) -> tuple[Array, float]:
        points, measure, _ = _count_places(points, measure)
        U = unit_rows(points)
        weight = measure * (U @ self.mass) ** -self.alpha / (U @ self.degrees)
        if self.V is not None:
            return GramProduct.of(U, weight, Threads(1))(self.V), float(weight.sum())
        if not isinstance(U, SparseRows):
            return U.T @ (weight[:, None] * U), float(weight.sum())
        out = np.zeros((U.shape[1], U.shape[1]))
        for block in row_blocks(len(U), 8 * U.shape[1]):  # a few rows as a table
            part = U[block]
            out += part.T @ (weight[block, None] * part.toarray())
        return out, float(weight.sum())

    @staticmethod
    def join(earlier: tuple[Array, float], later: tuple[Array, float]) -> tuple[Array, float]:
        return earlier[0] + later[0], earlier[1] + later[1]


def _add(earlier: Array, later: Array) -> Array:
    total: Array = earlier + later
    return total


def _count_places(points: Array, measure: Array) -> tuple[Array, Array, Array]:
    """Return the rows with a positive weight, their weights and their numbers."""
    index = np.flatnonzero(np.asarray(measure) > 0)
    if len(index) == len(points):
        return points, np.asarray(measure), index
    return points[index], measure[index], index


def feature_labels(U: Array) -> Array:
    """Return a feature of the same component for each feature; a row connects the features that are not 0 in it."""
    features = U.shape[1]
    if not isinstance(U, SparseRows) and (U > 0).all(axis=1).any():
        return np.zeros(features, dtype=np.int64)
    stored = U if isinstance(U, SparseRows) else SparseRows(U)
    labels: Array = csr.label_columns(stored.indptr, stored.indices, features)
    return labels


def feature_parts(labels: Array, degrees: Array) -> tuple[Array, Array]:
    """Return the number of the component of each feature, and the mass of each component, the heaviest first."""
    held = np.bincount(labels, weights=np.square(degrees), minlength=len(labels))
    order = np.argsort(-held, kind="stable")
    count = max(1, int((held > 0).sum()))
    rank = np.zeros(len(labels), dtype=np.int64)
    rank[order[:count]] = np.arange(count)
    masses = held[order[:count]]
    return rank[labels], masses / masses.sum()


def label_rows(U: Array, labels: Array) -> Array:
    """Return the component of each row: that of its first feature that is not 0."""
    if isinstance(U, SparseRows):
        first: Array = U.indices[np.minimum(U.indptr[:-1], max(0, len(U.indices) - 1))]
        return labels[first]
    result: Array = labels[(U > 0).argmax(axis=1)]
    return result


# -- the eigenproblem ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CosinePairs(Eigenproblem):
    """``kernel="cosine"``: the operator of all pairs of anchors."""

    normalization: Markov
    components: str = "warn"
    every: bool = True  # all rows are anchors

    @property
    def streams(self) -> bool:
        return True

    @property
    def streams_every_row(self) -> bool:
        return self.every and self.normalization.diagonal and self.components != "largest"

    @property
    def sees_every_row(self) -> bool:
        return self.every

    @property
    def merges_copies(self) -> bool:
        return self.normalization.merges_copies

    @property
    def weighs_scales(self) -> bool:
        """Return False: counts have the scales they have."""
        return False

    @property
    def against_outliers(self) -> str:
        return "Leave out features that few rows have"

    def build(self, rows: Source, anchors: Anchors, measure: Array, needed: int, runner: Threads) -> BuiltProblem:
        """Return the eigenproblem over the anchors; of rows that are read in passes, over the features."""
        if self.every and not isinstance(rows, InMemory):
            return self._in_passes(rows, anchors, measure, runner)
        return self._in_memory(anchors, needed, runner)

    # -- in memory -----------------------------------------------------------------------------

    def _in_memory(self, anchors: Anchors, needed: int, runner: Threads) -> BuiltProblem:
        normalization, m = self.normalization, anchors.measure
        U = unit_rows(anchors.points)
        empty = _empty(U)
        if len(empty):
            at = int(empty[0]) if anchors.index is None else int(anchors.index[empty].min())
            raise no_direction(len(empty), at)
        copy = 0.0 if normalization.diagonal else copy_weight(m)
        mass = U.T @ m
        q = U @ mass
        left = np.where(q - copy > LEAST_OTHERS, copy, 0.0)
        lonely = q - np.minimum(m, 1.0)
        q = q - left
        weight = q**-normalization.alpha
        degrees = U.T @ (m * weight)
        R = U @ degrees
        d = weight * (R - left * weight)
        total, factor = float(m @ d), weight * np.sqrt(m / d)
        labels, masses = feature_parts(feature_labels(U), degrees)
        operator = CosineOperator(
            matrix=Implicit((len(U), len(U)), lambda V: V),
            measure=m,
            stationary=m * d / total,
            parts=Components(label_rows(U, labels), masses),
            runner=runner,
            gain=m * weight,
            mass=q,
            total=total,
            own=left * weight / R if copy else None,
            rows=U,
            factor=factor,
            left_out=np.square(weight) * left / d if copy else None,
            labels=labels,
            degrees=degrees,
        )
        operator = replace(operator, matrix=_table(operator))
        if operator.parts.count > 1 and self.components == "error":
            raise ValueError(self._disconnected_note(operator) + " Pass components='warn' or 'largest'.")
        if operator.parts.count > 1 and self.components == "largest":
            fewer = largest_component(anchors, operator, needed, False, 0)
            return replace(self, components="warn")._in_memory(fewer, needed, runner)
        stored = self._store(anchors) if self.every else None
        fitted = CosineMarkov(
            alpha=normalization.alpha,
            power=normalization.power,
            canonical=normalization.canonical,
            diagonal=normalization.diagonal,
            of_all_rows=self.every,
            rows=U,
            gain=operator.gain,
            total=total,
            own=operator.own,
        )
        return BuiltProblem(
            anchors=anchors,
            operator=operator,
            normalization=fitted,
            rule=self._rule(mass, degrees, total, anchors if stored is None else anchors.at(stored), copy, q),
            reference=Reference.of(np.log(np.maximum(lonely, np.exp(LOG_FLOOR))), m),
            edges=self._edges(U.shape[1]),
            degree=float(len(U)),
            stored=stored,
        )

    @staticmethod
    def _store(anchors: Anchors) -> Array | None:
        """Return which anchors the model stores: a random sample if there are many."""
        if len(anchors.points) <= REFERENCE_ROWS:
            return None
        drawn = AtMost(REFERENCE_ROWS).select(
            InMemory(anchors.points), anchors.measure, np.random.default_rng(DRAW_SEED)
        )
        assert drawn.index is not None
        return np.sort(drawn.index)

    def _rule(
        self, mass: Array, degrees: Array, total: float, anchors: Anchors, copy: float = 0.0, q: Array | None = None
    ) -> CosineRule:
        some = anchors if len(anchors.points) <= REFERENCE_ROWS else anchors.at(np.arange(REFERENCE_ROWS))
        return CosineRule(
            mass=mass,
            degree=degrees,
            anchors=some.points,
            alpha=self.normalization.alpha,
            total=total,
            canonical=self.normalization.canonical,
            eigenvalues=np.empty(0),
            copy=copy,
            least_mass=0.0 if q is None else float(q.min()),
        )

    def _edges(self, features: int) -> str:
        told = f"all pairs by their cosine, through {features} features"
        return told if self.normalization.diagonal else told + ", without the diagonal"

    # -- in passes -----------------------------------------------------------------------------

    def _in_passes(self, rows: Source, anchors: Anchors, measure: Array, runner: Threads) -> BuiltProblem:
        normalization, features = self.normalization, rows.shape[1]
        alpha = normalization.alpha
        one_pass: Any = partial(_reduce, rows, measure, runner)
        first: MassSums = one_pass(MassLook(), MassLook.join, "directions")
        if first.empty:
            raise no_direction(first.empty, first.first)
        degrees: Array = one_pass(DegreeLook(first.mass, alpha), _add, "degrees")
        total = float(degrees @ degrees)
        constant = degrees / np.sqrt(total)
        matrix: Any
        if gram_fits(features, runner):
            matrix, trace = one_pass(GramLook(first.mass, degrees, alpha), GramLook.join, "features x features")
            matrix = (matrix + matrix.T) / 2
        else:
            look = GramLook(first.mass, degrees, alpha)
            _, trace = one_pass(replace(look, V=constant[:, None]), GramLook.join, "trace")
            matrix = Implicit((features, features), _Products(one_pass, look))
        labels, masses = feature_parts(first.labels, degrees)
        m, U = anchors.measure, unit_rows(anchors.points)
        q, R = U @ first.mass, U @ degrees
        d = q**-alpha * R
        root = np.sqrt(total) / R
        readout = _times_rows(U, root)
        operator = FeatureOperator(
            matrix=matrix,
            measure=m,
            stationary=m * d / (m @ d),
            parts=Components(label_rows(U, labels), masses),
            runner=runner,
            gain=m * q**-alpha,
            mass=q,
            total=total,
            constant=constant,
            labels=labels,
            readout=readout,
            whole_trace=trace,
        )
        if operator.parts.count > 1 and self.components == "error":
            raise ValueError(self._disconnected_note(operator) + " Pass components='warn'.")
        fitted = CosineMarkov(
            alpha=alpha, power=normalization.power, canonical=normalization.canonical, of_all_rows=True, total=total
        )
        return BuiltProblem(
            anchors=anchors,
            operator=operator,
            normalization=fitted,
            rule=self._rule(first.mass, degrees, total, anchors),
            reference=Reference.of(np.log(np.maximum(q - np.minimum(m, 1.0), np.exp(LOG_FLOOR))), m),
            edges=self._edges(features),
            degree=float(len(rows)),
        )

    # -- what a fit says -----------------------------------------------------------------------

    def _disconnected_note(self, operator: MarkovOperator) -> str:
        return (
            f"The rows fall into {operator.parts.describe()} that have no feature in common, so their cosines are 0. "
            "Leave such rows out."
        )

    def concerns(self, report: Facts, values: Array, problem: BuiltProblem) -> list[Concern]:
        found = []
        if report.components > 1:
            text = (
                f"The rows fall into {problem.operator.parts.describe()} that have no feature in common, so "
                f"{contrasts_only(report.components, report.n_components)} them apart. Leave such rows out, or pass "
                "components='largest'."
            )
            found.append(Concern(Importance.PIECES, text))
        return found + magnified_rounding(report)

    def kernel_between(self, rule: RowRule, pairs: EigenPairs) -> Expansion | None:
        return None

    @property
    def without_kernel(self) -> str:
        return "those of cosines, of which the model stores features and no rows"

    def cost(self, case: Case) -> Cost:
        """Return the cost for rows without zeros; sparse ones take as much less as they have fewer entries."""
        n, features = case.anchors if case.in_memory else case.rows, case.features
        entries, columns = float(n) * features, 20.0 * (case.components + 10)
        held = 8.0 * entries if case.in_memory or not self.every else 0.0
        solve = 16.0 * min(n, features) * columns if case.in_memory else 16.0 * features * columns
        stages = [
            Stage("directions", held, 3 * PRODUCT * entries / case.cores),
            Stage("solve", held + solve, 4 * entries * columns / FLOPS / case.cores),
        ]
        solver = "dense" if min(n, features) <= DENSE_SOLVER_UP_TO else "krylov"
        return Cost(self._edges(features), solver, stages)


@dataclass(frozen=True)
class _Products:
    """Products with B'B, each a pass over the rows."""

    one_pass: Callable[..., Any]
    look: GramLook

    def __call__(self, V: Array) -> Array:
        product: Array = self.one_pass(replace(self.look, V=np.ascontiguousarray(V)), GramLook.join, "product")[0]
        return product


def _reduce(
    rows: Source, measure: Array, runner: Threads, look: Look[Answer], join: Join[Answer], title: str
) -> Answer:
    return rows.reduce(look, join, measure=measure, runner=runner, title=title)


def _table(operator: CosineOperator) -> Array | Implicit:
    """Return the operator as a table if it is small, else its products."""
    n = operator.size
    if n > DENSE_SOLVER_UP_TO:
        return Implicit((n, n), operator.matmat)
    W = operator.rows @ operator.rows.T
    table: Array = W if isinstance(W, np.ndarray) else W.toarray()
    table = operator.factor[:, None] * table * operator.factor
    if operator.left_out is not None:
        table[np.diag_indices(n)] -= operator.left_out
    return table


def gram_fits(features: int, runner: Threads) -> bool:
    """Return whether a table of features x features fits in memory, once for each block that is on its way."""
    if features > GRAM_UP_TO:
        return features <= DENSE_SOLVER_UP_TO
    return 8.0 * features**2 * (runner.workers + 3) <= GRAM_SHARE * free_memory()


def no_direction(count: int, first: int) -> ValueError:
    """Return the error about rows of zeros."""
    return ValueError(
        f"{count} rows hold only zeros, so they have no direction and no cosine (the first is row {first}). Leave them "
        "out of the fit, or give them the weight 0; transform flags such rows."
    )
