"""The benchmark of solvers on hard graphs: the graphs are what they are called, and the table says what happened."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csgraph, issparse

from catalogue import ROOT

FOLDERS = (ROOT / "benchmarks", ROOT / "benchmarks" / "peers")


@pytest.fixture(scope="module")
def hard():
    """The modules of the benchmark, which find each other by name."""
    before, path = set(sys.modules), list(sys.path)
    shadowed = {name: sys.modules.pop(name) for name in ("graphs", "sets", "tables", "real") if name in sys.modules}
    sys.path[:0] = map(str, FOLDERS)
    made = importlib.import_module("hard_graphs")
    yield made
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if any(str(folder) in str(getattr(sys.modules[name], "__file__", "")) for folder in FOLDERS):
            del sys.modules[name]
    sys.modules.update(shadowed)


def made(hard, name, scale=0.005):
    spec = hard.hard_sets.GRAPHS[name]
    if spec.file and not (hard.hard_sets.real.folder() / spec.file).exists():
        pytest.skip(f"{spec.file} is not in the data folder")
    return spec.make(scale)


def pieces(graph):
    return csgraph.connected_components(graph, directed=False)[0]


def test_graphs_are_square_with_weights_above_zero_and_tables_are_finite(hard):
    pytest.importorskip("faiss")
    for name, spec in hard.hard_sets.GRAPHS.items():
        if spec.file:
            continue
        X = spec.make(0.005)
        assert issparse(X) != spec.rows, name
        if spec.rows:
            assert np.isfinite(X).all(), name
        else:
            assert X.shape[0] == X.shape[1], name
            assert X.data.min() > 0, name


@pytest.mark.parametrize("name", ["cytometry, rows", "MNIST, 20,000, rows"])
def test_real_tables_come_at_any_scale(hard, name):
    assert len(made(hard, name, 0.05)) == max(int({"c": 36_144, "M": 20_000}[name[0]] * 0.05), 500)


def test_graphs_by_construction_have_their_pieces_and_degrees(hard):
    pytest.importorskip("faiss")
    assert pieces(made(hard, "path")) == pieces(made(hard, "ring")) == pieces(made(hard, "hubs")) == 1
    assert set(made(hard, "ring").sum(axis=0)) == {2.0}
    assert sorted(made(hard, "path").sum(axis=0))[:3] == [1.0, 1.0, 2.0]
    assert made(hard, "solid grid", 0.01).sum(axis=0).max() == 6
    degrees = made(hard, "hubs", 0.02).sum(axis=0)
    assert degrees.max() > 10 * np.median(degrees)
    pairs = made(hard, "pairs", 0.02)
    assert (csgraph.connected_components(pairs)[1].shape[0] - 1000) // 2 <= pieces(pairs)


def test_separated_clusters_come_apart_without_the_light_edges(hard):
    pytest.importorskip("faiss")
    graph = made(hard, "separated, 1e-12")
    assert pieces(graph) == 1
    light = graph.copy()
    light.data[light.data <= 1e-12] = 0
    light.eliminate_zeros()
    assert pieces(light) >= 20


def line(asked, mu, **more):
    facts = {"graph": "ring", "n": 100, "asked": asked, "seconds": 1.5, "peak_mb": 300.0, "residual": 1e-6}
    return facts | {"solver": asked.lower(), "why": "asked for", "mu": mu, "warnings": []} | more


def test_the_table_tells_missed_pairs_fallbacks_and_fits_without_an_end(hard):
    lines = [
        line("Lanczos", [1e-3, 2e-3]),
        line("auto", [1e-3, 3e-3], why="fallback: no", warnings=["HardWarning: it is hard"], products=400),
        {"graph": "ring", "n": 100, "asked": "Filtered", "stopped": 300.0},
        {"graph": "ring", "n": 100, "asked": "Lobpcg", "failed": "ValueError: a | b"},
    ]
    rows = hard.shown(lines).splitlines()[2:]
    assert rows[0] == "| ring | 100 | auto | auto (fallback) | 1.5 | 400 | 1e-6 | 0.5 | 300 | HardWarning |"
    assert rows[1] == "| ring | 100 | Lanczos | lanczos | 1.5 | – | 1e-6 | 0 | 300 | none |"
    assert "| Lobpcg | – | failed | – | – | – | – | ValueError: a / b |" in rows[2]
    assert "| Filtered | – | over 300 s |" in rows[3]


def test_pairs_that_are_rounding_are_not_compared(hard):
    least = hard.best([line("auto", [1e-17, 1e-3]), line("Lanczos", [-1e-17, 1e-3])])
    assert hard.missed(line("auto", [1e-17, 1e-3]), least) < 1e-4


def test_a_fit_in_its_process_tells_solver_residual_and_memory(hard):
    kept = []
    given = SimpleNamespace(scale=0.01, limit=200, solver="lanczos")
    hard.run(given, ["ring"], kept.append)
    (found,) = kept
    assert (found["graph"], found["asked"], found["solver"]) == ("ring", "Lanczos", "lanczos")
    assert found["n"] == len(found["mu"]) * 100 == 1000
    assert found["seconds"] > 0
    assert found["peak_mb"] > 0
    assert found["residual"] < 1e-6
    given.limit = 1e-3
    hard.run(given, ["ring"], kept.append)
    assert kept[-1]["stopped"] == 1e-3
