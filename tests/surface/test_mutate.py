"""The mutation campaign itself: what it plants, and that it sees a fault die and another live."""

import ast
import importlib.util
import pathlib
import sys

import pytest

from catalogue import ROOT

SOURCE = '''
"""A module."""

LIMIT = 3


def clip(x, low: float = 0.0):
    """Not touched: 1 + 1."""
    if x < low or -x > LIMIT:
        raise ValueError(f"{x + 1} is out of range")
    return max(x, low) * 2 + x**2
'''
TESTS = """
import pytest
from outfold.trust import clip

def test_clip():
    assert clip(2) == 8
"""


@pytest.fixture(scope="module")
def mutate():
    path = ROOT / "tools" / "mutate.py"
    if not path.exists():
        pytest.skip("tools are not here")
    spec = importlib.util.spec_from_file_location("mutate", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutate"]


def test_a_mutant_is_one_change_that_parses(mutate):
    found = mutate.find_mutants("m.py", SOURCE)
    kinds = {mutant.what for mutant in found}
    assert {"< to <=", "> to >=", "max to min", "* to /", "+ to -", "** to *", "or to and", "3 to 4"} <= kinds
    assert {"0.0 to 1.0", "sign dropped", "right side of + dropped"} <= kinds
    for mutant in found:
        after = mutant.apply(SOURCE)
        ast.parse(after)
        assert after != SOURCE
        assert len(mutant.diff(SOURCE).splitlines()) >= 4
        assert 'f"{x + 1} is out of range"' in after  # messages are left alone
        assert "Not touched: 1 + 1." in after


def test_every_numerical_module_has_mutants_and_tests(mutate):
    declared = ("engine/report.py", "graphs/protocols.py", "extensions/__init__.py")
    words = {f"src/outfold/{name}" for name in declared}  # they compute nothing
    for path in mutate.numerical_modules(ROOT, []):
        name = str(path.relative_to(ROOT))
        assert mutate.tests_of(ROOT, name)
        if path.stat().st_size > 1500:
            assert bool(mutate.find_mutants(name, path.read_text())) == (name not in words), name


def plant(folder: pathlib.Path) -> pathlib.Path:
    for name, text in (
        ("src/outfold/__init__.py", ""),
        ("src/outfold/trust.py", SOURCE),
        ("tests/test_trust.py", TESTS),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_it_sees_which_mutants_die(mutate, tmp_path):
    campaign = mutate.Campaign(plant(tmp_path / "project"), tmp_path, 1)
    path = "src/outfold/trust.py"
    campaign.prepare([path], 1)
    by_kind = {m.what: m for m in mutate.find_mutants(path, SOURCE)}
    dead, alive = campaign.judge(by_kind["* to /"]), campaign.judge(by_kind["< to <="])
    assert (dead.fate, alive.fate) == ("killed", "survived")
    assert "test_clip" in dead.witness
    line, share = mutate.summary([dead, alive])
    assert "2 mutants: 1 killed (0 by the clock), 1 survived" in line
    assert share == 50
    assert (tmp_path / "project" / path).read_text() == SOURCE  # only the copy was changed


def test_the_draw_is_seeded(mutate, tmp_path, capsys):
    root = str(plant(tmp_path))
    draws = []
    for seed in ("1", "1", "2"):
        assert mutate.main(["--root", root, "--module", "trust", "--count", "5", "--seed", seed, "--list"]) == 0
        draws.append(capsys.readouterr().out.replace(f"seed {seed}", ""))
    assert draws[0] == draws[1] != draws[2]
