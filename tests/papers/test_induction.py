"""Induction of Bengio et al. (2004): what is measured, on small sizes."""

import numpy as np
import pytest

from outfold.datasets import swiss_roll
from outfold.papers import induction
from outfold.papers.record import Effort
from outfold.quality import Induction

ONCE = Effort(seed=0, repeats=1)


@pytest.fixture(scope="module")
def induced():
    tables = {"Swiss roll": swiss_roll(150, random_state=0)[0]}
    return induction.measure(ONCE, tables, left_out=4, exchanged=(0.02, 0.2))


def test_each_method_is_measured_at_each_share(induced):
    assert [method for _, method in induced] == list(induction.METHODS)
    assert all(one.delta.shape == (2,) and one.fits == 12 for one in induced.values())
    assert len(induction.table(induced).rows) == 8


def test_exchanging_a_fifth_moves_rows_more_than_induction_does(induced):
    assert sum(one.delta[1] > 0 for one in induced.values()) >= 3
    assert sum(one.delta[1] > one.delta[0] for one in induced.values()) >= 3


def test_distances_measured_once_give_the_fit_of_the_rows():
    X = swiss_roll(120, random_state=0)[0]
    epsilon = induction.gaussian("Swiss roll", X)
    for method in ("MDS", "Isomap", "spectral clustering"):
        estimator, distances = induction.prepare(method, X, epsilon)
        rows = estimator.__class__(**{**estimator.get_params(), "metric": "euclidean"})
        np.testing.assert_allclose(
            np.abs(estimator.fit(distances).embedding_), np.abs(rows.fit(X).embedding_), rtol=1e-6, atol=1e-6
        )


def test_rows_turned_into_the_space_they_span_keep_their_distances():
    X = np.random.default_rng(0).normal(size=(30, 80))
    turned = induction.prepare("LLE", X, 1.0)[1]
    assert turned.shape == (30, 29)
    np.testing.assert_allclose(
        np.linalg.norm(turned[:, None] - turned, axis=2), np.linalg.norm(X[:, None] - X, axis=2), atol=1e-10
    )


def test_the_bandwidth_of_other_sets_is_that_of_the_faces_in_distances_to_the_tenth_neighbour(faces):
    X = faces.data
    assert induction.gaussian("faces", X) == pytest.approx(0.01 * 1024 / 2)
    assert induction.gaussian("another", X) == pytest.approx(induction.gaussian("faces", X), rel=0.02)


def induction_of(*delta, spread=0.1):
    delta = np.array(delta)
    shares, same = np.array([0.01, 0.02, 0.1]), np.ones(3)
    names = ("standard_error", "between_repeats", "perturbation", "induction", "points")
    ends = {"low": delta - spread, "high": delta + spread}
    return Induction(fits=1, exchanged=shares, delta=delta, **ends, **dict.fromkeys(names, same))


@pytest.mark.parametrize(
    ("delta", "words", "agrees"),
    [
        ((-1.0, 1.0, 2.0), "1.5 %", True),
        ((1.0, 2.0, 3.0), "below 1 %", True),
        ((-3.0, -2.0, -1.0), "above 10 %", False),
        ((-1.0, -1.0, 1.0), "6 %", False),
    ],
)
def test_a_case_agrees_where_induction_is_worth_at_most_five_percent(delta, words, agrees):
    finding = induction.findings({("faces", "MDS"): induction_of(*delta)})[0]
    assert (finding.ours, finding.agrees) == (words, agrees)


def test_an_absent_optional_set_is_a_note_and_an_absent_needed_one_is_raised(monkeypatch):
    def absent():
        raise OSError("not here")

    monkeypatch.setattr(induction, "fetch_ionosphere", absent)
    monkeypatch.setattr(induction, "fetch_faces", lambda: type("Bunch", (), {"data": np.zeros((3, 4))}))
    assert induction.load_sets(0)[1] == ["ionosphere"]
    found = {("faces", "MDS"): induction_of(-1.0, 1.0, 2.0)}
    assert [line.ours for line in induction.findings(found, ("ionosphere",))][-1] == "left out"
    monkeypatch.setattr(induction, "fetch_faces", absent)
    with pytest.raises(OSError, match="not here"):
        induction.run(ONCE)
