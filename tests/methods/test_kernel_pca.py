"""Kernel PCA: against scikit-learn's and against PCA."""

from functools import partial

import numpy as np
import pytest
from sklearn import decomposition
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import pairwise_kernels

from catalogue import cloud, new_points, quietly, up_to_signs
from outfold import ClassicalMDS, KernelPCA

X = cloud(0, rows=120)
Z = new_points(X, 0, 30)


# -- scikit-learn --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("rbf", {"gamma": 0.3}),
        ("rbf", {}),
        ("poly", {}),
        ("poly", {"degree": 2, "coef0": 0.5, "gamma": 0.7}),
        ("cosine", {}),
        ("linear", {}),
        ("sigmoid", {"gamma": 0.05}),
        ("laplacian", {}),
        ("chi2", {}),
        ("additive_chi2", {}),
        ("polynomial", {"degree": 2}),
    ],
)
def test_kernel_pca_is_scikit_learns(kernel, parameters):
    A, B = (np.abs(X), np.abs(Z)) if "chi2" in kernel else (X, Z)
    ours = quietly(KernelPCA(3, kernel=kernel, **parameters).fit, A)
    named = kernel in ("rbf", "poly", "cosine", "linear", "sigmoid")  # scikit-learn's own takes no others by name
    call = partial(pairwise_kernels, metric=kernel, **parameters)
    theirs = decomposition.KernelPCA(3, kernel=kernel if named else "precomputed", **(parameters if named else {}))
    theirs.fit(A if named else call(A))
    B, seen = (B, B) if named else (B, call(B, A))
    assert up_to_signs(ours.transform(A), theirs.transform(A if named else call(A))) < 1e-8
    assert up_to_signs(quietly(ours.transform, B), theirs.transform(seen)) < 1e-8
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


def test_kernel_pca_of_a_callable_and_of_given_values():
    def kernel(x, y):
        return float((x @ y + 1) ** 2 - 3)  # takes negative values

    theirs = decomposition.KernelPCA(3, kernel=kernel).fit(X)
    by_call = quietly(KernelPCA(3, kernel=kernel).fit, X)
    table = np.array([[kernel(a, b) for b in X] for a in X])
    rows = np.array([[kernel(a, b) for b in X] for a in Z])
    given = quietly(KernelPCA(3, kernel="precomputed").fit, table)
    for model, new in ((by_call, Z), (given, rows)):
        assert up_to_signs(quietly(model.transform, new), theirs.transform(Z)) < 1e-8
    half = quietly(KernelPCA(3, kernel="precomputed", landmarks=60, random_state=0).fit, table)
    some = quietly(KernelPCA(3, kernel=kernel, landmarks=X[half.landmark_indices_]).fit, X)
    at = half.landmark_indices_
    for answer in (half.transform(rows), half.transform(rows[:, at])):  # to all training rows, or to the landmarks
        assert up_to_signs(answer, quietly(some.transform, Z)) < 1e-8
    assert half.trust(rows[:, at]).flag.sum() == 0
    assert half.trust(1e6 * rows[:, at]).flag.all()
    assert half.trust(0 * rows[:, at]).flag.all()
    beyond = 1e6 * rows[:3, at]
    nearest = half.embedding_[at[beyond.argmax(axis=1)]]
    np.testing.assert_allclose(half.transform(beyond, on_far="nearest"), nearest, atol=1e-8)


# -- each other, and the formulas ----------------------------------------------------------


def test_pca_is_linear_kernel_pca_is_classical_mds():
    pca = decomposition.PCA(3).fit(X)
    for far in (0.0, 1e5):  # an offset of the data changes nothing but rounding
        kernel, scaling = KernelPCA(3).fit(X + far), ClassicalMDS(3).fit(X + far)
        limit = 1e-10 + 1e-14 * far
        for A in (X, Z):
            expected = pca.transform(A)
            assert up_to_signs(quietly(kernel.transform, A + far), expected) < limit
            assert up_to_signs(quietly(scaling.transform, A + far), expected) < limit


# -- the way back --------------------------------------------------------------------------


def test_the_inverse_of_linear_kernel_pca_is_that_of_pca():
    pca, kernel = decomposition.PCA(2).fit(X), KernelPCA(2, inverse="linear").fit(X)
    back = kernel.inverse_transform(quietly(kernel.transform, Z))
    np.testing.assert_allclose(back, pca.inverse_transform(pca.transform(Z)), atol=1e-6)


