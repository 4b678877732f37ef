"""The site: it builds without a warning, asks nothing of the network, and its examples show what they say."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import outfold
from catalogue import ROOT

pytest.importorskip("sphinx_gallery")
pytest.importorskip("matplotlib")

ELSEWHERE = {"isomap_faces"}  # needs data that is not in the repository; test_docs.py draws it where that is
EXAMPLES = sorted({path.stem for path in (ROOT / "examples").glob("*.py")} - ELSEWHERE)
FETCHING = {"script", "link", "img", "iframe", "source", "video", "audio", "embed", "object", "use"}


class Fetched(HTMLParser):
    """Addresses that a browser fetches to show a page: not those of links to be followed."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        if tag in FETCHING:
            self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]


def from_the_network(address):
    return re.match(r"\s*(https?:)?//", address) is not None


def built_from_a_copy(tree):
    """The site, built from a copy so that nothing is written beside the sources."""
    made = shutil.ignore_patterns("_build", "gallery", "generated", "results", "__pycache__")
    for name in ("docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, tree / name, ignore=made)
    shutil.copy(ROOT / "CHANGELOG.md", tree)
    words = ["-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0", "docs", "site"]
    build = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=tree, capture_output=True, text=True)
    assert build.returncode == 0, build.stderr
    return tree / "site"


def test_the_site_builds_without_a_warning_is_complete_and_asks_nothing_of_the_network(tmp_path):
    site = built_from_a_copy(tmp_path)
    pages = {str(path.relative_to(site).with_suffix("")): path.read_text() for path in site.rglob("*.html")}
    sources = {str(path.relative_to(tmp_path / "docs").with_suffix("")) for path in (tmp_path / "docs").rglob("*.md")}
    assert sources <= pages.keys()
    assert {f"gallery/{path.stem}" for path in (ROOT / "examples").glob("*.py")} <= pages.keys()
    for name in set(outfold.__all__) - {"__version__"}:
        assert f'id="outfold.{name}"' in pages[f"api/generated/outfold.{name}"]
    for method in ("fit", "fit_predict", "fit_transform", "transform", "inverse_transform", "predict", "trust", "save"):
        assert f'id="outfold.SpectralClustering.{method}"' in pages["api/generated/outfold.SpectralClustering"]
    for page, text in pages.items():
        found = Fetched()
        found.feed(text)
        assert found.addresses  # styles at least
        assert not [address for address in found.addresses if from_the_network(address)], page
    for sheet in site.rglob("*.css"):
        targets = re.findall(r"(?:url\(|@import\s)\s*[\"']?([^\"')\s]+)", sheet.read_text())
        assert not [target for target in targets if from_the_network(target)], sheet.name


# -- examples: what each prints is what it claims ------------------------------------------


def numbers(line):
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def few_labels_go_farther_in_coordinates_than_in_pixels(lines):
    pairs = [numbers(line) for line in lines]
    assert len(pairs) == 7
    assert all(coordinates > pixels for pixels, coordinates in pairs)
    assert all(coordinates > pixels + 0.05 for pixels, coordinates in pairs[:4])


def density_tells_what_is_rare_and_support_what_is_off_the_sheet(lines):
    right, rare, off = map(numbers, lines)
    assert right[0] > 0.9
    assert rare[0] > 0.95 > rare[1]
    assert off[1] > 0.99
    assert off[2] < 0.85
    assert abs(off[0] - 0.5) < 0.05


def new_digits_are_where_a_joint_fit_has_them_and_scrambled_ones_are_flagged(lines):
    (apart,), (digits, scrambled) = map(numbers, lines)
    assert apart < 0.06
    assert digits < 0.02
    assert scrambled == 1


def time_leaves_fewer_coordinates_and_mixes_the_own_cluster_first(lines):
    counts = [int(re.search(r": (\d+) coord", line)[1]) for line in lines]
    assert counts[0] > counts[1] > counts[2] == 1
    ratios = [numbers(line)[-1] for line in lines]
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] < 0.05


def alpha_one_gives_the_circle_whatever_its_sampling(lines):
    zero, half, one = (numbers(line.split("=")[-1]) for line in lines)
    circle = [1, 1, 4, 4, 9, 9]
    off = [max(abs(found - true) / true for found, true in zip(rates, circle)) for rates in (zero, half, one)]
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.02


def the_way_back_errs_less_than_the_nearest_image(lines):
    ours, nearest = numbers(lines[0])
    assert ours < nearest / 4


def spread_landmarks_are_worth_several_times_as_many_random_ones(lines):
    nystrom, spread, roseland, spread_roseland = map(numbers, lines)
    assert spread[0] < nystrom[2]  # 100 centres, 400 rows
    assert spread_roseland[0] < roseland[2]
    assert nystrom[0] > nystrom[1] > nystrom[2] > nystrom[3]
    assert roseland[0] < nystrom[0]


def it_writes_its_picture(lines):
    assert lines == ["wrote bengio_figure_2.png"]  # what it shows is held by test_docs.py


def new_documents_lie_beside_their_topic_and_shuffled_ones_are_flagged(lines):
    assert numbers(lines[1])[0] > 95
    assert numbers(lines[3])[0] < 5 < 95 < numbers(lines[4])[0]


def communities_are_found_and_new_members_join_theirs(lines):
    assert numbers(lines[1])[0] > 0.9
    assert numbers(lines[2])[0] > 0.9


CLAIMS = {
    "bengio_figure_2": it_writes_its_picture,
    "density_in_the_embedding": density_tells_what_is_rare_and_support_what_is_off_the_sheet,
    "diffusion_time": time_leaves_fewer_coordinates_and_mixes_the_own_cluster_first,
    "from_embedding_to_data": the_way_back_errs_less_than_the_nearest_image,
    "landmarks_and_size": spread_landmarks_are_worth_several_times_as_many_random_ones,
    "new_points": new_digits_are_where_a_joint_fit_has_them_and_scrambled_ones_are_flagged,
    "sampling_density": alpha_one_gives_the_circle_whatever_its_sampling,
    "social_network": communities_are_found_and_new_members_join_theirs,
    "text": new_documents_lie_beside_their_topic_and_shuffled_ones_are_flagged,
    "semi_supervised": few_labels_go_farther_in_coordinates_than_in_pixels,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_runs_and_shows_what_it_claims(name, tmp_path):
    path = ROOT / "examples" / f"{name}.py"
    text = path.read_text().splitlines()
    assert len(text) < 80
    assert text[2] == "=" * len(text[1])  # its title, as the gallery reads it
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "Warning" not in run.stderr, run.stderr
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    CLAIMS[name](run.stdout.splitlines())
