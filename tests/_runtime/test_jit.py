"""Compiling where nothing can be cached."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("home", ["read-only", "fine"])
def test_no_place_to_cache_is_no_obstacle(home, tmp_path):
    code = (
        "import numba, numpy as np\n"
        "from outfold._loops import csr\n"
        + (
            "real = numba.njit\n"
            "def njit(*args, **options):\n"
            "    if options.get('cache'):\n"
            "        raise RuntimeError('cannot cache function: no locator available')\n"
            "    return real(*args, **options)\n"
            "numba.njit = njit\n"
            if home == "read-only"
            else ""
        )
        + "print(csr.label_components(np.array([0, 1, 2, 3]), np.array([1, 0, 2])).tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[0, 0, 1]"
