"""Names: functions are verbs, and a name has one meaning."""

import ast
from collections import defaultdict

import pytest

from catalogue import ROOT

SRC = ROOT / "src" / "outfold"
FILES = sorted(SRC.rglob("*.py"))
PUBLIC_TWICE = {"Auto"}  # of extensions and of solvers, both public
ONE_MEANING = {"DELTA", "SLOW_SECONDS", "STREAMED_ROWS", "TABLE_SUFFIXES", "TINY"}  # the same quantity in two modules
PARTICIPLES = {
    "begun", "bound", "built", "chosen", "drawn", "found", "given", "held", "hidden", "kept", "known", "learnt", "left",
    "lost", "made", "meant", "met", "paid", "said", "seen", "sent", "shown", "taken", "told", "written",
}  # fmt: skip
VERBS = {"embed", "need", "seed", "feed", "shed"}


def participle(name):
    """Whether a name is a single participle, such as ``opened`` or ``told``."""
    word = name.strip("_")
    return "_" not in word and (word in PARTICIPLES or (word.endswith("ed") and word not in VERBS))


def functions(syntax):
    """Functions and methods; a property is not called, so it may be named after a state."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
            if not marks & {"property", "cached_property"}:
                yield node


def inner(syntax):
    """Functions inside functions, whose names nobody outside meets."""
    outer = [node for node in ast.walk(syntax) if isinstance(node, ast.FunctionDef)]
    return {id(node) for one in outer for node in ast.walk(one) if node is not one}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SRC)) for path in FILES])
def test_no_function_is_a_bare_participle(path):
    syntax = ast.parse(path.read_text())
    skipped = inner(syntax)
    assert [node.name for node in functions(syntax) if participle(node.name) and id(node) not in skipped] == []


def test_no_two_classes_have_one_name():
    homes = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.name)
    assert {name: places for name, places in homes.items() if len(places) > 1 and name not in PUBLIC_TWICE} == {}


def test_no_two_constants_of_one_name_have_different_meanings():
    homes = defaultdict(set)
    for path in FILES:
        if "papers" in path.parts:  # each experiment has its own ROWS, NOISE, ...
            continue
        for node in ast.parse(path.read_text()).body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            for part in (part for target in targets for part in ast.walk(target)):
                if isinstance(part, ast.Name) and part.id.isupper():
                    homes[part.id].add(path)
    assert {name for name, places in homes.items() if len(places) > 1} == ONE_MEANING


@pytest.mark.parametrize(
    ("name", "expected"), [("opened", True), ("_told", True), ("embed", False), ("sorted_rows", False)]
)
def test_a_participle_is_recognised(name, expected):
    assert participle(name) is expected
