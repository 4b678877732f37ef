"""The page of a model: what it is made of, and, in a browser, what it shows and does."""

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
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from outfold import DiffusionMaps, KernelPCA, LaplacianEigenmaps, LocallyLinearEmbedding, Roseland, SpectralClustering
from outfold.app.command import main
from outfold.app.page import facts, gathering, streams, writing
from outfold.datasets import s_curve
from outfold.preparation import Preparation
from outfold.storage import open_model
from outfold.tables import Matrix

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A calibrated model of five coordinates, its table, new rows whose last three are far, and hostile names."""
    here = tmp_path_factory.mktemp("page")
    X = np.asarray(s_curve(150, random_state=0)[0])
    header = ["name", "x", "y", "z", "kind", "note"]
    lines = [
        [f"r{at}", *map(repr, row.tolist()), "up" if row[2] > 0 else "down", f"n{at % 3}"] for at, row in enumerate(X)
    ]
    written(here / "a.csv", header, lines[:120])
    far = [[f"far{at}", 9.0 + at, -7.0, 5.0, "up", "n0"] for at in range(3)]
    written(here / "new.csv", header, [*lines[120:140], *far])
    words = ["--id", "name", "--label", "kind", "--components", 5, "--calibrate", "--save", here / "m.outfold"]
    done("fit", here / "a.csv", *words)
    evil = [[f"{HOSTILE}{at}", *row[1:4], HOSTILE if at % 2 else "b", HOSTILE] for at, row in enumerate(lines[:60])]
    names = [f"id {HOSTILE}", f"x {HOSTILE}", "y", "z", f"kind {HOSTILE}", "note"]
    written(here / "evil.csv", names, evil)
    done(
        "fit",
        here / "evil.csv",
        "--id",
        names[0],
        "--label",
        names[4],
        "--components",
        3,
        "--save",
        here / "evil.outfold",
    )
    return here


def features(folder, name):
    with open(folder / name, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    preparation = open_model(folder / "m.outfold")[1]
    return preparation.apply(np.array([[float(row[column]) for column in preparation.columns] for row in rows]))


# -- what it is made of --------------------------------------------------------------------


def unpacked(stream):
    """As the page reads it."""
    raw = np.frombuffer(zlib.decompress(stream.packed()), np.uint8)
    size = {"f4": 4, "i4": 4, "u2": 2, "q2": 2, "u1": 1}[stream.kind]
    whole = raw.reshape(size, -1).T.tobytes()
    codes = np.frombuffer(whole, {"f4": "<f4", "i4": "<i4", "u1": "u1"}.get(stream.kind, "<u2"))
    return codes if stream.kind != "q2" else np.where(codes == 65535, np.nan, stream.low + stream.step * codes)


def test_streams_come_back_as_they_went():
    values = np.random.default_rng(0).normal(size=1000) * 50
    values[3] = np.nan
    exact, rough = streams.numbers("a", "column", values), streams.numbers("a", "column", values).quantised()
    np.testing.assert_array_equal(unpacked(exact), values.astype(np.float32))
    np.testing.assert_allclose(unpacked(rough), values, atol=0.51 * np.nanmax(np.ptp(values[4:])) / 65534 + 1e-4)
    assert np.isnan(unpacked(rough)[3])
    words = streams.grouped("g", "label", ["b 10", "b 9", None, "b 10"])
    assert [words.words[code] for code in unpacked(words)] == ["b 10", "b 9", "(missing)", "b 10"]
    assert words.words == ("(missing)", "b 9", "b 10")
    assert unpacked(streams.named("id", ["7", "-12"])).tolist() == [7, -12]
    assert streams.named("id", ["07", "8"]).cells == ("07", "8")
    many = streams.grouped("g", "column", [f"w{at}" for at in range(5000)])
    assert many.kind == "text"
    assert json.loads(many.raw())[4999] == "w4999"


def test_a_file_too_large_gives_up_columns_first_and_says_which():
    random = np.random.default_rng(0)
    rows = streams.EXACT_ROWS + 1000
    axes = [streams.numbers(f"c{at}", "coordinate", random.normal(size=rows)) for at in range(4)]
    columns = [streams.numbers(f"x{at}", "column", random.normal(size=rows)) for at in range(3)]
    label = streams.grouped("kind", "label", ["a", "b"] * (rows // 2))
    kept, letters, notes = streams.fitted([*axes, label, *columns], rows, 1_650_000)
    assert [stream.name for stream in kept] == ["c0", "c1", "c2", "c3", "kind", "x0", "x1"]
    assert sum(map(len, letters)) <= 1_650_000
    assert "Left out, to keep the file below 20 MB: x2." in notes[1]
    few, letters, notes = streams.fitted([*axes, label, *columns], rows, 800_000)
    assert [stream.name for stream in few][:3] == ["c0", "c1", "c2"]
    assert sum(map(len, letters)) <= 800_000
    assert "1/4095" in notes[0]
    all_, _, notes = streams.fitted([*axes, label, *columns], 100, 10**9)
    assert len(all_) == 8
    assert notes == []
    lossy, _, notes = streams.fitted([*axes, label, *columns], 100, 2_000_000)  # digits go before columns
    assert [stream.name for stream in lossy] == [stream.name for stream in all_]
    assert "1/65535" in notes[0]


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
    cloud = gathering.table(estimator, Preparation(("a", "b", "c")), Matrix(X, "t", ("a", "b", "c")))
    time_ = facts.diffusion(estimator)
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
    cloud = gathering.held(estimator, Preparation(("a", "b", "c")))
    assert why in facts.diffusion(estimator)["why"]
    places = np.column_stack([s.values for s in cloud.streams if s.role == "coordinate"])
    np.testing.assert_allclose(places, estimator.transform(X, on_far="keep"), rtol=1e-5, atol=1e-30)
    json.dumps(writing.told("m", estimator, Preparation(("a", "b", "c")), cloud, live=None), allow_nan=False)


def test_clusters_are_a_column_and_landmarks_are_shown_without_a_table():
    X = np.asarray(s_curve(90, random_state=0)[0])
    estimator = SpectralClustering(3, random_state=0).fit(X)
    cloud = gathering.held(estimator, Preparation(("a", "b", "c")))
    found = next(stream for stream in cloud.streams if stream.name == "cluster")
    assert [found.words[code] for code in found.values] == [f"cluster {at}" for at in estimator.predict(X)]
    few = gathering.held(Roseland(2, landmarks=40, random_state=0).fit(X), Preparation(("a", "b", "c")))
    assert few.rows == 90  # the embedding of the fit
    fitted = Roseland(2, landmarks=40, random_state=0).fit(X)
    del fitted.embedding_
    assert gathering.held(fitted, Preparation(("a", "b", "c"))).rows == 40


def test_many_rows_are_thinned_and_it_is_said():
    X = np.asarray(s_curve(300, random_state=0)[0])
    table = Matrix(np.where(np.arange(300)[:, None] == 8, np.nan, X), "t", ("a", "b", "c"))
    estimator = DiffusionMaps(2).fit(X[:100])
    cloud = gathering.table(estimator, Preparation(("a", "b", "c")), table, most=100)
    number = next(stream for stream in cloud.streams if stream.role == "row").values
    assert number.tolist() == [at for at in range(1, 300, 4) if at != 9]
    assert cloud.rows == 74
    assert "Row 1 of every 4 is shown: 74 of 299" in cloud.notes[1]
    assert "1 of 300 rows lack a value" in cloud.notes[0]


def test_report_is_one_page_that_needs_nothing_else(folder):
    out = folder / "one.html"
    done("report", folder / "m.outfold", folder / "a.csv", "-o", out)
    text = out.read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'sha256-" in text
    assert re.findall(r'(?:src|href)="([^"]*)"', re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)) == [
        "data:,"
    ]
    told = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL)[1])
    assert told["model"]["method"] == "DiffusionMaps"
    assert ["scaling", "each column centred and divided by its standard deviation"] in told["model"]["columns"]
    assert {name for name, _ in told["model"]["fit"]} >= {"data", "epsilon", "graph", "spectrum", "solver"}
    assert len(told["spectrum"]["values"]) == 5
    assert told["live"] is None
    assert (
        "--label names a column of DATA"
        in CliRunner().invoke(main, ["report", str(folder / "m.outfold"), "--label", "kind", "-o", str(out)]).stderr
    )


def test_nothing_from_outside_ends_a_script_element(folder):
    done("report", folder / "evil.outfold", folder / "evil.csv", "-o", folder / "evil.html")
    text = (folder / "evil.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("</script>") == text.count("<script ") + text.count("<script>")


def test_only_those_with_the_token_see_the_page(folder):
    httpx = pytest.importorskip("httpx")
    live = pytest.importorskip("outfold.app.page.live")
    estimator, preparation = open_model(folder / "m.outfold")
    routes = live.routes("m", estimator, preparation, gathering.held(estimator, preparation))
    door = live.Door(routes, host="0.0.0.0", port=80, token='s;"cret', limits=live.guard.Limits(), names=(), watch=None)

    async def asked():
        transport = httpx.ASGITransport(app=door)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path in ("/", "/page.js", "/page.css", "/facts", "/data/0", "/?token=other"):
                assert (await client.get(path)).status_code == 401
            assert (await client.post("/new", content=b"x")).status_code == 401
            first = await client.get("/", params={"token": 's;"cret'})
            assert first.status_code == 303
            assert "HttpOnly" in first.headers["set-cookie"]
            assert "SameSite=strict" in first.headers["set-cookie"]
            assert (await client.get("/")).status_code == 200
            assert len((await client.get("/data/0")).content) == 4 * 120
            assert (await client.get("/data/999")).status_code == 404
            assert (await client.get("/facts", headers={"host": "evil.example"})).status_code == 403
            assert (await client.post("/new", content=b"", headers={"origin": "http://evil"})).status_code == 403

    import asyncio

    asyncio.run(asked())


def test_a_dropped_table_that_cannot_be_read_is_refused_in_words(folder):
    live = pytest.importorskip("outfold.app.page.live")
    estimator, preparation = open_model(folder / "m.outfold")
    for body, words in (
        (b"", "n.csv is empty"),
        (b"x,y\n1,2\n", "has no column 'z'"),
        (b"x,y,z\n1,2,tea\n", "line 2: 'tea' in column 'z' is not a number"),
        (b"x,y,z\n1,2\n", "2 cells where the header has 3"),
        (b"x,y,z\n1,2,\n", "no complete row"),
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        (b"x,y,z\n" + b"1,2,3\n" * (live.NEW_ROWS + 1), f"more than {live.NEW_ROWS} rows"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            live.landed(estimator, preparation, body, "../n.csv")
    body = (folder / "new.csv").read_bytes()
    packed = live.landed(estimator, preparation, body, "new.csv")
    head = json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])
    assert head["rows"] == 23
    found, start = {}, 4 + int.from_bytes(packed[:4], "little")
    for stream in head["streams"]:
        found[stream["name"]] = packed[start : start + stream["bytes"]]
        start += stream["bytes"]
    assert start == len(packed)
    trust = estimator.trust(features(folder, "new.csv"))
    np.testing.assert_array_equal(np.frombuffer(found["outside"], np.uint8), trust.flag)
    np.testing.assert_allclose(np.frombuffer(found["error"], "<f4"), trust.error, rtol=1e-6)
    np.testing.assert_allclose(np.frombuffer(found["support"], "<f4"), np.maximum(trust.support, -100), rtol=1e-6)


def test_other_machines_need_a_token(folder):
    pytest.importorskip("starlette")
    answer = CliRunner().invoke(main, ["explore", str(folder / "m.outfold"), "--host", "0.0.0.0"])
    assert answer.exit_code == 2
    assert "needs a token" in answer.stderr


# -- in a browser --------------------------------------------------------------------------


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
    code = "from outfold.app.command import main; main()"
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
    assert t == facts.diffusion(estimator)["most"]
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
    preparation = Preparation(("a", "b", "c"), label="kind")
    cloud = gathering.table(estimator, preparation, table)
    writing.write(tmp_path / "r.html", "m", estimator, preparation, cloud)
    assert (tmp_path / "r.html").stat().st_size < 20_000_000
    view = look((tmp_path / "r.html").as_uri())
    assert "Left out, to keep the file below 20 MB" in view.locator("#notes").inner_text()
    rows = list(range(0, 1_000_000, 99_991))
    expected = estimator.transform(X[rows], on_far="keep")
    np.testing.assert_allclose(places(view, rows), expected, atol=np.ptp(expected, axis=0).max() / 4000)
