"""Selection: what makes no sense is refused."""

import numpy as np
import pytest

from outfold.operators.spectrum import entropy_time, spectral_dimension
from outfold.selection import LocalLinearSelection, gap_dimension, residuals, slope_dimension, smallest_time


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gap_dimension([0.5]), "only one was given"),
        (lambda: gap_dimension([0.5, 0.2], by="size"), "by='size' is not known"),
        (lambda: gap_dimension([3.0, 2.0]), "largest given is 3.*by='ratio'"),
        (lambda: gap_dimension([0.0, 0.0]), "no non-zero eigenvalue"),
        (lambda: gap_dimension([0.5, np.nan]), "1 of 2 eigenvalues are NaN"),
        (lambda: spectral_dimension(np.ones((2, 2))), r"shape \(2, 2\)"),
        (lambda: smallest_time([0.9, 0.5], 2), "needs eigenvalue 3.*there are 2"),
        (lambda: smallest_time([0.9, 0.5], 0), "dimension=0"),
        (lambda: smallest_time([0.9, 0.9, 0.9, 0.5], 2), "first 3 eigenvalues are equal.*dimension >= 3"),
        (lambda: smallest_time([0.9, 0.5], 1, delta=1.0), "delta=1.0 must lie between"),
        (lambda: entropy_time([0.9], t_max=3), "t_max=3 is too short"),
        (lambda: residuals([1.0, 2.0]), "2D array"),
        (lambda: residuals([[1.0, 2.0], [np.nan, 3.0]]), "infinite entries in 1 rows"),
        (lambda: residuals(np.eye(3), scale=0), "scale=0 must be"),
        (lambda: residuals(np.eye(3), rows=1), "rows=1 must be a whole number >= 2"),
        (lambda: LocalLinearSelection(4).fit(np.eye(3)), "n_components=4 must be 1 to 3"),
        (lambda: LocalLinearSelection(threshold=1.0).fit(np.eye(3)), "threshold=1.0"),
        (lambda: slope_dimension(np.ones((5, 2))), "All training points are equal"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
