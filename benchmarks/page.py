"""The page at size: seconds to the first picture, frames a second, how long the time slider takes, and the file.

    python benchmarks/page.py                    1,000,000 rows (200,000 for frames)
    python benchmarks/page.py 100000 20000       fewer of both
    python benchmarks/page.py --write            and into docs/page.md

Needs playwright and chromium; drawing is in software, as on a machine without a graphics card.
"""

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pages

from outfold import Roseland
from outfold.data.columns import Preparation
from outfold.datasets import s_curve
from outfold.storage import save

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
OUTFOLD = [sys.executable, "-c", "from outfold.app.cli.main import main; main()"]
ON_SCREEN = "() => outfold.ready().then(() => outfold.picture().lit)"  # reads pixels back: they are there
TURN = """async (frames) => {
  // with every point, each picture read back before the next; then a moving picture, as the page draws it
  const canvas = document.getElementById("points"), tick = () => new Promise(requestAnimationFrame);
  const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  let start = performance.now();
  for (let at = 0; at < frames; at++) outfold.picture();
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
    for (let at = 0; at < 2; at++) await new Promise(requestAnimationFrame);  // drawn, and the frame after
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
    save(fitted, folder / "m.outfold", preparation=Preparation(columns=("x", "y", "z"), label="part"))
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


def main(rows: int = 1_000_000, moving: int = 200_000, write: bool = False) -> None:
    from playwright.sync_api import sync_playwright

    lines = ["| | rows | first picture, s | t slider, ms: median, worst | frames/s, 2-D | frames/s, 3-D | MB |"]
    lines.append("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for count in (rows, moving):
            path, data = model(folder, count)
            words = [*OUTFOLD, "report", path, data, "-o", folder / "r.html", "--json"]
            told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            lines.append(measured(browser, "report", (folder / "r.html").as_uri(), count, f"{told['bytes'] / 1e6:.1f}"))
            print(lines[-1])
            lines.append(served(browser, path, data, count))
            print(lines[-1])
        browser.close()
    if write:
        pages.write("page.md", "page", "\n".join(lines))


def measured(browser, name: str, url: str, count: int, size: str) -> str:
    """A line of the table."""
    view, first = looked(browser, url)
    view.evaluate("outfold.loaded()")
    slid, frames = view.evaluate(SLIDE), []
    for z in (0, 3):
        view.select_option("#axis-2", index=z)
        every, page, part = view.evaluate(TURN, 20)
        frames.append(f"{page:.0f}{f' (1 row of {part:.0f})' if part > 1 else ''}, finished one by one {every:.0f}")
    view.close()
    slider = f"{statistics.median(slid):.0f}, {max(slid):.0f}"
    return f"| {name} | {count:,} | {first:.2f} | {slider} | {frames[0]} | {frames[1]} | {size} |"


def served(browser, path: Path, data: Path, count: int) -> str:
    words = [*OUTFOLD, "explore", path, data, "--no-open", "--json"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        return measured(browser, "explore", json.loads(server.stdout.readline())["url"], count, "–")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


if __name__ == "__main__":
    main(*map(int, (word for word in sys.argv[1:] if word != "--write")), write="--write" in sys.argv)
