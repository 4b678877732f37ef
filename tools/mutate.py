"""A seeded mutation campaign over the numerical modules: it shows which small faults the tests see.

    python tools/mutate.py --count 60 --seed 0 --jobs 2
    python tools/mutate.py --count 10 --module trust --module operators/markov

A mutant is one change of one expression: operators swapped, a term dropped, a constant moved, ``<`` for ``<=``, ``min``
for ``max``, a sign flipped. Each runs in a copy of the tree, with a copy of numba's cache that no other mutant has
written to, against the tests of its package and a quick part of the laws and oracles. What survives is asked for the
answers of ``tools/digests.py``: if none differs, the mutant may be equivalent, and a person decides; if one differs, a
test is missing. Survivors are printed with their diff. The exit code is 1 if fewer than ``--least`` percent of the
mutants that change behaviour die.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import pathlib
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[1]
MODULES = (
    "operators", "solvers", "engine", "graphs", "kernels", "neighbors", "bandwidths", "distances", "landmarks", "trust",
    "extensions",
)  # fmt: skip
COPIED = ("src", "tests", "tools", "pyproject.toml", "README.md", "constraints.txt")
QUICK = ("tests/test_trust.py", "tests/laws/test_tolerances.py", "tests/oracles/test_amplification.py",
         "tests/oracles/test_oracles.py")  # fmt: skip
BESIDE = {  # tests of other packages that look closely at a module
    "operators": ("tests/methods", "tests/quality/test_kernel_expansion.py", "tests/engine/test_plan.py"),
    "engine": ("tests/methods", "tests/extensions", "tests/operators/test_low_rank.py"),
    "neighbors": ("tests/graphs",),
    "kernels": ("tests/methods/test_kernel_pca.py",),
    "landmarks": ("tests/methods/test_roseland.py",),
    "trust": ("tests/extensions/test_calibration.py",),
    "distances": ("tests/graphs", "tests/neighbors"),
    "bandwidths": ("tests/graphs",),
}
LEAST_SECONDS, TIMES_BASELINE = 120.0, 6.0  # the time limit of a mutant

SWAPPED = {"+": ("-",), "-": ("+",), "*": ("/", "+"), "/": ("*",), "**": ("*",), "//": ("/",), "%": ("*",), "@": ()}
COMPARED = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
CALLED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax",
          "argmax": "argmin", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any", "cos": "sin"}  # fmt: skip
SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.FloorDiv: "//", ast.Mod: "%",
    ast.MatMult: "@", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


# -- mutants ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change of one file: ``source[start:stop]`` becomes ``text``."""

    path: str  # of the module, below the root
    line: int
    start: int
    stop: int
    text: str
    what: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.stop :]

    def diff(self, source: str) -> str:
        lines = difflib.unified_diff(
            source.splitlines(), self.apply(source).splitlines(), self.path, self.path, lineterm="", n=1
        )
        return "\n".join(lines)


