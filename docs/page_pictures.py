"""The pictures of page.md: wines in a browser, and new ones dropped on them.

    python docs/page_pictures.py

Needs playwright and chromium.
"""

import csv
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits, load_wine

IMAGES = Path(__file__).parent / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
OUTFOLD = [sys.executable, "-c", "from outfold.app.command import main; main()"]


def tables(folder: Path) -> None:
    """Digits; wines, 38 of which are kept back: twenty of those, and six with three times as much of everything."""
    digits, wine = load_digits(), load_wine()
    rows = [[*map(int, row), f"digit {label}"] for row, label in zip(digits.data, digits.target)]
    _written(folder / "digits.csv", [*(f"p{at}" for at in range(64)), "digit"], rows)
    names = ["bottle", *(name.replace("/", "_") for name in wine.feature_names), "grape"]
    grapes = ["barolo", "grignolino", "barbera"]
    rows = [
        [f"W{at:03d}", *wine.data[at].tolist(), grapes[wine.target[at]]]
        for at in np.random.default_rng(0).permutation(len(wine.data))
    ]
    _written(folder / "wine.csv", names, rows[:140])
    far = [[row[0], *(3 * x for x in row[1:-1]), row[-1]] for row in rows[140:146]]
    _written(folder / "more.csv", names, [*rows[150:170], *far])


def _written(path: Path, names: list[str], rows: list[list[object]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        tables(folder)
        fits = {
            "wine": ["--id", "bottle", "--label", "grape", "--components", "5", "--calibrate"],
            "digits": ["--label", "digit", "--components", "6", "--scale", "none"],
        }
        for name, words in fits.items():
            subprocess.run(
                [*OUTFOLD, "fit", f"{name}.csv", *words, "--save", f"{name}.outfold"], cwd=folder, check=True
            )
        subprocess.run(
            [*OUTFOLD, "report", "digits.outfold", "digits.csv", "-o", "digits.html"], cwd=folder, check=True
        )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        view = browser.new_page(viewport={"width": 960, "height": 640})
        view.goto((folder / "digits.html").as_uri())
        view.evaluate("outfold.loaded()")
        view.evaluate("document.getElementById('row-panel').open = false")
        view.locator("#pairs-panel").scroll_into_view_if_needed()
        view.evaluate(
            "document.getElementById('panels').scrollTop = document.getElementById('selection-panel').offsetTop - 60"
        )
        view.screenshot(path=IMAGES / "page.png")
        words = [*OUTFOLD, "explore", "wine.outfold", "wine.csv", "--no-open", "--json"]
        server = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            view = browser.new_page(viewport={"width": 1060, "height": 680}, color_scheme="dark")
            view.goto(json.loads(server.stdout.readline())["url"])
            view.evaluate("outfold.loaded()")
            view.set_input_files("#file", folder / "more.csv")
            view.wait_for_selector("#forget:visible")
            view.evaluate("document.getElementById('panels').scrollTop = 300")
            view.wait_for_timeout(300)
            view.screenshot(path=IMAGES / "page-new.png")
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
        browser.close()


if __name__ == "__main__":
    main()
