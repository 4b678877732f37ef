"""A model is its own, beyond the list of methods: sparse rows and graphs, what it hands out, objects in parameters."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import clone

import outfold
from catalogue import ALL_METHODS, cloud, new_points, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    Roseland,
    SpectralClustering,
    graphs,
)
from outfold import landmarks as choices
from outfold._runtime.ownership import arrays
from outfold.distances import Metric

Z = new_points(cloud(9, rows=60), 1)


def spoil(value):
    """Overwrite every array of a value that can be written to."""
    for array in buffers(value):
        if array.flags.writeable:
            array[...] = np.arange(array.size, dtype=float).reshape(array.shape) % 7


def buffers(value):
    if isinstance(value, np.ndarray):
        return [value]
    if issparse(value):
        return [value.data, value.indices, value.indptr]
    if isinstance(value, dict):
        return [array for part in value.values() for array in buffers(part)]
    if isinstance(value, tuple | list):
        return [array for part in value for array in buffers(part)]
    return list(arrays(value))


def answers(model, rows, path=None):
    """What a model says of rows, as arrays of its own."""
    places = np.array(quietly(model.transform, rows))
    trust = [np.array(value) for value in vars(model.trust(rows)).values() if isinstance(value, np.ndarray)]
    back = [] if model._precomputed_parameter() else [np.array(quietly(model.inverse_transform, places))]
    stored = []
    if path is not None:
        model.save(path)
        stored = [np.frombuffer(path.read_bytes(), dtype=np.uint8)]
    return [places, *trust, *back, *stored]


def handed_out(model, rows):
    """Yield everything that a fitted model returns."""
    yield quietly(model.transform, rows)
    yield model.trust(rows)
    yield model.get_params()
    for name in sorted(name for name in dir(model) if name.endswith("_") and not name.startswith("_")):
        try:
            value = getattr(model, name)
        except (AttributeError, ValueError):  # this method or setting has none
            continue
        if not isinstance(value, LinearOperator) and not callable(value):
            yield value
    if not model._precomputed_parameter():
        yield quietly(model.inverse_transform, quietly(model.transform, rows))


def check(model, given, rows, path):
    """Neither what the caller passed nor what the model returned is a way into it, to the bit."""
    known = not callable(getattr(model, "kernel", None)) and not hasattr(getattr(model, "extension", None), "predict")
    path = path / "model.outfold" if known else None
    before = answers(model, rows, path)
    for value in (*given, *handed_out(model, rows)):
        spoil(value)
    for one, two in zip(before, answers(model, rows, path), strict=True):
        assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
    copies = [outfold.load(path)] if path is not None else []
    copies += [pickle.loads(pickle.dumps(model))] if known else []
    for copy in copies:
        for one, two in zip(before, answers(copy, rows)):
            assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


@pytest.mark.parametrize("name", ALL_METHODS)
def test_what_a_model_returns_is_no_way_into_it(name, tmp_path):
    X, weights = cloud(9, rows=60).copy(), np.random.default_rng(0).integers(1, 3, 60).astype(float)
    model = clone(ALL_METHODS[name])
    given = [X, weights]
    embedding = quietly(model.fit_transform, X, sample_weight=weights)
    check(model, [*given, embedding], Z.copy(), tmp_path)


SPARSE = (
    DiffusionMaps(), DiffusionMaps(kernel="gaussian", n_neighbors=8), DiffusionMaps(kernel="cosine"),
    LaplacianEigenmaps(), KernelPCA(), Roseland(landmarks=0.5, random_state=0), Isomap(n_neighbors=8),
    SpectralClustering(3),
)  # fmt: skip


@pytest.mark.parametrize("estimator", SPARSE, ids=str)
def test_sparse_rows_are_copied(estimator, tmp_path):
    X = csr_array(np.abs(cloud(9, rows=60)))
    check(quietly(clone(estimator).fit, X), [X], csr_array(np.abs(Z)), tmp_path)


def pairs(X):
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(
    "estimator",
    [
        DiffusionMaps(kernel="precomputed"), LaplacianEigenmaps(kernel="precomputed"),
        DiffusionMaps(metric="precomputed"), Isomap(metric="precomputed", n_neighbors=8),
    ],
    ids=str,
)  # fmt: skip
def test_precomputed_matrices_are_copied(estimator, form, tmp_path):
    distances = pairs(cloud(9, rows=60))
    if estimator._precomputed_parameter() == "kernel":
        matrix = np.exp(-(distances**2))
        matrix = csr_array(np.where(matrix > 1e-2, matrix, 0)) if form == "sparse" else matrix
    else:
        near = np.sort(distances, axis=1)[:, 14:15]
        kept = (distances <= near) | (distances <= near.T)
        matrix = csr_array(np.where(kept, distances, 0)) if form == "sparse" else distances
    model = quietly(clone(estimator).fit, matrix)
    check(model, [matrix], matrix[:7].copy(), tmp_path)


@pytest.mark.parametrize(
    ("make", "array"),
    [
        (lambda a: DiffusionMaps(landmarks=a), cloud(9, rows=60)[:30].copy()),
        (lambda a: DiffusionMaps(landmarks=csr_array(a)), cloud(9, rows=60)[:30].copy()),
        (lambda a: Roseland(landmarks=choices.Points(a)), cloud(9, rows=60)[:30].copy()),
        (lambda a: ClassicalMDS(metric=Metric("mahalanobis", {"VI": a})), np.eye(3)),
        (lambda a: DiffusionMaps(metric=Metric("minkowski", {"p": 2, "w": a})), np.ones(3)),
        (lambda a: Isomap(n_neighbors=graphs.Mutual(9), metric=Metric("seuclidean", {"V": a})), np.ones(3)),
        (lambda a: DiffusionMaps(n_components=a), np.array([1, 2])),
    ],
    ids=["landmarks", "sparse landmarks", "points", "mahalanobis", "minkowski", "seuclidean", "n_components"],
)
def test_arrays_in_parameters_are_copied(make, array, tmp_path):
    X, given = cloud(9, rows=60).copy(), array.copy()
    model = quietly(make(given).fit, X)
    rows, before = Z.copy(), answers(quietly(make(array.copy()).fit, X.copy()), Z.copy())
    spoil(given)
    for value in handed_out(model, rows):
        spoil(value)
    for one, two in zip(before, answers(model, rows), strict=True):
        assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


def test_an_update_is_its_own(tmp_path):
    X, more = cloud(9, rows=60).copy(), cloud(10, rows=30).copy()
    weights = np.ones(30)
    model = quietly(Roseland(landmarks=0.5, updatable=True, random_state=0).fit, X)
    quietly(model.update, more, sample_weight=weights)
    check(model, [X, more, weights], Z.copy(), tmp_path)


def test_the_law_sees_a_model_that_shares_an_array(tmp_path):
    X = cloud(9, rows=60).copy()
    model = quietly(DiffusionMaps().fit, X)
    object.__setattr__(model.model_, "basis", model.model_.basis.copy())  # which can be written to
    with pytest.raises(AssertionError):
        check(model, [], Z.copy(), tmp_path)


def test_listing_attributes_computes_none():
    """A notebook lists them to complete a name; scikit-learn's listing would fit the inverse, or raise."""
    model = quietly(DiffusionMaps(metric="precomputed").fit, pairs(cloud(9, rows=60)))
    assert {"round_trip_error_", "graph_", "embedding_", "transform"} <= set(dir(model))
    fitted = quietly(DiffusionMaps().fit, cloud(9, rows=60))
    before = set(vars(fitted))
    dir(fitted)
    assert set(vars(fitted)) == before