class Finder(ast.NodeVisitor):
    """Collect the mutants of a module. Messages, annotations, decorators and assertions are left alone."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.found = path, source, list[Mutant]()
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self.offsets = [0]
        for length in lengths:
            self.offsets.append(self.offsets[-1] + length)
        self.lines = source.splitlines(keepends=True)

    def at(self, line: int, column: int) -> int:
        """Return the character of a position; ``ast`` counts columns in bytes."""
        return self.offsets[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno or 0, node.end_col_offset or 0)

    def add(self, node: ast.AST, start: int, stop: int, text: str, what: str) -> None:
        mutant = Mutant(self.path, getattr(node, "lineno", 0), start, stop, text, what)
        try:
            ast.parse(mutant.apply(self.source))
        except SyntaxError:
            return
        self.found.append(mutant)

    def between(self, left: ast.expr, right: ast.expr, symbol: str) -> int:
        """Return where the operator between two expressions stands; -1 if a comment is in the way."""
        start, stop = self.span(left)[1], self.span(right)[0]
        gap = self.source[start:stop]
        return -1 if "#" in gap else start + gap.find(symbol)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        symbol = SYMBOLS.get(type(node.op), "")
        if symbol and (at := self.between(node.left, node.right, symbol)) >= 0:
            for other in SWAPPED[symbol]:
                self.add(node, at, at + len(symbol), other, f"{symbol} to {other}")
            if symbol in "+-*/":
                start, stop = self.span(node)
                kept = self.source[slice(*self.span(node.left))]
                self.add(node, start, stop, f"({kept})", f"right side of {symbol} dropped")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, kind, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            symbol = SYMBOLS.get(type(kind), "")
            if symbol and (at := self.between(left, right, symbol)) >= 0:
                for other in COMPARED[symbol]:
                    self.add(node, at, at + len(symbol), other, f"{symbol} to {other}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, stop = self.span(node)
        if isinstance(node.op, ast.USub | ast.Invert | ast.Not):
            self.add(node, start, stop, f"({self.source[slice(*self.span(node.operand))]})", "sign dropped")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        symbol = SYMBOLS.get(type(node.op), "")
        if symbol and (at := self.between(node.target, node.value, f"{symbol}=")) >= 0:
            for other in SWAPPED[symbol]:
                self.add(node, at, at + len(symbol), other, f"{symbol}= to {other}=")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        one, two = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        if (at := self.between(node.values[0], node.values[1], one)) >= 0 and len(node.values) == 2:
            self.add(node, at, at + len(one), two, f"{one} to {two}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in CALLED:
            stop = self.span(node.func)[1]
            self.add(node, stop - len(name), stop, CALLED[name], f"{name} to {CALLED[name]}")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) not in (int, float):
            return
        start, stop = self.span(node)
        moved = repr(node.value + 1) if type(node.value) is int else repr(2 * node.value if node.value else 1.0)
        self.add(node, start, stop, moved, f"{node.value} to {moved}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in ("__repr__", "__str__", "describe", "concerns", "remedy"):
            return
        for part in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def leave(self, node: ast.AST) -> None:
        """Do not look inside."""

    visit_Raise = visit_JoinedStr = visit_Assert = visit_Import = visit_ImportFrom = leave


def find_mutants(path: str, source: str) -> list[Mutant]:
    finder = Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


def numerical_modules(root: pathlib.Path, chosen: list[str]) -> Iterator[pathlib.Path]:
    for name in chosen or MODULES:
        package = root / "src" / "outfold" / name
        yield from sorted(package.rglob("*.py")) if package.is_dir() else [package.with_suffix(".py")]


# -- a run -----------------------------------------------------------------------------------


def tests_of(root: pathlib.Path, path: str) -> list[str]:
    """Return the tests that a mutant of the module ``path`` must pass, nearest first."""
    parts = pathlib.PurePath(path).with_suffix("").parts[2:]  # below src/outfold
    module = root / "tests" / pathlib.Path(*parts[:-1]) / f"test_{parts[-1].strip('_')}.py"
    own = [str(module.relative_to(root)), f"tests/{parts[0]}" if len(parts) > 1 else "", *BESIDE.get(parts[0], ())]
    wanted = [name for name in dict.fromkeys([*own, *QUICK]) if name and (root / name).exists()]
    return [name for name in wanted if not any(name != one and name.startswith(f"{one}/") for one in wanted[1:])]


class Slot:
    """A place for one mutant at a time: always the same path, so that numba accepts the copied cache."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path) -> None:
        self.root, self.tree, self.cache, self.warm = root, folder / "tree", folder / "cache", folder / "warm"
        folder.mkdir()
        self.warm.mkdir()

    def fill(self, mutant: Mutant | None) -> None:
        for place in (self.tree, self.cache):
            shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.warm, self.cache)
        self.tree.mkdir()
        for name in COPIED:
            if (self.root / name).is_dir():
                shutil.copytree(self.root / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (self.root / name).exists():
                shutil.copy2(self.root / name, self.tree / name)
        if mutant is not None:
            file = self.tree / mutant.path
            file.write_text(mutant.apply(file.read_text()))

    def keep_warm(self) -> None:
        shutil.rmtree(self.warm)
        shutil.copytree(self.cache, self.warm)

    def run(self, command: list[str], limit: float) -> tuple[int | None, str]:
        """Return exit code (None: out of time) and output."""
        environment = os.environ | {
            "PYTHONPATH": str(self.tree / "src"),
            "NUMBA_CACHE_DIR": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with subprocess.Popen(
            [sys.executable, *command], cwd=self.tree, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=limit)
                return process.returncode, output
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return None, ""

    def test(self, path: str, limit: float) -> tuple[int | None, str]:
        return self.run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests_of(self.tree, path)], limit)

    def answers_differ(self, before: pathlib.Path, limit: float) -> bool:
        code, _ = self.run(["tools/digests.py", "--compare", str(before)], limit)
        return code != 0


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    fate: str  # "killed", "killed by the clock", "survived" or "suspect"
    seconds: float
    witness: str = ""  # the test that failed


