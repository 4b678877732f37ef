"""Fits of any data by any method: finite answers for rows of any size, or an error of ours."""

import contextlib
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from catalogue import ALL_METHODS, cloud
from fuzz.seeds import refusal

METHODS = [name for name, one in ALL_METHODS.items() if "network" not in name and not hasattr(one, "hidden")]
KINDS = ("plain", "duplicates", "line", "clusters", "outlier", "grid")


class Fit(NamedTuple):
    """A method with data, weights and new rows."""

    name: str
    rows: np.ndarray
    weights: np.ndarray | None
    new: np.ndarray
    on_far: str


def rows_of_any_size(rng):
    """Points in any unit, anywhere, with columns and rows of very different sizes."""
    X = np.array(cloud(int(rng.integers(10**6)), str(rng.choice(KINDS)), rows=int(rng.integers(3, 60))))
    if rng.random() < 0.4:
        X *= 10 ** (rng.uniform(-200, 200) if rng.random() < 0.5 else rng.uniform(-10, 10))
    if rng.random() < 0.3:
        X += 10 ** rng.uniform(-5, 12) * np.abs(X).max()
    if rng.random() < 0.2:
        X *= 10 ** rng.uniform(-170, 0, X.shape[1])
    if rng.random() < 0.2:
        X *= 10 ** rng.uniform(-170, 0, (len(X), 1))
    if rng.random() < 0.1:
        X[:, rng.integers(X.shape[1])] = rng.choice([0, 1, 1e-300, 1e140])
    return X


def weights_of_any_size(rng, count):
    """Weights over hundreds of orders of magnitude, whole, fractional, uniform, of half of the rows, or of one."""
    one = np.eye(count)[rng.integers(count)] * 10 ** rng.uniform(0, 20) + rng.choice([0, 1e-9, 1])
    return [
        10 ** rng.uniform(-300, 300, count),
        10 ** rng.uniform(-12, 3, count),
        rng.integers(0, 4, count).astype(float),
        np.full(count, 10 ** rng.uniform(-300, 300)),
        np.where(rng.random(count) < 0.5, 0, rng.random(count)),
        one,
    ][rng.integers(6)]


def draw(rng):
    """Return a fit, drawn by a generator of NumPy."""
    name, X = METHODS[rng.integers(len(METHODS))], rows_of_any_size(rng)
    weights = weights_of_any_size(rng, len(X)) if rng.random() < 0.4 else None
    new = X[rng.integers(0, len(X), 4)] * rng.choice([0.9, 1, 1.1, 100, 1e-3, 1e30])
    return Fit(name, X, weights, new, str(rng.choice(["keep", "nearest"])))


def fits(random):
    """A fit answers with numbers everywhere, or is refused in our words."""
    rng = np.random.default_rng(random.getrandbits(64))
    fit = draw(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = clone(ALL_METHODS[fit.name]).fit(fit.rows, sample_weight=fit.weights)
            new = model.transform(fit.new, on_far=fit.on_far)
            answers = [model.embedding_, model.eigenvalues_, new, model.trust(fit.new).p_value]
            if rng.random() < 0.1:
                with contextlib.suppress(NotImplementedError):
                    answers.append(model.inverse_transform(new))
        except Exception as error:
            refusal(error)
            return "refused"
    for answer in answers:
        assert np.isfinite(np.asarray(answer, dtype=float)).all(), fit
    return "finite"
