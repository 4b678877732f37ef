"""The solver of a low-rank kernel over landmarks."""

from __future__ import annotations

from dataclasses import dataclass

from ..operators.operator import Operator
from .auto import Auto
from .dense import Dense
from .krylov import Krylov
from .session import Session


@dataclass(frozen=True)
class LowRank:
    """For ``DiffusionMaps``, ``LaplacianEigenmaps`` and ``SpectralClustering`` with ``landmarks=``: the kernel of all
    rows is taken to be W ~ C A^-1 C', C = W(rows, landmarks) and A = W(landmarks, landmarks), and the operator of all
    rows is solved exactly for it (Erichson, Mathelin, Brunton and Kutz, 2018). See :mod:`outfold.operators.low_rank`.

    ``tolerance``: a landmark is left out if the others explain its kernel row up to this relative error.
    """

    tolerance: float = 1e-10
    complete = True

    def start(self, operator: Operator) -> Session:
        return (Dense() if operator.size <= Auto.dense_up_to else Krylov()).start(operator)
