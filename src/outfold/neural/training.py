"""How networks learn: the only module that knows PyTorch, which is loaded when a training begins.

A task holds the data and says what the loss of some parameters is; a plan says how to make it small. Parameters are
one list W_1, b_1, W_2, b_2, ..., drawn by NumPy, so that a seed means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from ..runners import Threads

Array = NDArray[Any]

PATCH = 32  # rows near each other that are drawn together where a loss needs a row's neighbours
LAST_RATE = 1e-2  # part of the rate that Adam ends with
SHARED_WORK = 1 << 29  # products a step that are worth more than one thread: threads that wait spin, and starve others
FREQUENCY, TURN = 30.0, 0.5  # of the first layer of sines
MEMORY = 20  # steps that L-BFGS remembers


def library() -> Any:
    """PyTorch, or how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "Networks are trained by PyTorch, which is not installed here. Install it with: "
            'pip install "outfold[neural]". Trained networks work without it.'
        ) from error
    return torch


@dataclass(frozen=True)
class Plan:
    """How to train."""

    solver: str  # "lbfgs": all rows at once, in double precision; "adam": batches, in single precision
    iterations: int  # of L-BFGS, or epochs of Adam
    batch: int
    rate: float
    patience: int  # iterations without a better error on the held-out rows before training ends
    tolerance: float  # an error is better if it is smaller by this part
    seed: int
    device: str

    @property
    def dtype(self) -> str:
        return "float64" if self.solver == "lbfgs" else "float32"


@dataclass(frozen=True)
class Trained:
    """Parameters, and the losses on the way: an entry an iteration."""

    parameters: list[Array]
    history: dict[str, Array]


def passes(seen: int, rows: int, fewest: int, most: int) -> int:
    """Epochs of so many rows until ``seen`` have been looked at."""
    return int(np.clip(round(seen / rows), fewest, most))


def initial(sizes: tuple[int, ...], activation: str, near: float, rng: np.random.Generator) -> list[Array]:
    """W uniform with variance 1 / inputs, twice that before a kink at 0 (He); b within 1 / sqrt(inputs).

    Biases other than 0 spread the kinks over the data: with few inputs, as a decoder has, all would meet at its mean. A
    first layer of sines has W within FREQUENCY / inputs (Sitzmann et al., 2020), and low enough that points at the
    distance ``near`` from each other differ by TURN of a radian.
    """
    gain = 2.0 if activation in ("relu", "elu", "sine") else 1.0
    found: list[Array] = []
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        hidden = layer < len(sizes) - 2
        reach = np.sqrt(3.0 * (gain if hidden else 1.0) / inputs)
        if activation == "sine" and layer == 0:
            reach = min(FREQUENCY / inputs, np.sqrt(3.0) * TURN / near)
        found += [rng.uniform(-reach, reach, (inputs, outputs)), rng.uniform(-1, 1, outputs) / np.sqrt(inputs)]
    return found


def forward(parameters: list[Any], x: Any, activation: str) -> Any:
    """The outputs of a network, as tensors."""
    torch = library()
    activate = {
        "relu": torch.relu,
        "elu": torch.nn.functional.elu,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "sine": torch.sin,
    }
    last = len(parameters) - 2
    for layer in range(0, last, 2):
        x = activate[activation](torch.addmm(parameters[layer + 1], x, parameters[layer]))
    return torch.addmm(parameters[last + 1], x, parameters[last])


@dataclass(frozen=True)
class Eigen:
    """eta/(2M) sum_ij m_i ((P - lambda_j) o_j)_i^2 over rows that see each other by P; an output is o + origin."""

    penalty: float
    P: csr_array
    values: Array
    rows: Array  # of the data, that P is between
    measure: Array
    origin: Array  # outputs have their mean taken off, which P does not: (P - lambda) of it is not 0
    order: Array  # of P's rows: near each other, next to each other


