"""The release: one version everywhere, what the archives hold, and a wheel that works by itself."""

import ast
import base64
import csv
import email
import hashlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

import outfold
from catalogue import ROOT

SHIPPED = {".py", ".typed", ".html", ".css", ".js"}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # where it is not the name that is imported


def run(*words, cwd, **settings):
    done = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, timeout=120, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tracked():
    """The files of the repository that are there; without git (in an unpacked sdist) all but caches and metadata."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and "pyproject.toml" in (names := listed.stdout.split("\0")):
        return {name for name in names if (ROOT / name).is_file()}
    passing = {"__pycache__", ".git", ".hypothesis", "PKG-INFO"}
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if not any(p in passing or p.endswith("_cache") for p in path.parts)}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """A wheel and an sdist of the repository, and a wheel of that sdist."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("release")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    run(*build, folder / "direct", "--sdist", "--wheel", ROOT, cwd=folder)
    (source,) = (folder / "direct").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    run(*build, folder / "again", "--wheel", unpacked, cwd=folder)
    (wheel,), (again,) = (list((folder / name).glob("*.whl")) for name in ("direct", "again"))
    return wheel, unpacked, again


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory):
    """The wheel, installed into a folder of its own."""
    pytest.importorskip("pip")
    wheel, _, _ = archives
    folder = tmp_path_factory.mktemp("installed")
    words = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *words, "--target", folder, wheel, cwd=folder)
    return folder


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name.rpartition("/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        return {part: archive.read(name).decode() for part, name in names.items()}


def test_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/outfold/_version.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", outfold.__version__)
    changes = re.findall(r"^## \[(.+)\] - (Unreleased|\d{4}-\d{2}-\d{2})$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert changes[0][0] == outfold.__version__
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert cited == [outfold.__version__]
    written = [
        path.relative_to(ROOT).as_posix()
        for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.py")]
        if re.search(rf"['\"]v?{re.escape(outfold.__version__)}['\"]", path.read_text())
    ]
    assert written == ["src/outfold/_version.py"]  # all others ask it


def declared(lines):
    """Names of the distributions in a list of requirements."""
    return {re.split(r"[\[<>=!~ ;]", line, maxsplit=1)[0] for line in lines}


def imported():
    """Distributions that the package imports by a statement, wherever it stands."""
    names = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add((node.module or "").partition(".")[0])
    return {DISTRIBUTIONS.get(name, name) for name in names - set(sys.stdlib_module_names) - {"outfold"}}


def test_what_is_imported_is_declared_and_the_core_declares_nothing_else():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, extras = declared(project["dependencies"]), project["optional-dependencies"]
    for_users = set().union(*(declared(lines) for key, lines in extras.items() if key not in ("all", "docs", "test")))
    assert imported() <= core | for_users
    assert core <= imported()
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {name.lower() for name in core | for_users | declared(extras["test"])} - {"outfold"} <= pinned


def test_the_server_is_bounded_by_the_version_that_is_tested():
    (line,) = (line for line in (ROOT / "pyproject.toml").read_text().splitlines() if '"uvicorn' in line)
    first_untested = re.search(r"<0\.(\d+)", line).group(1)
    tested = re.search(r"^uvicorn==0\.(\d+)", (ROOT / "constraints.txt").read_text(), re.M).group(1)
    assert int(first_untested) == int(tested) + 1


def test_the_workflow_runs_the_check_command_on_every_promised_python_and_system():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    (command,) = (line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "pytest" in line)
    install, checks = command.split(" && ", 1)
    assert [step["run"] for step in jobs["pinned"]["steps"] if "run" in step] == [install, f"{checks} --cov"]
    matrix = jobs["newest"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert matrix["python"] == re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}
    assert {"oldest", "no-extras", "second-tier"} <= jobs.keys()
    told = (ROOT / "CONTRIBUTING.md").read_text()
    for job in ("oldest", "newest"):
        resolved = next(
            step["run"] for step in jobs[job]["steps"] if re.match("uv pip compile|pip.*test", step.get("run", ""))
        )
        assert resolved.split(" -o ")[0] in told


def test_hooks_before_a_commit_have_the_versions_of_the_tests():
    yaml = pytest.importorskip("yaml")
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["id"]: hook for repository in repositories for hook in repository["hooks"]}
    assert hooks.keys() == {"ruff", "ruff-format", "mypy", "codespell"}
    pins = set((ROOT / "constraints.txt").read_text().splitlines())
    assert {*hooks["ruff"]["additional_dependencies"], *hooks["ruff-format"]["additional_dependencies"]} <= pins


@pytest.mark.parametrize("path", [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"])
def test_forms_for_issues_are_complete(path):
    form = pytest.importorskip("yaml").safe_load((ROOT / path).read_text())
    assert form.keys() == {"name", "description", "body"}
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)


def test_version_is_told_by_model_files_and_the_service(tmp_path):
    from outfold.app.service import openapi
    from outfold.storage import describe

    outfold.ClassicalMDS(1).fit([[0.0], [1.0], [3.0]]).save(tmp_path / "line.outfold")
    assert describe(tmp_path / "line.outfold")["versions"]["outfold"] == outfold.__version__
    assert openapi.document(["one"], ["column"], 1)["info"]["version"] == outfold.__version__


def test_citation_and_metadata_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"license: {project['license']}\n" in citation
    assert [author["name"] for author in project["authors"]] == re.findall(r"^  - name: (.+)$", citation, re.M)


def test_wheel_holds_the_package_and_nothing_else(archives):
    wheel, _, _ = archives
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {name.removeprefix("src/") for name in tracked() if name.startswith("src/outfold/")}
    assert held == package
    assert {pathlib.PurePath(name).suffix for name in held} == SHIPPED
    assert "outfold/py.typed" in held
    assert wheel.name == f"outfold-{outfold.__version__}-py3-none-any.whl"


def test_record_of_the_wheel_is_true(archives):
    wheel, _, _ = archives
    with zipfile.ZipFile(wheel) as archive:
        rows = list(csv.reader(io.StringIO(metadata(wheel)["RECORD"])))
        assert {row[0] for row in rows} == set(archive.namelist())
        for name, digest, _ in rows:
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}"


def test_metadata_is_complete(archives):
    wheel, _, _ = archives
    parts = metadata(wheel)
    told = email.message_from_string(parts["METADATA"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (told["Name"], told["Version"], told["Requires-Python"]) == ("outfold", outfold.__version__, ">=3.11")
    assert told["Summary"] == project["description"]
    assert told["Author"] == "The Outfold developers"
    assert set(told["Keywords"].split(",")) == set(project["keywords"])
    assert (told["License-Expression"], told.get_all("License-File")) == ("BSD-3-Clause", ["LICENSE"])
    assert parts["LICENSE"] == (ROOT / "LICENSE").read_text()
    assert told["Description-Content-Type"] == "text/markdown"
    assert told.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    assert set(told.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    plain = {line for line in told.get_all("Requires-Dist") if "extra ==" not in line}
    assert plain == set(project["dependencies"])
    assert parts["entry_points.txt"].split() == ["[console_scripts]", "outfold", "=", "outfold.app.cli.main:main"]


def test_classifiers_are_known_and_name_the_versions_of_python(archives):
    known = pytest.importorskip("trove_classifiers").classifiers  # comes with hatchling
    wheel, _, _ = archives
    told = email.message_from_string(metadata(wheel)["METADATA"]).get_all("Classifier")
    assert set(told) <= known
    versions = [line.rpartition(" ")[2] for line in told if re.search(r"Python :: 3\.\d+$", line)]
    assert versions == ["3.11", "3.12", "3.13"]
    for line in ("Operating System :: OS Independent", "Intended Audience :: Science/Research", "Typing :: Typed"):
        assert line in told


def test_sdist_holds_the_repository(archives):
    _, unpacked, _ = archives
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert tracked() - held == set()
    assert {name for name in held if re.search(r"(^|/)(__pycache__|\.venv|_build|\.git/|\.\w+_cache)", name)} == set()
    assert {name.split("/")[0] for name in held - tracked()} <= {"PKG-INFO", "docs", "benchmarks", "examples", "tests"}


def test_a_wheel_of_the_sdist_is_the_same_wheel(archives):
    wheel, _, again = archives
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


STRANGER = """
import json, pathlib, sys
here, source = map(pathlib.Path, sys.argv[1:])
sys.path[:] = [place for place in sys.path if pathlib.Path(place or ".").resolve() != source]
import numpy as np
import outfold
from importlib.resources import files
from outfold.app.cli.main import main
from outfold.datasets import s_curve
maps = outfold.DiffusionMaps(2).fit(s_curve(60, random_state=0)[0])
maps.save("curve.outfold")
np.save("rows.npy", s_curve(60, random_state=0)[0])
main(["report", "curve.outfold", "rows.npy", "--out", "page.html"], standalone_mode=False)
loaded = [module for name, module in sys.modules.items() if name.partition(".")[0] == "outfold"]
strays = [m.__file__ for m in loaded if not pathlib.Path(m.__file__).is_relative_to(here)]
assets = sorted(part.name for part in (files("outfold.app.page") / "assets").iterdir())
print(json.dumps({"version": outfold.__version__, "strays": strays, "modules": len(loaded), "assets": assets}))
"""


def test_the_installed_wheel_works_without_its_source(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    answer = run(sys.executable, "-P", "-c", STRANGER, installed, ROOT / "src", cwd=tmp_path).splitlines()[-1]
    told = json.loads(answer)
    assert (told["version"], told["strays"]) == (outfold.__version__, [])
    assert told["modules"] > 20
    assets = ROOT / "src" / "outfold" / "app" / "page" / "assets"
    assert told["assets"] == sorted(path.name for path in assets.iterdir())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ("page.css", "drawing.js", "page.js"):
        assert (assets / name).read_text(encoding="utf-8").strip() in page
    assert page.count("stream-") >= 1


def test_the_command_of_the_wheel_tells_its_version(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    (program,) = (installed / "bin").glob("outfold*") if (installed / "bin").exists() else [installed / "Scripts"]
    assert run(program, "--version", cwd=tmp_path).split() == ["outfold,", "version", outfold.__version__]
