"""What is read off a spectrum: dimension, entropy and the knee."""

import numpy as np
import pytest

from outfold.operators.spectrum import entropy_time, spectral_dimension, spectral_entropy


def test_spectral_dimension_orders_by_magnitude():
    assert spectral_dimension([0.5, -0.9, 0.01]) == 2
    assert spectral_dimension([0.9, 0.5, 0.3], t=10) == 1
    with pytest.raises(ValueError, match="no non-zero"):
        spectral_dimension([])


def test_entropy_is_that_of_the_normalised_spectrum():
    values = np.random.default_rng(0).uniform(-1, 1, 20)
    for t in (1, 2, 7):
        share = np.append(1, np.abs(values)) ** t
        share /= share.sum()
        np.testing.assert_allclose(spectral_entropy(values, [t]), -(share * np.log(share)).sum(), rtol=1e-12)
    share = np.abs(values) / np.abs(values).sum()
    np.testing.assert_allclose(spectral_entropy(7 * values, [1], trivial=False), -(share * np.log(share)).sum())


def test_the_knee_is_that_of_a_naive_search_over_two_lines():
    values = np.concatenate([[0.99, 0.97, 0.9], np.random.default_rng(1).uniform(0, 0.7, 100)])
    times = np.arange(1.0, 61)
    entropy = spectral_entropy(values, times)

    def error(x, y):
        return ((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2).sum()

    errors = [error(times[: b + 1], entropy[: b + 1]) + error(times[b:], entropy[b:]) for b in range(1, 59)]
    assert entropy_time(values, t_max=60) == times[1 + int(np.argmin(errors))]


def test_the_knee_of_a_bent_curve_is_the_bend_and_a_flat_one_has_none():
    assert entropy_time([1.0, 1.0]) == 1
    quick = np.concatenate([[0.9999], np.full(500, 0.3)])
    slow = np.concatenate([[0.9999], np.full(500, 0.8)])
    assert entropy_time(quick) < entropy_time(slow) < 60
