"""Declared parameters: the constructor, the docstring and the checks come from the annotations."""

import inspect
import re
from typing import Annotated

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import cluster, decomposition, manifold
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors, kneighbors_graph

import outfold
from catalogue import cloud, quietly
from outfold import datasets, graphs, methods
from outfold._runtime.typing import FLAG, Interval, Options
from outfold.methods import parameters
from outfold.methods.declaration import After, estimator
from outfold.methods.peer_parameters import INSTEAD

SPECTRAL_SOLVERS = ("dense", "shift_invert", "lobpcg")
METHODS = [getattr(methods, name) for name in (*methods.__all__, "Islands")]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_the_docstring_describes_every_parameter_in_the_order_of_the_signature(method):
    section = inspect.getdoc(method).split("Parameters\n----------\n")[1].split("\n\n")[0]
    described = [line.split(" :")[0] for line in section.splitlines() if not line.startswith(" ")]
    signature = inspect.signature(method).parameters
    assert described == list(signature)
    assert [p.kind for p in signature.values()] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] + [
        inspect.Parameter.KEYWORD_ONLY
    ] * (len(signature) - 1)
    assert list(method._get_param_names()) == sorted(signature)
    assert not any(hasattr(method, name) for name in signature)  # defaults are no attributes of the class


@estimator
class Parent:
    """A parent.

    Parameters
    ----------
    first : int
        One.
    last : int
    """

    first: int = 1
    last: int = 3


@estimator
class Child(Parent):
    """A child.

    Parameters
    ----------
    own : float
        Mine.
    between : str
    """

    own: Annotated[float, Interval(0, 1)] = 0.5
    between: Annotated[str, Options("a", "b"), After("first")] = "a"
    sure: Annotated[bool, FLAG] = False
    count: Annotated[int | None, Interval(2)] = None


def test_own_parameters_come_first_and_after_places_them():
    assert list(inspect.signature(Child).parameters) == ["own", "first", "between", "sure", "count", "last"]
    assert Child.__doc__ == (
        "A child.\n\nParameters\n----------\nown : float\n    Mine.\nfirst : int\n    One.\nbetween : str\nlast : int\n"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"own": 2}, "here: own=2 must be >= 0 and <= 1."),
        ({"own": "x"}, "here: own='x' must be a number >= 0 and <= 1."),
        ({"between": "c"}, "here: between='c' is not known. Valid: 'a', 'b'."),
        ({"sure": 1}, "here: sure=1 must be True or False."),
        ({"count": 1}, "here: count=1 must be a whole number >= 2."),
    ],
)
def test_marks_are_checked(changes, message):
    parameters.check(Child(), "here")
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parameters.check(Child(**changes), "here")


def test_a_cluster_method_has_no_number_of_components():
    assert not hasattr(outfold.SpectralClustering(), "n_components")
    with pytest.raises(TypeError, match="n_components"):
        outfold.SpectralClustering(n_components=2)


# -- parameters that an estimator does not have --------------------------------------------

PEERS = [
    (manifold.Isomap, outfold.Isomap),
    (manifold.LocallyLinearEmbedding, outfold.LocallyLinearEmbedding),
    (manifold.MDS, outfold.ClassicalMDS),
    (decomposition.KernelPCA, outfold.KernelPCA),
    (manifold.SpectralEmbedding, outfold.LaplacianEigenmaps),
    (cluster.SpectralClustering, outfold.SpectralClustering),
    *([(manifold.ClassicalMDS, outfold.ClassicalMDS)] if hasattr(manifold, "ClassicalMDS") else []),
]
MISSING = [
    (ours, name)
    for theirs, ours in PEERS
    for name in inspect.signature(theirs).parameters
    if name not in inspect.signature(ours).parameters
]


def advice(method, name):
    with pytest.raises(TypeError) as refusal:
        method(**{name: 1})
    with pytest.raises(ValueError, match=r"^" + re.escape(str(refusal.value)) + r"$"):
        method().set_params(**{name: 1})
    return str(refusal.value)


@pytest.mark.parametrize(("ours", "name"), MISSING, ids=lambda value: getattr(value, "__name__", value))
def test_a_parameter_of_scikit_learns_that_is_not_ours_is_refused_with_what_to_do(ours, name):
    text = advice(ours, name)
    start = f"{ours.__name__} has no parameter {name!r}. "
    assert text.startswith(start)
    assert re.search(r"[Pp]ass |It is |It belongs to |Close over |Labels are ", text[len(start) :])
    known = {"search", "ridge", "scale"}.union(inspect.signature(ours).parameters)
    known.update(*(inspect.signature(theirs).parameters for theirs, same in PEERS if same is ours))
    assert set(re.findall(r"\b([a-z_]+)=(?!=)", text)) <= known


