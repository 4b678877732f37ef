"""Figures about the source tree: layers, cycles, sizes, types. ``python tools/house.py [SRC]`` prints them.

The analysis reads files with ``ast`` and imports nothing, so it works on any version of the tree. ``--walk`` also runs
a fit and a transform of whichever ``outfold`` Python finds, and counts the modules whose functions were called.
``tests/surface/test_layers.py`` and ``tests/surface/test_types.py`` hold the same facts.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
import sys
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
SRC = ROOT / "src" / "outfold"

LAYERS = [  # in the order in which data meets them: a module imports from its own entry and from earlier ones
    "exceptions", "_version", "_runtime", "_loops", "data", "datasets", "distances", "trust", "bandwidths", "neighbors",
    "graphs", "kernels", "landmarks", "operators", "solvers", "extensions", "engine", "neural", "methods", "quality",
    "selection", "dynamics", "storage", "outfold", "plotting", "integrations", "distributed", "papers", "app",
]  # fmt: skip
ALLOWED = {("methods.base", "storage")}  # ``save`` is a method of the estimators
NAMED_BY_STRING = {"outfold", "methods", "papers", "_runtime.registry", "_runtime.collections", "app.cli.main"}
DASK = ("distributed", "scale", "_lazy", "_workers", "_spread_quality")  # the package, and what it was before


class Edge(NamedTuple):
    """An import of one module of ours by another."""

    user: str
    target: str
    line: int
    string: bool = False  # named by a string, for import_module


class Tree:
    """The modules below a folder, with their syntax trees and imports."""

    def __init__(self, source: pathlib.Path = SRC) -> None:
        self.source = source
        self.files = {module_of(path, source): path for path in sorted(source.rglob("*.py"))}
        self.syntax = {name: ast.parse(path.read_text()) for name, path in self.files.items()}
        self.edges = [edge for name in self.files for edge in self._imports(name)]

    def _imports(self, name: str) -> Iterator[Edge]:
        """Every import of our own modules, wherever it stands, also by a string that ``import_module`` is given."""
        for node in ast.walk(self.syntax[name]):
            if isinstance(node, ast.ImportFrom):
                yield from self._from(name, node)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "outfold":
                        yield Edge(name, self._known(alias.name.removeprefix("outfold").removeprefix(".")), node.lineno)
            elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__", "find_spec"):
                yield from self._by_string(name, node)

    def _from(self, name: str, node: ast.ImportFrom) -> Iterator[Edge]:
        if node.level == 0:
            if (node.module or "").split(".")[0] != "outfold":
                return
            base = (node.module or "").removeprefix("outfold").removeprefix(".")
        else:
            parts = self._package(name)
            parts = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
            base = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}" if base else alias.name
            yield Edge(name, inner if inner in self.files else self._known(base), node.lineno)

    def _package(self, name: str) -> list[str]:
        parts = [] if name == "outfold" else name.split(".")
        return parts if self.files[name].name == "__init__.py" else parts[:-1]

    def _known(self, name: str) -> str:
        return name or "outfold"

    def _by_string(self, user: str, call: ast.Call) -> Iterator[Edge]:
        """The module of ours that a call imports by name; a name put together at run time is the package."""
        text = call.args[0] if call.args else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            name = text.value.lstrip(".").removeprefix("outfold.")
            if text.value.startswith((".", "outfold.")) and name in self.files:
                yield Edge(user, name, call.lineno, string=True)
        elif isinstance(text, ast.JoinedStr):
            first = text.values[0]
            if isinstance(first, ast.Constant) and str(first.value).startswith((".", "outfold.")):
                yield Edge(user, "outfold", call.lineno, string=True)

    def upward(self) -> list[Edge]:
        """Imports that do not point to the same entry of ``LAYERS`` or an earlier one."""
        return [edge for edge in self.edges if self._is_upward(edge) and edge.user not in NAMED_BY_STRING]

    def _is_upward(self, edge: Edge) -> bool:
        user, target = edge.user.split(".")[0], edge.target.split(".")[0]
        return user in LAYERS and target in LAYERS and LAYERS.index(target) > LAYERS.index(user)

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other, largest first; imports inside functions count."""
        graph: dict[str, set[str]] = {name: set() for name in self.files}
        for edge in self.edges:
            if edge.target in graph and edge.target != edge.user and not edge.string:
                graph[edge.user].add(edge.target)
        return sorted((group for group in components(graph) if len(group) > 1), key=len, reverse=True)

    def entries(self) -> set[str]:
        """What lies at the top of the package."""
        return {path.name for path in self.source.iterdir() if path.name != "__pycache__"}

    def dask_sites(self) -> list[Edge]:
        """Where modules outside the Dask package ask for Dask: by an import, or by asking whether rows are its own.

        The commands, which stand above the package, may import it for their option ``--dask``.
        """
        outside = (*DASK, "app")
        found = [e for e in self.edges if e.target.split(".")[0] in DASK and e.user.split(".")[0] not in outside]
        for name, syntax in self.syntax.items():
            if name.split(".")[0] in DASK:
                continue
            for node in ast.walk(syntax):
                if isinstance(node, ast.Call) and called(node) in ("in_dask", "collection"):
                    found.append(Edge(name, called(node), node.lineno))
        return found

    def functions(self) -> list[tuple[int, str]]:
        """Lines of every function without its docstring, longest first."""
        found = []
        for name, syntax in self.syntax.items():
            for node in ast.walk(syntax):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    text = ast.get_docstring(node)
                    lines = (node.end_lineno or 0) - node.lineno + 1 - (len(text.splitlines()) + 1 if text else 0)
                    found.append((lines, f"{name}:{node.lineno} {node.name}"))
        return sorted(found, reverse=True)

    def annotations(self) -> tuple[list[str], int]:
        """Return the parameters and returns annotated exactly ``Any``, and the number of all that are annotated."""
        bare, annotated = [], 0
        for name, syntax in self.syntax.items():
            for function in ast.walk(syntax):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    for what, annotation in signature(function):
                        annotated += 1
                        if isinstance(annotation, ast.Name) and annotation.id == "Any":
                            bare.append(f"{name}:{annotation.lineno} {function.name} {what}")
        return bare, annotated

    def constructors(self) -> list[tuple[int, int, str]]:
        """Return for every class the parameters of its constructor that it declares itself, and all of them.

        A class without ``__init__`` has its own fields, if it is a dataclass, and the parameters of its parents.
        """
        classes: dict[str, list[tuple[str, ast.ClassDef]]] = {}
        for name, syntax in self.syntax.items():
            for node in ast.walk(syntax):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, []).append((name, node))

        def parameters(name: str, node: ast.ClassDef) -> tuple[set[str], set[str]]:
            own, inherits = constructor(node)
            every = set(own)
            for base in node.bases if inherits else []:
                known = classes.get(getattr(base, "id", getattr(base, "attr", "")), [])
                near = [entry for entry in known if entry[0] == name] or known
                if near and near[0][1] is not node:
                    every |= parameters(*near[0])[1]
            return own, every

        answers = []
        for known in classes.values():
            for name, node in known:
                own, every = parameters(name, node)
                answers.append((len(own), len(every), f"{name}:{node.lineno} {node.name}"))
        return answers

    def sibling_tables(self) -> list[tuple[int, str]]:
        """Return functions that ask one value whether it is of this or that class of ours, three classes or more."""
        ours = {node.name for tree in self.syntax.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        answers = []
        for name, syntax in self.syntax.items():
            for function in ast.walk(syntax):
                if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                asked: dict[str, set[str]] = {}
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and called(node) == "isinstance" and len(node.args) == 2:
                        names = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node.args[1])}
                        asked.setdefault(ast.dump(node.args[0]), set()).update(names & ours)
                most = max(map(len, asked.values()), default=0)
                if most >= 3:
                    answers.append((most, f"{name}:{function.lineno} {function.name}"))
        return sorted(answers, reverse=True)

    def lines(self) -> int:
        """Return the number of lines of all modules."""
        return sum(len(path.read_text().splitlines()) for path in self.files.values())


