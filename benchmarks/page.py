"""The page at size: seconds to the first picture, frames a second, how long the time slider takes, and the file.

    python benchmarks/page.py                    1,000,000 rows (200,000 for frames)
    python benchmarks/page.py 100000 20000       fewer of both

Needs playwright and chromium; drawing is in software, as on a machine without a graphics card.
"""

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from outfold import Roseland
from outfold.datasets import s_curve
from outfold.preparation import Preparation
from outfold.storage import save

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
OUTFOLD = [sys.executable, "-c", "from outfold.app.command import main; main()"]
ON_SCREEN = "() => outfold.ready().then(() => outfold.picture().lit)"  # reads pixels back: they are there
TURN = """async (frames) => {
  // a moving picture: each frame finished before the next, with every point; then as the page draws it
  const canvas = document.getElementById("points"), tick = () => new Promise(requestAnimationFrame);
  const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  let start = performance.now();
  for (let at = 0; at < frames; at++) { key("ArrowLeft"); outfold.picture(); await tick(); }
  const all = frames / (performance.now() - start) * 1000;
  await new Promise((done) => setTimeout(done, 1000));
  const before = outfold.state().frames;
  start = performance.now();
  while (performance.now() - start < 3000) { key("ArrowLeft"); await tick(); }
  return [all, (outfold.state().frames - before) / 3, outfold.state().coarse];
}"""
SLIDE = """async () => {
  const slider = document.getElementById("t"), found = [];
  for (const value of [100, 300, 500, 700, 900]) {
    const start = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
    outfold.picture();
    found.push(performance.now() - start);
    await new Promise((done) => setTimeout(done, 500));
  }
  return found;
}"""


def model(folder: Path, rows: int) -> tuple[Path, Path]:
    """A model of four coordinates, and as many rows: three measurements and a label each."""
    import pyarrow
    import pyarrow.parquet

    X, place = s_curve(rows, noise=0.05, random_state=0)
    fitted = Roseland(4, landmarks=400, random_state=0).fit(X[:20_000])
    save(fitted, folder / "m.outfold", preparation=Preparation(("x", "y", "z"), label="part"))
    parts = np.array(["left", "middle", "right", "end"])[np.digitize(place[:, 0], [-2.5, 0, 2.5])]
    table = pyarrow.table({"x": X[:, 0], "y": X[:, 1], "z": X[:, 2], "part": parts})
    pyarrow.parquet.write_table(table, folder / f"{rows}.parquet")
    return folder / "m.outfold", folder / f"{rows}.parquet"


def looked(browser, url: str) -> tuple[object, float]:
    """The page, and seconds until its first picture is on the screen."""
    view = browser.new_page(viewport={"width": 1280, "height": 820})
    start = time.perf_counter()
    view.goto(url)  # until its scripts have run; they go on reading and drawing
    assert view.evaluate(ON_SCREEN) > 1000
    return view, time.perf_counter() - start


def main(rows: int = 1_000_000, moving: int = 200_000) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        path, data = model(folder, rows)
        start = time.perf_counter()
        told = subprocess.run([*OUTFOLD, "report", path, data, "-o", folder / "r.html", "--json"],
                              capture_output=True, text=True, check=True).stdout  # fmt: skip
        seconds = time.perf_counter() - start
        print(f"report of {rows} rows: {json.loads(told)['bytes'] / 1e6:.2f} MB, written in {seconds:.1f} s")
        view, first = looked(browser, (folder / "r.html").as_uri())
        print(f"  first picture {first:.2f} s")
        view.evaluate("outfold.loaded()")
        slid = view.evaluate(SLIDE)
        print(f"  t slider, every point drawn: median {statistics.median(slid):.0f} ms, worst {max(slid):.0f} ms")
        view.close()
        for count in (rows, moving):
            path, data = model(folder, count)
            served(browser, path, data, count)
        browser.close()


def served(browser, path: Path, data: Path, count: int) -> None:
    server = subprocess.Popen([*OUTFOLD, "explore", path, data, "--no-open"], stdout=subprocess.PIPE, text=True)
    try:
        url = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
        view, first = looked(browser, url)
        print(f"explore of {count} rows: first picture {first:.2f} s")
        view.evaluate("outfold.loaded()")
        slid = view.evaluate(SLIDE)
        print(f"  t slider, every point drawn: median {statistics.median(slid):.0f} ms, worst {max(slid):.0f} ms")
        for axes, z in (("2-D", "-1"), ("3-D", "2")):
            view.select_option("#axis-2", value=z)
            every, page, part = view.evaluate(TURN, 20)
            print(f"  {axes}: {every:.1f} frames/s with every point; as the page draws: {page:.1f} (1 of {part})")
        view.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
