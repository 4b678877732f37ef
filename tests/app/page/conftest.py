"""A model with a page, and one with hostile names."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner

from outfold.app.cli.main import main
from outfold.datasets import s_curve

HOSTILE = "</script><img src=x onerror=alert(1)>"


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
