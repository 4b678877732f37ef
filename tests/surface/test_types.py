"""The types: mypy refuses wrong calls between the stages, and few signatures say ``Any``.

Eight faults are planted in a copy of the tree, one by one. Each time mypy must fail and name the line.
"""

import ast
import importlib.util
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[2]
specification = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
house = importlib.util.module_from_spec(specification)
specification.loader.exec_module(house)

BARE_ANY_UP_TO = 115  # parameters and returns annotated exactly ``Any``; lower it when some are gone, never raise it


class Fault(NamedTuple):
    """A text of one file and what takes its place; the text stands there exactly once."""

    file: str
    old: str
    new: str
    seen_at: tuple[str, str] | None = None  # file and text of the line that mypy names; None: the planted one


FAULTS = {
    "a method of a row rule is renamed": Fault(
        "operators/markov.py",
        "def rows(self, Z: Array, measured: Matrix | None = None) -> Rows:\n        if measured is None",
        "def row(self, Z: Array, measured: Matrix | None = None) -> Rows:\n        if measured is None",
        seen_at=(
            "operators/laplacian.py",
            "MarkovRule(geometry=geometry, kernel=kernel, measure=measure, gain=measure.copy())",
        ),  # where the class is used: it is abstract now
    ),
    "an argument of the basis is lost": Fault(
        "engine/fit.py",
        "normalization.basis_of(functions, vectors * signs, eigenvalues)",
        "normalization.basis_of(functions, eigenvalues)",
    ),
    "the scale is misspelt": Fault(
        "engine/fit.py", "normalization.scale(eigenvalues)", "normalization.scales(eigenvalues)"
    ),
    "arguments of build are swapped and one is lost": Fault(
        "engine/fit.py",
        "view.build(rows, anchors, measure, _needed_pairs(recipe), runner)",
        "view.build(anchors, rows, measure, _needed_pairs(recipe))",
    ),
    "the model's look is misspelt": Fault("methods/base.py", "self.model_.look(Z, ", "self.model_.lok(Z, "),
    "a graph is a string": Fault(
        "graphs/rules.py",
        "return DenseGraph(distances=found.distances, measure=found.measure, table=found.squared, slack=slack)",
        'return "dense"',
    ),
    "the runner of an extension is lost": Fault(
        "engine/fit.py", "extension.fit(known, runner)", "extension.fit(known)"
    ),
    "a kernel is fitted to nothing": Fault(
        "operators/affinity_graph.py", "self.kernel.fit(survey)", "self.kernel.fit()"
    ),
}
NOT_YET: set[str] = set()  # faults that mypy does not name yet


def mypy(folder):
    """Return the errors of mypy as a set of ``file:line: error: text``, by the settings of the repository, strict."""
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "--no-pretty"]
    done = subprocess.run([*words, "--cache-dir", "cache"], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 2: mypy itself failed
    return {line.replace("\\", "/") for line in done.stdout.splitlines() if ": error: " in line}


def line_of(text, part):
    assert text.count(part) == 1, f"{part!r} stands there {text.count(part)} times: has the code moved?"
    return text[: text.index(part)].count("\n") + 1


def test_mypy_names_each_planted_fault(tmp_path):
    pytest.importorskip("mypy")
    ignored = shutil.ignore_patterns("__pycache__", "*.html", "*.css", "*.js")
    shutil.copytree(house.SRC, tmp_path / "src" / "outfold", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    before = mypy(tmp_path)  # also fills the cache
    passed = {}
    for name, fault in FAULTS.items():
        path = tmp_path / "src" / "outfold" / fault.file
        clean = path.read_text()
        line_of(clean, fault.old)
        path.write_text(clean.replace(fault.old, fault.new))
        added = mypy(tmp_path) - before
        file, text = fault.seen_at or (fault.file, fault.new)
        named = tmp_path / "src" / "outfold" / file
        place = f"src/outfold/{file}:{line_of(named.read_text(), text)}: "
        path.write_text(clean)
        if not any(line.startswith(place) for line in added):
            passed[name] = sorted(added)
    assert passed.keys() == NOT_YET, passed


def test_few_signatures_say_any():
    bare, annotated = house.Tree().annotations()
    assert annotated > 6000
    assert len(bare) <= BARE_ANY_UP_TO, bare


def dataclasses_by_position():
    """Dataclasses with more than four fields that are built by position: two swapped arrays would go unseen."""
    for path in sorted((ROOT / "src" / "outfold").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", [])]
            marks = [mark for mark in marks if mark.startswith("dataclass")]
            if isinstance(node, ast.ClassDef) and marks and "kw_only=True" not in marks[0]:
                annotated = [ast.unparse(part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)]
                if sum(not kind.startswith("ClassVar") for kind in annotated) > 4 and "KW_ONLY" not in annotated:
                    yield node.name


def test_large_dataclasses_are_built_by_keyword():
    assert list(dataclasses_by_position()) == []
