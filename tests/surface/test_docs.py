"""The documentation: a page for every method, whose parts are there and whose code runs."""

import ast
import doctest
import inspect
import re
import shlex
import shutil
import socket
import subprocess
import sys

import pytest
import sklearn
import yaml
from click.testing import CliRunner
from sklearn import cluster, decomposition, manifold

import outfold
from catalogue import ROOT, data_folder
from outfold import datasets, methods
from outfold.app.cli.main import main

COMMAND = 'from outfold.app.cli.main import main; main(prog_name="outfold")'
PAGES = {re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[a-z])(?=MDS|PCA)", "-", name).lower(): name for name in methods.__all__}


@pytest.mark.parametrize(("page", "name"), PAGES.items())
def test_every_method_has_a_page(page, name):
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text()
    assert text.startswith(f"# {name}\n")
    for part in ("| kernel | normalisation |", "## Formula", "## When to use it", "## When not", "## Try it"):
        assert part in text
    assert f"({page}.md)" in (ROOT / "docs" / "methods" / "index.md").read_text()


TEXTS = [
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "gallery"} & set(path.parts)),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
]
SERVED = "docs/service.md"  # needs a server, and has a test of its own
CODE = [
    str(path.relative_to(ROOT))
    for path in TEXTS
    if "```python\n" in path.read_text() and str(path.relative_to(ROOT)) != SERVED
]
COMMANDS = {"docs/command.md": 8, "docs/page.md": 2}  # pages whose sh blocks run, with at least so many commands
NOT_RUN = {  # what else sh blocks may hold -> why it does not run here
    r"pip install ": "installs",
    r"ruff check \. && ruff format --check \. && mypy && python -m pytest": "is the test run itself",
    r"OUTFOLD_HYPOTHESIS=second_tier python -m pytest": "takes hours",
    r"python -m pytest": "is the test run itself",
    r"python3\.1\d -m venv|uv pip ": "makes environments of other versions",
    r"python benchmarks/": "takes minutes to hours, and peers that are not installed",
    r"sphinx-build -W -b html docs docs/_build$": "runs in test_site.py, without the pictures of examples",
    r"outfold reproduce all": "takes half an hour; each experiment has a test of its own",
    r"outfold (fit|transform|explore) wine": "runs with the tables of command.md and page.md",
}
SAID = re.compile(r"^(\$|>>>|import |from \S+ import|(pip|outfold|python|curl|sphinx-build|ruff) )", re.MULTILINE)


def fences(path):
    """Kind and text of every fenced block of a page, in order."""
    return re.findall(r"^ *(?:```|~~~)([^`\n]*)\n(.*?)^ *(?:```|~~~) *$", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_code_runs_or_is_listed_with_a_reason(path):
    page = str(path.relative_to(ROOT))
    for kind, block in fences(path):
        if kind == "python":
            assert page in [*CODE, SERVED]
        elif kind == "sh":
            lines = [] if page in [*COMMANDS, SERVED] else block.replace("\\\n", " ").splitlines()
            for line in lines:
                assert any(re.match(start, line) for start in NOT_RUN), f"nothing runs {line!r}, nor says why"
        elif kind == "yaml":
            assert yaml.safe_load(block)
        elif kind == "{code-block} python":  # a peer's, which is not installed here
            assert page.startswith("docs/coming-from/")
            assert "outfold" not in block
        elif kind in ("", "text"):
            assert not SAID.search(block), f"{block!r} is code: say of which language"
        else:
            assert re.match(r"\{[a-z-]+\}", kind), f"```{kind} is of no kind that is tested"


@pytest.mark.parametrize("page", CODE)
@pytest.mark.filterwarnings("ignore::outfold.exceptions.OutfoldWarning")
def test_its_code_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}  # the blocks of a page go on from each other
    for block in (block for kind, block in fences(ROOT / page) if kind == "python"):
        exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out


