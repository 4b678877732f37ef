"""Pictures: new points stand out, legends name groups, nothing global is touched."""

import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'outfold[plot]'")

from outfold import plotting

POINTS = np.random.default_rng(0).normal(size=(60, 3))
NEW = POINTS[:7] + 0.1


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


def test_pyplot_is_never_asked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    axes = plotting.embedding(POINTS, colors=np.arange(60) % 3)
    axes.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plotting.embedding(POINTS[:, :1]), r"points has shape \(60, 1\)"),
        (lambda: plotting.embedding(POINTS, new=NEW[0]), r"new has shape \(3,\)"),
        (lambda: plotting.embedding(POINTS, colors=[1, 2]), r"colors has shape \(2,\) for 60 points"),
        (lambda: plotting.embedding(POINTS, new=NEW, new_colors=[1]), r"new_colors has shape \(1,\) for 7 points"),
        (lambda: plotting.spectrum([]), "no non-zero eigenvalue"),
    ],
    ids=["one coordinate", "one row", "colors", "new colors", "no spectrum"],
)
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "outfold\[plot\]"'):
        plotting.embedding(POINTS)
