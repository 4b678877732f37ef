"""Training of networks: the only module that uses PyTorch, which is imported when a training begins.

A task (``Regression``, ``Autoencoder``) holds the data and computes the loss of some parameters; a ``Schedule`` says
how to minimise it. Parameters are one list W_1, b_1, W_2, b_2, ..., drawn by NumPy, so that a seed gives the same
initial weights on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType, new_class
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse import csr_array

from .._runtime.threads import Threads, is_forked
from .._runtime.typing import Array

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device

Advance: TypeAlias = Callable[[int], object]  # moves the progress bar
Copied: TypeAlias = Callable[[], list[Array]]

PATCH = 32  # neighbouring rows drawn together for the eigenvector penalty, which needs the neighbours of a row
LAST_RATE = 1e-2  # final rate of Adam, relative to the initial one
SHARED_WORK = 1 << 29  # products per step: smaller steps use one thread, since waiting threads spin and starve others
FREQUENCY, SINE_PHASE = 30.0, 0.5  # first layer of sines: bound on W times inputs; radians between near points
MEMORY = 20  # past steps that L-BFGS stores


def library() -> ModuleType:
    """Return PyTorch. Raise ImportError with the command that installs it if it is missing."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "Networks are trained by PyTorch, which is not installed here. Install it with: "
            'pip install "outfold[neural]". Trained networks work without it.'
        ) from error
    found: ModuleType = torch
    return found


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The solver of a training and its settings."""

    solver: str  # "lbfgs": all rows at once, in double precision; "adam": batches, in single precision
    iterations: int  # iterations of L-BFGS, or epochs of Adam
    batch: int  # rows per step of Adam
    rate: float  # initial learning rate of Adam
    patience: int  # iterations without a better error on the held-out rows before training ends
    tolerance: float  # an error counts as better if it is smaller by this part of the best so far
    seed: int
    device: str

    @property
    def dtype(self) -> str:
        return "float64" if self.solver == "lbfgs" else "float32"


class Task(Protocol):
    """The data of a training and the loss of parameters."""

    parts: tuple[str, ...]  # names of the parts of the loss
    learnt: Array  # rows that the loss is a sum over
    held: Array  # held-out rows

    def loss(self, parameters: list[Tensor], rows: Array | None, progress: float) -> list[Tensor]: ...

    def watch(self, parameters: list[Tensor]) -> float: ...


@dataclass(frozen=True)
class Trained:
    """Parameters, and the losses by name, with one entry per iteration."""

    parameters: list[Array]
    history: dict[str, Array]


def passes(seen: int, rows: int, fewest: int, most: int) -> int:
    """Return how many epochs of ``rows`` rows read ``seen`` rows in all, clipped to ``fewest`` and ``most``."""
    return int(np.clip(round(seen / rows), fewest, most))


def initial(sizes: tuple[int, ...], activation: str, near: float, rng: np.random.Generator) -> list[Array]:
    """Return random W with variance 1 / inputs, twice that before a kink at 0 (He), and b within 1 / sqrt(inputs).

    Biases other than 0 spread the kinks over the data. Without them, the kinks of a network with few inputs, such as a
    decoder, would all meet at the mean. A first layer of sines has W within FREQUENCY / inputs (Sitzmann et al., 2020),
    and small enough that points at the distance ``near`` from each other differ by about SINE_PHASE radians.
    """
    gain = 2.0 if activation in ("relu", "elu", "sine") else 1.0
    found: list[Array] = []
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        hidden = layer < len(sizes) - 2
        reach = np.sqrt(3.0 * (gain if hidden else 1.0) / inputs)
        if activation == "sine" and layer == 0:
            reach = min(FREQUENCY / inputs, np.sqrt(3.0) * SINE_PHASE / near)
        found += [rng.uniform(-reach, reach, (inputs, outputs)), rng.uniform(-1, 1, outputs) / np.sqrt(inputs)]
    return found


def forward(parameters: list[Tensor], x: Tensor, activation: str) -> Tensor:
    """Return the outputs of a network as a tensor."""
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


@dataclass(frozen=True, kw_only=True)
class Eigen:
    """eta/(2M) sum_ij m_i ((P - lambda_j) o_j)_i^2 over the rows of P, where o is the network's output + ``origin``."""

    penalty: float  # eta
    P: csr_array
    values: Array  # lambda
    rows: Array  # the data row of each row of P
    measure: Array  # m
    origin: Array  # mean / spread of the targets: outputs are centred, and (P - lambda) of a constant is not 0
    order: Array  # a permutation of the rows of P that puts near rows next to each other


