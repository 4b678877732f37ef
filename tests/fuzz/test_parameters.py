"""Odd parameters: a fit that works, or an error of ours that names the parameter."""

import itertools

import numpy as np
import pytest

from fuzz import inputs, parameters
from fuzz.outcomes import outcome
from outfold import DiffusionMaps, KernelPCA, Roseland
from outfold.methods import parameters as checks

X = inputs.table(np.random.default_rng(0))
FUNCTIONS = (
    "(metric=function",
    "(kernel=function",
    ", metric=function",
    ", kernel=function",
)  # their errors stay theirs
LONG = ("max_iter=", "epochs=", "folds=", "tol=", "max_products=")  # valid, and no end is in sight
NAMED_OTHERWISE = (  # errors about the data that a parameter leaves
    "anchors, but there are", "distinct points", "beyond the rank", "coordinates need at least",
)  # fmt: skip
FIRST_TIER, SECOND_TIER = 900, 12_000


def check(setting):
    """Fit; the outcome is right, and an error names an odd parameter."""

    def call():
        model = parameters.build(setting)
        return model.fit_transform(X) if not hasattr(model, "mask") else model.fit(X).transform(X)

    found = outcome(call)
    assert found.ours, f"{setting}: {found}"
    if found.error is None:
        assert np.isfinite(np.asarray(found.answer)).all(), f"{setting} is not finite"
        return
    text = str(found.error)
    assert any(name in text for name in setting.odd) or any(part in text for part in NAMED_OTHERWISE), (
        f"{setting}: {text}"
    )


def open_or_long(setting):
    return any(part in str(setting) for part in (*FUNCTIONS, *LONG))


def sample(settings, count, seed):
    """Return ``count`` of the settings, drawn without replacement."""
    every = [setting for setting in settings if not open_or_long(setting)]
    return [every[at] for at in np.random.default_rng(seed).permutation(len(every))[:count]]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_parameters_work_or_are_refused_by_name():
    for setting in sample(parameters.single(parameters.BASES), FIRST_TIER, seed=0):
        check(setting)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_odd_parameter_works_or_is_refused_by_name():
    for setting in sample(parameters.single(parameters.BASES), SECOND_TIER, seed=1):
        check(setting)


@pytest.mark.slow
def test_odd_parameters_of_networks():
    pytest.importorskip("torch", reason="networks need PyTorch")
    for setting in sample(parameters.single(parameters.NETWORKS), 600, seed=2):
        check(setting)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (DiffusionMaps(alpha=10**400), "alpha=1000.*must be a number >= 0 and <= 1"),
        (DiffusionMaps(10**400), "n_components=1000.*whole number"),
        (DiffusionMaps(10**9), "n_components=1000000000 needs more than"),
        (DiffusionMaps(n_neighbors=10**9), "n_neighbors=1000000000 must be smaller"),
        (DiffusionMaps(epsilon=1e-320), "epsilon=1e-320 is too small: it must be between"),
        (DiffusionMaps(landmarks=True), "landmarks=True is not known"),
        (DiffusionMaps(landmarks=[["a", "b", "c"]] * 3), "[Rr]ow 0, column 0 of landmarks holds 'a'"),
        (DiffusionMaps(landmarks=1.5), "landmarks=1.5 must be > 0 and <= 1"),
        (DiffusionMaps(random_state="abc"), "random_state='abc' must be None, a whole number"),
        (DiffusionMaps(random_state=-1), "random_state=-1 must be"),
        (DiffusionMaps(verbose=np.arange(3)), "verbose=.* must be True or False"),
        (DiffusionMaps(n_jobs=True), "n_jobs=True must be"),
        (DiffusionMaps(n_jobs=10**9), "n_jobs=1000000000 must be"),
        (DiffusionMaps(np.array(3)), "n_components=array"),
        (DiffusionMaps(solver=range(3)), "solver=range"),
        (DiffusionMaps(metric=int), "metric=<class 'int'> is a class"),
        (KernelPCA(kernel=int), "kernel=<class 'int'> is a class"),
        (Roseland(checkpoint="a\0b"), "checkpoint=.*null character"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
def test_what_is_refused_says_which_value(method, message):
    with pytest.raises(ValueError, match=message):
        method.fit(X)


def test_numbers_of_numpy_are_numbers():
    want = DiffusionMaps(2, n_neighbors=5, alpha=0.5, n_jobs=1).fit_transform(X)
    for whole, real in itertools.product((np.int8, np.uint64, np.int32), (np.float32, np.float16, np.longdouble)):
        model = DiffusionMaps(whole(2), n_neighbors=whole(5), alpha=real(0.5), n_jobs=whole(1))
        assert np.array_equal(model.fit_transform(X), want)


def test_the_generator_reaches_what_it_is_for(monkeypatch):
    """Without the checks of numbers, the law is broken."""
    settings = sample(parameters.single(parameters.BASES), 150, seed=3)
    for name in ("number", "count"):
        monkeypatch.setattr(checks, name, lambda name, value, **range_of: value)
    broken = 0
    for setting in settings:
        try:
            check(setting)
        except AssertionError:
            broken += 1
    assert broken > 5
