"""The inverse transform, from coordinates to features: an extension with points and values exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import Array
from ..extensions import Auto
from ..extensions import auto as extensions_auto
from ..extensions.samples import Samples
from . import cross_fit

SAMPLES_UP_TO = 10_000  # the inverse is fitted to a random sample of this size if there are more samples


@dataclass(frozen=True)
class InverseModel:
    """Features as a function of coordinates.

    Each coordinate is divided by its standard deviation, so lambda^t does not matter. ``error`` is that of the held-out
    round trip: root mean square of x - inverse(embedding of x), relative to the standard deviation of the features.
    """

    model: Any
    scale: Array
    error: float
    extension: Any
    candidates: tuple[cross_fit.Candidate, ...]

    @classmethod
    def of(cls, embedded: Samples, spec: Any, runner: Threads) -> InverseModel:
        """Fit the inverse to points and their embedding, with the best candidate of ``spec``."""
        embedded = embedded.part(embedded.centres(SAMPLES_UP_TO))
        positions, measure = embedded.values, embedded.measure
        share = measure / measure.sum()
        scale = np.sqrt(share @ (positions - share @ positions) ** 2)
        scale = np.where(scale > 0, scale, 1.0)
        known = Samples.of(positions / scale, embedded.points, measure)
        auto = spec if isinstance(spec, Auto) else Auto(folds=3, candidates=(spec,))
        specs = list(auto.candidates or extensions_auto.candidates(known, inverse=True))
        table = cross_fit.compare_maps(known, specs, min(auto.folds, len(known.points)), runner)
        best = table[0]
        return cls(best.extension.fit(known, runner), scale, best.error, best.extension, tuple(table))

    def embed(self, Z: Array, runner: Threads) -> Array:
        return self.model.embed(np.asarray(Z, dtype=float) / self.scale, runner)
