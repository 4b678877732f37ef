"""The extension ``Net``: a multilayer perceptron that is trained on values at points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from scipy.spatial import cKDTree

from .. import neighbors
from .._runtime.threads import Threads, row_blocks
from .._runtime.typing import Array, Interval, Options
from ..distances import Metric
from ..engine.model import SpectralModel
from ..extensions import Extension
from ..extensions.samples import RowModel, Samples, check_complete
from ..operators.operator import MarkovChain
from .network import ACTIVATIONS, Network, Standardization

if TYPE_CHECKING:
    from . import training as trainer

TRAINING_SOLVERS = Options("auto", "lbfgs", "adam")
FULL_BATCH = 3000  # rows: up to this many solver="auto" is L-BFGS on all rows at once, beyond it Adam
LBFGS_ITERATIONS = 500  # default of `max_iter` for L-BFGS
# default of `max_iter` for Adam: epochs that read ADAM_ROWS rows in all, clipped to ADAM_EPOCHS (fewest, most)
ADAM_ROWS, ADAM_EPOCHS = 2_000_000, (10, 200)
ADAM_BATCH = 256  # default of `batch`
PATIENCE = {"lbfgs": 50, "adam": 30}  # defaults of `patience`
NEGLIGIBLE = 1e-12  # smaller entries of a dense Markov row are left out
MOST_ENTRIES = 1 << 26  # limit on the stored entries of the Markov matrix: 0.8 GB
SPACING_POINTS = 500  # size of the sample in `spacing`
FEWEST_HELD = 5  # rows: a smaller held-out set is not used


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of training that are rarely set.

    >>> Training(batch=64, validation=0.0)
    Training(batch=64, rate=0.002, validation=0.0, patience=None, tolerance=0.001)
    """

    batch: Annotated[int | None, Interval(1)] = None  # rows per step of Adam; None: 256 (GRAE: 64 up to 10,000 rows)
    rate: Annotated[float, Interval(0, open_low=True)] = 2e-3  # initial rate of Adam; it falls along a cosine
    # the share of the rows that is held out; training returns the parameters with the least error on them; 0: none
    validation: Annotated[float, Interval(0, 0.9)] = 0.1
    # iterations without a smaller error before training ends; None: 50 of L-BFGS, 30 epochs of Adam (GRAE: 50)
    patience: Annotated[int | None, Interval(1)] = None
    tolerance: Annotated[float, Interval(0)] = 1e-3  # the relative decrease that counts as a smaller error


@dataclass(frozen=True, kw_only=True)
class Net(Extension):
    """A multilayer perceptron o(x): Diffusion Nets (Mishne, Shaham, Cloninger and Cohen, 2017).

    Training minimises ``1/(2N) sum_i |o(x_i) - y_i|^2 + mu/2 sum |W|^2 + eta/(2N) sum_j |(P - lambda_j) o_j|^2``. Each
    coordinate is in units of its standard deviation (for the inverse transform: all features in units of their common
    standard deviation). mu is ``weight_decay``, eta is ``eigen_penalty`` (for Markov methods only), and P is the Markov
    matrix between the anchors. Training ends when the error on held-out rows has not fallen for ``patience``
    iterations. A trained network needs neither PyTorch nor the training points.
    """

    hidden: Annotated[tuple[int, ...], Interval(1)] = field(default=(100, 100), kw_only=False)
    activation: Annotated[str, Options(*ACTIVATIONS)] = "relu"
    weight_decay: Annotated[float, Interval(0)] = 1e-6
    eigen_penalty: Annotated[float, Interval(0)] = 0.0
    solver: Annotated[str, TRAINING_SOLVERS] = "auto"  # "lbfgs" up to 3000 rows, "adam" beyond
    # iterations of L-BFGS (None: 500), epochs of Adam (None: 10 to 200, reading 2,000,000 rows in all)
    max_iter: Annotated[int | None, Interval(1)] = None
    training: Training = Training()
    random_state: Annotated[int, Interval(0)] = 0
    device: str = "auto"

    def fit(self, known: Samples, runner: Threads) -> Network:
        return self.learn(known, runner)[0]

    def learn(self, known: Samples, runner: Threads) -> tuple[Network, dict[str, Array]]:
        """Return the network, and the history of its losses: name -> array with one entry per iteration.

        Points are sorted first, so that their order does not matter. Anchors that P needs and that have no value are
        added with weight 0.
        """
        from . import training as trainer

        trainer.library()
        check_complete(known, "net")
        model = known.model if self.eigen_penalty > 0 else None
        chain = None if model is None else _markov_chain(model)
        anchors = known.points[:0] if chain is None else np.asarray(chain.anchors)
        points, member = np.unique(np.vstack([known.points, anchors]), axis=0, return_inverse=True)
        member = member.ravel()
        n = len(known.points)
        values, measure = np.zeros((len(points), known.values.shape[1])), np.zeros(len(points))
        values[member[:n]], measure[member[:n]] = known.values, known.measure
        source = Standardization.of(points, np.maximum(measure, np.finfo(float).tiny), common=True)
        target = Standardization.of(known.values, known.measure, common=known.model is None)
        plan = self.plan(n)
        eigen = None
        if model is not None and chain is not None:
            eigen = self._eigen(model, chain, member[n:], target, values)
        rng = np.random.default_rng(self.random_state)
        labelled = np.flatnonzero(measure)
        held = split_held_out(labelled, self.training.validation, rng)
        task = trainer.Regression(
            source(points),
            np.where(measure[:, None] > 0, target(values), 0.0),
            measure,
            held,
            self.activation,
            self.weight_decay,
            eigen,
            plan,
        )
        layers = (points.shape[1], *self.hidden, values.shape[1])
        start = trainer.initial(layers, self.activation, spacing(source(points), runner), rng)
        trained = trainer.train(task, start, plan, runner)
        return network(trained.parameters, self.activation, source, target), trained.history

    def plan(self, rows: int) -> trainer.Schedule:
        """Return the training schedule for ``rows`` rows."""
        from . import training as trainer

        solver = self.solver if self.solver != "auto" else "lbfgs" if rows <= FULL_BATCH else "adam"
        iterations = LBFGS_ITERATIONS if solver == "lbfgs" else trainer.passes(ADAM_ROWS, rows, *ADAM_EPOCHS)
        return trainer.Schedule(
            solver=solver,
            iterations=self.max_iter or iterations,
            batch=self.training.batch or ADAM_BATCH,
            rate=self.training.rate,
            patience=self.training.patience or PATIENCE[solver],
            tolerance=self.training.tolerance,
            seed=self.random_state,
            device=self.device,
        )

    def _eigen(
        self, model: RowModel, chain: MarkovChain, rows: Array, target: Standardization, values: Array
    ) -> trainer.Eigen:
        from . import training as trainer

        P = markov_matrix(chain)
        order = np.asarray(cKDTree(values[rows], balanced_tree=False).indices)
        return trainer.Eigen(
            penalty=self.eigen_penalty,
            P=P,
            values=_eigenvalues(P, model.embed(chain.anchors, Threads()), chain.measure),
            rows=rows,
            measure=chain.measure,
            origin=target.mean / target.spread,
            order=order,
        )


