"""A table as users have them, and a model of it."""

import csv

import numpy as np
import pytest

from commands import done
from outfold.datasets import s_curve


@pytest.fixture(scope="module")
def data():
    X, position = s_curve(300, random_state=0)
    return np.asarray(X), np.ravel(position)[:300]


@pytest.fixture
def wine(tmp_path, data):
    """A header, an id, a text column, a label, an empty and a constant column, and a missing value."""
    X, position = data
    with open(tmp_path / "wine.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["bottle", "x", "y", "z", "grape", "quality", "spare", "one"])
        for row, (point, value) in enumerate(zip(X, position)):
            cells = [repr(float(v)) for v in point]
            if row == 15:
                cells[1] = ""
            kind = "good" if value > np.median(position) else "bad"
            writer.writerow([f"{row:03d}", *cells, "merlot", kind, "", "1"])
    return tmp_path / "wine.csv"


@pytest.fixture
def model(wine):
    path = wine.with_name("wine.outfold")
    done("fit", wine, "--id", "bottle", "--label", "quality", "--components", 3, "--save", path)
    return path