@pytest.mark.parametrize(("page", "count"), COMMANDS.items())
def test_the_commands_of_a_page_run(page, count, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    blocks = fences(ROOT / page)
    exec(next(block for kind, block in blocks if kind == "python"), {})  # makes the tables
    commands = [line for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    assert len(commands) >= count
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "outfold"
        answer = CliRunner().invoke(main, words)
        assert answer.exit_code == 0, f"{command}\n{answer.output}"
    told = (ROOT / "README.md").read_text()
    assert page != "docs/command.md" or all(line.replace(" --components 4", "") in told for line in commands[:2])


def test_the_page_of_the_service_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    if shutil.which("curl") is None:
        pytest.skip("curl is not here")
    page = (ROOT / SERVED).read_text()
    for place in ("8765", "8766"):
        with socket.create_server(("127.0.0.1", 0)) as free:
            page = page.replace(place, str(free.getsockname()[1]))
    program = tmp_path / "bin" / "outfold"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{COMMAND}' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    servers, names, count = [], {}, 0
    try:
        for kind, block in re.findall(r"```(python|sh)\n(.*?)```", page, re.DOTALL):
            if kind == "python":
                exec(compile(block, "service.md", "exec"), names)
                assert capsys.readouterr().out
                continue
            for line in block.replace("\\\n", " ").splitlines():
                count += 1
                if re.search(r"\boutfold serve\b", line):
                    servers.append(
                        subprocess.Popen(["sh", "-c", f"exec env {line}"], stdout=subprocess.PIPE, text=True)
                    )
                    assert any("http://127.0.0.1:" in said for said in servers[-1].stdout)
                else:
                    run = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
                    assert run.returncode == 0, run.stderr
                    assert '"error": {' not in run.stdout, f"{line}\n{run.stdout}"
    finally:
        for server in servers:
            server.terminate()
            server.stdout.read()
            server.stdout.close()
            assert server.wait(30) == 0
    assert len(servers) == 2
    assert count >= 10


def test_every_method_page_has_code():
    assert {f"docs/methods/{page}.md" for page in PAGES} <= set(CODE)


def test_links_and_pictures_lead_somewhere():
    for page in TEXTS:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_bengios_figure_2_is_drawn_and_shows_what_the_paper_says(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import numpy as np, bengio_figure_2 as figure\n"
        "from outfold.datasets import connected_clusters\n"
        "figure.main(sys.argv[2], 20)\n"
        "X, label = connected_clusters(random_state=0)\n"
        "values = figure.eigenfunctions(X, X)\n"
        "for name, v in values.items():\n"
        "    both = [np.ptp(v[label == c]) / np.ptp(v) for c in (0, 1)]\n"
        "    apart = abs(np.median(v[label == 0]) - np.median(v[label == 1])) / np.ptp(v)\n"
        "    print(name.split()[0], *np.round([*both, apart], 3))\n"
    )
    picture = tmp_path / "figure.png"
    run = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "examples"), str(picture)], capture_output=True, text=True, check=True
    )
    assert picture.stat().st_size > 10_000
    found = {line.split()[0]: [float(v) for v in line.split()[1:]] for line in run.stdout.splitlines()[1:]}
    small, large, _ = found["kernel"]  # kernel PCA tells parts of the larger cluster apart and is flat on the smaller
    assert small < 0.2 < 0.9 < large
    for method in ("spectral", "Isomap", "LLE"):  # the others tell the clusters apart
        assert found[method][2] > 0.4


def test_the_faces_are_drawn(tmp_path):
    folder = data_folder()
    if folder is None:
        pytest.skip("shared data sets are not here (set OUTFOLD_DATA to their folder)")
    picture = tmp_path / "faces.png"
    code = "import sys; sys.path.insert(0, sys.argv[1]); import isomap_faces as f; f.main(sys.argv[2], sys.argv[3])"
    run = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "examples"), str(folder), str(picture)],
        capture_output=True,
        text=True,
        check=True,
    )
    right = [float(number) for number in re.findall(r"coordinates ([0-9.]+)", run.stdout)]
    assert len(right) == 2
    assert min(right) > 0.9
    assert picture.stat().st_size > 10_000


RANDOM_SETS = {
    name
    for name, value in vars(datasets).items()
    if inspect.isfunction(value) and "random_state" in inspect.signature(value).parameters
}


