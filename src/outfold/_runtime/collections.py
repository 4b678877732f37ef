"""The modules that handle collections of other libraries (Dask), by name, so that each is imported on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

COLLECTIONS = {"dask": "outfold.distributed"}  # root package of a type -> our module whose `COLLECTION` handles it
PLANNER = "outfold.distributed.plan"  # the module that plans a fit on workers


def collection_module(X: object) -> ModuleType | None:
    """Return the module that handles X's type, with a ``COLLECTION``, or None for any other type."""
    name = COLLECTIONS.get(type(X).__module__.partition(".")[0])
    return None if name is None else import_module(name)


def planner() -> ModuleType:
    """Return the module that plans fits on workers."""
    return import_module(PLANNER)
