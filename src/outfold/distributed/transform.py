"""Apply a fitted model to the rows of a Dask collection; the result is another lazy collection.

The model is sent to the workers, which apply it to each part. The result has the chunks of the input array, or the
index and divisions of the input DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from scipy.sparse import issparse

from .._runtime.typing import Array
from ..data import writers
from ..data.sources import Wanted, block_numbers, check_rows
from ..data.sparse_rows import as_rows
from ..methods.base import SpectralEstimator
from ..trust import LEVEL, RowFacts, Trust
from . import rows as dask_rows
from .tasks import DaskArray, DaskFrame, Delayed, as_array, is_frame, order_columns, travelling

# about the training rows only: `_light` leaves them out of the model that is sent to workers
UNNEEDED_ATTRIBUTES = ("embedding_", "labels_", "spectral_", "_past")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The columns to compute for each row: coordinates, fields of the trust, features, or the cluster."""

    embedding: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    label: bool = False
    on_far: str = "keep"
    coverage: float = 0.9
    level: float = LEVEL

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.embedding, *self.trust, *self.features, *(("cluster",) if self.label else ()))

    def columns(self, estimator: SpectralEstimator | None, rows: Array, start: int) -> Iterator[Array]:
        """Yield the columns in the order of ``names``; ``rows[0]`` is row ``start`` of the collection."""
        if estimator is None or not len(rows):
            yield from (np.empty(0) for _ in self.names)
            return
        if self.features:
            yield from estimator.inverse_transform(rows).T
        if self.embedding or self.trust or self.label:
            Z, embedding, facts = estimator._embed_rows(rows)
            judged = self._judge(estimator, Z, embedding, facts, start)
            if self.label:
                yield estimator._clusters(embedding)
            if self.embedding:
                yield from embedding.T
            if self.trust:
                assert judged is not None
                yield from (getattr(judged, name) for name in self.trust)

    def _judge(
        self, estimator: SpectralEstimator, Z: Array, embedding: Array, facts: RowFacts, start: int
    ) -> Trust | None:
        """Return the trust if it is asked for, and answer rows outside the data as ``on_far`` says, in place."""
        if not self.trust and self.on_far == "keep":
            return None
        judged = estimator._judge(Z, embedding, facts, self.level)
        if self.trust:
            judged = estimator._add_evidence(Z, embedding, judged, self.coverage)
        if self.on_far != "keep":
            estimator._answer_far(self.on_far, Z, embedding, judged, start)
        return judged


def apply_estimator(
    estimator: SpectralEstimator, X: object, out: str | Path | None = None, **wanted: Unpack[Wanted]
) -> Any:
    """Return the requested columns of all rows as a lazy collection; with ``out``, write them and return ``out``."""
    _check(estimator, X, wanted.get("features", False))
    on_far = wanted.get("on_far", "keep")
    look = Request(
        embedding=tuple(map(str, estimator.get_feature_names_out())) if wanted.get("embedding") else (),
        trust=_evidence_names(estimator) if wanted.get("trust") else (),
        features=_features(estimator) if wanted.get("features") else (),
        label=wanted.get("label", False),
        on_far="keep" if on_far == "warn" else on_far,  # a warning raised on a worker does not reach the caller
        coverage=wanted.get("coverage", 0.9),
        level=wanted.get("level", LEVEL),
    )
    if look.trust or look.on_far != "keep":
        estimator._domain()  # found once on the client, not on every worker
        estimator._second_opinion()
    model = travelling(_light(estimator))
    if out is not None:
        return _write(_table(X, model, look), Path(out), look, out)
    return _frame(X, model, look) if is_frame(X) else _split_array(_table(X, model, look), look)


def _check(estimator: SpectralEstimator, X: object, back: bool) -> None:
    if len(shape := getattr(X, "shape", (0, 0))) != 2:
        raise ValueError(f"A Dask array of rows and columns is needed, or a DataFrame; got {X!r}.")
    names = [str(name) for name in X.columns] if is_frame(X) else None
    count = len(names) if names is not None else int(shape[1])
    if back:
        if count != estimator._n_features_out:
            raise ValueError(f"Z has {count} columns, but the embedding has {estimator._n_features_out} components.")
        return
    if estimator._precomputed_parameter() is None:
        estimator._check_features(count, names, "the Dask DataFrame")
    estimator._check_container()


def _features(estimator: SpectralEstimator) -> tuple[str, ...]:
    known = getattr(estimator, "feature_names_in_", None)
    return tuple(f"x{at}" for at in range(estimator.n_features_in_)) if known is None else tuple(map(str, known))


