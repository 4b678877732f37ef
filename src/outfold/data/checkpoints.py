"""Checkpoints of a long fit in a folder: a fit that was killed resumes from there and gives the same result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._runtime.typing import Array
from .writers import replacing

State = Mapping[str, ArrayLike]


class Checkpoint:
    """A folder with the state of each pass, written every ``seconds`` seconds; with folder None nothing is written.

    A file appears only when it is complete. Writing takes at most a tenth of the time.

    >>> import tempfile
    >>> from outfold import Roseland
    >>> from outfold.datasets import s_curve
    >>> kept = Checkpoint(tempfile.mkdtemp(), seconds=60)
    >>> Roseland(landmarks=100, checkpoint=kept).fit(s_curve(1000, random_state=0)[0]).report_.n_anchors
    100
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, seconds: float = 10.0) -> None:
        self.folder = None if folder is None else Path(folder)
        self.seconds = seconds
        self._key = ""
        self._written, self._cost = time.monotonic(), 0.0

    def __repr__(self) -> str:
        return f"Checkpoint({None if self.folder is None else str(self.folder)!r}, seconds={self.seconds})"

    def begin(self, key: str, seed: int, memory: float) -> tuple[int, float]:
        """Resume or begin the fit that ``key`` describes. Returns the seed and the memory that it began with."""
        if self.folder is None:
            return seed, memory
        self.folder.mkdir(parents=True, exist_ok=True)
        self._key = key
        found = self.restore("fit")
        if found is None:
            self.keep("fit", {"seed": np.array(seed), "memory": np.array(memory)}, done=True)
            return seed, memory
        return int(found["seed"]), float(found["memory"])

    def restore(self, stage: str) -> dict[str, Array] | None:
        """Return the stored state of a stage, or None. Raise ValueError if it belongs to another fit."""
        path = self._path(stage)
        if path is None or not path.exists():
            return None
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                state = {name: stored[name] for name in stored.files}
                key, *names = map(str, state.pop("key").ravel())  # names: none in files of 0.1.0
            if names and set(names) != state.keys():
                raise ValueError(f"it lacks {', '.join(sorted(set(names) - state.keys())) or 'its names'}")
        except MemoryError:
            raise
        except Exception as error:  # of a damaged archive, of many kinds
            raise ValueError(f"The checkpoint {path} cannot be read ({error}). Remove it to begin again.") from error
        if key != self._key:
            raise ValueError(
                f"checkpoint={str(self.folder)!r} holds a fit of other data or with other parameters. Pass another "
                "folder, or remove its files to begin again."
            )
        return state

    def keep(self, stage: str, state: State | Callable[..., State], *, done: bool) -> None:
        """Write the state of a stage if ``done`` or if it is time; ``state`` may be a function that returns it."""
        path = self._path(stage)
        waited = time.monotonic() - self._written
        if path is None or not (done or waited >= max(self.seconds, 10 * self._cost)):
            return
        began = time.monotonic()
        with replacing(path) as beside, open(beside, "wb") as file:
            arrays: dict[str, Any] = dict(state() if callable(state) else state)
            np.savez(file, key=np.array([self._key, *arrays]), **arrays)
        self._written = time.monotonic()
        self._cost = self._written - began

    def finish(self) -> None:
        """Remove the stored states: the fit is done."""
        for stage in ("fit", "first pass", "second pass"):
            path = self._path(stage)
            if path is not None:
                path.unlink(missing_ok=True)

    def _path(self, stage: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{stage.replace(' ', '-')}.npz"
