"""Networks of the thesis: what the grids choose."""

from dataclasses import replace

import numpy as np
import pytest

from outfold.datasets import helix as points_on_helix
from outfold.papers import grids, thesis
from outfold.papers.record import Effort


@pytest.fixture(scope="module")
def small():
    X, angle = points_on_helix(300, noise=0.02, random_state=0)
    return thesis.Study(X=X, colors=angle, percentile=4, t=10, dimension=2, test_rows=100)


def test_a_grid_prefers_little_decay_and_too_much_leaves_the_mean(few, small):
    found = grids.search(small, Effort(repeats=2), printed=1.0)
    assert found.errors.shape == (3, 2)
    assert found.chosen == 1e-4
    assert found.at(1e-4).mean() < 0.1
    assert found.at(1e4).mean() == pytest.approx(1, abs=0.1)
    assert not found.within
    assert replace(found, printed=1e-4).within
    assert found.decay == pytest.approx(1e-4 * 2 / 180)
    assert not set(found.train) & set(found.test)


def test_folds_of_a_table_keep_the_shares_of_classes(few, small, monkeypatch):
    seen = []

    def held_out_error(alpha, X, Y, seen_rows, new_rows):
        seen.append(X[new_rows])
        return 0.0

    monkeypatch.setattr(grids, "GRID", (1.0,))
    monkeypatch.setattr(grids, "held_out_error", held_out_error)
    label = (np.arange(300) % 10 == 0).astype(int)
    X = np.column_stack([small.X, label])
    grids.search(replace(small, X=X, colors=label, labels=label), Effort(repeats=3), printed=1.0)
    assert [part[:, 3].sum() for part in seen] == [6, 6, 6]


def test_grids_are_told_in_tables_findings_and_a_picture(few, small, monkeypatch):
    monkeypatch.setattr(grids, "SETS", (replace(grids.WINE, name="curve", study=lambda seed: small, mu=1e-4),))
    outcome = grids.run(Effort(repeats=2))
    chosen, last = outcome.findings
    assert chosen.agrees
    assert (chosen.ours, chosen.paper) == (1e-4, "0.0001")
    assert last.ours == pytest.approx(100, abs=10)
    values, choices = outcome.tables
    assert [row[0] for row in values.rows] == ["0.0001", "1", "10000"]
    assert choices.rows[0][:4] == ["curve", "0.0001", "1.1e-06", 120]
    train, test = small.split(120, 0)
    nets = thesis.network(1e-4, 180, 2, iterations=60), "nystrom"
    expected = [100 * thesis.extend(small, train, test, extension=way).aligned for way in nets]
    assert choices.rows[0][4:] == pytest.approx(expected)
    assert len(outcome.pictures[0].figure.axes) == 1
