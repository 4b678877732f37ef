"""Eigenfunctions of Bengio et al. (2004): what is measured, on small sizes."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from outfold.datasets import connected_clusters, noisy_moons
from outfold.papers import eigenfunctions


def test_rank_correlation_is_spearmans_without_its_sign():
    a, b = np.random.default_rng(0).normal(size=(2, 40))
    b -= a
    assert eigenfunctions.rank_by_size(a, b) == pytest.approx(-spearmanr(a, b).statistic)
    assert eigenfunctions.rank_by_size(a, -np.exp(a)) == pytest.approx(1)


def test_positions_along_noiseless_moons_and_curve_are_those_they_were_made_from():
    X, label = noisy_moons(100, noise=0.0, random_state=0)
    for moon in (0, 1):
        place = np.sort(eigenfunctions.along_moon(X, label)[label == moon])
        np.testing.assert_allclose(place, np.linspace(0, np.pi, 50), atol=1e-7)
    X, label = connected_clusters((60, 60), noise=0.0, random_state=0)
    place = eigenfunctions.along_curve(X, label)
    side = np.where(label == 1, 1, -1)[:, None]
    again = side * np.column_stack([0.5 - 0.5 * np.cos(place), -0.5 * np.sin(np.abs(place))])
    np.testing.assert_allclose(again, X, atol=1e-12)
    assert (np.sign(place) == side[:, 0]).all()
    assert np.abs(place).max() < 1.3 * np.pi


def test_an_eigenfunction_on_half_of_the_points_touches_half():
    assert eigenfunctions.touches(np.repeat([1.0, -1.0, 0.0], [25, 25, 50])) == pytest.approx(0.5)
    assert eigenfunctions.touches(np.eye(10)[0]) == pytest.approx(0.1)


@pytest.mark.filterwarnings("ignore::outfold.exceptions.FarPointsWarning")
def test_two_moons_are_told_apart_and_keep_their_order():
    found = eigenfunctions.moons(0, count=300).findings
    plain, seen, new, turn, inside = (finding.ours for finding in found)
    assert plain < 0.9 < seen == new == 1.0
    assert turn > 1
    assert inside > 0.95
    assert all(finding.agrees is not False for finding in found)


@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")  # most of the plane is far from the data
def test_isomap_and_lle_find_the_curve_spectral_clustering_the_clusters_and_kernel_pca_neither():
    plane = eigenfunctions.plane(0, pixels=25)
    along = [finding for finding in plane.findings if "position along" in finding.what]
    seen, new = (
        {finding.what.split(",")[0]: finding.ours for finding in along if (finding.paper is None) == unseen}
        for unseen in (False, True)
    )
    assert seen["figure 2: kernel PCA"] < 0.9 < 0.99 < min(seen["Isomap"], seen["LLE"])
    assert min(new["Isomap"], new["LLE"]) > 0.99
    touched = [float(share) for share in plane.findings[1].ours.split(", ")]
    assert touched == sorted(touched, reverse=True)
    levels = [axes.collections[0].get_array() for axes in plane.pictures[0].figure.axes]
    assert [level.shape for level in levels] == [(25, 25)] * 4
    assert all(np.isfinite(level).all() for level in levels)
    assert all(finding.agrees is not False for finding in plane.findings)


def test_levels_of_the_plane_have_the_sign_of_the_values_at_the_data():
    label = np.array([0, 0, 1, 1])
    np.testing.assert_array_equal(eigenfunctions.orient(np.array([-1.0, -1, 1, 1]), label), [1, 1, -1, -1])
    np.testing.assert_array_equal(eigenfunctions.orient(np.array([1.0, 1, -1, -1]), label), [1, 1, -1, -1])


def test_a_quadratic_pose_is_explained_and_an_unrelated_one_is_not():
    random = np.random.default_rng(0)
    X, Z = random.normal(size=(200, 2)), random.normal(size=(200, 2))
    bent = [np.column_stack([A[:, 0], A[:, 1] + A[:, 0] ** 2]) for A in (X, Z)]
    np.testing.assert_allclose(eigenfunctions.explain(X, bent[0], Z, bent[1]), 1)
    assert (eigenfunctions.explain(X, random.normal(size=(200, 2)), Z, random.normal(size=(200, 2))) < 0.1).all()


def test_faces_of_one_light_are_split_as_in_the_paper_and_projected_to_their_pose(faces):
    found = eigenfunctions.Faces.of(faces.data, faces.target)
    assert len(np.unique(found.rows)) == 113
    assert (found.seen.shape, found.new.shape) == ((70, 2), (43, 2))
    assert np.ptp(faces.target[found.rows, 0]) < 0.2 * np.ptp(faces.target[:, 0])
    assert (found.explained > 0.8).all()
    assert found.off[1] < 0.2
