"""A network as an extension of any method."""

import numpy as np
import pytest
from sklearn.base import clone

from outfold import DiffusionMaps, DiffusionNet, Isomap, LaplacianEigenmaps, Roseland, SpectralClustering
from outfold.datasets import helix
from outfold.neural import Net, Training
from outfold.quality import aligned_error

torch = pytest.importorskip("torch")
SMALL = {"hidden": (12, 8), "max_iter": 15, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def ring():
    return helix(600, noise=0.05, random_state=0)[0]


@pytest.mark.parametrize("method", [DiffusionMaps(), Isomap(), LaplacianEigenmaps(), Roseland(landmarks=200)])
def test_a_network_carries_any_embedding_and_goes_back(method, ring):
    small = Net((30,), max_iter=60)
    model = clone(method).set_params(extension=small, inverse=small, n_jobs=1, random_state=0).fit(ring)
    assert aligned_error(model.transform(ring), model.embedding_) < 0.2
    assert 0 < model.report_.extension_gap < np.ptp(model.embedding_)
    assert "Net(hidden=(30,)" in model.report_.extension
    assert model.round_trip_error_ < 0.3


def test_the_order_of_the_points_does_not_matter(ring):
    order = np.random.default_rng(0).permutation(len(ring))
    one = DiffusionMaps(extension=Net((10,), max_iter=8)).fit(ring)
    two = DiffusionMaps(extension=Net((10,), max_iter=8)).fit(ring[order])
    np.testing.assert_allclose(one.transform(ring), two.transform(ring), atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden": 10}, "widths of the hidden layers"),
        ({"hidden": (10, 0)}, "hidden=0 must be a whole number >= 1"),
        ({"activation": "swish"}, "'relu', 'elu', 'tanh', 'sigmoid', 'sine'"),
        ({"solver": "sgd"}, "'auto', 'lbfgs', 'adam'"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
        ({"eigen_penalty": np.nan}, "eigen_penalty=nan"),
        ({"training": Training(rate=0.0)}, "rate=0.0 must be > 0"),
        ({"training": Training(validation=1.0)}, "validation=1.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"training": Training(batch=2.5)}, "batch=2.5"),
        ({"training": Training(patience=-1)}, "patience=-1"),
        ({"training": 64}, "training=64 must be a Training"),
        ({"device": 3}, "must be a name"),
        ({"device": "gpu"}, "Valid: 'auto', 'cpu', 'cuda'"),
    ],
)
def test_bad_settings_are_refused(changes, match, ring):
    with pytest.raises(ValueError, match=match):
        DiffusionNet(**{**SMALL, **changes}).fit(ring)
    with pytest.raises(ValueError, match=match):
        DiffusionMaps(extension=Net(**changes)).fit(ring)


def test_penalties_without_a_markov_matrix_are_refused(ring):
    for method in (
        Isomap(),
        Roseland(landmarks=60),
        Roseland(landmarks=60, kernel="gaussian"),
        DiffusionMaps(coordinates="canonical"),
        DiffusionMaps(coordinates="canonical", kernel="gaussian"),
        DiffusionMaps(kernel="variable"),
        LaplacianEigenmaps(laplacian="unnormalized"),
    ):
        with pytest.raises(ValueError, match="eigenvectors of a Markov matrix"):
            DiffusionNet(spectral=method, eigen_penalty=1.0, **SMALL).fit(ring)
    with pytest.raises(ValueError, match="features are no eigenvectors"):
        DiffusionMaps(inverse=Net(eigen_penalty=1.0)).fit(ring)
    with pytest.raises(ValueError, match="must be a spectral method"):
        DiffusionNet(spectral="isomap").fit(ring)
    with pytest.raises(ValueError, match="no n_components"):
        DiffusionNet(spectral=SpectralClustering()).fit(ring)
    with pytest.raises(ValueError, match="no features for a network"):
        DiffusionNet(spectral=DiffusionMaps(metric="precomputed")).fit(ring)
    holes = ring.copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN among"):
        DiffusionMaps(metric="nan_euclidean", extension="net").fit(holes)
