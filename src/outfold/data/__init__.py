"""Rows in and rows out: arrays, files, tables, weights, checkpoints.

What reads tables is imported on first use: a fit of an array needs none of it.
"""

from typing import TYPE_CHECKING

from .checkpoints import Checkpoint
from .sources import Source, open_rows
from .weights import normalize_weights

if TYPE_CHECKING:
    from .columns import Preparation as Preparation
    from .columns import prepare as prepare
    from .table_files import open_table as open_table
    from .tables import Batch as Batch
    from .tables import Table as Table


def __getattr__(name: str) -> object:
    if name not in __all__:  # such as a module that is not imported yet
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .columns import Preparation, prepare
    from .table_files import open_table
    from .tables import Batch, Table

    return {"Preparation": Preparation, "prepare": prepare, "open_table": open_table, "Batch": Batch, "Table": Table}[
        name
    ]


__all__ = [
    "Batch",
    "Checkpoint",
    "Preparation",
    "Source",
    "Table",
    "normalize_weights",
    "open_rows",
    "open_table",
    "prepare",
]


def __dir__() -> list[str]:
    return __all__
