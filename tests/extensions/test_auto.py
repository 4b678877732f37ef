"""How "auto" chooses an extension."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsRegressor

from catalogue import quietly
from functions import FEW, MEASURE, NAMED, X, Z, known_of
from outfold import DiffusionMaps, datasets
from outfold.exceptions import SpectrumWarning
from outfold.extensions import Auto, Barycentric, KernelRidge, LaplacianPyramid, LinearMap, Nystrom, Regressor


@pytest.fixture(scope="module")
def chosen():
    S, _ = datasets.s_curve(150, random_state=0)
    return S, DiffusionMaps(2, extension="auto").fit(S)


def test_the_table_is_sorted_and_its_first_row_is_used(chosen):
    S, model = chosen
    table = model.report_.candidates
    guarded = [np.log(row.error) + row.doubt / 2 for row in table]
    np.testing.assert_allclose(guarded, sorted(guarded), rtol=1e-12)
    assert [row.doubt for row in table if isinstance(row.extension, Nystrom)] == [0.0]
    assert max(row.doubt for row in table) > 0
    assert sum(isinstance(row.extension, Nystrom) for row in table) == 1
    best = table[0].extension
    assert model.report_.extension == ("nystrom" if isinstance(best, Nystrom) else str(best))
    new = datasets.s_curve(20, random_state=1)[0]
    alone = DiffusionMaps(2, extension=best).fit(S)
    np.testing.assert_array_equal(quietly(model.transform, new), quietly(alone.transform, new))
    assert str(table[0]) in str(model.report_)


def test_other_scales_than_that_of_the_eigenproblem_are_tried(chosen):
    S, model = chosen
    widths = {row.extension.epsilon for row in model.report_.candidates if isinstance(row.extension, KernelRidge)}
    assert len(widths) >= 3
    assert all(abs(width / model.epsilon_ - 1) > 1e-6 for width in widths)
    near, far = known_of(S, S).scales()
    np.testing.assert_allclose([min(widths), max(widths)], [near, far], rtol=1e-3)
    kinds = {type(row.extension) for row in model.report_.candidates}
    assert kinds == {type(spec) for spec in NAMED.values()}


def test_the_choice_is_the_same_bits_every_time(chosen):
    S, model = chosen
    again = DiffusionMaps(2, extension="auto", random_state=5).fit(S)
    assert again.report_.candidates == model.report_.candidates
    np.testing.assert_array_equal(again.transform(S), model.transform(S))


def test_only_the_candidates_asked_for_are_compared():
    regressor = KNeighborsRegressor(3)
    model = DiffusionMaps(extension=Auto(folds=2, candidates=("linear", Barycentric(6), regressor))).fit(X)
    found = [row.extension for row in model.report_.candidates]
    assert {type(spec) for spec in found} == {LinearMap, Barycentric, Regressor}
    assert not hasattr(regressor, "n_features_in_")
    other = DiffusionMaps(extension=Auto(folds=2, candidates=["linear"])).fit(X)
    assert other.report_.extension == "LinearMap()"


def test_a_given_matrix_leaves_no_choice():
    with pytest.warns(SpectrumWarning, match="'auto' had one choice, 'nystrom'"):
        model = DiffusionMaps(metric="precomputed", extension="auto").fit(cdist(X, X))
    assert model.report_.extension == "nystrom"
    assert model.report_.candidates == ()
    assert any("others learn from features" in text for text in model.report_.warnings)
    plain = DiffusionMaps(metric="precomputed").fit(cdist(X, X))
    np.testing.assert_array_equal(model.transform(cdist(Z, X)), plain.transform(cdist(Z, X)))


@pytest.mark.parametrize("extension", [Auto(folds=3, candidates=FEW), *FEW[1:], LaplacianPyramid(), "auto"], ids=str)
def test_weights_equal_repeats(extension):
    copies = np.repeat(np.arange(len(X)), MEASURE.astype(int))
    weighted = quietly(DiffusionMaps(2, epsilon=1.0, extension=extension).fit, X, sample_weight=MEASURE)
    repeated = quietly(DiffusionMaps(2, epsilon=1.0, extension=extension).fit, X[copies])
    assert weighted.report_.extension == repeated.report_.extension
    found, expected = quietly(weighted.transform, Z), quietly(repeated.transform, Z)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    table = [{row.extension: row.error for row in m.report_.candidates} for m in (weighted, repeated)]
    assert table[0].keys() == table[1].keys()
    np.testing.assert_allclose([table[0][k] for k in table[0]], [table[1][k] for k in table[0]], rtol=1e-5)