class Regression:
    """1/(2M) sum_i m_i |o_i - y_i|^2 + mu/2 sum |W|^2, and the eigenvector penalty if there is one.

    Rows of weight 0 have no target, but the penalty may use them. ``held`` rows are left out of the first sum.
    """

    parts: tuple[str, ...] = ("fit", "decay", "eigen")

    def __init__(
        self,
        X: Array,
        Y: Array,
        measure: Array,
        held: Array,
        activation: str,
        weight_decay: float,
        eigen: Eigen | None,
        plan: Schedule,
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

    def loss(self, parameters: list[Tensor], rows: Array | None, progress: float) -> list[Tensor]:
        """Return the parts of the loss, over ``rows`` or, if None, over all training rows."""
        chosen = self.put(self.learnt if rows is None else rows)
        found = [self._error(parameters, chosen) / 2, self.weight_decay / 2 * _squares(parameters)]
        if self.eigen is not None:
            found.append(self._eigen(parameters, everything=rows is None))
        return found

    def _error(self, parameters: list[Tensor], chosen: Tensor) -> Tensor:
        left = forward(parameters, self.X[chosen], self.activation) - self.Y[chosen]
        weight = self.measure[chosen]
        return (weight[:, None] * left * left).sum() / weight.sum()

    def _eigen(self, parameters: list[Tensor], *, everything: bool) -> Tensor:
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
        """Return about ``batch`` rows of P, in runs of PATCH near rows, which have many neighbours in common."""
        assert self.eigen is not None
        starts = self.draws.integers(0, n, max(1, self.batch // PATCH))
        places = (starts[:, None] + np.arange(min(PATCH, n))) % n
        return self.eigen.order[np.unique(places)]

    def watch(self, parameters: list[Tensor]) -> float:
        """Return the mean squared error of the held-out rows."""
        return float(self._error(parameters, self.put(self.held)))


class Autoencoder:
    """mean |x - decode(z)|^2 + lambda mean |z - e|^2 + mu/2 sum |W|^2, z = encode(x); means over rows and columns."""

    parts: tuple[str, ...] = ("reconstruction", "geometry", "decay")

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
        plan: Schedule,
    ) -> None:
        put = _placer(plan)
        self.X, self.E, self.put = put(X), put(E), put
        self.learnt, self.held = np.setdiff1d(np.arange(len(X)), held), held
        self.activation, self.depth = activation, depth  # the first `depth` parameters are the encoder
        self.weight, self.relax, self.weight_decay = weight, relax, weight_decay

    def loss(self, parameters: list[Tensor], rows: Array | None, progress: float) -> list[Tensor]:
        chosen = self.put(self.learnt if rows is None else rows)
        reconstruction, geometry = self._errors(parameters, chosen)
        weight = self.weight * self.relax**progress
        return [reconstruction, weight * geometry, self.weight_decay / 2 * _squares(parameters)]

    def _errors(self, parameters: list[Tensor], chosen: Tensor) -> tuple[Tensor, Tensor]:
        x, e = self.X[chosen], self.E[chosen]
        z = forward(parameters[: self.depth], x, self.activation)
        left, away = forward(parameters[self.depth :], z, self.activation) - x, z - e
        return (left * left).mean(), (away * away).mean()

    def watch(self, parameters: list[Tensor]) -> float:
        """Return the loss of the held-out rows, without weight decay and with lambda as at the end of training."""
        reconstruction, geometry = self._errors(parameters, self.put(self.held))
        return float(reconstruction + self.weight * self.relax * geometry)


def train(task: Task, start: list[Array], plan: Schedule, runner: Threads) -> Trained:
    """Minimise the loss of a task; return the parameters that did best on held-out rows, else the last ones."""
    torch = library()
    best = _Best(task, plan)
    rows = len(task.learnt) if plan.solver == "lbfgs" else min(plan.batch, len(task.learnt))
    work = rows * sum(p.size for p in start)
    shared = work >= SHARED_WORK and not is_forked()
    with (
        _threads(torch, runner if shared else Threads(1)),
        runner.bar("training", plan.iterations, unit="step") as bar,
    ):
        last = (_lbfgs if plan.solver == "lbfgs" else _adam)(task, start, plan, best, bar.update)
    found = best.parameters if best.parameters is not None else last
    return Trained([np.asarray(p, dtype=float) for p in found], best.history())


def _lbfgs(task: Task, start: list[Array], plan: Schedule, best: _Best, advance: Advance) -> list[Array]:
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

    def step(intermediate_result: OptimizeResult) -> None:
        advance(1)
        flat = intermediate_result.x
        if best.note(
            now, float(intermediate_result.fun), lambda: unpacked(flat.copy()), [put(p) for p in unpacked(flat)]
        ):
            raise StopIteration

    first = np.concatenate([p.ravel() for p in start])
    options = {"maxiter": plan.iterations, "maxfun": 3 * plan.iterations, "maxcor": MEMORY, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value, first, jac=True, method="L-BFGS-B", callback=step, options=options)
    return unpacked(found.x)


def _adam(task: Task, start: list[Array], plan: Schedule, best: _Best, advance: Advance) -> list[Array]:
    """Minimise by Adam (Kingma and Ba, 2015), with a rate that falls along a cosine; return the last parameters."""
    torch, put = library(), _placer(plan)
    rng = np.random.default_rng([plan.seed, 2])
    parameters = [put(p).requires_grad_() for p in start]
    optimiser = torch.optim.Adam(parameters, lr=plan.rate, fused=True)

    def copied() -> list[Array]:
        return [p.detach().cpu().numpy().copy() for p in parameters]

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
        advance(1)
        if best.note(now, sum(now), copied, parameters):
            break
    return copied()


class _Best:
    """The losses of each iteration and, if rows are held out, the parameters with the least error on them."""

    def __init__(self, task: Task, plan: Schedule) -> None:
        self.task, self.plan = task, plan
        self.parameters: list[Array] | None = None
        self.records: list[list[float]] = []
        self.least, self.since = np.inf, 0

    def note(self, parts: list[float], total: float, copied: Copied, parameters: list[Tensor]) -> bool:
        """Record the losses of an iteration; return whether training should stop."""
        held = len(self.task.held) > 0
        with library().no_grad():
            error = self.task.watch(parameters) if held else total
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


def _product(P: csr_array, o: Tensor) -> Tensor:
    """Return P o, by SciPy: it gives the same bits each time, and o is small enough to copy from the device."""

    def forward(context: object, values: Tensor) -> Tensor:
        return values.new_tensor(P @ values.detach().cpu().numpy())

    def backward(context: object, slopes: Tensor) -> Tensor:
        return slopes.new_tensor(P.T @ slopes.cpu().numpy())

    functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    product: Any = new_class("Product", (library().autograd.Function,), exec_body=lambda body: body.update(functions))
    applied: Tensor = product.apply(o)
    return applied


def _squares(parameters: list[Tensor]) -> Tensor:
    """Return sum |W|^2; biases are not penalised."""
    return sum((W * W).sum() for W in parameters[::2])


def _placer(plan: Schedule) -> Callable[[Array], Tensor]:
    """Return a function that copies an array to a tensor on the training device."""
    torch = library()
    device, dtype = chosen_device(plan.device), getattr(torch, plan.dtype)

    def put(values: Array) -> Tensor:
        tensor = torch.as_tensor(np.require(values, requirements=["C", "W"]))  # PyTorch warns of read-only arrays
        return tensor.to(device, dtype if tensor.is_floating_point() else torch.int64)

    return put


def chosen_device(name: str) -> Device:
    """Return the device of a name; "auto" is CUDA if it is available, else the CPU."""
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
def _threads(torch: ModuleType, runner: Threads) -> Iterator[None]:
    """Give PyTorch as many threads as the runner has, inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(runner.workers)
    try:
        yield
    finally:
        torch.set_num_threads(before)
