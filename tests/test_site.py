"""The site: it builds without a warning, asks nothing of the network, and its examples show what they say."""

import os
import pathlib
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

pytest.importorskip("sphinx_gallery")
pytest.importorskip("matplotlib")

ROOT = pathlib.Path(__file__).parents[1]
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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A copy of the tree, so that nothing is written into it, and what is built from it."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("docs", "examples", "benchmarks", "CHANGELOG.md"):
        if (ROOT / name).is_dir():
            for path in (ROOT / name).rglob("*"):
                parts = path.relative_to(ROOT).parts
                if path.is_file() and not {"_build", "gallery", "generated", "results", "__pycache__"} & set(parts):
                    target = copy.joinpath(*parts)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(path.read_bytes())
        else:
            (copy / name).write_bytes((ROOT / name).read_bytes())
    words = ["-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0", "docs", "site"]
    build = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=copy, capture_output=True, text=True)
    assert build.returncode == 0, build.stderr
    return copy / "site"


def test_the_site_builds_without_a_warning_and_has_a_page_for_every_part(site):
    built = {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= built
    assert {f"gallery/{path.stem}" for path in (ROOT / "examples").glob("*.py")} <= built
    reference = (site / "api" / "generated" / "outfold.SpectralClustering.html").read_text()
    for method in "fit fit_predict fit_transform transform inverse_transform predict calibrate trust save".split():
        assert f'id="outfold.SpectralClustering.{method}"' in reference


def test_every_public_name_is_in_the_reference(site):
    import outfold

    for name in set(outfold.__all__) - {"__version__"}:
        assert f'id="outfold.{name}"' in (site / "api" / "generated" / f"outfold.{name}.html").read_text()


def test_no_page_asks_anything_of_the_network(site):
    for page in site.rglob("*.html"):
        found = Fetched()
        found.feed(page.read_text())
        assert found.addresses  # styles at least
        assert not [address for address in found.addresses if from_the_network(address)], page.name
    for sheet in site.rglob("*.css"):
        targets = re.findall(r"(?:url\(|@import\s)\s*[\"']?([^\"')\s]+)", sheet.read_text())
        assert not [target for target in targets if from_the_network(target)], sheet.name


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What an example prints; each runs once, in a folder of its own where it leaves its picture."""
    answers = {}

    def run(name):
        if name not in answers:
            folder = tmp_path_factory.mktemp(name)
            where = {**os.environ, "MPLBACKEND": "Agg"}
            program = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
            run = subprocess.run(program, cwd=folder, env=where, capture_output=True, text=True, timeout=300)
            assert run.returncode == 0, run.stderr
            assert "Warning" not in run.stderr, run.stderr
            assert (folder / f"{name}.png").stat().st_size > 10_000
            answers[name] = run.stdout
        return answers[name]

    return run


def numbers(line):
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_is_short(name, told):
    assert told(name)
    lines = (ROOT / "examples" / f"{name}.py").read_text().splitlines()
    assert len(lines) < 80
    assert lines[2] == "=" * len(lines[1])  # its title, as the gallery reads it


def test_few_labels_go_farther_in_coordinates_than_in_pixels(told):
    pairs = [numbers(line) for line in told("semi_supervised").splitlines()]
    assert len(pairs) == 7
    assert all(coordinates > pixels for pixels, coordinates in pairs)
    assert all(coordinates > pixels + 0.05 for pixels, coordinates in pairs[:4])


def test_density_tells_what_is_rare_and_support_what_is_off_the_sheet(told):
    right, rare, off = map(numbers, told("density_in_the_embedding").splitlines())
    assert right[0] > 0.9
    assert rare[0] > 0.95 > rare[1]
    assert off[1] > 0.99
    assert off[2] < 0.85
    assert abs(off[0] - 0.5) < 0.05


def test_new_digits_are_where_a_joint_fit_has_them_and_scrambled_ones_are_flagged(told):
    (apart,), (digits, scrambled) = map(numbers, told("new_points").splitlines())
    assert apart < 0.06
    assert digits < 0.02
    assert scrambled == 1


def test_time_leaves_fewer_coordinates_and_mixes_the_own_cluster_first(told):
    lines = told("diffusion_time").splitlines()
    counts = [int(re.search(r": (\d+) coord", line)[1]) for line in lines]
    assert counts[0] > counts[1] > counts[2] == 1
    ratios = [numbers(line)[-1] for line in lines]
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] < 0.05


def test_alpha_one_gives_the_circle_whatever_its_sampling(told):
    zero, half, one = (numbers(line.split("=")[-1]) for line in told("sampling_density").splitlines())
    circle = [1, 1, 4, 4, 9, 9]
    off = [max(abs(found - true) / true for found, true in zip(rates, circle)) for rates in (zero, half, one)]
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.02


def test_the_way_back_errs_less_than_the_nearest_image(told):
    ours, nearest = numbers(told("from_embedding_to_data"))
    assert ours < nearest / 4


def test_spread_landmarks_are_worth_several_times_as_many_random_ones(told):
    nystrom, spread, roseland, spread_roseland = map(numbers, told("landmarks_and_size").splitlines())
    assert spread[0] < nystrom[2]  # 100 centres, 400 rows
    assert spread_roseland[0] < roseland[2]
    assert nystrom[0] > nystrom[1] > nystrom[2] > nystrom[3]
    assert roseland[0] < nystrom[0]
