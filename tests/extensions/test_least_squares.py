"""The least-squares extension of Wang (2019), against kernels written out in plain NumPy."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from catalogue import cloud, new_points, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    graphs,
)
from outfold._runtime.threads import Threads
from outfold.engine.model import ExtendedModel
from outfold.extensions import LeastSquares
from outfold.extensions.least_squares import JointModel, joint_degrees
from outfold.extensions.samples import Samples
from outfold.solvers import LowRank

EPSILON = 0.7
RUN = Threads(1)
alphas = pytest.mark.parametrize("alpha", [0.0, 1.0], ids=["graph Laplacian", "Laplace-Beltrami"])
any_alpha = pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])


def carried(spec, model):
    """What the extension makes of a fitted model."""
    nothing = np.empty((0, 1))  # least squares read the model only
    return spec.fit(Samples(points=nothing, values=nothing, measure=nothing[:, 0], model=model), RUN)


def gaussian(A, B):
    return np.exp(-cdist(A, B, "sqeuclidean") / (2 * EPSILON))


def scaling(W, alpha):
    """d of w / (d d'), as the paper writes it where it does."""
    S = W.sum(axis=1)
    if alpha == 0:
        return np.sqrt(S)
    if alpha == 1:
        return np.sqrt(S * (W @ (1 / S)))
    return S**alpha * np.sqrt(S**-alpha * (W @ S**-alpha))


def canonical(W, alpha):
    """All of sqrt(lambda) v, phi_0 first, with lambda."""
    d = scaling(W, alpha)
    values, vectors = np.linalg.eigh(W / d[:, None] / d)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    return np.sqrt(values) * vectors, values, d


def fitted(X, count=4, **options):
    options = {"epsilon": EPSILON, "n_neighbors": None, "coordinates": "canonical"} | options
    return quietly(DiffusionMaps(count, **options).fit, X)


def signed(phi, like):
    """Columns with the signs of others."""
    return phi * np.sign((phi * like).sum(axis=0))


@pytest.fixture
def sets():
    X = cloud(3, rows=50)
    return X, new_points(X, 5, rows=20)


# -- the kernel ----------------------------------------------------------------------------


@any_alpha
def test_the_top_eigenvalue_is_one(sets, alpha):
    phi, values, _ = canonical(gaussian(sets[0], sets[0]), alpha)
    assert values[0] == pytest.approx(1, abs=1e-12)
    assert np.sign(phi[:, 0]).sum() in (50, -50)


def test_the_other_printed_form_of_d_has_another_top_eigenvalue(sets):
    W = gaussian(sets[0], sets[0])
    S = W.sum(axis=1)
    misprinted = S * np.sqrt(W @ (1 / S))
    assert np.linalg.eigvalsh(W / misprinted[:, None] / misprinted)[-1] < 0.9


# -- degrees of the training set -----------------------------------------------------------


@any_alpha
@pytest.mark.parametrize("t", [1, 3])
def test_canonical_coordinates_are_those_of_the_kernel(sets, alpha, t):
    X, Z = sets
    phi, values, d = canonical(gaussian(X, X), alpha)
    maps = fitted(X, alpha=alpha, t=t)
    expected = signed(phi[:, 1:5] * values[1:5] ** ((t - 1) / 2), maps.embedding_)
    np.testing.assert_allclose(maps.eigenvalues_, values[1:5], atol=1e-12)
    np.testing.assert_allclose(maps.embedding_, expected, atol=1e-10)
    w = gaussian(Z, X)
    q = w.sum(axis=1)
    e = q**alpha * np.sqrt(q**-alpha * (w @ gaussian(X, X).sum(axis=1) ** -alpha))
    new = w / e[:, None] / d @ expected / values[1:5]
    np.testing.assert_allclose(quietly(maps.transform, Z), new, atol=1e-10)


@alphas
def test_inner_products_are_the_kernel(sets, alpha):
    X = sets[0]
    maps = fitted(X, 49, alpha=alpha, epsilon=0.05)  # all but phi_0
    W = np.exp(-cdist(X, X, "sqeuclidean") / 0.1)
    d = scaling(W, alpha)
    delta = (d / W.sum(axis=1) ** alpha) ** 2
    trivial = np.sqrt(delta / delta.sum())
    gram = maps.embedding_ @ maps.embedding_.T + np.outer(trivial, trivial)
    np.testing.assert_allclose(gram, W / d[:, None] / d, atol=1e-10)


@any_alpha
@pytest.mark.parametrize("n_neighbors", [None, 8], ids=["dense", "union"])
def test_ratios_are_diffusion_coordinates_at_half_time(sets, alpha, n_neighbors):
    X, Z = sets
    options = {"alpha": alpha, "n_neighbors": n_neighbors}
    canonical_, ratios = (
        fitted(X, t=t, coordinates=name, **options) for t, name in ((1, "canonical"), (0.5, "diffusion"))
    )
    both = np.vstack([X, Z])
    trivial = np.exp((canonical_.model_.rule._log_delta(canonical_.model_.rule.markov.rows(both))) / 2)
    trivial /= np.exp(canonical_.model_.rule.log_total / 2)
    np.testing.assert_allclose((trivial[:50] ** 2).sum(), 1, atol=1e-10)  # phi_0 is unit over the training set
    phi, psi = quietly(canonical_.transform, both), quietly(ratios.transform, both)
    np.testing.assert_allclose(phi / trivial[:, None], psi, atol=1e-10)


def test_weights_are_repeats_in_canonical_coordinates(sets):
    X, Z = sets
    times = 1 + np.arange(50) % 3
    maps = DiffusionMaps(3, epsilon=EPSILON, alpha=0.5, coordinates="canonical")
    weighted = quietly(maps.fit, X, sample_weight=times).transform(Z, on_far="nan")
    repeated = quietly(maps.fit, np.repeat(X, times, axis=0)).transform(Z, on_far="nan")
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)


