"""Rows in and rows out: arrays, files, tables, weights, checkpoints."""

from .checkpoints import Checkpoint
from .columns import Preparation, prepare
from .sources import Source, open_rows
from .table_files import open_table
from .tables import Batch, Table
from .weights import normalize_weights

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
