"""The inverse transform, from coordinates to features: an extension with points and values exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from .._runtime.threads import Threads
from .._runtime.typing import FREE, POSITIVE, Array, Axes
from ..extensions import Auto
from ..extensions.samples import Extension, FittedExtension, Samples
from . import cross_fit

LARGEST_COORDINATE = 1e300  # larger scaled coordinates count as this: sums of them overflow
SAMPLES_UP_TO = 10_000  # the inverse is fitted to a random sample of this size if there are more samples


@dataclass(frozen=True, kw_only=True)
class InverseModel(FittedExtension):
    """Features as a function of coordinates.

    Each coordinate is divided by its standard deviation, so lambda^t does not matter. ``error`` is that of the held-out
    round trip: root mean square of x - inverse(embedding of x), relative to the standard deviation of the features.
    """

    model: Annotated[FittedExtension, Axes("d c")]
    scale: Annotated[Array, Axes("d"), POSITIVE]
    error: Annotated[float, FREE]
    extension: Extension | str
    candidates: tuple[cross_fit.Candidate, ...]

    @classmethod
    def of(cls, embedded: Samples, spec: Extension | Auto, runner: Threads) -> InverseModel:
        """Fit the inverse to points and their embedding, with the best candidate of ``spec``."""
        embedded = embedded.part(embedded.centres(SAMPLES_UP_TO))
        positions, measure = embedded.values, embedded.measure
        share = measure / measure.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.sqrt(share @ (positions - share @ positions) ** 2)
        if not np.isfinite(scale).all() or not (scale > 0).any():
            raise ValueError(
                "There is no inverse transform: the model embeds its training rows at one point, or beyond floating "
                "point. No fit does, so the model was changed or its file forged: fit again."
            )
        scale = np.where(scale > 0, scale, 1.0)
        known = Samples.of(positions / scale, embedded.points, measure)
        if len(known.points) < 3:
            raise ValueError(
                f"There is no inverse transform of {len(known.points)} distinct rows: it is chosen by rows held out, "
                "and fitted to two at least. Fit 3 rows or more."
            )
        auto = spec if isinstance(spec, Auto) else Auto(folds=3, candidates=(spec,))
        specs = auto.specifications(known, inverse=True)
        table = cross_fit.compare_maps(known, specs, min(auto.folds, len(known.points)), runner)
        best = table[0]
        return cls(
            model=best.extension.fit(known, runner),
            scale=scale,
            error=best.error,
            extension=best.extension,
            candidates=tuple(table),
        )

    def embed(self, Z: Array, runner: Threads) -> Array:
        with np.errstate(over="ignore"):
            scaled = np.clip(np.asarray(Z, dtype=float) / self.scale, -LARGEST_COORDINATE, LARGEST_COORDINATE)
        result: Array = self.model.embed(scaled, runner)
        return result
