"""What brings one embedding onto another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sources import in_dask, weighed

Array = NDArray[Any]


@dataclass(frozen=True)
class Alignment:
    """y -> scale (y - origin) R + target: what brings one embedding onto another."""

    origin: Array
    rotation: Array  #: orthogonal; may reflect
    scale: float
    target: Array

    @classmethod
    def of(
        cls, moving: Any, fixed: Any, *, weights: Any = None, rescale: bool = True, centre: bool = True
    ) -> Alignment:
        """The best in weighted least squares; ``rescale=False`` is a rigid motion.

        With M and F about their means and M' W F = U S V', R = U V' and scale = tr S / tr(M' W M). ``centre=False``
        leaves the origin where it is. Dask's rows are summed up where they are.

        >>> import numpy as np
        >>> fixed = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        >>> moving = 3 * fixed[:, ::-1] + 5
        >>> bool(np.allclose(Alignment.of(moving, fixed)(moving), fixed))
        True
        """
        if in_dask(moving) or in_dask(fixed):
            from ._spread_quality import alignment

            return alignment(moving, fixed, weights=weights, rescale=rescale, centre=centre)
        moving, fixed = np.asarray(moving, dtype=float), np.asarray(fixed, dtype=float)
        if moving.shape != fixed.shape:
            raise ValueError(f"Embeddings of the same rows have the same shape; got {moving.shape} and {fixed.shape}.")
        weights = weighed("weights", weights, len(moving))
        share = weights / weights.sum()
        origin, target = (share @ moving, share @ fixed) if centre else np.zeros((2, moving.shape[1]))
        M, F = moving - origin, fixed - target
        return cls.of_moments(origin, target, M.T @ (share[:, None] * F), float(share @ (M * M).sum(axis=1)), rescale)

    @classmethod
    def of_moments(cls, origin: Array, target: Array, cross: Array, size: float, rescale: bool) -> Alignment:
        """From M' W F and tr(M' W M)."""
        U, S, V = np.linalg.svd(cross)
        return cls(origin, U @ V, float(S.sum() / size) if rescale and size > 0 else 1.0, target)

    def __call__(self, moving: Any) -> Any:
        """Moved rows; of Dask's, a lazy Dask array."""
        if in_dask(moving):
            from .scale import mapped

            return mapped(self, moving, len(self.target))
        return self.scale * (np.asarray(moving, dtype=float) - self.origin) @ self.rotation + self.target
