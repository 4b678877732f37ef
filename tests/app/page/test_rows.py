"""Rows of a page: coordinates, weights, clusters, and what is thinned."""

import json

import numpy as np
import pytest

from outfold import DiffusionMaps, KernelPCA, LaplacianEigenmaps, LocallyLinearEmbedding, Roseland, SpectralClustering
from outfold.app.page import html as page_html
from outfold.app.page import model_facts
from outfold.app.page import rows as page_rows
from outfold.data.columns import Preparation
from outfold.data.tables import Matrix
from outfold.datasets import s_curve

ESTIMATORS = {
    "diffusion": DiffusionMaps(3, t=2),
    "canonical": DiffusionMaps(3, t=3, coordinates="canonical"),
    "roseland": Roseland(3, landmarks=60, t=2, random_state=0),
    "laplacian": LaplacianEigenmaps(3),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_coordinates_without_weights_and_weights_make_the_embedding(name):
    X = np.asarray(s_curve(120, random_state=0)[0])
    estimator = ESTIMATORS[name].fit(X)
    cloud = page_rows.table(estimator, Preparation(columns=("a", "b", "c")), Matrix(X, "t", ("a", "b", "c")))
    time_ = model_facts.diffusion(estimator)
    psi = np.column_stack([s.values for s in cloud.streams if s.role == "coordinate"]).astype(float)
    np.testing.assert_allclose(
        psi * np.power(time_["base"], time_["t"]), estimator.transform(X, on_far="keep"), rtol=1e-5
    )
    assert time_["t"] == getattr(estimator, "t", 0)
    if name == "diffusion":  # another time is the embedding of another fit
        later = DiffusionMaps(3, t=5).fit(X).transform(X)
        np.testing.assert_allclose(psi * np.power(time_["base"], 5), later, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        (KernelPCA(2), "KernelPCA has no diffusion time"),
        (LocallyLinearEmbedding(2), "LocallyLinearEmbedding has no diffusion time"),
        (LaplacianEigenmaps(2, laplacian="unnormalized"), "not that of a random walk"),
        (DiffusionMaps(2, t=3000), "too small to be undone"),
    ],
)
@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
def test_methods_without_a_time_say_why_and_show_what_the_model_gives(estimator, why):
    X = np.asarray(s_curve(80, random_state=0)[0])
    estimator.fit(X)
    cloud = page_rows.hold_training_rows(estimator, Preparation(columns=("a", "b", "c")))
    assert why in model_facts.diffusion(estimator)["why"]
    places = np.column_stack([s.values for s in cloud.streams if s.role == "coordinate"])
    np.testing.assert_allclose(places, estimator.transform(X, on_far="keep"), rtol=1e-5, atol=1e-30)
    json.dumps(
        page_html.Page("m", estimator, Preparation(columns=("a", "b", "c")), cloud).describe(live=None), allow_nan=False
    )


def test_clusters_are_a_column_and_landmarks_are_shown_without_a_table():
    X = np.asarray(s_curve(90, random_state=0)[0])
    estimator = SpectralClustering(3, random_state=0).fit(X)
    cloud = page_rows.hold_training_rows(estimator, Preparation(columns=("a", "b", "c")))
    found = next(stream for stream in cloud.streams if stream.name == "cluster")
    assert [found.words[code] for code in found.values] == [f"cluster {at}" for at in estimator.predict(X)]
    few = page_rows.hold_training_rows(
        Roseland(2, landmarks=40, random_state=0).fit(X), Preparation(columns=("a", "b", "c"))
    )
    assert few.rows == 90  # the embedding of the fit
    fitted = Roseland(2, landmarks=40, random_state=0).fit(X)
    del fitted.embedding_
    assert page_rows.hold_training_rows(fitted, Preparation(columns=("a", "b", "c"))).rows == 40


def test_many_rows_are_thinned_and_it_is_said():
    X = np.asarray(s_curve(300, random_state=0)[0])
    table = Matrix(np.where(np.arange(300)[:, None] == 8, np.nan, X), "t", ("a", "b", "c"))
    estimator = DiffusionMaps(2).fit(X[:100])
    cloud = page_rows.table(estimator, Preparation(columns=("a", "b", "c")), table, most=100)
    number = next(stream for stream in cloud.streams if stream.role == "row").values
    assert number.tolist() == [at for at in range(1, 300, 4) if at != 9]
    assert cloud.rows == 74
    assert "Row 1 of every 4 is shown: 74 of 299" in cloud.notes[1]
    assert "1 of 300 rows lack a value" in cloud.notes[0]


class CountingName(str):
    """A name that counts how often it is compared with other names."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountingName.compared += 1
        return str.__eq__(self, other)


def test_further_columns_are_found_in_linear_time():
    X = np.random.default_rng(0).normal(size=(40, 3))
    beside = {CountingName("label"): X[:, 0]} | {f"further {at}": X[:, 1] for at in range(500)}
    rows = Matrix(X, "t", ("a", "b", "c"), beside)
    estimator = Roseland(2, landmarks=20, n_neighbors=5, random_state=0).fit(X)
    cloud = page_rows.table(estimator, Preparation(columns=("a", "b", "c")), rows, label="label")
    assert any("40 of 503 columns" in note for note in cloud.notes)
    assert CountingName.compared < 50  # a set that is built anew for each column compares each time