def network(parameters: list[Array], activation: str, source: Standardization, target: Standardization) -> Network:
    return Network(
        weights=tuple(parameters[::2]),
        biases=tuple(parameters[1::2]),
        activation=activation,
        source=source,
        target=target,
    )


def spacing(points: Array, runner: Threads) -> float:
    """Return the median distance to the eighth neighbour, over at most SPACING_POINTS of the points."""
    search = neighbors.build(Metric().fit(points), "auto")
    some = points[np.linspace(0, len(points) - 1, min(len(points), SPACING_POINTS)).astype(int)]
    k = min(9, len(points))
    return max(float(np.sqrt(np.median(search.closest(some, k, runner).kth(k)))), 1e-6)


def split_held_out(rows: Array, share: float, rng: np.random.Generator) -> Array:
    """Return a random ``share`` of the rows, in order; no rows if that would be fewer than FEWEST_HELD."""
    count = int(share * len(rows))
    return np.sort(rng.permutation(rows)[:count]) if count >= FEWEST_HELD else rows[:0]


def _markov_chain(model: RowModel) -> MarkovChain:
    """Return the Markov chain of a spectral model; raise ValueError if it has none."""
    found = model.markov_chain() if isinstance(model, SpectralModel) else None
    if found is None:
        raise ValueError(
            "eigen_penalty > 0 asks for outputs that are eigenvectors of a Markov matrix between the points, and this "
            "method has none: take DiffusionMaps (coordinates='diffusion') or LaplacianEigenmaps (random walk), with "
            "another kernel than 'variable', or eigen_penalty=0."
        )
    return found


def markov_matrix(chain: MarkovChain) -> csr_array:
    """Return P between the anchors as a sparse matrix; dense rows lose entries below NEGLIGIBLE."""
    anchors, rule = chain.anchors, chain.rule
    parts: list[csr_array] = []
    entries = 0
    for block in row_blocks(len(anchors), rule.row_entries):
        rows = rule.rows(np.ascontiguousarray(anchors[block]))
        weights: csr_array = rows.weights  # dense or CSR
        weights = weights if rows.divisor is None else weights / rows.divisor
        part = csr_array(weights) if issparse(weights) else csr_array(np.where(weights >= NEGLIGIBLE, weights, 0.0))
        part = part if chain.back is None else csr_array(part @ chain.back)
        entries += part.nnz
        if entries > MOST_ENTRIES:
            raise MemoryError(
                f"The Markov matrix between {len(anchors)} points has more than {MOST_ENTRIES} entries, too many for "
                "eigen_penalty > 0. Give the method n_neighbors=10, or landmarks."
            )
        parts.append(part)
    return csr_array(vstack(parts, format="csr"))


def _eigenvalues(P: csr_array, functions: Array, measure: Array) -> Array:
    """Return the eigenvalues of eigenfunctions of P."""
    size = np.maximum(measure @ np.square(functions), np.finfo(float).tiny)
    values: Array = measure @ (functions * (P @ functions)) / size
    return values