def test_landmarks_are_the_anchors_of_the_degrees(sets):
    X, Z = sets
    some = fitted(X, landmarks=X[:30])
    np.testing.assert_allclose(some.transform(Z, on_far="nan"), fitted(X[:30]).transform(Z, on_far="nan"), atol=1e-10)


@any_alpha
@pytest.mark.parametrize("edges", [graphs.Mutual(6), graphs.Ball(1.5), None], ids=["mutual", "ball", "dense"])
def test_a_row_that_reaches_nothing_sees_its_nearest_anchor_alone_or_tends_to_zero(sets, alpha, edges):
    X = sets[0]
    maps = fitted(X, alpha=alpha, n_neighbors=edges)
    far = np.array([[40.0, 0, 0], [1e200, 0, 0]])
    found, nearest = quietly(maps.transform, far), maps.model_.nearest(far) / maps.eigenvalues_
    assert maps.trust(far).flag.all()
    np.testing.assert_allclose(found[1], nearest[1], atol=1e-12)
    if edges is not None:
        np.testing.assert_allclose(found[0], nearest[0], atol=1e-12)
    elif alpha == 1:  # the density is gone, and with it the distance
        assert np.abs(found[0]).max() > 0.1 * np.abs(nearest[0]).max()
    else:
        assert np.abs(found[0]).max() < 1e-50


def test_a_precomputed_kernel_has_canonical_coordinates(sets):
    X, Z = sets
    given = quietly(DiffusionMaps(4, kernel="precomputed", coordinates="canonical").fit, gaussian(X, X))
    featured = fitted(X)
    expected = quietly(featured.transform, Z)
    np.testing.assert_allclose(signed(quietly(given.transform, gaussian(Z, X)), expected), expected, atol=1e-10)


# -- joint degrees -------------------------------------------------------------------------


def joint(X, Z, alpha):
    """phi_X and phi_Z of the paper, the misprint mended: all functions, phi_0 first."""
    phi, values, d = canonical(gaussian(X, X), alpha)
    both = np.vstack([X, Z])
    W = gaussian(both, both)
    e = scaling(W, alpha)
    keep = values > 1e-9
    phi, values = phi[:, keep], values[keep]
    new = W[len(X) :, : len(X)] / e[len(X) :, None] / d @ phi / values
    return phi * (d / e[: len(X)])[:, None], new, W / e[:, None] / e, phi * (e[: len(X)] / d)[:, None]


