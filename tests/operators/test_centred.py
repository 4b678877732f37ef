"""Centred kernels: signed coordinates, and kernels that are no inner product."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from catalogue import cloud, quietly
from outfold import ClassicalMDS, KernelPCA
from outfold.exceptions import SpectrumWarning

X = cloud(0, rows=120)


def test_signed_coordinates_are_the_largest_in_magnitude_and_reproduce_the_kernel():
    D = cdist(X[:40], X[:40], "cityblock") ** 4
    H = np.eye(40) - 1 / 40
    K = -0.5 * H @ D**2 @ H
    values = np.linalg.eigvalsh(K)
    expected = values[np.argsort(-np.abs(values))]
    assert expected[:12].min() < 0 < expected[:12].max()
    signed = quietly(ClassicalMDS(12, metric="precomputed", signed=True).fit, D)
    np.testing.assert_allclose(signed.eigenvalues_, expected[:12], rtol=1e-8)
    plain = quietly(ClassicalMDS(5, metric="precomputed").fit, D)
    np.testing.assert_allclose(plain.eigenvalues_, np.sort(values)[::-1][:5], rtol=1e-8)
    everything = quietly(ClassicalMDS(39, metric="precomputed", signed=True).fit, D)
    rebuilt = (everything.embedding_ * np.sign(everything.eigenvalues_)) @ everything.embedding_.T
    np.testing.assert_allclose(rebuilt, K, atol=1e-8 * np.abs(K).max())
    np.testing.assert_allclose(signed.transform(D), signed.embedding_, atol=1e-9 * np.abs(D).max())
    assert plain.report_.negative_mass == pytest.approx(-values[values < 0].sum() / np.abs(values).sum(), rel=1e-8)
    assert plain.report_.negative_mass > 0.4
    assert "negative" in str(plain.report_)
    with pytest.warns(SpectrumWarning, match="signed=True"):
        ClassicalMDS(5, metric="precomputed").fit(D)


def test_signed_by_lanczos_is_signed_by_lapack():
    points = cloud(3, rows=1200)
    D = cdist(points, points, "cityblock") ** 1.5
    one, two = (
        quietly(ClassicalMDS(8, metric="precomputed", signed=True, solver=s).fit, D) for s in ("lanczos", "dense")
    )
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, rtol=1e-9)
    assert (one.eigenvalues_ < 0).any()


def test_an_indefinite_kernel_is_told_in_its_own_words():
    K = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.warns(SpectrumWarning, match="no inner product.*'rbf'"):
        KernelPCA(2, kernel="precomputed").fit(K + K.T)
    D = np.abs(K + K.T)
    np.fill_diagonal(D, 0.0)
    with pytest.warns(SpectrumWarning, match="far from Euclidean, and .* signed=True"):
        ClassicalMDS(2, metric="precomputed").fit(D)
    with pytest.warns(SpectrumWarning, match=r"far from Euclidean\.$"):
        signed = ClassicalMDS(4, metric="precomputed", signed=True).fit(D)
    assert signed.report_.gap >= 0
