"""Search for the nearest anchors of any point: k-d tree, all pairs or the nearest cells, whichever is quickest."""

from .choice import build
from .lists import Lists
from .search import Reaches, Search, approximation

__all__ = ["Lists", "Reaches", "Search", "approximation", "build"]