@any_alpha
def test_joint_degrees_reproduce_the_joint_kernel(sets, alpha):
    """The reference itself: phi_X phi_Z' is the block of the joint kernel, and the printed phi_X is far off."""
    X, Z = sets
    moved, new, kernel, misprinted = joint(X[::3], Z, alpha)
    n = len(moved)
    np.testing.assert_allclose(moved @ moved.T, kernel[:n, :n], atol=1e-10)
    np.testing.assert_allclose(moved @ new.T, kernel[:n, n:], atol=1e-10)
    assert np.abs(misprinted @ misprinted.T - kernel[:n, :n]).max() > 0.3
    assert np.abs(misprinted @ new.T - kernel[:n, n:]).max() > 0.1


@any_alpha
def test_the_joint_model_is_the_paper(sets, alpha):
    X, Z = sets
    maps = fitted(X, alpha=alpha)
    model = carried(LeastSquares("joint"), maps.model_)
    moved, new, _, misprinted = joint(X, Z, alpha)
    sign = np.sign((moved[:, 1:5] * maps.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embed(Z, RUN), new[:, 1:5] * sign, atol=1e-10)
    found = model.training(X, Z, RUN)
    np.testing.assert_allclose(found, moved[:, 1:5] * sign, atol=1e-10)
    np.testing.assert_allclose(model.training(X[[7, 3]], Z, RUN), found[[7, 3]], atol=0)
    assert np.abs(found - misprinted[:, 1:5] * sign).max() > 0.05


@alphas
def test_a_copy_of_an_anchor_goes_where_the_anchor_goes(sets, alpha):
    X, Z = sets
    model = JointModel(fitted(X, alpha=alpha).model_)
    batch = np.vstack([X[:5], Z])
    np.testing.assert_allclose(model.embed(batch, RUN)[:5], model.training(X[:5], batch, RUN), atol=1e-10)


@pytest.mark.parametrize(
    "edges",
    [6, graphs.Mutual(9), graphs.Ball(1.8), graphs.Threshold(0.2)],
    ids=["union", "mutual", "ball", "threshold"],
)
@alphas
def test_a_sparse_rule_is_drawn_over_anchors_and_batch(sets, edges, alpha):
    X, Z = sets
    model = JointModel(fitted(X, alpha=alpha, n_neighbors=edges).model_)
    both = np.vstack([X, Z])
    D = cdist(both, both)
    radius = np.full(
        len(both), {graphs.Ball: 1.8, graphs.Threshold: np.sqrt(-2 * EPSILON * np.log(0.2))}.get(type(edges))
    )
    if radius[0] is None:
        k = getattr(edges, "k", edges)
        radius = np.sort(D, axis=1)[:, k - 1 : k + 1].mean(axis=1)
    lesser = np.minimum if isinstance(edges, graphs.Mutual) else np.maximum
    W = np.where(lesser.outer(radius, radius) >= D, gaussian(both, both), 0.0)
    of_anchors, of_batch = joint_degrees(model.rule, Z, RUN)
    order = model.rule.geometry.nearest(X)
    np.testing.assert_allclose(of_anchors[order], scaling(W, alpha)[:50], rtol=1e-12)
    np.testing.assert_allclose(of_batch, scaling(W, alpha)[50:], rtol=1e-12)
    at_anchors = np.exp(model.rule.log_scaling_of_anchors)[order]
    np.testing.assert_allclose(at_anchors, np.exp(model.rule.log_scaling(X)), rtol=1e-12)
    moved = model.spectral.places[order] * (at_anchors / of_anchors[order])[:, None]
    np.testing.assert_allclose(model.training(X, Z, RUN), moved, atol=1e-12)


@pytest.mark.parametrize("neighbours", [None, "auto"])
def test_self_tuning_measures_local_units_in_both(sets, neighbours):
    X, Z = sets
    model = JointModel(fitted(X, kernel="self_tuning", alpha=0, n_neighbors=neighbours).model_)
    both = np.vstack([X, Z])
    D = cdist(both, both)
    unit, near = np.sort(D, axis=1)[:, 6], np.full(D.shape, neighbours is None)
    np.put_along_axis(near, np.argsort(D, axis=1)[:, :15], True, axis=1)  # "auto": the 15 nearest of either, at any n
    mass = np.where(near | near.T, np.exp(-(D**2) / np.outer(unit, unit) / (2 * EPSILON)), 0).sum(axis=1)
    np.testing.assert_allclose(joint_degrees(model.rule, Z, RUN)[1], np.sqrt(mass[50:]), rtol=1e-12)


def test_joint_degrees_depend_on_the_batch_and_training_degrees_do_not(sets):
    X, Z = sets
    maps = fitted(X)
    alone, among = (JointModel(maps.model_).embed(batch, RUN)[0] for batch in (Z[:1], Z))
    assert np.abs(alone / among - 1).max() > 0.03
    plain = carried(LeastSquares(), maps.model_)
    np.testing.assert_allclose(plain.embed(Z[:1], RUN)[0], plain.embed(Z, RUN)[0], atol=1e-12)


def test_weights_of_anchors_count_in_joint_degrees(sets):
    X, Z = sets
    times = 1 + np.arange(50) % 3
    maps = DiffusionMaps(3, epsilon=EPSILON, coordinates="canonical")
    models = []
    for rows, weights in ((X, times), (np.repeat(X, times, axis=0), None)):
        models.append(JointModel(quietly(maps.fit, rows, sample_weight=weights).model_))
    np.testing.assert_allclose(models[0].embed(Z, RUN), models[1].embed(Z, RUN), atol=1e-10)
    np.testing.assert_allclose(models[0].training(X, Z, RUN), models[1].training(X, Z, RUN), atol=1e-10)


@alphas
@pytest.mark.parametrize("n_neighbors", [None, 6, graphs.Mutual(6)], ids=["dense", "union", "mutual"])
def test_a_far_row_of_a_joint_batch_is_finite_flagged_and_alone_in_it(sets, alpha, n_neighbors):
    X, Z = sets
    plain = fitted(X, alpha=alpha, n_neighbors=n_neighbors)
    model = ExtendedModel(plain.model_, JointModel(plain.model_))
    batch = np.vstack([Z, [[1e200, 0, 0]], [[300.0, 0, 0]]])
    embedding, facts = model.look(batch, RUN)
    np.testing.assert_array_equal(facts.support, plain.trust(batch).support)
    assert np.isfinite(embedding).all()
    assert plain.trust(batch).flag[-2:].all()
    np.testing.assert_allclose(embedding[-2], 0, atol=1e-12)
    if n_neighbors is None:  # a far row of a union is a neighbour of its own
        np.testing.assert_allclose(embedding[:-2], model.embed(Z, RUN), atol=1e-12)
    assert np.isfinite(model.nearest(batch)).all()


def test_joined_components_keep_their_bridges():
    X = np.vstack([cloud(1, rows=20), cloud(2, rows=20) + 30])
    maps = fitted(X, 2, n_neighbors=5, components="join", epsilon=10.0, alpha=0)
    model = JointModel(maps.model_)
    Z = new_points(X[:20], 0, rows=3)
    order = model.rule.geometry.nearest(X)
    training = np.exp(model.rule.log_scaling_of_anchors)[order]
    joint_ = joint_degrees(model.rule, Z, RUN)[0][order]
    np.testing.assert_allclose(joint_[20:], training[20:], rtol=1e-12)  # the other side sees no new row, and its bridge
    assert (joint_[:20] != training[:20]).any()


@alphas
def test_all_functions_of_the_joint_model_reproduce_the_joint_kernel(sets, alpha):
    """phi_X phi_Z' with the library's phi: every function but phi_0, which is written out."""
    X, Z = sets[0][::3], sets[1]
    model = JointModel(fitted(X, len(X) - 1, alpha=alpha).model_)
    moved, new, kernel, _ = joint(X, Z, alpha)
    n = len(X)
    assert moved.shape == (n, n)  # no function is left out
    found = model.training(X, Z, RUN) @ model.embed(Z, RUN).T + np.outer(moved[:, 0], new[:, 0])
    np.testing.assert_allclose(found, kernel[:n, n:], atol=1e-10)


# -- what is Nystrom already, and what is refused ------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        DiffusionMaps(),
        DiffusionMaps(n_neighbors=6, t=2),
        LaplacianEigenmaps(),
        KernelPCA(kernel="rbf"),
        Isomap(n_neighbors=6),
        ClassicalMDS(),
        Roseland(landmarks=0.6, random_state=0),
        DiffusionMaps(landmarks=0.6, solver=LowRank(), random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("degrees", ["training", "joint"])
def test_elsewhere_least_squares_is_nystrom(sets, estimator, degrees):
    model = quietly(estimator.fit, sets[0]).model_
    assert carried(LeastSquares(degrees), model) is model


@alphas
def test_in_ratio_coordinates_joint_degrees_are_nystrom(sets, alpha):
    """phi_k / phi_0 with joint degrees, as the paper has them, is the transform of diffusion coordinates."""
    X, Z = sets
    maps = fitted(X, alpha=alpha, t=0.5, coordinates="diffusion")
    moved, new, *_ = joint(X, Z, alpha)
    at_training, at_new = moved[:, 1:5] / moved[:, :1], new[:, 1:5] / new[:, :1]
    sign = np.sign((at_training * maps.embedding_).sum(axis=0))
    np.testing.assert_allclose(at_training * sign, maps.embedding_, atol=1e-10)
    np.testing.assert_allclose(at_new * sign, quietly(maps.transform, Z), atol=1e-10)


@pytest.mark.parametrize(
    "estimator", [LocallyLinearEmbedding(n_neighbors=6), LaplacianEigenmaps(laplacian="unnormalized")]
)
def test_what_has_no_mercer_kernel_is_refused(sets, estimator):
    model = quietly(estimator.fit, sets[0]).model_
    with pytest.raises(ValueError, match=r"functions of a Mercer kernel.*nystrom"):
        carried(LeastSquares(), model)


def test_bad_input_is_told(sets):
    X, Z = sets
    with pytest.raises(ValueError, match="degrees='both' is not known. Valid: 'training', 'joint'"):
        LeastSquares("both")
    with pytest.raises(ValueError, match="coordinates='cosine'.*'diffusion', 'canonical'"):
        DiffusionMaps(coordinates="cosine").fit(X)
    with pytest.raises(ValueError, match="they cancel"):
        JointModel(quietly(DiffusionMaps().fit, X).model_)
    with pytest.raises(ValueError, match="a kernel in local units goes through the anchors.*kernel='gaussian'"):
        JointModel(quietly(DiffusionMaps(coordinates="canonical").fit, X).model_)
    given = quietly(DiffusionMaps(metric="precomputed", kernel="gaussian", coordinates="canonical").fit, cdist(X, X))
    with pytest.raises(ValueError, match="precomputed rows tell of the anchors"):
        carried(LeastSquares("joint"), given.model_)
    with pytest.raises(ValueError, match=r"1 of 2 rows are not anchors \(the first is row 1\)"):
        JointModel(fitted(X).model_).training(np.vstack([X[:1], Z[:1]]), Z, RUN)


def test_a_half_power_of_a_negative_eigenvalue_is_refused(sets):
    X = sets[0]
    most = {"n_neighbors": 6, "epsilon": np.inf}
    with pytest.raises(ValueError, match=r"t=1 is not even.*lambda\^\(t/2\).*an even number"):
        fitted(X, [1, 49], **most)
    assert fitted(X, [1, 49], t=2, **most).embedding_.shape == (50, 2)


def test_low_rank_is_refused_in_canonical_coordinates(sets):
    with pytest.raises(ValueError, match="'diffusion' only"):
        DiffusionMaps(landmarks=20, solver=LowRank(), coordinates="canonical").fit(sets[0])


def test_joint_degrees_through_the_estimator_need_the_whole_batch(sets, tmp_path):
    X, Z = sets[0], sets[1]
    maps = DiffusionMaps(2, epsilon=EPSILON, n_neighbors=None, coordinates="canonical")
    plain = maps.fit(X).model_
    joint = clone(maps).set_params(extension=LeastSquares("joint")).fit(X)
    np.testing.assert_allclose(quietly(joint.transform, Z), JointModel(plain).embed(Z, RUN), atol=1e-12)
    with pytest.raises(ValueError, match="whole batch"):
        joint.transform(Z, out=tmp_path / "out.npy")
