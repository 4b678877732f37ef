"""The surface: exports, what importing costs, and who may import what."""

import ast
import pathlib
import subprocess
import sys

import pytest

import outfold
from catalogue import ROOT
from outfold import methods

PACKAGE = pathlib.Path(outfold.__file__).parent

OWNERS = {  # heavy dependency -> the modules that may import it
    "matplotlib": {"plotting/canvas.py", "plotting/__init__.py"},  # the second for the names of types
    "numba": {"_runtime/jit.py"},
    "click": {f"app/cli/{name}.py" for name in ("console", "explore", "fit", "inspect", "main", "options", "serve")},
    "tqdm": {"_runtime/threads.py"},
    "pyarrow": {"data/sources.py", "data/writers.py"},
    "zarr": {"data/sources.py", "data/writers.py"},
    "torch": {"neural/training.py"},
    "anndata": set(),  # through _runtime.extras, in integrations/anndata.py
    "dask": set(),
    "starlette": {"app/service/policy.py", "app/service/server.py", "app/service/service.py", "app/page/server.py"},
    "uvicorn": {"app/service/server.py"},
    "h11": {"app/service/server.py"},
    "pandas": set(),
    "polars": set(),
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def test_public_names_exist_and_nothing_else_is_exported():
    methods = {
        "ClassicalMDS",
        "DiffusionMaps",
        "DiffusionNet",
        "GRAE",
        "Isomap",
        "KernelPCA",
        "LaplacianEigenmaps",
        "LocallyLinearEmbedding",
        "PHATE",
        "Roseland",
        "SpectralClustering",
    }
    assert set(outfold.__all__) == {*methods, "load", "plan", "__version__"}
    for name in outfold.__all__:
        assert hasattr(outfold, name)
    assert set(dir(outfold)) == set(outfold.__all__)
    with pytest.raises(AttributeError, match="Isomop"):
        outfold.Isomop  # noqa: B018


@pytest.mark.parametrize("module", [outfold, methods], ids=lambda module: module.__name__)
def test_type_checkers_see_the_names_that_exist(module):
    branch = next(n for n in ast.parse(pathlib.Path(module.__file__).read_text()).body if isinstance(n, ast.If))
    seen = [alias.asname for node in branch.body for alias in node.names]
    assert set(seen) - {"Islands"} == set(module.__all__) - {"__version__"}
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("module", ["outfold", "outfold.methods", "outfold.app.cli.main"])
def test_import_pulls_in_nothing_heavy(module):
    heavy = sorted(OWNERS.keys() - {"pandas", "polars", "pyarrow"})  # scikit-learn itself loads them where they are
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    allowed = {"click"} if module.endswith("cli.main") else set()
    assert set(ast.literal_eval(found)) <= allowed


def test_each_heavy_dependency_has_one_owner():
    for path in PACKAGE.rglob("*.py"):
        for name in set(imported(path)) & OWNERS.keys():
            assert str(path.relative_to(PACKAGE)) in OWNERS[name], f"{path.name} imports {name}"


def test_the_readme_and_ci_run_the_same_test_command():
    command = next(line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "pytest" in line)
    assert command in (ROOT / "README.md").read_text().splitlines()
