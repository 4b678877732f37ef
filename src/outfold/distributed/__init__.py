"""Dask: fits, transforms and plans on collections whose rows stay where they are."""

from .collection import DaskCollection
from .rows import rows_of, write
from .tasks import cluster

COLLECTION = DaskCollection()

__all__ = ["COLLECTION", "DaskCollection", "cluster", "rows_of", "write"]
