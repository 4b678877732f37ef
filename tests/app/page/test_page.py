"""The page in a browser: what it shows and does."""

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from outfold import Roseland
from outfold.app.cli.main import main
from outfold.app.page import html as page_html
from outfold.app.page import model_facts
from outfold.app.page import rows as page_rows
from outfold.data.columns import Preparation
from outfold.data.tables import Matrix
from outfold.datasets import s_curve
from outfold.storage import open_model

HOSTILE = "</script><img src=x onerror=alert(1)>"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def done(*words):
    answer = CliRunner().invoke(main, [str(word) for word in words])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def written(path, header, lines):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])
    return path


def features(folder, name):
    with open(folder / name, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    preparation = open_model(folder / "m.outfold")[1]
    return preparation.apply(np.array([[float(row[column]) for column in preparation.columns] for row in rows]))


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    if path is None:
        pytest.skip("browser tests need chromium")
    with warnings.catch_warnings(), sync.sync_playwright() as playwright:
        warnings.simplefilter("ignore")
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@contextmanager
def explored(model, table):
    """The address of the page, served as people serve it."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    code = "from outfold.app.cli.main import main; main()"
    words = ["explore", model, table, "--no-open", "--json"]
    server = subprocess.Popen([sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        server.stdout.close()
    assert server.returncode == 0


@pytest.fixture(scope="module")
def url(folder):
    with explored(folder / "m.outfold", folder / "a.csv") as found:
        yield found


@pytest.fixture
def look(browser):
    """Open pages; at the end nothing may have gone wrong, and nothing may have been asked of anybody else."""
    views, said = [], []

    def opened(address, *, width=1280, height=860, scheme="light"):
        view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        view.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        view.on("pageerror", lambda error: said.append(str(error)))
        view.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        asked = []
        view.on("request", lambda request: asked.append(request.url))
        view.goto(address)
        view.evaluate("outfold.loaded()")
        views.append((view, address, asked))
        return view

    yield opened
    for view, address, asked in views:
        host = re.match(r"http://[^/]+/|file:", address)[0]
        assert all(one.startswith((host, "data:", "blob:")) for one in asked)
        view.close()
    assert said == []


def state(view):
    return view.evaluate("outfold.state()")


def places(view, rows):
    return np.array(view.evaluate("rows => outfold.positions(rows)", list(rows)))


def dragged(view, path):
    box = view.locator("#points").bounding_box()
    view.mouse.move(box["x"] + path[0][0], box["y"] + path[0][1])
    view.mouse.down()
    for x, y in path[1:]:
        view.mouse.move(box["x"] + x, box["y"] + y)
    view.mouse.up()


def test_it_shows_the_rows_where_the_model_puts_them(url, look, folder):
    view = look(url)
    estimator, _ = open_model(folder / "m.outfold")
    np.testing.assert_allclose(
        places(view, range(120)), estimator.transform(features(folder, "a.csv")), rtol=2e-6, atol=1e-7
    )
    assert view.locator("h1").inner_text() == "m.outfold"
    assert "DiffusionMaps, 5 coordinates of 3 columns · 120 rows of a.csv" in view.locator("#about").inner_text()
    assert view.evaluate("outfold.picture().lit") > 1000
    x, y = view.evaluate("outfold.screen([7])")[0]
    box = view.locator("#points").bounding_box()
    view.mouse.move(box["x"] + x + 1, box["y"] + y)
    view.wait_for_selector("#tip:visible")
    assert view.locator("#tip strong").inner_text() == "name r7"
    cells = dict(line.split("\t") for line in view.locator("#row").inner_text().splitlines())
    with open(folder / "a.csv", encoding="utf-8") as file:
        row = list(csv.DictReader(file))[7]
    assert (cells["name"], cells["kind"], cells["note"], cells["row"]) == ("r7", row["kind"], row["note"], "8")
    assert float(cells["x"]) == pytest.approx(float(row["x"]), rel=1e-5)
    assert "hangs together" in view.locator("#parts").text_content()


def test_axes_change_and_three_of_them_turn(url, look):
    view = look(url)
    before, picture = view.evaluate("outfold.screen([0, 1])"), view.evaluate("outfold.picture().sum")
    view.select_option("#axis-0", index=2)
    assert state(view)["axes"] == [2, 1, -1]
    assert view.evaluate("outfold.screen([0, 1])") != before
    assert view.evaluate("outfold.picture().sum") != picture
    view.get_by_role("button", name="Coordinates 2 and 4").click()
    assert state(view)["axes"] == [1, 3, -1]
    view.select_option("#axis-2", index=1)
    assert state(view)["axes"] == [1, 3, 0]
    still = np.array(view.evaluate("outfold.screen([0, 1, 2])"))
    dragged(view, [(400, 400), (430, 410), (480, 430)])
    assert np.abs(np.array(view.evaluate("outfold.screen([0, 1, 2])")) - still).max() > 5
    assert view.evaluate("outfold.picture().lit") > 1000


def test_the_time_slider_weighs_coordinates_by_powers_of_eigenvalues(url, look, folder):
    view = look(url)
    estimator, _ = open_model(folder / "m.outfold")
    psi = estimator.transform(features(folder, "a.csv")) / estimator.eigenvalues_
    picture = view.evaluate("outfold.picture().sum")
    view.locator("#t-number").fill("2.5")
    np.testing.assert_allclose(places(view, range(120)), estimator.eigenvalues_**2.5 * psi, rtol=2e-6, atol=1e-7)
    assert view.evaluate("outfold.picture().sum") != picture
    view.locator("#t").focus()
    view.keyboard.press("Home")
    assert state(view)["t"] == 0
    np.testing.assert_allclose(places(view, [3]), psi[[3]], rtol=2e-6)
    view.keyboard.press("End")
    t = state(view)["t"]
    assert t == model_facts.diffusion(estimator)["most"]
    np.testing.assert_allclose(places(view, [3]), estimator.eigenvalues_**t * psi[[3]], rtol=1e-5)
    assert f"at t = {t:g}" in view.locator("#spectrum-told").inner_text()


def test_colours_by_label_column_trust_and_density(url, look):
    view = look(url)
    assert view.locator("#legend .entry").all_inner_texts()[0].split("\n")[0] == "down"
    seen = {view.evaluate("outfold.picture().sum")}
    options = view.locator("#colour option").all_inner_texts()
    assert options == [
        "kind",
        "x",
        "y",
        "z",
        "note",
        "p-value",
        "support",
        "outside the data",
        "error band",
        "density",
        "one colour",
    ]
    for name in options[1:]:
        view.select_option("#colour", label=name)
        seen.add(view.evaluate("outfold.picture().sum"))
    assert len(seen) >= len(options) - 1  # all rows inside the data are of one colour
    view.select_option("#colour", label="kind")
    view.locator("#legend .entry").nth(1).click()
    assert state(view)["chosen"] == int(view.locator("#legend .entry span").nth(5).inner_text())


def test_p_values_are_coloured_by_their_logarithms(look, folder):
    done("report", folder / "m.outfold", folder / "new.csv", "-o", folder / "new.html")
    view = look((folder / "new.html").as_uri())
    view.select_option("#colour", label="p-value")
    ends = [float(text.strip("≤≥ ")) for text in view.locator("#legend .ends span").all_inner_texts()]
    found = np.maximum(open_model(folder / "m.outfold")[0].trust(features(folder, "new.csv")).p_value, 1e-6)
    assert ends == pytest.approx([found.min(), found.max()], rel=1e-3)


def test_lasso_selects_rows_and_downloads_them(url, look, folder):
    view = look(url)
    spots = np.array(view.evaluate("rows => outfold.screen(rows)", list(range(120))))
    left, top = np.floor(np.quantile(spots, 0.3, axis=0))
    right, bottom = np.floor(np.quantile(spots, 0.9, axis=0)) + 1
    inside = np.flatnonzero((spots >= [left, top]).all(axis=1) & (spots < [right, bottom]).all(axis=1))
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    for tool in ("lasso", "box"):
        view.click(f"[data-tool={tool}]")
        dragged(view, corners if tool == "lasso" else [corners[0], corners[1], corners[2]])
        assert state(view)["chosen"] == len(inside)
    view.locator("#t-number").fill("2")
    with view.expect_download() as waiting:
        view.click("#download")
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
    assert [int(row["row"]) - 1 for row in rows] == inside.tolist()
    estimator, _ = open_model(folder / "m.outfold")
    expected = (estimator.transform(features(folder, "a.csv")) * estimator.eigenvalues_)[inside]
    found = np.array([[float(row[f"diffusionmaps{at}"]) for at in range(5)] for row in rows])
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
    with open(folder / "a.csv", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    for row, at in zip(rows, inside):
        assert [row[name] for name in ("name", "kind", "note")] == [
            table[at][name] for name in ("name", "kind", "note")
        ]
        assert float(row["z"]) == pytest.approx(float(table[at]["z"]), rel=1e-6)
    view.click("#clear")
    assert state(view)["chosen"] == 0


DROP = """([name, text]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name, { type: "text/csv" }));
  const drop = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
  document.getElementById("stage").dispatchEvent(drop);
}"""


def test_a_dropped_table_lands_where_transform_puts_it(url, look, folder):
    view = look(url)
    estimator, _ = open_model(folder / "m.outfold")
    view.evaluate(DROP, ["new.csv", (folder / "new.csv").read_text(encoding="utf-8")])
    view.wait_for_selector("#forget:visible")
    new = features(folder, "new.csv")
    expected, trust = estimator.transform(new, on_far="keep"), estimator.trust(new)
    np.testing.assert_allclose(view.evaluate("outfold.landed()"), expected, rtol=2e-6, atol=1e-7)
    assert "23 rows of new.csv landed" in view.locator("#landed").inner_text()
    marks = [text.split("\n") for text in view.locator("#new-legend .entry").all_inner_texts()]
    assert [int(mark[-1]) for mark in marks] == [int((~trust.flag).sum()), int(trust.flag.sum())]
    assert trust.flag[-3:].all()
    assert "error bands" in view.locator("#new-legend").inner_text()
    with_points = view.evaluate("outfold.picture().sum")
    view.click("#forget")
    assert view.evaluate("outfold.picture().sum") != with_points


def test_a_few_rows_far_out_leave_the_others_their_room(look, tmp_path):
    near = np.random.default_rng(0).uniform(-1, 1, size=(100, 3))
    far = [[90.0, 0.0, 0.0], [-80.0, 60.0, 0.0], [0.0, -70.0, 0.0]]
    header = ["x", "y", "z"]
    written(tmp_path / "far.csv", header, [*near.tolist(), *far])
    written(tmp_path / "new.csv", header, [[0.0, 0.0, 0.0], [500.0, 0.0, 0.0]])
    model = tmp_path / "m.outfold"
    done("fit", tmp_path / "far.csv", "--method", "classical-mds", "--scale", "none", "--save", model)

    def shown(view, rows):
        """Which of them are drawn on the picture, and how wide all of them lie."""
        width, height = view.evaluate("[stage.clientWidth, stage.clientHeight]")
        spots = np.array(view.evaluate("rows => outfold.screen(rows)", list(rows)))
        return ((spots > 0) & (spots < [width, height])).all(axis=1), np.ptp(spots, axis=0).max() / height

    with explored(model, tmp_path / "far.csv") as url:
        view = look(url)
        assert view.locator("#beyond").inner_text() == "3 far rows out of view · Show all"
        seen, wide = shown(view, range(100))
        assert seen.all()
        assert wide > 0.5
        assert not shown(view, range(100, 103))[0].any()
        view.click("#beyond")
        assert view.locator("#beyond").inner_text() == "3 far rows in view · Leave out"
        seen, wide = shown(view, range(103))
        assert seen.all()
        assert shown(view, range(100))[1] < 0.05
        view.locator("#points").press("a")
        assert not state(view)["all"]
        view.locator("#points").press("p")  # the last row, which is far, comes into view
        assert view.locator("#tip strong").inner_text() == "row 103"
        assert shown(view, [102])[0].all()
        view.click("#beyond")
        view.evaluate(DROP, ["new.csv", (tmp_path / "new.csv").read_text(encoding="utf-8")])
        view.wait_for_selector("#forget:visible")  # what landed is seen at once
        assert view.locator("#beyond").inner_text() == "4 far rows in view · Leave out"
        assert shown(view, range(103))[0].all()
        view.click("#forget")
        assert "3 far rows" in view.locator("#beyond").inner_text()


def test_ordinary_rows_are_all_in_view_below_the_tools(url, look):
    for width in (1280, 390):
        view = look(url, width=width, height=844)
        spots = np.array(view.evaluate("rows => outfold.screen(rows)", list(range(120))))
        tools = view.evaluate("document.getElementById('tools').getBoundingClientRect().bottom - stage.offsetTop")
        assert not view.locator("#beyond").is_visible()
        assert spots[:, 1].min() > tools
        assert spots[:, 1].max() < view.evaluate("stage.clientHeight")
        assert spots[:, 0].min() > 40
        assert spots[:, 0].max() < view.evaluate("stage.clientWidth")


def test_a_bad_table_is_answered_in_words(url, browser, folder):
    view = browser.new_page()
    view.goto(url)
    view.evaluate("outfold.loaded()")
    view.evaluate(DROP, [HOSTILE + ".csv", "a,b\n1,2\n"])
    view.wait_for_selector("#landed.wrong")
    assert "has no columns 'x', 'y', 'z' that the model was fitted with" in view.locator("#landed").inner_text()
    assert view.locator("img").count() == 0
    assert view.evaluate("outfold.landed()") == []
    view.close()


def test_light_and_dark_wide_and_narrow(url, look):
    for width, scheme in ((1280, "dark"), (390, "light")):
        view = look(url, width=width, height=844, scheme=scheme)
        assert view.evaluate("document.documentElement.dataset.theme") == scheme
        paper = "getComputedStyle(document.body).backgroundColor"
        before, picture = view.evaluate(paper), view.evaluate("outfold.picture().sum")
        view.click("#theme")
        assert view.evaluate(paper) != before
        assert view.evaluate("outfold.picture().sum") != picture
        for name in view.locator("summary").all():
            if name.is_visible() and name.evaluate("one => !one.parentElement.open"):
                name.click()
        assert view.evaluate("document.documentElement.scrollWidth") <= width
        assert view.locator("#points").bounding_box()["width"] <= width


def test_everything_is_reached_by_keys(url, look):
    view = look(url)
    view.locator("#theme").focus()
    reached = []
    for _ in range(60):
        view.keyboard.press("Tab")
        reached.append(
            view.evaluate(
                "document.activeElement.id || document.activeElement.dataset.tool || document.activeElement.tagName"
            )
        )
    for name in (
        "points",
        "move",
        "lasso",
        "box",
        "fit",
        "axis-0",
        "axis-1",
        "axis-2",
        "equal",
        "t",
        "t-number",
        "colour",
        "file",
    ):
        assert name in reached
    view.locator("#points").focus()
    before = view.evaluate("outfold.screen([0])")[0]
    view.keyboard.press("ArrowRight")
    after = view.evaluate("outfold.screen([0])")[0]
    assert after[0] < before[0]
    for _ in range(3):
        view.keyboard.press("n")
    assert view.locator("#tip strong").inner_text() == "name r2"
    assert view.locator("#said").text_content().startswith("name r2, kind")
    view.keyboard.press("Enter")
    assert state(view)["chosen"] == 1
    view.keyboard.press("Escape")
    assert state(view)["chosen"] == 0


def test_the_report_is_the_same_page_and_both_ways_of_drawing_agree(look, folder, url):
    done("report", folder / "m.outfold", folder / "a.csv", "-o", folder / "r.html")
    served, lit = look(url), {}
    for drawing in ("webgl", "processor"):
        view = look((folder / "r.html").as_uri() + f"#draw={drawing}")
        assert state(view)["drawing"] == drawing
        np.testing.assert_allclose(places(view, range(120)), places(served, range(120)), rtol=1e-7)
        lit[drawing] = [view.evaluate("outfold.picture().lit")]
        view.select_option("#axis-2", index=3)
        lit[drawing].append(view.evaluate("outfold.picture().lit"))
        assert not view.locator("#new-panel").is_visible()
    np.testing.assert_allclose(lit["webgl"], lit["processor"], rtol=0.25)


def test_hostile_names_stay_text(look, folder):
    done("report", folder / "evil.outfold", folder / "evil.csv", "-o", folder / "e.html")
    view = look((folder / "e.html").as_uri())
    view.locator("#points").focus()
    view.keyboard.press("n")
    time.sleep(0.2)
    assert view.locator("#tip strong").inner_text() == f"id {HOSTILE} {HOSTILE}0"
    assert HOSTILE in view.locator("#legend").inner_text()
    assert f"x {HOSTILE}" in view.locator("#row").inner_text()
    assert view.locator("img").count() == 0


def test_without_a_time_the_slider_is_absent_with_a_word_why(look, folder):
    words = ["--columns", "x,y,z", "--save", folder / "k.outfold"]
    done("fit", folder / "a.csv", "--method", "kernel-pca", "--components", 1, *words)
    done("report", folder / "k.outfold", folder / "a.csv", "-o", folder / "k.html")
    view = look((folder / "k.html").as_uri())
    assert not view.locator("#time").is_visible()
    assert "KernelPCA has no diffusion time" in view.locator("#no-time").inner_text()
    assert view.evaluate("outfold.picture().lit") > 500  # one coordinate, over the rows


@pytest.mark.slow
def test_a_million_rows_stay_below_twenty_megabytes(tmp_path, look):
    X = np.asarray(s_curve(1_000_000, noise=0.05, random_state=0)[0])
    estimator = Roseland(6, landmarks=200, random_state=0).fit(X[:5000])
    table = Matrix(X, "many", ("a", "b", "c"), {"kind": [f"kind {at % 30}" for at in range(len(X))]})
    preparation = Preparation(columns=("a", "b", "c"), label="kind")
    cloud = page_rows.table(estimator, preparation, table)
    page_html.write(tmp_path / "r.html", page_html.Page("m", estimator, preparation, cloud))
    assert (tmp_path / "r.html").stat().st_size < 20_000_000
    view = look((tmp_path / "r.html").as_uri())
    assert "Left out, to keep the file below 20 MB" in view.locator("#notes").inner_text()
    rows = list(range(0, 1_000_000, 99_991))
    expected = estimator.transform(X[rows], on_far="keep")
    np.testing.assert_allclose(places(view, rows), expected, atol=np.ptp(expected, axis=0).max() / 4000)
