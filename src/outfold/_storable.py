"""What estimators share that can be kept in a file: ``save``, and parts that are read when they are first used."""

from __future__ import annotations

from typing import Any


class Storable:
    """An estimator with ``save``; one loaded by ``load(path, mmap=True)`` has parts that are sealed until used."""

    def save(self, path: Any, *, embedding: bool = False) -> None:
        """Write the fitted model to a file that :func:`outfold.load` reads; it is the old file or the new one.

        Parameters
        ----------
        path : str or path
            Any name; ``.outfold`` is usual.
        embedding : bool
            Keep what belongs to the training rows too: ``embedding_``, ``labels_``, and the spectral method of a
            network. ``transform`` needs none of it.
        """
        from . import storage

        storage.save(self, path, embedding=embedding)

    def __getattr__(self, name: str) -> Any:
        sealed = self.__dict__.get("_sealed", {})
        if name not in sealed:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__[name] = value = sealed[name]()
        return value

    def __getstate__(self) -> Any:
        for name in self.__dict__.get("_sealed", {}):
            getattr(self, name)
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_sealed"}
