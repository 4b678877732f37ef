"""Eigensolvers as dataclasses, and ``solve``, which sorts, counts and checks the eigenpairs of any of them.

A solver computes the ``count`` largest eigenpairs of an operator whose trivial eigenvectors are known exactly. The
trivial ones are deflated first, so no solver ever has to find a multiple eigenvalue 1.
"""

from .auto import Auto, solve
from .dense import Dense
from .filtered import Filtered
from .krylov import Krylov
from .lanczos import Lanczos
from .lobpcg import Lobpcg
from .low_rank import LowRank
from .session import Session, Solver, Spectrum
from .shift_invert import ShiftInvert

__all__ = [
    "Auto",
    "Dense",
    "Filtered",
    "Krylov",
    "Lanczos",
    "Lobpcg",
    "LowRank",
    "Session",
    "ShiftInvert",
    "Solver",
    "Spectrum",
    "solve",
]
