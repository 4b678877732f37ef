"""The papers' experiments: ``outfold reproduce`` runs them and writes a page.

An experiment is a module with an ``EXPERIMENT``, or a row of the table ``SETS`` in ``grids``. To add one, write a
function of an ``Effort`` that returns an ``Outcome`` (findings, pictures, tables), or a row, and name it in the list.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .record import Experiment

_DATA_SETS = ("helix", "wine", "vowel")  # rows of the table
EXPERIMENT_NAMES = (  # in the order of the page
    *_DATA_SETS,
    "grids",
    "contrasts",
    "roseland",
    "run-times",
    "least-squares",
    "eigenfunctions",
    "induction",
    "denoising",
    "networks",
)


def experiment(name: str) -> Experiment:
    """Import and return the experiment ``name``, one of ``EXPERIMENT_NAMES``."""
    if name in _DATA_SETS:
        from .grids import SETS

        return next(data.experiment for data in SETS if data.name == name)
    found: Experiment = import_module(f".{name.replace('-', '_')}", __name__).EXPERIMENT
    return found