def module_of(path: pathlib.Path, source: pathlib.Path) -> str:
    """The dotted name below ``outfold``; the package itself is ``outfold``."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or "outfold"


def called(node: ast.Call) -> str:
    """The name of the function that is called, without what it is an attribute of."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name and the annotation of every parameter that has one, and of ``return``."""
    given = function.args
    stars = [star for star in (given.vararg, given.kwarg) if star is not None]
    for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, *stars]:
        if argument.annotation is not None:
            yield argument.arg, argument.annotation
    if function.returns is not None:
        yield "return", function.returns


def constructor(node: ast.ClassDef) -> tuple[set[str], bool]:
    """Return the parameters that a class itself declares, and whether those of its parents are added."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return {argument.arg for argument in [*part.args.args[1:], *part.args.kwonlyargs]}, False
    is_dataclass = any(re.match("dataclass|estimator", ast.unparse(mark)) for mark in node.decorator_list)
    is_tuple = any("NamedTuple" in ast.unparse(base) for base in node.bases)
    if not (is_dataclass or is_tuple):
        return set(), True
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    return {ast.unparse(part.target) for part in fields if is_parameter(part)}, True


def is_parameter(part: ast.AnnAssign) -> bool:
    """Whether a field of a dataclass is a parameter of its constructor."""
    value = "" if part.value is None else ast.unparse(part.value)
    return "ClassVar" not in ast.unparse(part.annotation) and "init=False" not in value


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Tarjan, 1972), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    held: set[str] = set()
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        held.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    held.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in held:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        held.discard(group[-1])
                    found.append(group)
    return found


def walked() -> tuple[set[str], set[str]]:
    """The modules whose functions a fit and a transform of diffusion maps call."""
    from outfold import DiffusionMaps
    from outfold.datasets import s_curve

    X, _ = s_curve(300, random_state=0)
    maps = DiffusionMaps(n_neighbors=15)
    maps.fit(X)  # everything is loaded and compiled
    answers = []
    for call in (lambda: maps.fit(X), lambda: maps.transform(X[:10])):
        modules: set[str] = set()

        def note(frame, event, argument, modules=modules):
            if event == "call" and (name := frame.f_globals.get("__name__", "")).startswith("outfold."):
                modules.add(name)

        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
        answers.append(modules)
    return answers[0], answers[1]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=pathlib.Path, default=SRC, help="the folder of the package")
    parser.add_argument("--walk", action="store_true", help="also count the modules of a fit and a transform")
    parser.add_argument("--any", action="store_true", help="also list every bare Any in a signature")
    given = parser.parse_args()
    tree = Tree(given.source)
    cycles, functions, constructors = tree.cycles(), tree.functions(), tree.constructors()
    bare, annotated = tree.annotations()
    estimators = [entry for entry in constructors if entry[2].startswith("methods.")]
    tables = tree.sibling_tables()
    print(f"modules                    {len(tree.files)}")
    print(f"lines                      {tree.lines()}")
    print(f"top-level entries          {len(tree.entries())}")
    print(f"largest cycle              {len(cycles[0]) if cycles else 1}")
    if "_runtime" in tree.entries():
        print(f"upward imports             {len(tree.upward())}  {[edge[:3] for edge in tree.upward()]}")
    print(f"places that ask for Dask   {len(tree.dask_sites())}")
    print(f"longest function           {functions[0][0]} lines, {functions[0][1]}")
    print(f"bare Any in signatures     {len(bare)} of {annotated} annotated")
    for label, entries in (("parameters of a class", constructors), ("parameters of an estimator", estimators)):
        own, every = (max(entries, key=itemgetter(place), default=(0, 0, "none")) for place in (0, 1))
        print(f"{label:<26} {own[0]} declared ({own[2]}), {every[1]} in all ({every[2]})")
    print(f"isinstance over siblings   {len(tables)} functions  {[where for _, where in tables]}")
    if given.any:
        print(*bare, sep="\n")
    if given.walk:
        fit, transform = walked()
        print(f"modules of a fit           {len(fit)}")
        print(f"modules of a transform     {len(transform)}")


if __name__ == "__main__":
    main()
