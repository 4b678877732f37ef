"""Compiling: where its results are cached, how often it is done, and what is said about it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from outfold._loops import kdtree
from outfold._runtime import jit

LABELS = (
    "import numpy as np\nfrom outfold._loops import csr\n"
    "print(csr.label_components(np.array([0, 1, 2, 3]), np.array([1, 0, 2])).tolist())\n"
)
NO_FOLDER = """
import numba
real = numba.njit
def njit(*args, **options):
    if options.get("cache") and numba.config.CACHE_DIR in (None, "", {unusable!r}):
        raise RuntimeError("cannot cache function: no locator available")
    return real(*args, **options)
numba.njit = njit
"""
AT_A_PROMPT = "import sys\nsys.ps1 = ''\nfrom outfold._runtime import jit\njit.SILENT_SECONDS = 0.0\n"


def run(code, tmp_path, **environment):
    """Run code in a fresh process with empty cache folders below ``tmp_path``."""
    places = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "TMPDIR": str(tmp_path), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **places}
    )


def cached(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*.nb?"))


def test_a_second_process_finds_what_the_first_one_compiled(tmp_path):
    watched = "from numba.core import event\nwith event.install_recorder('numba:compile') as seen:\n"
    watched += "".join(f"    {line}\n" for line in LABELS.splitlines()) + "print(len(seen.buffer))\n"
    first, second = (run(watched, tmp_path).stdout.split() for _ in range(2))
    assert int(first[-1]) > 0
    assert int(second[-1]) == 0
    assert first[:-1] == second[:-1] == ["[0,", "0,", "1]"]


def test_where_no_folder_of_numbas_can_be_written_a_private_one_is_used(tmp_path):
    unusable = str(tmp_path / "numba")
    assert run(NO_FOLDER.format(unusable=unusable) + LABELS, tmp_path).stdout.strip() == "[0, 0, 1]"
    folder = tmp_path / f"outfold-loops-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cached(folder)


@pytest.mark.parametrize("fault", ["open to others", "a link", "a file"])
def test_a_folder_that_someone_else_may_have_made_is_refused(fault, tmp_path):
    folder = tmp_path / f"outfold-loops-{os.getuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if fault == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif fault == "a link":
        folder.symlink_to(elsewhere)
    else:
        folder.write_text("")
    unusable = str(tmp_path / "numba")
    assert run(NO_FOLDER.format(unusable=unusable) + LABELS, tmp_path).stdout.strip() == "[0, 0, 1]"
    assert not cached(tmp_path)


def test_the_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "outfold-loops-12345"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(jit.os, "getuid", lambda: 12345)
    assert jit.private_folder.__wrapped__() is None
    monkeypatch.setattr(jit.os, "getuid", lambda: folder.stat().st_uid)
    assert jit.private_folder.__wrapped__() == str(tmp_path / f"outfold-loops-{folder.stat().st_uid}")


@pytest.mark.parametrize("kind", ["*.nbi", "*.nbc"])
def test_a_damaged_cache_is_no_obstacle(kind, tmp_path):
    run(LABELS, tmp_path)
    for path in (tmp_path / "numba").rglob(kind):
        path.write_bytes(b"")
    assert run(LABELS, tmp_path).stdout.strip() == "[0, 0, 1]"


def test_a_full_disk_is_no_obstacle(tmp_path):
    full = "from numba.core import caching\ndef fail(*args):\n    raise OSError(28, 'No space left on device')\n"
    full += "caching.IndexDataCacheFile._save_data = fail\n"
    assert run(full + LABELS, tmp_path).stdout.strip() == "[0, 0, 1]"


def test_someone_at_a_prompt_is_told_once_that_compiling_takes_long(tmp_path):
    twice = LABELS + LABELS.replace("label_components", "off_diagonal_sums").replace(
        "2]))", "2]), np.ones(3), np.ones(3))"
    )
    assert run(twice, tmp_path / "a").stderr == ""
    said = run(AT_A_PROMPT + twice, tmp_path / "b").stderr
    assert said.count("once after installation") == said.count("\n") == 1
    assert run(AT_A_PROMPT + twice, tmp_path / "b").stderr == ""  # all in the cache
    assert run(AT_A_PROMPT + "jit.keep_quiet()\n" + twice, tmp_path / "c").stderr == ""


def test_whoever_has_no_cache_is_told_how_to_have_one(tmp_path):
    unusable = str(tmp_path / "numba")
    (tmp_path / f"outfold-loops-{os.getuid()}").write_text("")
    assert "NUMBA_CACHE_DIR" in run(AT_A_PROMPT + NO_FOLDER.format(unusable=unusable) + LABELS, tmp_path).stderr


def test_a_count_that_starts_at_zero_does_not_compile_a_loop_twice():
    points = np.random.default_rng(0).normal(size=(100, 2))
    kdtree.plant(points, 16)
    for types in kdtree.select.compiled.signatures:
        assert not any("Literal" in str(kind) for kind in types), types


@pytest.mark.parametrize("depth", [1, 3])
def test_an_interrupt_while_numba_looks_at_the_arguments_is_an_interrupt(monkeypatch, depth):
    def interrupted(*arguments):
        error = KeyboardInterrupt()
        for _ in range(depth):
            complaint = SystemError("returned a result with an exception set")
            complaint.__cause__ = error
            error = complaint
        raise error

    loop = jit.Loop(lambda: None)
    monkeypatch.setitem(vars(loop), "compiled", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop()