@pytest.mark.parametrize("kind", INSTEAD)
def test_no_advice_is_about_a_parameter_that_the_class_has(kind):
    methods_of_it = [method for method in METHODS if kind in [base.__name__ for base in method.__mro__]]
    assert methods_of_it
    for method in methods_of_it:
        if method.__name__ == kind:
            assert not set(INSTEAD[kind]) & set(inspect.signature(method).parameters)


@pytest.mark.parametrize(
    ("replacement", "theirs"),
    [
        (lambda: outfold.LaplacianEigenmaps(n_neighbors=10, epsilon=np.inf), {"affinity": "nearest_neighbors"}),
        (lambda: outfold.SpectralClustering(n_neighbors=10, epsilon=np.inf), {"affinity": "nearest_neighbors"}),
        (lambda: outfold.LaplacianEigenmaps(epsilon=1 / (2 * 0.7)), {"gamma": 0.7}),
        (lambda: outfold.LaplacianEigenmaps(kernel=lambda x, y: (0.5 * x @ y + 9) ** 2), {"degree": 2}),
        (lambda: outfold.Isomap(n_neighbors=outfold.graphs.Ball(2.0)), {"radius": 2.0}),
        (lambda: outfold.Isomap(n_neighbors=outfold.graphs.Union(6, search="tree")), {"neighbors_algorithm": "tree"}),
        (lambda: outfold.Isomap(metric=outfold.distances.Metric("minkowski", {"p": 3})), {"p": 3}),
        (lambda: outfold.KernelPCA(inverse=outfold.extensions.KernelRidge(ridge=0.1)), {"alpha": 0.1}),
        *((lambda s=s: outfold.LaplacianEigenmaps(solver=s), {"eigen_solver": s}) for s in SPECTRAL_SOLVERS),
        *((lambda s=s: outfold.KernelPCA(solver=s), {"eigen_solver": s}) for s in ("dense", "lanczos", "krylov")),
        *((lambda s=s: outfold.LocallyLinearEmbedding(solver=s), {"eigen_solver": s}) for s in SPECTRAL_SOLVERS[:2]),
    ],
)
def test_what_the_advice_says_can_be_fitted(replacement, theirs):
    estimator = replacement()
    with pytest.raises(TypeError, match="has no parameter"):
        type(estimator)(**theirs)
    assert np.isfinite(quietly(estimator.fit, cloud(0, rows=60)).embedding_).all()


@pytest.mark.parametrize(
    ("method", "name", "meant"),
    [
        (outfold.Isomap, "n_neighbours", "n_neighbors"),
        (outfold.DiffusionMaps, "epsilom", "epsilon"),
        (outfold.GRAE, "n_component", "n_components"),
        (outfold.DiffusionNet, "hiden", "hidden"),
        (methods.Islands, "n_neighbor", "n_neighbors"),
    ],
)
def test_a_misspelt_parameter_has_a_hint(method, name, meant):
    assert f"has no parameter {name!r}. Did you mean {meant!r}? It has n_components, " in advice(method, name)


def test_an_unknown_parameter_is_refused_with_those_that_there_are():
    assert advice(outfold.ClassicalMDS, "colour").startswith(
        "ClassicalMDS has no parameter 'colour'. It has n_components, metric, signed, landmarks"
    )


def test_parameters_of_parts_are_set_and_their_names_are_checked_there():
    net = outfold.DiffusionNet(spectral=outfold.DiffusionMaps(2))
    assert net.set_params(spectral__epsilon=0.5).spectral.epsilon == 0.5
    with pytest.raises(ValueError, match="DiffusionMaps has no parameter 'gamma'. Pass epsilon"):
        net.set_params(spectral__gamma=0.5)


def test_a_class_that_extends_an_estimator_has_its_own_constructor():
    class Flat(outfold.Isomap):
        def __init__(self, k=5):
            super().__init__(2, n_neighbors=k)
            self.k = k

    assert clone(Flat(k=6)).get_params() == {"k": 6}
    with pytest.raises(ValueError, match=r"Flat has no parameter 'radius'. Pass n_neighbors=outfold.graphs.Ball"):
        Flat().set_params(radius=1)


