"""Pictures: what is drawn is where it should be, new points stand out, nothing global is touched."""

import sys
from functools import cache

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'outfold[plot]'")

from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.manifold import Isomap as TheirIsomap

from catalogue import quietly
from outfold import DiffusionMaps, KernelPCA, LaplacianEigenmaps, LocallyLinearEmbedding, Roseland, datasets, plotting
from outfold.bandwidths import Percentile, Slope
from outfold.graphs.pair_statistics import DenseStatistics

POINTS = np.random.default_rng(0).normal(size=(60, 3))
NEW = POINTS[:7] + 0.1
HOLED = POINTS.copy()
HOLED[4, 0] = np.nan
X, PLACE = datasets.s_curve(150, random_state=0)
FRESH = np.vstack([datasets.s_curve(12, random_state=1)[0], [[0.0, 1.0, 40.0], [30.0, 1.0, 0.0]]])  # two far off


@cache
def fitted():
    return DiffusionMaps(4).fit(X)


@cache
def gaussian():
    return DiffusionMaps(4, kernel="gaussian").fit(X)


@cache
def of_the_plane():
    return DiffusionMaps(2).fit(X[:, [0, 2]])


def drawn(collection):
    return np.column_stack(collection._offsets3d) if hasattr(collection, "_offsets3d") else collection.get_offsets()


def legend_texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_points_and_new_points_are_drawn_where_they_are_and_look_different():
    axes = plotting.embedding(POINTS, new=NEW, title="a title")
    seen, new = axes.collections
    np.testing.assert_array_equal(seen.get_offsets(), POINTS[:, :2])
    np.testing.assert_array_equal(new.get_offsets(), NEW[:, :2])
    assert new.get_sizes()[0] > seen.get_sizes()[0]
    assert new.get_linewidths()[0] > seen.get_linewidths()[0]
    assert axes.get_title() == "a title"
    assert legend_texts(axes) == ["new point"]


def test_a_group_has_one_colour_among_seen_and_new_points():
    axes = plotting.embedding(POINTS, colors=np.arange(60) % 3, new=NEW, new_colors=np.full(7, 2))
    seen, new = (cloud.get_facecolors()[:, :3] for cloud in axes.collections)
    np.testing.assert_array_equal(new, np.repeat(seen[2:3], 7, axis=0))
    assert legend_texts(axes) == ["0", "1", "2", "new point"]


@pytest.mark.parametrize("count", [2, 10, 20, 30])
def test_every_group_has_a_colour_of_its_own(count):
    names = np.array([f"group {k:02}" for k in range(count)])
    axes = plotting.embedding(POINTS[:count], colors=names)
    assert len(np.unique(axes.collections[0].get_facecolors(), axis=0)) == count
    assert legend_texts(axes) == names.tolist()


def test_a_group_only_among_new_points_is_named_and_seen_points_stay_plain():
    axes = plotting.embedding(POINTS, new=NEW, new_colors=["b"] * 6 + ["a"])
    assert legend_texts(axes) == ["a", "b", "new point"]
    assert len(np.unique(axes.collections[0].get_facecolors(), axis=0)) == 1


def test_many_numbers_are_a_scale_shared_by_seen_and_new_points():
    axes = plotting.embedding(POINTS, colors=POINTS[:, 2], new=NEW, new_colors=NEW[:, 2] + 5)
    limits = [cloud.get_clim() for cloud in axes.collections]
    assert limits[0] == limits[1] == (POINTS[:, 2].min(), NEW[:, 2].max() + 5)
    assert len(axes.figure.axes) == 2  # the colour bar


def test_the_given_axes_are_used_and_returned():
    _, (left, right) = plotting.panels(1, 2)
    assert plotting.embedding(POINTS, axes=left) is left
    assert plotting.spectrum([0.5, 0.2], axes=right) is right