def test_kernel_pca_goes_back_to_digits_better_than_pca_and_scikit_learn():
    digits = load_digits().data / 16
    old, new = digits[:1200], digits[1200:]

    def lost(model):
        return ((model.inverse_transform(quietly(model.transform, new)) - new) ** 2).mean()

    ours = lost(KernelPCA(10, kernel="rbf", gamma=0.02).fit(old))
    assert ours < 0.7 * lost(decomposition.PCA(10).fit(old))
    assert ours < 0.6 * lost(decomposition.KernelPCA(10, kernel="rbf", gamma=0.02, fit_inverse_transform=True).fit(old))


def test_weights_count_on_the_way_back():
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = KernelPCA(2, kernel="rbf", gamma=0.2).fit(X, sample_weight=weights)
    repeated = KernelPCA(2, kernel="rbf", gamma=0.2).fit(np.repeat(X, weights, axis=0))
    places = weighted.transform(X[:9])
    np.testing.assert_allclose(weighted.inverse_transform(places), repeated.inverse_transform(places), atol=1e-8)


def test_the_way_back_is_that_of_the_last_fit():
    model = KernelPCA(2, kernel="rbf", gamma=0.2).fit(X)
    model.inverse_transform(model.transform(X[:3]))
    model.fit(X + 100)
    assert model.inverse_transform(model.transform(X[:3] + 100)).min() > 90


def test_no_way_back():
    table = X @ X.T
    with pytest.raises(ValueError, match="no features to go back to"):
        KernelPCA(kernel="precomputed").fit(table).inverse_transform(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="3 columns, but the embedding has 2 components"):
        KernelPCA().fit(X).inverse_transform(np.zeros((2, 3)))


def test_gamma_auto_is_that_of_the_bandwidth_that_is_reported():
    X = cloud(0, rows=60)
    auto = KernelPCA(3, kernel="rbf", gamma="auto").fit(X)
    asked = KernelPCA(3, kernel="rbf", gamma=1 / (2 * auto.report_.epsilon)).fit(X)
    np.testing.assert_allclose(auto.eigenvalues_, asked.eigenvalues_, rtol=1e-12)
    np.testing.assert_allclose(auto.embedding_, asked.embedding_, atol=1e-12)


# -- rounding ------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "chi2", "poly", "sigmoid", "cosine", "linear"])
@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e-8, 1e-20, 1e-100])
def test_a_row_alone_is_the_row_of_a_batch_in_any_unit(kernel, scale):
    """Values of the kernel differ by scale^2 where they are near 1: subtracting them would leave nothing."""
    points, new = (scale * np.abs(A) if kernel == "chi2" else scale * A for A in (X, Z))
    model = quietly(KernelPCA(3, kernel=kernel).fit, points)
    assert_rows_stand_alone(model, points, new)


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [("poly", {}), ("poly", {"degree": 2.5}), ("poly", {"degree": 5}), ("cosine", {}), ("linear", {}), ("chi2", {})],
)
@pytest.mark.parametrize("shift", [1e2, 1e4, 1e6, 1e8])
def test_a_row_alone_is_the_row_of_a_batch_at_any_shift(kernel, parameters, shift):
    model = quietly(KernelPCA(2, kernel=kernel, **parameters).fit, X + shift)
    assert_rows_stand_alone(model, X + shift, Z + shift)


def assert_rows_stand_alone(model, points, new):
    size = np.abs(model.embedding_).max()
    assert np.isfinite(model.embedding_).all()
    assert size > 0
    batch = quietly(model.transform, new)
    alone = np.vstack([quietly(model.transform, row[None]) for row in new])
    assert np.abs(batch - alone).max() <= 1e-12 * size
    assert np.abs(quietly(model.transform, points) - model.embedding_).max() <= 1e-10 * size


def test_centred_values_are_those_of_the_kernel_where_nothing_cancels():
    """The embedding of a shifted set, computed with 50 digits."""
    from decimal import Decimal

    points = X[:25] + 30.0
    model = quietly(KernelPCA(2, kernel="poly", degree=3).fit, points)
    rows = [[Decimal(float(value)) for value in row] for row in points]
    third = Decimal(float(1 / points.shape[1]))
    table = [[(third * sum(a * b for a, b in zip(x, y, strict=True)) + 1) ** 3 for y in rows] for x in rows]
    means = [sum(row) / len(rows) for row in table]
    level = sum(means) / len(rows)
    centred = [[float(k - means[i] - means[j] + level) for j, k in enumerate(row)] for i, row in enumerate(table)]
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(centred)[:-3:-1], rtol=1e-12)


