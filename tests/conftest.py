"""One thread per worker, a derandomised Hypothesis, and tests in random order where that is asked for."""

import os
import random
from itertools import groupby

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "first_tier",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("second_tier", parent=settings.get_profile("first_tier"), max_examples=500)
settings.load_profile(os.environ.get("OUTFOLD_HYPOTHESIS", "first_tier"))


def pytest_configure(config):
    if os.environ.get("OUTFOLD_TEST_ORDER") == "random":  # the workers of xdist inherit the seed
        os.environ["OUTFOLD_TEST_ORDER"] = str(random.SystemRandom().randrange(10**6))


def pytest_report_header(config):
    seed = os.environ.get("OUTFOLD_TEST_ORDER")
    return f"random order: OUTFOLD_TEST_ORDER={seed}" if seed else None


def pytest_collection_modifyitems(items):
    """Shuffle the modules, and the tests within each: fixtures of a module are still set up once."""
    seed = os.environ.get("OUTFOLD_TEST_ORDER")
    if not seed:
        return
    rng = random.Random(int(seed))
    modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    rng.shuffle(modules)
    for tests in modules:
        rng.shuffle(tests)
    items[:] = [test for tests in modules for test in tests]


@pytest.fixture
def shared_data():
    """The folder with the shared data sets; the test is skipped where they are not."""
    from catalogue import data_folder

    folder = data_folder()
    if folder is None:
        pytest.skip("shared data sets are not here (set OUTFOLD_DATA to their folder)")
    return folder