def test_a_grid_has_rows_and_columns_and_some_views_in_space(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    figure, axes = plotting.grid(2, 3, space=[1, 5], widths=(1, 2, 1))
    assert axes.shape == (2, 3)
    assert [hasattr(one, "get_zlim") for one in axes.ravel()] == [False, True, False, False, False, True]
    assert list(figure.axes) == axes.ravel().tolist()
    assert axes[0, 0].get_gridspec().get_width_ratios() == (1, 2, 1)
    assert hasattr(plotting.panels(1, 1, space=[0])[1][0], "get_zlim")
    with pytest.raises(ValueError, match=r"no grid of 1 x 2 axes with \[2\] in space"):
        plotting.grid(1, 2, space=[2])


def test_the_spectrum_sets_off_what_lies_above_delta():
    axes = plotting.spectrum([0.8, -0.5, 0.1, 0.3], delta=0.25)
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == [0.8, 0.5, 0.3, 0.1]
    assert "3 of 4" in axes.get_title()
    shades = [bar.get_facecolor() for bar in axes.patches]
    assert shades[0] == shades[2] != shades[3]
    assert axes.lines[0].get_ydata()[0] == pytest.approx(0.2)


def test_an_estimator_is_drawn_by_its_embedding():
    (seen,) = plotting.embedding(fitted(), coordinates=(3, 1)).collections
    np.testing.assert_array_equal(drawn(seen), fitted().embedding_[:, [3, 1]])
    theirs = TheirIsomap().fit(X)
    np.testing.assert_array_equal(drawn(plotting.embedding(theirs).collections[0]), theirs.embedding_)


@pytest.mark.parametrize("axes", [None, "given"])
def test_three_coordinates_are_drawn_in_space(axes):
    axes = axes and plotting.grid(1, 1, space=[0])[1][0, 0]
    axes = plotting.embedding(fitted(), coordinates=None if axes else (0, 1, 2), new=fitted().embedding_[:5], axes=axes)
    seen, new = axes.collections
    np.testing.assert_array_equal(drawn(seen), fitted().embedding_[:, :3])
    np.testing.assert_array_equal(drawn(new), fitted().embedding_[:5, :3])
    assert [axes.get_xlabel(), axes.get_ylabel(), axes.get_zlabel()] == [f"coordinate {k}" for k in (1, 2, 3)]


def test_all_pairs_are_a_triangle():
    axes = plotting.pairs(fitted(), colors=PLACE[:, 0], new=fitted().embedding_[:9], coordinates=(0, 1, 3))
    assert axes.shape == (2, 2)
    for (i, j), columns in {(0, 0): [0, 1], (1, 0): [0, 3], (1, 1): [1, 3]}.items():
        seen, new = axes[i, j].collections
        np.testing.assert_array_equal(drawn(seen), fitted().embedding_[:, columns])
        np.testing.assert_array_equal(drawn(new), fitted().embedding_[:9, columns])
        assert axes[i, j].get_ylabel() == f"coordinate {columns[1] + 1}"
    assert not axes[0, 1].collections
    assert not axes[0, 1].axison
    assert len(axes[0, 0].figure.axes) == 5  # four, and one scale for all


def test_one_coordinate_is_drawn_against_the_others():
    axes = plotting.pairs(fitted(), against=1, title="a title")
    assert axes.shape == (1, 3)
    for one, other in zip(axes[0], (0, 2, 3)):
        np.testing.assert_array_equal(drawn(one.collections[0]), fitted().embedding_[:, [1, other]])
    assert axes[0, 0].figure.get_suptitle() == "a title"


@pytest.mark.parametrize("rows", [50_000, 50_001])
def test_of_too_many_points_a_part_is_drawn_and_said(rows):
    points = np.random.default_rng(0).normal(size=(rows, 2))
    axes = plotting.embedding(points, colors=np.arange(rows))
    (seen,) = axes.collections
    places = drawn(seen)
    assert len(places) == 50_000
    np.testing.assert_array_equal(places, points[np.asarray(seen.get_array(), dtype=int)])  # a point keeps its colour
    assert [text.get_text() for text in axes.texts] == ["50000 of 50001 points drawn"] * (rows > 50_000)
    assert seen.get_rasterized()


# -- new points ----------------------------------------------------------------------------


def test_new_points_lie_over_the_training_points_and_those_outside_are_crosses():
    axes = plotting.overlay(fitted(), FRESH)
    seen, new, outside = axes.collections
    places = quietly(fitted().transform, FRESH)
    flag = fitted().trust(FRESH).flag
    assert flag.tolist() == [False] * 12 + [True] * 2
    np.testing.assert_array_equal(drawn(seen), fitted().embedding_[:, :2])
    np.testing.assert_array_equal(drawn(new), places[~flag, :2])
    np.testing.assert_array_equal(drawn(outside), places[flag, :2])
    assert legend_texts(axes) == ["training: 150", "new: 12", "outside the data: 2"]
    shades = [tuple(cloud.get_facecolors()[0, :3]) for cloud in axes.collections]
    assert len(set(shades)) == 3


def test_an_overlay_of_an_estimator_that_tells_no_trust_has_no_crosses():
    theirs = TheirIsomap().fit(X)
    seen, new = plotting.overlay(theirs, FRESH).collections
    np.testing.assert_array_equal(drawn(seen), theirs.embedding_)
    np.testing.assert_array_equal(drawn(new), theirs.transform(FRESH))


def test_the_trust_map_colours_new_points_by_p_value_until_bands_are_known():
    maps = DiffusionMaps(2).fit(X)
    axes = plotting.trust_map(maps, FRESH)
    seen, new, outside = axes.collections
    np.testing.assert_array_equal(drawn(seen), maps.embedding_)
    np.testing.assert_array_equal(drawn(new), maps.transform(FRESH[:12]))
    np.testing.assert_array_equal(new.get_array(), maps.trust(FRESH[:12]).p_value)
    assert len(drawn(outside)) == 2
    assert axes.figure.axes[1].get_ylabel() == "p-value"
    assert axes.figure.axes[1].get_yscale() == "log"
    assert axes.figure.axes[1].get_ylim() == pytest.approx((0.01, 1))
    quietly(maps.calibrate, folds=3)
    axes = plotting.trust_map(maps, FRESH[:12], coverage=0.8)
    np.testing.assert_array_equal(axes.collections[1].get_array(), maps.trust(FRESH[:12], coverage=0.8).error)
    assert axes.figure.axes[1].get_ylabel() == "radius of the 80 % band"


def test_the_trust_map_of_a_plane_is_blank_outside():
    maps = of_the_plane()
    axes = plotting.trust_map(maps, [[0.0, 0.0], [9.0, 9.0]], plane=True)
    field, seen, new, outside = axes.collections
    corners = field.get_coordinates()
    middles = (corners[1:, 1:] + corners[:-1, :-1]) / 2
    truth = maps.trust(middles.reshape(-1, 2))
    values = field.get_array().ravel()
    np.testing.assert_array_equal(np.ma.getmaskarray(values), truth.flag)
    np.testing.assert_allclose(values[~truth.flag], truth.p_value[~truth.flag], atol=1e-9)
    np.testing.assert_array_equal(drawn(seen), X[:, [0, 2]])
    assert (drawn(new).tolist(), drawn(outside).tolist()) == ([[0, 0]], [[9, 9]])
    assert len(plotting.trust_map(maps).collections) == 2


def test_thumbnails_hang_at_their_places_and_do_not_cover_each_other():
    rng = np.random.default_rng(0)
    places, fresh = rng.uniform(size=(300, 2)), rng.uniform(size=(40, 2))
    images, new_images = rng.uniform(size=(300, 8, 6)), rng.uniform(size=(40, 8, 6, 3))
    axes = plotting.thumbnails(places, images, new=fresh, new_images=new_images)
    hung = [child for child in axes.get_children() if hasattr(child, "xybox")]
    old = [box for box in hung if box.offsetbox.get_data().ndim == 2]
    assert 10 < len(old) < 300
    assert 3 < len(hung) - len(old) < 40
    for box in hung:
        rows, stack = (places, images) if box in old else (fresh, new_images)
        (row,) = np.flatnonzero((rows == box.xy).all(axis=1))
        np.testing.assert_array_equal(box.offsetbox.get_data(), stack[row])
    assert len({box.patch.get_facecolor() for box in old}) == 1
    assert {box.patch.get_facecolor() for box in hung} > {box.patch.get_facecolor() for box in old}
    axes.figure.draw_without_rendering()
    frames = [box.patch.get_window_extent() for box in hung]
    assert not any(a.overlaps(b) for k, a in enumerate(frames) for b in frames[:k])


def test_thumbnails_of_an_estimator_are_where_transform_puts_them():
    maps = of_the_plane()
    axes = plotting.thumbnails(maps, np.ones((150, 4, 4)), new=X[:1, [0, 2]] + 0.01, new_images=np.zeros((1, 4, 4)))
    (new,) = [c for c in axes.get_children() if hasattr(c, "xybox") and not c.offsetbox.get_data().any()]
    np.testing.assert_array_equal([new.xy], maps.transform(X[:1, [0, 2]] + 0.01))


# -- spectra and bandwidths ----------------------------------------------------------------


def test_the_spectrum_at_several_times_is_powers_with_one_line():
    maps = DiffusionMaps(12).fit(X)
    axes = plotting.spectrum(maps, t=(1, 16, 64), delta=0.2)
    *curves, line = axes.lines
    for curve, t in zip(curves, (1, 16, 64), strict=True):
        np.testing.assert_allclose(curve.get_ydata(), (maps.eigenvalues_ / maps.eigenvalues_[0]) ** t)
    assert line.get_ydata()[0] == 0.2
    above = [((maps.eigenvalues_ / maps.eigenvalues_[0]) ** t > 0.2).sum() for t in (1, 16, 64)]
    assert above[0] == 12 > above[2]
    assert legend_texts(axes)[::2] == ["t = 1: all 12 above", f"t = 64: {above[2]} above"]


def test_the_spectrum_of_a_laplacian_is_turned_into_that_of_its_walk():
    maps = LaplacianEigenmaps(5).fit(X)
    heights = [bar.get_height() for bar in plotting.spectrum(maps).patches]
    np.testing.assert_allclose(heights, 1 - maps.eigenvalues_)
    pca = KernelPCA(3, kernel="linear").fit(X)
    heights = [bar.get_height() for bar in plotting.spectrum(pca, t=2).patches]
    np.testing.assert_allclose(heights, pca.eigenvalues_**2)


def test_decay_is_a_fit_at_each_epsilon():
    curve = datasets.helix(120, random_state=0)[0]
    axes = plotting.decay(curve, epsilons=(0.05, Percentile(20)), method=DiffusionMaps(alpha=0), components=6)
    for line, epsilon in zip(axes.lines, (0.05, "percentile 20"), strict=True):
        rule = Percentile(20) if isinstance(epsilon, str) else epsilon
        maps = quietly(DiffusionMaps(6, alpha=0, epsilon=rule).fit, curve)
        np.testing.assert_allclose(line.get_ydata(), maps.eigenvalues_, atol=1e-12)
        assert str(epsilon) in line.get_label()
        assert f"{maps.epsilon_:.3g}" in line.get_label()
    own = plotting.decay(DiffusionMaps(2, alpha=0).fit(curve), epsilons=(0.05,), components=6)
    np.testing.assert_allclose(own.lines[0].get_ydata(), axes.lines[0].get_ydata(), atol=1e-12)


def test_decay_draws_fewer_where_the_kernel_has_no_more():
    line = np.linspace(0, 1, 40)[:, None]
    axes = plotting.decay(line, epsilons=(0.001, 1e4), components=16)
    assert len(axes.lines[0].get_ydata()) == 16 > len(axes.lines[1].get_ydata())


def test_the_kernel_sum_marks_the_steepest_slope_and_the_chosen_epsilon():
    maps = gaussian()
    axes = plotting.kernel_sum(maps)
    curve, tangent, mark, point = axes.lines
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    naive = [np.exp(-squared / (2 * e)).sum() for e in curve.get_xdata()[::40]]
    np.testing.assert_allclose(curve.get_ydata()[::40], naive, rtol=2e-3)
    rule = Slope().bandwidth(DenseStatistics(distances=None, squared=squared, measure=np.ones(150)))
    assert f"dimension {rule.dimension:.2f}" in legend_texts(axes)[1]
    slope = np.diff(np.log(tangent.get_ydata()))[0] / np.diff(np.log(tangent.get_xdata()))[0]
    assert slope == pytest.approx(rule.dimension / 2)
    assert mark.get_xdata()[0] == maps.epsilon_
    assert point.get_ydata()[0] == pytest.approx(np.exp(-squared / (2 * maps.epsilon_)).sum(), rel=5e-3)


def test_a_given_epsilon_is_marked():
    for method in (DiffusionMaps(epsilon=0.3), Roseland(epsilon=0.3, random_state=0)):
        assert plotting.kernel_sum(method.fit(X)).lines[2].get_xdata()[0] == 0.3


def test_the_kernel_sum_is_of_the_metric_of_the_fit_or_of_plain_rows():
    given = np.abs(X[:, None] - X).sum(axis=2)
    by_name = plotting.kernel_sum(DiffusionMaps(kernel="gaussian", metric="manhattan").fit(X)).lines
    by_matrix = plotting.kernel_sum(DiffusionMaps(kernel="gaussian", metric="precomputed").fit(given), given).lines
    np.testing.assert_allclose(by_name[0].get_ydata(), by_matrix[0].get_ydata())
    assert by_name[2].get_xdata()[0] == pytest.approx(by_matrix[2].get_xdata()[0])
    landmark = plotting.kernel_sum(Roseland(landmarks=50, kernel="gaussian", random_state=0).fit(X), X)
    plain = plotting.kernel_sum(X)
    np.testing.assert_array_equal(landmark.lines[0].get_ydata(), plain.lines[0].get_ydata())
    assert len(plain.lines) == 2  # no epsilon was chosen
    many = plotting.kernel_sum(np.random.default_rng(0).normal(size=(2500, 2)))
    assert legend_texts(many)[0] == "sum over 2000 points"


# -- nothing global, nothing wrong ---------------------------------------------------------


def test_pyplot_is_never_asked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # whoever imports it fails
    drawn = [
        plotting.embedding(POINTS, colors=np.arange(60) % 3),
        plotting.embedding(fitted(), coordinates=(0, 1, 2)),
        plotting.pairs(fitted())[0, 0],
        plotting.thumbnails(fitted(), np.ones((150, 2, 2))),
        plotting.overlay(fitted(), FRESH),
        plotting.trust_map(of_the_plane()),
        plotting.spectrum(fitted(), t=(1, 2)),
        plotting.decay(X[:40], epsilons=(1.0,), components=3),
        plotting.kernel_sum(gaussian()),
    ]
    for number, axes in enumerate(drawn):
        axes.figure.savefig(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plotting.embedding(POINTS[:, :1]), r"points has shape \(60, 1\)"),
        (lambda: plotting.embedding(POINTS, new=NEW[0]), r"new has shape \(3,\)"),
        (lambda: plotting.embedding(POINTS, colors=[1, 2]), r"colors has shape \(2,\) for 60 points"),
        (lambda: plotting.embedding(POINTS, new=NEW, new_colors=[1]), r"new_colors has shape \(1,\) for 7 points"),
        (lambda: plotting.embedding(HOLED), r"NaN or infinity in 1 of 60 rows \(the first is 4\)"),
        (lambda: plotting.embedding(POINTS, colors=HOLED[:, 0]), "colors has NaN or infinity in 1 of 60 rows"),
        (lambda: plotting.embedding(POINTS[:0]), r"points has shape \(0, 3\)"),
        (lambda: plotting.embedding(POINTS, coordinates=(0, 3)), r"coordinates 0, 3 needs \(n, at least 4\)"),
        (lambda: plotting.embedding(POINTS, coordinates=(1,)), r"coordinates=\[1\]: a picture has 2 or 3"),
        (lambda: plotting.embedding(POINTS, coordinates=(0, 1, 2), axes=plotting.panels(1)[1][0]), "which have 2"),
        (lambda: plotting.embedding(PCA(2).fit(X)), "PCA keeps no embedding_ of its training rows; pass coordinates"),
        (lambda: plotting.pairs(POINTS, axes=plotting.grid(1, 2)[1]), r"axes has shape \(1, 2\).*need \(2, 2\)"),
        (lambda: plotting.pairs(POINTS, coordinates=(1,)), "at least 2 coordinates"),
        (lambda: plotting.overlay(fitted(), FRESH[:, :2]), "2 features"),
        (lambda: plotting.trust_map(fitted()), "two features lies in a plane; this has 3"),
        (lambda: plotting.trust_map(TheirIsomap().fit(X), FRESH), r"Isomap .* has no trust\(X\)"),
        (lambda: plotting.thumbnails(POINTS, np.ones((60, 4))), r"images has shape \(60, 4\); 60 points need"),
        (lambda: plotting.thumbnails(POINTS, np.full((60, 2, 2), np.nan)), "images has NaN"),
        (lambda: plotting.thumbnails(POINTS, np.ones((60, 2, 2)), new=NEW), "new and new_images belong together"),
        (lambda: plotting.spectrum([]), "no non-zero eigenvalue"),
        (lambda: plotting.spectrum([0.5, np.nan]), "not all finite"),
        (lambda: plotting.spectrum([0.5, 0.2], t=(1, 0)), r"t=\(1, 0\) must be"),
        (lambda: plotting.spectrum(LocallyLinearEmbedding(2).fit(X)), "the smallest of their matrix and grow"),
        (lambda: plotting.decay(X, method=PCA()), "PCA has no epsilon"),
        (lambda: plotting.decay(X, components=150), "150 rows have 1 to 149 eigenvalues"),
        (lambda: plotting.decay(X, epsilons=()), "epsilons is empty"),
        (lambda: plotting.decay(DiffusionMaps(2, landmarks=50).fit(X)), "holds 50 landmarks of 150 rows"),
        (lambda: plotting.spectrum(DiffusionMaps(2, kernel="variable").fit(X)), "another kernel than 'variable'"),
        (lambda: plotting.kernel_sum(KernelPCA(2).fit(X)), "KernelPCA as fitted has no Gaussian kernel"),
        (lambda: plotting.kernel_sum(fitted()), r"has no Gaussian kernel.*kernel_sum\(X\), or fit it with"),
        (lambda: plotting.kernel_sum(Roseland(kernel="adaptive").fit(X), X), "Roseland as fitted has no Gaussian"),
        (lambda: plotting.kernel_sum(gaussian(), X[:, :2]), r"X has shape \(150, 2\), but 3 columns"),
        (lambda: plotting.kernel_sum(np.ones((5, 2))), "All training points are equal"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_estimator_that_is_not_fitted_says_so():
    for draw in (plotting.embedding, plotting.spectrum, plotting.kernel_sum, plotting.trust_map, plotting.decay):
        with pytest.raises(NotFittedError):
            draw(DiffusionMaps())


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "outfold\[plot\]"'):
        plotting.embedding(POINTS)