@pytest.mark.parametrize("degree", [33, 101])
def test_high_whole_degrees_take_products_of_either_sign(degree):
    ours = quietly(KernelPCA(2, kernel="poly", degree=degree, gamma=0.05).fit, X)
    theirs = decomposition.KernelPCA(2, kernel="poly", degree=degree, gamma=0.05).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)


def test_digits_that_centring_cancels_are_reported():
    """A callable's values cannot be computed without what they share: the report says how much that magnifies."""

    def kernel(x, y):
        return float(np.exp(-((x - y) ** 2).sum()))

    with pytest.warns(UserWarning, match="centring subtracts what they share"):
        model = KernelPCA(2, kernel=kernel).fit(1e-4 * X)
    batch = model.transform(1e-4 * Z)
    alone = np.vstack([model.transform(1e-4 * row[None]) for row in Z])
    lost = np.abs(batch - alone).max() / np.abs(model.embedding_).max()
    assert np.finfo(float).eps / 100 * model.report_.amplification < lost
    assert lost < np.finfo(float).eps * 10 * model.report_.amplification
    centred = KernelPCA(2, kernel=lambda x, y: float(np.expm1(-((x - y) ** 2).sum()))).fit(1e-4 * X)
    assert centred.report_.amplification < 10


def test_kernels_that_do_not_vary_or_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="gamma x.y .* is about .* Lower gamma"):
        KernelPCA(kernel="sigmoid").fit(X + 100)
    with pytest.raises(ValueError, match="degree=2.5 needs .* Take a whole degree"):
        KernelPCA(kernel="poly", degree=2.5).fit(10 * X)


def test_an_eigenvalue_that_is_rounding_of_three_points_is_beyond_the_rank():
    """The points of scikit-learn's test of ``remove_zero_eig``: the second eigenvalue is about 1e-32."""
    points = [[5, 1], [5 + 1e-8, 1e-8], [5 + 1e-8, 0]]
    with pytest.raises(ValueError, match="only 1 non-trivial eigenvalues exceed rounding"):
        KernelPCA(2).fit(points)
    assert quietly(KernelPCA(1).fit, points).eigenvalues_ == pytest.approx([2 / 3])


@pytest.mark.parametrize("n", [3, 5, 10, 40, 200])
@pytest.mark.parametrize("features", [2, 30, 500])
@pytest.mark.parametrize("offset", [0, 1, 1e2, 1e4])
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_eigenvalues_beyond_one_line_are_rounding_however_far_from_the_origin(kernel, offset, features, n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        line = offset * rng.normal(size=features) + np.outer(rng.normal(size=n), rng.normal(size=features))
        given = line if kernel == "linear" else line @ line.T
        given = given if kernel == "linear" else (given + given.T) / 2
        with pytest.raises(ValueError, match="exceed rounding"):
            quietly(KernelPCA(2, kernel=kernel).fit, given)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine", "laplacian", "sigmoid"])
def test_no_eigenvalue_of_a_well_conditioned_kernel_is_lost(kernel):
    """Oracle: NumPy's eigenvalues of the centred matrix; those above 1e-12 of the first are all kept."""
    gamma = {"gamma": 0.01} if kernel == "sigmoid" else {}
    values = np.linalg.eigvalsh(centred(pairwise_kernels(X, metric=kernel, **gamma)))[::-1]
    count = int((values > 1e-12 * values[0]).sum())
    model = quietly(KernelPCA(count, kernel=kernel, **gamma).fit, X)
    np.testing.assert_allclose(model.eigenvalues_, values[:count], rtol=1e-3, atol=1e-13 * values[0])


def test_a_narrow_kernel_has_all_its_eigenvalues():
    model = quietly(KernelPCA(119, kernel="rbf", gamma=1e4).fit, X)
    np.testing.assert_allclose(model.eigenvalues_, 1, atol=0.2)


def centred(K):
    J = np.eye(len(K)) - 1 / len(K)
    return J @ K @ J
