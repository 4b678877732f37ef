"""One thread per worker, a derandomised Hypothesis, and read-only arrays by default."""

import os

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


@pytest.fixture
def shared_data():
    """The folder with the shared data sets; the test is skipped where they are not."""
    from catalogue import data_folder

    folder = data_folder()
    if folder is None:
        pytest.skip("shared data sets are not here (set OUTFOLD_DATA to their folder)")
    return folder
