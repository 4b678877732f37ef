"""A process of a library, which fits one task after another: the program is ``default_fits.py``."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from typing import Self

import numpy as np
from peers import environments

PROGRAM = pathlib.Path(__file__).parent / "default_fits.py"
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


class Library:
    """An interpreter with one thread that has the library; it starts again after a crash."""

    def __init__(self, name: str, warm: bool = False) -> None:
        self.warm = warm
        self.python = environments.python(name)
        self.child: subprocess.Popen | None = None
        self.folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
        self.folder.cleanup()

    def close(self) -> None:
        if self.child is not None:
            self.child.stdin.close()
            self.child.stdout.close()
            self.child.wait()
            self.child = None

    def fit(self, contender: str, X: np.ndarray, **options: object) -> tuple[dict, np.ndarray | None]:
        """Return what the process says about the fit and, unless it failed, its array."""
        rows, answer = (pathlib.Path(self.folder.name) / name for name in ("rows.npy", "answer.npy"))
        np.save(rows, X)
        task = {"contender": contender, "rows": str(rows), "answer": str(answer), "options": options}
        task["warm"] = self.warm
        try:
            print(json.dumps(task), file=self._open().stdin, flush=True)
            line = json.loads(self._open().stdout.readline())
        except (BrokenPipeError, ValueError):
            self.close()
            return {"failed": "the process ended: perhaps it ran out of memory"}, None
        return line, np.load(answer) if "seconds" in line else None

    def _open(self) -> subprocess.Popen:
        if self.child is None:
            kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            self.child = subprocess.Popen(
                [self.python, "-P", str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=kept | ALONE,
            )
        return self.child
