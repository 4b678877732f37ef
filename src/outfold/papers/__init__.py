"""The papers' experiments, each a module with an ``EXPERIMENT``: ``outfold reproduce`` runs them and writes a page."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .record import Experiment

EXPERIMENT_NAMES = (  # in the order of the page
    "helix",
    "wine",
    "vowel",
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
    found: Experiment = import_module(f".{name.replace('-', '_')}", __name__).EXPERIMENT
    return found