class Regression:
    """1/(2M) sum_i m_i |o_i - y_i|^2 + mu/2 sum |W|^2, and the eigenvector penalty if there is one.

    Rows of weight 0 have no target; the penalty may see them. ``held`` rows are left out of the first sum.
    """

    parts = ("fit", "decay", "eigen")

    def __init__(
        self,
        X: Array,
        Y: Array,
        measure: Array,
        held: Array,
        activation: str,
        weight_decay: float,
        eigen: Eigen | None,
        plan: Plan,
    ) -> None:
        put = _placer(plan)
        self.X, self.Y, self.measure = put(X), put(Y), put(measure)
        self.learnt = np.setdiff1d(np.flatnonzero(measure > 0), held)
        self.held = held
        self.activation, self.weight_decay, self.eigen = activation, weight_decay, eigen
        self.put, self.draws = put, np.random.default_rng([plan.seed, 1])
        self.batch = plan.batch
        if eigen is not None:
            self.values, self.origin = put(eigen.values), put(eigen.origin)

    def loss(self, parameters: list[Any], rows: Array | None, progress: float) -> list[Any]:
        """The parts of the loss, over some rows or (None) all that are learnt from."""
        chosen = self.put(self.learnt if rows is None else rows)
        found = [self._error(parameters, chosen) / 2, self.weight_decay / 2 * _squares(parameters)]
        if self.eigen is not None:
            found.append(self._eigen(parameters, everything=rows is None))
        return found

    def _error(self, parameters: list[Any], chosen: Any) -> Any:
        left = forward(parameters, self.X[chosen], self.activation) - self.Y[chosen]
        weight = self.measure[chosen]
        return (weight[:, None] * left * left).sum() / weight.sum()

    def _eigen(self, parameters: list[Any], *, everything: bool) -> Any:
        eigen = self.eigen
        assert eigen is not None
        if everything:
            seen, part, own, measure = eigen.rows, eigen.P, np.arange(len(eigen.rows)), eigen.measure
        else:
            own = self._patches(len(eigen.rows))
            some, measure = eigen.P[own], eigen.measure[own]
            columns, place = np.unique(np.append(own, some.indices), return_inverse=True)
            seen, own = eigen.rows[columns], place[: len(own)]
            part = csr_array((some.data, place[len(own) :], some.indptr), shape=(len(own), len(columns)))
        o = forward(parameters, self.X[self.put(seen)], self.activation) + self.origin
        left, weight = _product(part, o) - self.values * o[self.put(own)], self.put(measure)
        return eigen.penalty / 2 * (weight[:, None] * left * left).sum() / weight.sum()

    def _patches(self, n: int) -> Array:
        """Rows of about a batch, in runs near each other: their neighbours are few."""
        assert self.eigen is not None
        starts = self.draws.integers(0, n, max(1, self.batch // PATCH))
        places = (starts[:, None] + np.arange(min(PATCH, n))) % n
        return self.eigen.order[np.unique(places)]

    def watched(self, parameters: list[Any]) -> float:
        """The mean squared error of the held-out rows."""
        return float(self._error(parameters, self.put(self.held)))


class Autoencoder:
    """mean |x - decode(z)|^2 + lambda mean |z - e|^2 + mu/2 sum |W|^2, z = encode(x); means over rows and columns."""

    parts = ("reconstruction", "geometry", "decay")

    def __init__(
        self,
        X: Array,
        E: Array,
        held: Array,
        activation: str,
        depth: int,
        weight: float,
        relax: float,
        weight_decay: float,
        plan: Plan,
    ) -> None:
        put = _placer(plan)
        self.X, self.E, self.put = put(X), put(E), put
        self.learnt, self.held = np.setdiff1d(np.arange(len(X)), held), held
        self.activation, self.depth = activation, depth  # how many of the parameters encode
        self.weight, self.relax, self.weight_decay = weight, relax, weight_decay

    def loss(self, parameters: list[Any], rows: Array | None, progress: float) -> list[Any]:
        chosen = self.put(self.learnt if rows is None else rows)
        reconstruction, geometry = self._errors(parameters, chosen)
        weight = self.weight * self.relax**progress
        return [reconstruction, weight * geometry, self.weight_decay / 2 * _squares(parameters)]

    def _errors(self, parameters: list[Any], chosen: Any) -> tuple[Any, Any]:
        x, e = self.X[chosen], self.E[chosen]
        z = forward(parameters[: self.depth], x, self.activation)
        left, away = forward(parameters[self.depth :], z, self.activation) - x, z - e
        return (left * left).mean(), (away * away).mean()

    def watched(self, parameters: list[Any]) -> float:
        """The loss of the held-out rows, without the decay and with the last weight."""
        reconstruction, geometry = self._errors(parameters, self.put(self.held))
        return float(reconstruction + self.weight * self.relax * geometry)


def train(task: Any, start: list[Array], plan: Plan, runner: Threads) -> Trained:
    """Make the loss of a task small."""
    torch = library()
    best = _Best(task, plan)
    rows = len(task.learnt) if plan.solver == "lbfgs" else min(plan.batch, len(task.learnt))
    work = rows * sum(p.size for p in start)
    with (
        _threads(torch, runner if work >= SHARED_WORK else Threads(1)),
        runner.bar("training", plan.iterations, unit="step") as bar,
    ):
        last = (_lbfgs if plan.solver == "lbfgs" else _adam)(task, start, plan, best, bar)
    found = best.parameters if best.parameters is not None else last
    return Trained([np.asarray(p, dtype=float) for p in found], best.history())


def _lbfgs(task: Any, start: list[Array], plan: Plan, best: _Best, bar: Any) -> list[Array]:
    torch, put = library(), _placer(plan)
    ends = np.cumsum([p.size for p in start])[:-1]

    def unpacked(flat: Array) -> list[Array]:
        return [part.reshape(p.shape) for part, p in zip(np.split(flat, ends), start)]

    now: list[float] = []

    def value(flat: Array) -> tuple[float, Array]:
        parameters = [put(part).requires_grad_() for part in unpacked(flat)]
        parts = task.loss(parameters, None, 0.0)
        total = sum(parts[1:], parts[0])
        slopes = torch.autograd.grad(total, parameters)
        now[:] = [float(part.detach()) for part in parts]
        return float(total.detach()), np.concatenate([s.detach().cpu().numpy().ravel() for s in slopes]).astype(float)

    def step(intermediate_result: Any) -> None:
        bar.update(1)
        flat = intermediate_result.x
        if best.note(
            now, float(intermediate_result.fun), lambda: unpacked(flat.copy()), [put(p) for p in unpacked(flat)]
        ):
            raise StopIteration

    first = np.concatenate([p.ravel() for p in start])
    options = {"maxiter": plan.iterations, "maxfun": 3 * plan.iterations, "maxcor": MEMORY, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value, first, jac=True, method="L-BFGS-B", callback=step, options=options)
    return unpacked(found.x)


def _adam(task: Any, start: list[Array], plan: Plan, best: _Best, bar: Any) -> list[Array]:
    """Kingma and Ba (2015), with a rate that falls along a cosine."""
    torch, put = library(), _placer(plan)
    rng = np.random.default_rng([plan.seed, 2])
    parameters = [put(p).requires_grad_() for p in start]
    optimiser = torch.optim.Adam(parameters, lr=plan.rate, fused=True)
    copied = lambda: [p.detach().cpu().numpy().copy() for p in parameters]  # noqa: E731
    for epoch in range(plan.iterations):
        progress = epoch / plan.iterations
        rate = plan.rate * (LAST_RATE + (1 - LAST_RATE) * (1 + np.cos(np.pi * progress)) / 2)
        optimiser.param_groups[0]["lr"] = rate
        order = rng.permutation(task.learnt)
        sums = 0.0
        for first in range(0, len(order), plan.batch):
            rows = order[first : first + plan.batch]
            optimiser.zero_grad(set_to_none=True)
            parts = task.loss(parameters, rows, progress)
            sum(parts[1:], parts[0]).backward()
            optimiser.step()
            sums = sums + torch.stack([p.detach() for p in parts]) * (len(rows) / len(order))
        now = [float(part) for part in sums]  # type: ignore[attr-defined]
        bar.update(1)
        if best.note(now, sum(now), copied, parameters):
            break
    return copied()


class _Best:
    """The losses so far and, with rows held out, the parameters that did best on them."""

    def __init__(self, task: Any, plan: Plan) -> None:
        self.task, self.plan = task, plan
        self.parameters: list[Array] | None = None
        self.records: list[list[float]] = []
        self.least, self.since = np.inf, 0

    def note(self, parts: list[float], total: float, copied: Any, parameters: list[Any]) -> bool:
        """Whether it is time to stop."""
        held = len(self.task.held) > 0
        with library().no_grad():
            error = self.task.watched(parameters) if held else total
        self.records.append([total, *parts, error])
        if not np.isfinite(total):
            raise ValueError(
                f"Training diverged: the loss is {total} after {len(self.records)} iterations. Lower the rate "
                f"({self.plan.rate:g}) or the penalties."
            )
        if error < (1 - self.plan.tolerance) * self.least:
            self.least, self.since = error, 0
            if held:
                self.parameters = copied()
        else:
            self.since += 1
        return self.since >= self.plan.patience

    def history(self) -> dict[str, Array]:
        parts = self.task.parts[: len(self.records[0]) - 2] if self.records else self.task.parts
        names = ["loss", *parts, *(["held_out"] if len(self.task.held) else [])]
        columns = np.array(self.records).T if self.records else np.empty((len(names), 0))
        return dict(zip(names, columns))


def _product(P: csr_array, o: Any) -> Any:
    """P o by SciPy: the same bits each time, and outputs are small enough to leave their device for it."""
    torch = library()

    class Product(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(context: Any, values: Any) -> Any:
            return values.new_tensor(P @ values.detach().cpu().numpy())

        @staticmethod
        def backward(context: Any, slopes: Any) -> Any:
            return slopes.new_tensor(P.T @ slopes.cpu().numpy())

    return Product.apply(o)


def _squares(parameters: list[Any]) -> Any:
    """sum |W|^2; biases are free."""
    return sum((W * W).sum() for W in parameters[::2])


def _placer(plan: Plan) -> Any:
    """Arrays as tensors where the training runs."""
    torch = library()
    device, dtype = chosen_device(plan.device), getattr(torch, plan.dtype)

    def put(values: Array) -> Any:
        tensor = torch.as_tensor(np.ascontiguousarray(values))
        return tensor.to(device, dtype if tensor.is_floating_point() else torch.int64)

    return put


def chosen_device(name: str) -> Any:
    """The device of a name; "auto" is CUDA where there is some."""
    torch = library()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} is not known. Valid: 'auto', 'cpu', 'cuda' or 'cuda:1'.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={name!r}: PyTorch finds no CUDA device here. Pass device='auto' or 'cpu'.")
    return device


@contextmanager
def _threads(torch: Any, runner: Threads) -> Iterator[None]:
    """PyTorch with as many threads as the runner has."""
    before = torch.get_num_threads()
    torch.set_num_threads(runner.workers)
    try:
        yield
    finally:
        torch.set_num_threads(before)
