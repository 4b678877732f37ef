"""From coordinates back to features: an extension with points and values exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import crossfit, extensions
from .extensions import Auto, Known
from .runners import Threads

Array = NDArray[Any]

ROWS = 10_000  # of more pairs a random part is learnt from


@dataclass(frozen=True)
class WayBack:
    """Features as a function of coordinates, each coordinate in units of its own spread (so lambda^t does not matter).

    ``error`` is the held-out round trip: root mean square of x - inverse(position of x), relative to the spread of
    the features.
    """

    model: Any
    scale: Array
    error: float
    extension: Any
    candidates: tuple[crossfit.Candidate, ...]

    @classmethod
    def of(cls, embedded: Known, spec: Any, runner: Threads) -> WayBack:
        """From points and their positions."""
        embedded = embedded.part(embedded.centres(ROWS))
        positions, measure = embedded.values, embedded.measure
        share = measure / measure.sum()
        scale = np.sqrt(share @ (positions - share @ positions) ** 2)
        scale = np.where(scale > 0, scale, 1.0)
        known = Known.of(positions / scale, embedded.points, measure)
        auto = spec if isinstance(spec, Auto) else Auto(folds=3, candidates=(spec,))
        specs = list(auto.candidates or extensions.candidates(known, inverse=True))
        table = crossfit.compare_maps(known, specs, min(auto.folds, len(known.points)), runner)
        best = table[0]
        return cls(best.extension.fit(known, runner), scale, best.error, best.extension, tuple(table))

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.model.embed(np.asarray(Z, dtype=float) / self.scale, runner)