REASONS = [
    (outfold.LocallyLinearEmbedding, "metric", "so it needs features"),
    (outfold.Roseland, "cut_off", "Pass threshold="),
    (outfold.PHATE, "components", "Raise n_neighbors or lower decay"),
]


@pytest.mark.parametrize(("method", "name", "reason"), REASONS)
def test_a_parameter_of_other_methods_is_refused_with_the_reason(method, name, reason):
    assert reason in advice(method, name)


# -- the advice about affinities, beside scikit-learn ---------------------------------------


def off(theirs, ours):
    """The largest difference between unit eigenvectors, up to their signs."""
    theirs, ours = (columns / np.linalg.norm(columns, axis=0) for columns in (theirs, ours))
    return np.abs(theirs * np.sign((theirs * ours).sum(axis=0)) - ours).max()


def embedded_there(affinity, X, **parameters):
    exactly = {"eigen_solver": "arpack", "eigen_tol": 1e-13, "random_state": 0}
    return manifold.SpectralEmbedding(3, affinity=affinity, **exactly, **parameters).fit_transform(X)


@pytest.mark.parametrize("k", [6, 15])
def test_the_advice_for_a_graph_of_neighbours_gives_scikit_learns_eigenvectors(k):
    X, _ = datasets.s_curve(300, random_state=0)
    ours = outfold.LaplacianEigenmaps(3, kernel="precomputed")
    wanted = embedded_there("nearest_neighbors", X, n_neighbors=k)
    assert off(wanted, ours.fit(kneighbors_graph(X, k - 1)).embedding_) < 1e-8
    distances = KNeighborsTransformer(n_neighbors=20, mode="distance").fit_transform(X)
    graph = NearestNeighbors(n_neighbors=k - 1, metric="precomputed").fit(distances).kneighbors_graph()
    wanted = embedded_there("precomputed_nearest_neighbors", distances, n_neighbors=k)
    assert off(wanted, ours.fit(graph).embedding_) < 1e-8
    assert off(wanted, outfold.LaplacianEigenmaps(3, n_neighbors=k, epsilon=np.inf).fit(X).embedding_) > 1e-4


@pytest.mark.parametrize("affinity", ["nearest_neighbors", "precomputed_nearest_neighbors"])
def test_clusters_of_a_graph_of_neighbours_are_scikit_learns(affinity):
    X, _ = datasets.noisy_moons(300, random_state=0)
    distances = KNeighborsTransformer(n_neighbors=20, mode="distance").fit_transform(X)
    rows = X if affinity == "nearest_neighbors" else distances
    theirs = cluster.SpectralClustering(2, affinity=affinity, n_neighbors=10, random_state=0).fit(rows)
    graph = NearestNeighbors(n_neighbors=9, metric="precomputed").fit(distances).kneighbors_graph()
    ours = outfold.SpectralClustering(2, kernel="precomputed").fit(graph)
    assert adjusted_rand_score(theirs.labels_, ours.labels_) == 1
    wanted = manifold.spectral_embedding(theirs.affinity_matrix_, n_components=1, eigen_tol=1e-13, random_state=0)
    assert off(wanted, ours.eigenvectors_[:, :1]) < 1e-8


@pytest.mark.parametrize("form", ["dense", "sparse", "include_self"])
def test_scikit_learn_ignores_the_diagonal_of_affinities_which_the_advice_clears(form):
    X, _ = datasets.s_curve(200, random_state=0)
    if form == "include_self":
        W = csr_matrix(graphs.symmetrize(kneighbors_graph(X, 10, include_self=True)))
    else:
        W = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / 0.5)
        W[np.diag_indices(200)] += np.linspace(0, 3, 200)
        W = csr_matrix(W) if form == "sparse" else W
    ours = outfold.LaplacianEigenmaps(3, kernel="precomputed")
    wanted = embedded_there("precomputed", W.copy())
    assert off(wanted, ours.fit(W).embedding_) > 1e-5  # with the diagonal
    if form == "dense":
        np.fill_diagonal(W, 0)
    else:
        W.setdiag(0)
    assert off(wanted, ours.fit(W).embedding_) < 1e-8


def test_a_gaussian_without_the_diagonal_is_scikit_learns():
    X, _ = datasets.s_curve(200, random_state=0)
    ours = outfold.LaplacianEigenmaps(3, epsilon=1 / 4, diagonal=False).fit(X)
    assert off(embedded_there("rbf", X, gamma=2.0), ours.embedding_) < 1e-8
