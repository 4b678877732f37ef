"""The solver of a low-rank kernel over landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .._runtime.typing import Interval
from ..operators.operator import DENSE_SOLVER_UP_TO, Operator
from .dense import Dense
from .krylov import Krylov
from .session import Session, Solver


@dataclass(frozen=True)
class LowRank(Solver):
    """For ``DiffusionMaps``, ``LaplacianEigenmaps`` and ``SpectralClustering`` with ``landmarks=``: the kernel of all
    rows is taken to be W ~ C A^-1 C', C = W(rows, landmarks) and A = W(landmarks, landmarks), and the operator of all
    rows is solved exactly for it (Erichson, Mathelin, Brunton and Kutz, 2018). See :mod:`outfold.operators.low_rank`.

    ``tolerance``: a landmark is left out if the others explain its kernel row up to this relative error.
    """

    tolerance: Annotated[float, Interval(0, 0.1, open_low=True)] = 1e-10

    @property
    def complete(self) -> bool:
        return True

    def start(self, operator: Operator) -> Session:
        return (Dense() if operator.size <= DENSE_SOLVER_UP_TO else Krylov()).start(operator)
