"""Induction and perturbation: against a naive experiment."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outfold import ClassicalMDS, DiffusionMaps, LaplacianEigenmaps, LocallyLinearEmbedding, quality
from outfold.datasets import s_curve


def test_induction_and_perturbation_are_those_of_a_naive_experiment():
    X, _ = s_curve(60, random_state=0)
    found = quality.induction_versus_perturbation(ClassicalMDS(2), X, exchanged=[0.1], left_out=None, random_state=3)
    order = np.random.default_rng(3).permutation(60)
    F, first, second = order[12:], order[:6], order[6:12]
    one, other = (ClassicalMDS(2).fit_transform(X[np.append(F, part)])[:48] for part in (first, second))
    table = np.column_stack([np.ones(48), other])
    perturbed = np.linalg.norm(table @ np.linalg.pinv(table) @ one - one, axis=1)
    induced = []
    for i in range(48):
        rest = np.append(np.delete(F, i), first)
        left = ClassicalMDS(2).fit(X[rest])
        turn = np.sign((left.embedding_[:47] * np.delete(one, i, axis=0)).sum(axis=0))
        induced.append(np.linalg.norm(left.transform(X[F[i]][None], on_far="keep")[0] * turn - one[i]))
    delta = perturbed - np.array(induced)
    assert found.delta[0] == pytest.approx(delta.mean(), abs=1e-10)
    assert found.standard_error[0] == pytest.approx(delta.std(ddof=1) / np.sqrt(48), abs=1e-10)
    assert found.induction[0] == pytest.approx(np.mean(induced), abs=1e-10)
    assert found.low[0] < found.delta[0] < found.high[0]
    assert (found.points[0], found.fits) == (48, 50)


def test_exchanging_more_perturbs_more_and_induction_is_comparable_to_a_few_percent():
    X, _ = s_curve(200, random_state=0)
    found = quality.induction_versus_perturbation(
        LaplacianEigenmaps(2, epsilon=0.3, n_neighbors=None), X, exchanged=[0.01, 0.1, 0.2], repeats=3, left_out=15
    )
    assert (np.diff(found.perturbation) > 0).all()
    assert 0 < found.comparable_share < 0.1
    assert np.isfinite(found.between_repeats).all()
    assert len(str(found).splitlines()) == 4


def test_signs_that_flip_are_matched_and_rotations_if_asked():
    X, _ = s_curve(80, random_state=0)
    plain = quality.induction_versus_perturbation(DiffusionMaps(2), X, exchanged=[0.1], left_out=10)

    class Fickle(DiffusionMaps):
        """Signs by the number of rows."""

        def fit(self, X, y=None, sample_weight=None):
            super().fit(X)
            sign = np.array([1.0, (-1.0) ** len(X)])
            self.embedding_ = self.embedding_ * sign
            self._sign = sign
            return self

        def transform(self, X, **options):
            return super().transform(X, **options) * self._sign

    flipped = quality.induction_versus_perturbation(Fickle(2), X, exchanged=[0.1], left_out=10)
    np.testing.assert_allclose(flipped.delta, plain.delta, atol=1e-12)
    naive = quality.induction_versus_perturbation(Fickle(2), X, exchanged=[0.1], left_out=10, match="none")
    assert naive.induction[0] > 3 * plain.induction[0]
    rigid = quality.induction_versus_perturbation(DiffusionMaps(2), X, exchanged=[0.1], left_out=10, match="rigid")
    assert rigid.induction[0] < 2 * plain.induction[0]


def test_a_given_matrix_and_columns_of_length_one_are_split_as_rows_are():
    X, _ = s_curve(60, random_state=0)
    options = {"exchanged": [0.1], "left_out": 5}
    given = quality.induction_versus_perturbation(ClassicalMDS(2, metric="precomputed"), cdist(X, X), **options)
    plain = quality.induction_versus_perturbation(ClassicalMDS(2), X, **options)
    np.testing.assert_allclose(given.delta, plain.delta, atol=1e-9)
    unit = quality.induction_versus_perturbation(LocallyLinearEmbedding(1, n_neighbors=8), X, **options)
    assert unit.induction[0] < 0.05


@pytest.mark.parametrize(
    ("change", "told"),
    [({"exchanged": [0.5]}, "between 0 and 1/2"), ({"exchanged": [0.4]}, "leaves"), ({"match": "all"}, "match='all'")],
)
def test_splits_that_cannot_be_are_refused(change, told):
    with pytest.raises(ValueError, match=told):
        quality.induction_versus_perturbation(ClassicalMDS(1), np.random.default_rng(0).normal(size=(30, 2)), **change)
