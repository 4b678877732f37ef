"""What Outfold warns about and raises, so that callers can filter by kind."""

from __future__ import annotations

from typing import Any


class OutfoldWarning(UserWarning):
    """Base of every warning Outfold issues."""


class SpectrumWarning(OutfoldWarning):
    """The fit succeeded but its spectrum deserves a look (components, bandwidth, gap, amplification)."""


class FarPointsWarning(OutfoldWarning):
    """Some rows given to ``transform`` lie outside the training data."""


class FarPointsError(ValueError):
    """Raised by ``transform(..., on_far="raise")`` when a row lies outside the training data."""


class TableError(ValueError):
    """A table cannot be read as asked; says which file and, where there is one, which line."""


class ModelFileError(ValueError):
    """A model file is not one, is damaged, or holds what no model can hold."""


class ClusterError(RuntimeError):
    """Workers or the scheduler of a cluster were lost; says which rows were at work and how to go on."""


class ConvergenceError(RuntimeError):
    """No solver reached its tolerance; ``partial`` holds the best spectrum found (or None)."""

    def __init__(self, message: str, partial: Any = None) -> None:
        super().__init__(message)
        self.partial = partial