def _evidence_names(estimator: SpectralEstimator) -> tuple[str, ...]:
    """Return the names of the trust fields that this model computes for a row."""
    names = ["p_value", "score", "flag", "support"]
    domain = estimator._domain()
    if domain.isolation is not None:
        names += ["isolation", "distance"]
    if domain.axes is not None:
        names += ["amplitude"] if domain.axes.rest is None else ["amplitude", "remainder"]
    if estimator._precomputed_parameter() is None:
        names += ["residual", "disagreement"]
    if "round_trip" in estimator._judge_of_rows().names:
        names.append("round_trip")
    return (*names, "error") if hasattr(estimator, "calibration_") else tuple(names)


def _light(estimator: SpectralEstimator) -> SpectralEstimator:
    """Return a copy of the estimator without attributes of the training rows, for one thread of a worker."""
    left = {*UNNEEDED_ATTRIBUTES, "feature_names_in_"}  # `_check` has compared the names already
    light = object.__new__(type(estimator))  # `copy.copy` would read the sealed attributes from the model file
    light.__dict__ = {name: value for name, value in estimator.__dict__.items() if name not in left}
    if "_sealed" in light.__dict__:
        sealed = light.__dict__["_sealed"]
        light.__dict__["_sealed"] = {name: read for name, read in sealed.items() if name not in left}
    light.n_jobs, light.verbose = 1, False
    return light


# -- tables of numbers ---------------------------------------------------------------------


def _table(X: object, model: Delayed, look: Request) -> DaskArray:
    """Return a lazy Dask array with the columns of ``look``."""
    rows, width = dask_rows.by_rows(as_array(X)), len(look.names)
    kind = np.dtype(np.int64 if look.names == ("cluster",) else np.float32 if rows.dtype == np.float32 else np.float64)
    shapes = {"chunks": (rows.chunks[0], (width,)), "meta": np.empty((0, width), kind)}
    return rows.map_blocks(_block, model, look, kind, dtype=kind, **shapes)


def _block(
    rows: Array,
    estimator: SpectralEstimator,
    look: Request,
    kind: np.dtype[Any],
    block_info: dask_rows.BlockInfo | None = None,
) -> Array:
    start = dask_rows.check_block(rows, block_info)
    table = as_rows(rows) if issparse(rows) else np.asarray(rows)
    found = look.columns(estimator, _check_numbers(estimator, table, start, "the Dask array"), start)
    return np.column_stack(list(found)).astype(kind, copy=False)


def _split_array(table: DaskArray, look: Request) -> DaskArray | Trust | tuple[DaskArray, Trust]:
    if look.label:
        return table[:, 0]
    count = len(look.embedding) or len(look.features)
    if not look.trust:
        return table
    columns: dict[str, Any] = {name: table[:, count + at] for at, name in enumerate(look.trust)}
    trust = Trust(**{**columns, "flag": columns["flag"].astype(bool)})
    return (table[:, :count], trust) if count else trust


def _check_numbers(estimator: SpectralEstimator, rows: Array, start: int, told: str) -> Array:
    """Return rows as numbers; raise ValueError with the number of the row if one cannot be embedded."""
    rows = block_numbers(rows, start)
    if not estimator._takes_nan():
        check_rows(rows, start, told)
    return rows


# -- frames --------------------------------------------------------------------------------


def _frame(X: DaskFrame, model: Delayed, look: Request) -> DaskFrame | tuple[DaskFrame, DaskFrame]:
    """Return lazy Dask DataFrames with the columns of ``look`` and the index of X."""
    meta = _partition(X._meta, None, look, [])
    frame = X.map_partitions(_partition, model, look, list(X._meta.columns), meta=meta)
    if look.label:
        return frame["cluster"]
    if look.embedding and look.trust:
        return frame[list(look.embedding)], frame[list(look.trust)]
    return frame


def _partition(rows: Any, estimator: SpectralEstimator | None, look: Request, names: list[Any]) -> Any:
    values = np.asarray(order_columns(rows, names) if names else rows)
    if estimator is not None:
        values = _check_numbers(estimator, values, 0, "a partition of the Dask DataFrame")
    found = dict(zip(look.names, look.columns(estimator, values, 0)))
    for name, kind in (("flag", bool), ("cluster", np.int64)):
        if name in found:
            found[name] = found[name].astype(kind)
    return type(rows)(found, index=rows.index)


# -- files ---------------------------------------------------------------------------------


def _write(table: DaskArray, path: Path, look: Request, out: str | Path) -> str | Path:
    """Write the table to a Zarr array, or to a folder with one Parquet file per part; return ``out`` when complete."""
    if look.trust or path.suffix not in (".zarr", ".parquet"):
        raise ValueError(
            f"out={str(out)!r}: rows of Dask's go to a path ending in .zarr or .parquet (a folder of files), without "
            "return_trust. Other places take what the lazy result gives: transform(X).compute(), .to_zarr, ..."
        )
    with writers.replacing(path, folder=True) as beside:
        dask_rows.write(table, beside, path.suffix, look.names)
    return out
