"""The layers: imports point down, nothing imports in a circle, and the checks themselves can fail."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
specification = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
house = importlib.util.module_from_spec(specification)
specification.loader.exec_module(house)

CONTRACT = ("BaseEstimator", "TransformerMixin", "ClusterMixin", "check_is_fitted", "validate_data")
ESTIMATOR_PARAMETERS_UP_TO = 19  # Roseland, with threshold=. Lower these two when the code allows it
SIBLING_TABLES_UP_TO = 12
BELOW_METHODS = house.LAYERS[: house.LAYERS.index("methods")]
NOT_LOADED = (  # by a method, its fit and what it answers for rows in memory
    "app", "data.columns", "data.h5ad", "data.table_files", "data.tables", "distributed", "dynamics", "integrations",
    "neural.training", "papers", "plotting", "quality", "selection", "storage",
)  # fmt: skip
NOT_IMPORTED = (
    "dask",
    "matplotlib",
    "anndata",
    "torch",
    "zarr",
    "click",
    "sklearn.cluster",
    "sklearn.gaussian_process",
)


@pytest.fixture(scope="module")
def tree():
    return house.Tree()


def unexpected(tree):
    """Upward imports that are not allowed."""
    return [edge for edge in tree.upward() if (edge.user, edge.target) not in house.ALLOWED]


def test_imports_point_down(tree):
    assert not unexpected(tree)


def test_every_exception_is_used(tree):
    assert {(edge.user, edge.target) for edge in tree.upward()} == house.ALLOWED
    assert len(house.ALLOWED) <= 1


def test_no_modules_import_each_other_in_a_circle(tree):
    assert tree.cycles() == []


def test_every_entry_at_the_top_has_its_layer(tree):
    entries = {name.removesuffix(".py") for name in tree.entries()} - {"py.typed", "__init__"}
    assert entries == set(house.LAYERS) - {"outfold"}
    assert len(tree.entries()) <= 32


def test_modules_are_named_by_strings_in_few_places(tree):
    named = {edge.user for edge in tree.edges if edge.string}
    assert named <= house.NAMED_BY_STRING


def test_numerics_know_nothing_of_the_scikit_learn_contract_or_of_apps(tree):
    for name, syntax in tree.syntax.items():
        if name.split(".")[0] not in BELOW_METHODS:
            continue
        imported = {
            alias.name
            for node in house.ast.walk(syntax)
            if isinstance(node, house.ast.ImportFrom) and (node.module or "").startswith("sklearn")
            for alias in node.names
        }
        assert not imported & set(CONTRACT), name


def test_dask_is_asked_for_in_few_places(tree):
    sites = tree.dask_sites()
    assert len(sites) <= 6, sites


def test_estimators_have_no_more_parameters_than_they_had(tree):
    every = [entry for entry in tree.constructors() if entry[2].startswith("methods.")]
    assert len(every) > 10
    assert max(count for _, count, _ in every) <= ESTIMATOR_PARAMETERS_UP_TO, max(every)


def test_few_functions_ask_which_of_several_classes_a_value_has(tree):
    tables = tree.sibling_tables()
    assert len(tables) <= SIBLING_TABLES_UP_TO, tables


COUNTED = """
from dataclasses import dataclass, field
from typing import Any, ClassVar

@dataclass
class A:
    a: int
    b: ClassVar[int] = 3
    c: list = field(default_factory=list, init=False)

@dataclass
class B(A):
    d: Any = None
    a: int = 4

class C:
    def __init__(self, x, *, y: Any = 1): ...

class D(C): ...

async def f(u: Any, v: Any | None, *w: Any, z: "int") -> Any:
    return isinstance(u, A) or isinstance(u, (B, C)) or isinstance(v, A)
"""


def test_the_figures_are_counted_right(tmp_path):
    (tmp_path / "one.py").write_text(COUNTED)
    tree = house.Tree(tmp_path)
    bare, annotated = tree.annotations()
    assert {text.split(" ", 1)[1] for text in bare} == {"__init__ y", "f u", "f w", "f return"}
    assert (len(bare), annotated) == (4, 6)
    counts = {where.split()[1]: (own, every) for own, every, where in tree.constructors()}
    assert counts == {"A": (1, 1), "B": (2, 2), "C": (2, 2), "D": (0, 2)}
    assert [(count, where.split()[1]) for count, where in tree.sibling_tables()] == [(3, "f")]


PLANTED = {  # each is an upward import, from a module of a low layer
    "at the top of a module": "from .app.cli import main\n",
    "of a name": "from . import DiffusionMaps\n",
    "in a function": "def f():\n    from outfold.methods.isomap import Isomap\n    return Isomap\n",
    "under TYPE_CHECKING": "if TYPE_CHECKING:\n    from .storage import load\n",
    "as a string": "from importlib import import_module\n\nmodule = import_module('outfold.quality')\n",
    "as a relative string": "from importlib import import_module\n\nmodule = import_module('.engine.fit', 'outfold')\n",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_upward_import_is_reported(text, tmp_path):
    copy = tmp_path / "outfold"
    shutil.copytree(house.SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert not unexpected(house.Tree(copy))
    with open(copy / "distances.py", "a") as file:
        file.write("\n\n" + text)
    assert [edge.user for edge in unexpected(house.Tree(copy))] == ["distances"]


def test_a_planted_circle_is_reported(tmp_path):
    copy = tmp_path / "outfold"
    shutil.copytree(house.SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with open(copy / "graphs" / "drawing.py", "a") as file:
        file.write("\n\ndef f():\n    from .rules import Union\n\n    return Union\n")
    (group,) = house.Tree(copy).cycles()
    assert {"graphs.rules", "graphs.drawing"} <= set(group)


FIT = "import numpy; X = numpy.random.default_rng(0).normal(size=(60, 3)); maps = DiffusionMaps().fit(X); "
USES = {"import": "", "fit": FIT, "new rows": FIT + "maps.transform(X), maps.trust(X)"}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_method_loads_no_more_than_it_needs(use):
    code = f"import sys; from outfold import DiffusionMaps; {use}\n"
    code += f"print([m for m in {NOT_LOADED} if 'outfold.' + m in sys.modules])\n"
    code += f"print([m for m in {NOT_IMPORTED} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["[]", "[]"]