def unseeded(code):
    """Calls of random data sets without a seed; an example that draws other points each time fails one day."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    named = [(getattr(call.func, "id", getattr(call.func, "attr", "")), call) for call in calls]
    seeded = {id(call) for call in calls if {word.arg for word in call.keywords} & {"random_state", "grid"}}
    return [name for name, call in named if name in RANDOM_SETS and id(call) not in seeded]


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_docstrings_draw_with_a_seed(path):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    examples = [example.source for text in texts for example in doctest.DocTestParser().get_examples(text)]
    assert [name for code in examples for name in unseeded(code)] == []


@pytest.mark.parametrize("page", CODE)
def test_code_of_pages_draws_with_a_seed(page):
    blocks = [text for kind, text in fences(ROOT / page) if kind == "python"]
    assert [name for code in blocks for name in unseeded(code)] == []


def test_a_draw_without_a_seed_is_noticed():
    assert unseeded("from outfold.datasets import circle\nX = circle(100)") == ["circle"]


# -- parameters of scikit-learn ------------------------------------------------------------

PEER_PAGE = (ROOT / "docs" / "coming-from" / "scikit-learn.md").read_text()
PEERS = {
    "Isomap": (manifold, "Isomap"),
    "LocallyLinearEmbedding": (manifold, "LocallyLinearEmbedding"),
    "MDS": (manifold, "ClassicalMDS"),
    "ClassicalMDS": (manifold, "ClassicalMDS"),
    "KernelPCA": (decomposition, "KernelPCA"),
    "SpectralEmbedding": (manifold, "LaplacianEigenmaps"),
    "SpectralClustering": (cluster, "SpectralClustering"),
}


def peer_table(name):
    """The rows of the table of a class: their parameter, and the cells for ours and the remark."""
    section = PEER_PAGE.partition("## Every parameter")[2].partition(f"### {name}\n")[2].partition("###")[0]
    rows = re.findall(r"^\| `(\w+)=[^|]*` \| ([^|]*) \| ([^|]*)\|$", section, re.MULTILINE)
    assert section.count("\n|") == len(rows) + 2  # the head, and no row of another form
    return rows


@pytest.mark.parametrize("name", PEERS)
def test_every_parameter_of_scikit_learns_classes_is_on_the_page_and_what_it_names_is_ours(name):
    module, ours = PEERS[name]
    if not hasattr(module, name):
        pytest.skip(f"this scikit-learn has no {name}")
    own = inspect.signature(getattr(outfold, ours)).parameters
    rows = peer_table(name)
    listed = [row[0] for row in rows]
    assert len(set(listed)) == len(listed)
    assert set(inspect.signature(getattr(module, name)).parameters) <= set(listed)
    for theirs, cell, remark in rows:
        named = re.match(r"`(\w+)=", cell)
        assert cell == "–" or named[1] in own, f"{theirs}: {cell}"
        assert remark or named[1] != theirs, f"{theirs} differs in nothing that is said"
        if theirs in own:
            assert named[1] == theirs, f"{theirs} is a parameter of ours"


@pytest.mark.parametrize("name", PEERS)
def test_defaults_on_the_page_are_those_of_the_constructors(name):
    """Ours; theirs as well in the version that the page names."""
    module, ours = PEERS[name]
    own = inspect.signature(getattr(outfold, ours)).parameters
    for _, cell, _ in peer_table(name):
        named = re.fullmatch(r"`(\w+)=(\"\w+\"|None|True|False|[-+.\de]+)`", cell)
        if named and named[1] not in ("epsilon", "metric"):
            assert own[named[1]].default == ast.literal_eval(named[2]), cell
    if sklearn.__version__ in PEER_PAGE:
        theirs = inspect.signature(getattr(module, name)).parameters
        section = PEER_PAGE.partition("## Every parameter")[2].partition(f"### {name}\n")[2].partition("###")[0]
        shown = dict(re.findall(r"^\| `(\w+)=([^|]*)` \|", section, re.MULTILINE))
        assert {key: ast.literal_eval(value) for key, value in shown.items()} == {
            key: value.default for key, value in theirs.items()
        }