class Campaign:
    """Mutants, a few slots to run them in, and the baseline they are compared with."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, jobs: int) -> None:
        self.root, self.folder = root, folder
        self.slots: queue.Queue[Slot] = queue.Queue()
        for number in range(jobs):
            self.slots.put(Slot(root, folder / f"slot-{number}"))
        self.seconds: dict[str, float] = {}  # of the tests of a module, without a mutant
        self.before = folder / "answers.json"

    def prepare(self, paths: list[str], jobs: int) -> None:
        """Run each set of tests once without a mutant, and in each slot the answers, which fill numba's cache."""
        sets = {frozenset(tests_of(self.root, path)): path for path in paths}
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for path in sets.values():
            waiting.put(path)
        slots = [self.slots.get() for _ in range(jobs)]

        def warm(slot: Slot) -> None:
            slot.fill(None)
            if (self.root / "tools" / "digests.py").exists():
                code, output = slot.run(["tools/digests.py", "--write", str(slot.tree.parent / "answers.json")], 3600)
                if code != 0:
                    raise SystemExit(f"The answers fail without a mutant:\n{output[-3000:]}")
                shutil.copy(slot.tree.parent / "answers.json", self.before)  # the same in every slot
            while True:
                try:
                    path, start = waiting.get_nowait(), time.perf_counter()
                except queue.Empty:
                    break
                code, output = slot.test(path, 3600)
                if code != 0:
                    raise SystemExit(f"The tests of {path} fail without a mutant:\n{output[-3000:]}")
                self.seconds[path] = time.perf_counter() - start
                print(f"without a mutant    {self.seconds[path]:5.0f} s  {path}", flush=True)
            slot.keep_warm()

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(warm, slots))
        for path in paths:
            self.seconds[path] = self.seconds[sets[frozenset(tests_of(self.root, path))]]
        for slot in slots:
            self.slots.put(slot)

    def judge(self, mutant: Mutant) -> Verdict:
        slot, start = self.slots.get(), time.perf_counter()
        try:
            slot.fill(mutant)
            limit = max(LEAST_SECONDS, TIMES_BASELINE * self.seconds[mutant.path])
            code, output = slot.test(mutant.path, limit)
            witness = next((line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
            if code is None:
                fate = "killed by the clock"
            elif code != 0:
                fate = "killed"
            else:
                known = self.before.exists()
                fate = "suspect" if known and not slot.answers_differ(self.before, limit + 600) else "survived"
            return Verdict(mutant, fate, time.perf_counter() - start, witness)
        finally:
            self.slots.put(slot)


def summary(verdicts: list[Verdict]) -> tuple[str, float]:
    """Return the line that says how many died, and the percentage of those that change behaviour."""
    count = {fate: sum(v.fate == fate for v in verdicts) for fate in ("killed", "killed by the clock", "survived")}
    dead, alive = count["killed"] + count["killed by the clock"], count["survived"]
    share = 100 * dead / max(1, dead + alive)
    suspects = len(verdicts) - dead - alive
    return (
        f"{len(verdicts)} mutants: {dead} killed ({count['killed by the clock']} by the clock), {alive} survived, "
        f"{suspects} suspected equivalent; {share:.0f} % of {dead + alive} that change behaviour died"
    ), share


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="mutants, drawn from all that there are")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--module", action="append", default=[], help="below src/outfold; again for more")
    parser.add_argument("--least", type=float, default=90.0, help="percent that must die")
    parser.add_argument("--list", action="store_true", help="print the drawn mutants and run nothing")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    given = parser.parse_args(arguments)
    root = given.root.resolve()
    sources = {str(p.relative_to(root)): p.read_text() for p in numerical_modules(root, given.module)}
    everything = [mutant for path, source in sources.items() for mutant in find_mutants(path, source)]
    chosen = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    print(f"{len(chosen)} of {len(everything)} mutants of {len(sources)} modules, seed {given.seed}", flush=True)
    if given.list:
        print(*(f"{m.path}:{m.line}  {m.what}" for m in chosen), sep="\n")
        return 0
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        campaign = Campaign(root, pathlib.Path(folder), given.jobs)
        campaign.prepare(sorted({mutant.path for mutant in chosen}), given.jobs)
        with ThreadPoolExecutor(given.jobs) as pool:
            for verdict in pool.map(campaign.judge, chosen):
                mutant = verdict.mutant
                told = f"{verdict.fate:19} {verdict.seconds:5.0f} s  {mutant.path}:{mutant.line}  {mutant.what}"
                print(told, verdict.witness[:90], sep="  ", flush=True)
                verdicts.append(verdict)
    for verdict in verdicts:
        if not verdict.fate.startswith("killed"):
            print(f"\n{verdict.fate}: {verdict.mutant.what}\n{verdict.mutant.diff(sources[verdict.mutant.path])}")
    line, share = summary(verdicts)
    print(f"\n{line}")
    return int(share < given.least)


if __name__ == "__main__":
    sys.exit(main())
