"""Apply a fitted model to the rows of a Dask collection; the result is another lazy collection.

The model is sent to the workers, which apply it to each part. The result has the chunks of the input array, or the
index and divisions of the input DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._runtime.typing import Array
from ..data import writers
from ..trust import Trust
from . import rows as dask_rows
from .tasks import travelling

UNNEEDED_ATTRIBUTES = (
    "embedding_",
    "labels_",
    "spectral_",
    "_past",
)  # about the training rows only: `_light` leaves them out of the model that is sent to workers


@dataclass(frozen=True)
class Request:
    """The columns to compute for each row: coordinates, fields of the trust, features, or the cluster."""

    embedding: tuple[str, ...] = ()
    trust: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    label: bool = False
    on_far: str = "keep"
    coverage: float = 0.9

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.embedding, *self.trust, *self.features, *(("cluster",) if self.label else ()))

    def columns(self, estimator: Any, rows: Any, start: int) -> Iterator[Array]:
        """Yield the columns in the order of ``names``; ``rows[0]`` is row ``start`` of the collection."""
        if not len(rows):
            yield from (np.empty(0) for _ in self.names)
            return
        if self.features:
            yield from estimator.inverse_transform(rows).T
        if self.embedding or self.trust or self.label:
            Z, embedding, trust = estimator._embed_rows(rows, self.on_far, start)
            if self.label:
                yield estimator._clusters(embedding)
            if self.embedding:
                yield from embedding.T
            if self.trust:
                judged = estimator._add_evidence(Z, embedding, trust, self.coverage)
                yield from (getattr(judged, name) for name in self.trust)


def apply_estimator(
    estimator: Any,
    X: Any,
    out: Any = None,
    *,
    embedding: bool = False,
    trust: bool = False,
    features: bool = False,
    label: bool = False,
    **options: Any,
) -> Any:
    """Return the requested columns of all rows as a lazy collection; with ``out``, write them and return ``out``."""
    frame = dask_rows.is_frame(X)
    names = [str(name) for name in X.columns] if frame else None
    _check(estimator, X, names, features)
    if options.get("on_far") == "warn":
        options["on_far"] = "keep"  # a warning raised on a worker does not reach the caller
    look = Request(
        tuple(map(str, estimator.get_feature_names_out())) if embedding else (),
        _evidence_names(estimator) if trust else (),
        _features(estimator) if features else (),
        label,
        **options,
    )
    if trust:
        estimator._second_opinion()  # fitted once on the client, not on every worker
    model = travelling(_light(estimator))
    if out is not None:
        return _write(_table(X, model, look), Path(out), look, out)
    if frame:
        return _split_frame(_frame(X, model, look), look)
    return _split_array(_table(X, model, look), look)


def _check(estimator: Any, X: Any, names: list[str] | None, back: bool) -> None:
    if len(getattr(X, "shape", (0, 0))) != 2:
        raise ValueError(f"A Dask array of rows and columns is needed, or a DataFrame; got {X!r}.")
    count = len(names) if names is not None else int(X.shape[1])
    if back:
        if count != estimator._n_features_out:
            raise ValueError(f"Z has {count} columns, but the embedding has {estimator._n_features_out} components.")
        return
    if estimator._precomputed_parameter() is None:
        estimator._check_features(count, names, "the Dask DataFrame")
    estimator._check_container()


def _features(estimator: Any) -> tuple[str, ...]:
    known = getattr(estimator, "feature_names_in_", None)
    return tuple(f"x{at}" for at in range(estimator.n_features_in_)) if known is None else tuple(map(str, known))


def _evidence_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the trust fields that this model computes for a row."""
    names = ["support", "flag"]
    if estimator._precomputed_parameter() is None:
        names += ["distance", "residual", "disagreement"]
    return (*names, "error") if hasattr(estimator, "calibration_") else tuple(names)


def _light(estimator: Any) -> Any:
    """Return a copy of the estimator without attributes of the training rows, for one thread of a worker."""
    left = {*UNNEEDED_ATTRIBUTES, "feature_names_in_"}  # `_check` has compared the names already
    light = object.__new__(type(estimator))  # `copy.copy` would read the sealed attributes from the model file
    light.__dict__ = {name: value for name, value in estimator.__dict__.items() if name not in left}
    if "_sealed" in light.__dict__:
        light._sealed = {name: read for name, read in light._sealed.items() if name not in left}
    light.n_jobs, light.verbose = 1, False
    return light


# -- tables of numbers ---------------------------------------------------------------------


def _table(X: Any, model: Any, look: Request) -> Any:
    """Return a lazy Dask array with the columns of ``look``."""
    if dask_rows.is_frame(X):
        X = X.to_dask_array()
    X = dask_rows.by_rows(X)
    kind = np.dtype(np.int64 if look.names == ("cluster",) else np.float32 if X.dtype == np.float32 else np.float64)
    return X.map_blocks(
        _block,
        model,
        look,
        kind,
        chunks=(X.chunks[0], (len(look.names),)),
        dtype=kind,
        meta=np.empty((0, len(look.names)), kind),
    )


def _block(rows: Any, estimator: Any, look: Request, kind: Any, block_info: Any = None) -> Array:
    start = 0
    if block_info and block_info.get(0):
        start = block_info[0]["array-location"][0][0]
    found = look.columns(estimator, np.asarray(rows), 0 if start is None or np.isnan(start) else int(start))
    return np.column_stack(list(found)).astype(kind, copy=False)


def _split_array(table: Any, look: Request) -> Any:
    if look.label:
        return table[:, 0]
    count = len(look.embedding) or len(look.features)
    if not look.trust:
        return table
    columns = {name: table[:, count + at] for at, name in enumerate(look.trust)}
    trust = Trust(**{**columns, "flag": columns["flag"].astype(bool)})
    return (table[:, :count], trust) if count else trust


# -- frames --------------------------------------------------------------------------------


def _frame(X: Any, model: Any, look: Request) -> Any:
    """Return a lazy Dask DataFrame with the columns of ``look`` and the index of X."""
    return X.map_partitions(_partition, model, look, meta=_partition(X._meta, None, look))


def _partition(rows: Any, estimator: Any, look: Request) -> Any:
    found = dict(zip(look.names, look.columns(estimator, np.asarray(rows), 0)))
    for name, kind in (("flag", bool), ("cluster", np.int64)):
        if name in found:
            found[name] = found[name].astype(kind)
    return type(rows)(found, index=rows.index)


def _split_frame(frame: Any, look: Request) -> Any:
    if look.label:
        return frame["cluster"]
    if look.embedding and look.trust:
        return frame[list(look.embedding)], frame[list(look.trust)]
    return frame


# -- files ---------------------------------------------------------------------------------


def _write(table: Any, path: Path, look: Request, out: Any) -> Any:
    """Write the table to a Zarr array, or to a folder with one Parquet file per part; return ``out`` when complete."""
    if look.trust or path.suffix not in (".zarr", ".parquet"):
        raise ValueError(
            f"out={str(out)!r}: rows of Dask's go to a path ending in .zarr or .parquet (a folder of files), without "
            "return_trust. Other places take what the lazy result gives: transform(X).compute(), .to_zarr, ..."
        )
    with writers.replacing(path) as beside:
        dask_rows.write(table, beside, path.suffix, look.names)
    return out
