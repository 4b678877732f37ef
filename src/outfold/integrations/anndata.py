"""AnnData: embed ``obsm`` or ``obsp``, and write the result where single-cell tools look."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from .._runtime.memory import check_fits
from .._runtime.typing import Array
from ..data.tables import join_names
from ..methods import DiffusionMaps, Roseland
from ..methods.base import SpectralEstimator

_TRIVIAL = {"DiffusionMaps": 1.0, "Roseland": 1.0, "LaplacianEigenmaps": 0.0}  # eigenvalue of the constant eigenvector


class CellTable(Protocol):
    """An AnnData object, or anything with these fields."""

    X: Any
    obsm: MutableMapping[str, Any]
    obsp: MutableMapping[str, Any]
    uns: MutableMapping[str, Any]

    def copy(self) -> CellTable: ...


def embed(
    adata: CellTable,
    method: SpectralEstimator | None = None,
    *,
    use_rep: str = "X_pca",
    obsp: str | None = None,
    key_added: str = "outfold",
    trivial: bool = False,
    copy: bool = False,
) -> CellTable | None:
    """Embed the observations of an AnnData object, as scanpy's ``tl.diffmap`` does.

    Writes coordinates to ``obsm["X_outfold"]``, eigenvalues to ``uns["outfold_evals"]``, and the method and its input
    to ``uns["outfold"]``. The first column is the first eigenvector that is not constant. Scanpy's first column is the
    trivial eigenvector, of eigenvalue 1; ``trivial=True`` puts it (a column of ones) in front, so that columns and
    eigenvalues line up with scanpy's. Scanpy's columns are unit eigenvectors of the symmetric matrix, sqrt(pi) psi;
    these are lambda^t psi.

    Parameters
    ----------
    adata : AnnData, or anything with its ``X``, ``obsm``, ``obsp`` and ``uns``
    method : estimator, optional
        It is fitted in place, so that it can embed new observations afterwards. Default: DiffusionMaps(15).
    use_rep : str
        The entry of ``obsm`` to embed; "X" is ``adata.X``.
    obsp : str, optional
        The entry of ``obsp`` to embed instead: affinities between observations, such as "connectivities", or
        distances, such as "distances". It may be sparse, and stays so. It holds distances if an entry of ``uns``, such
        as scanpy's ``uns["neighbors"]``, has it as its ``distances_key``, or if it is called "distances" or ends in
        "_distances". A method with ``metric="precomputed"`` or ``kernel="precomputed"`` says so itself: distances or
        affinities, whatever the name.
    key_added : str
        Name of the results in ``uns``, and after ``X_`` in ``obsm``.
    trivial : bool
        Put the constant eigenvector in front.
    copy : bool
        Return a copy with the embedding instead of None.

    >>> from types import SimpleNamespace
    >>> from outfold.datasets import s_curve
    >>> cells = SimpleNamespace(obsm={"X_pca": s_curve(200, random_state=0)[0]}, obsp={}, uns={})
    >>> embed(cells)
    >>> cells.obsm["X_outfold"].shape, cells.uns["outfold_evals"].shape
    ((200, 15), (15,))
    """
    if copy:
        adata = adata.copy()
    method = DiffusionMaps(15) if method is None else method
    if trivial and type(method).__name__ not in _TRIVIAL:
        raise ValueError(
            f"{type(method).__name__} has no constant eigenvector: trivial=True is for {join_names([*_TRIVIAL])}."
        )
    if obsp is None:
        places = method.fit_transform(_features(adata, use_rep))
    else:
        pairs = _pairs(adata, obsp)
        places = method.set_params(**{_parameter(adata, method, obsp): "precomputed"}).fit_transform(pairs)
    how = {"use_rep": use_rep} if obsp is None else {"obsp": obsp}
    _keep(adata, method, np.asarray(places, dtype=float), key_added, trivial, how)
    return adata if copy else None


def _keep(
    adata: CellTable, method: SpectralEstimator, places: Array, key: str, trivial: bool, how: dict[str, Any]
) -> None:
    """Write coordinates to ``obsm``, and eigenvalues and settings to ``uns``."""
    name, values = type(method).__name__, getattr(method, "eigenvalues_", None)
    told = {"method": name, "trivial": trivial, **how}
    if np.isfinite(getattr(method, "epsilon_", np.nan)):
        told["epsilon"] = float(method.epsilon_)
    if trivial:
        places = np.column_stack([np.ones(len(places)), places])
        values = np.append(_TRIVIAL[name], method.eigenvalues_)
    adata.obsm[f"X_{key}"] = places
    adata.uns[key] = told
    if values is not None:
        adata.uns[f"{key}_evals"] = np.asarray(values, dtype=float)


def _features(adata: CellTable, use_rep: str) -> Array:
    if use_rep == "X":
        return adata.X if issparse(adata.X) else _dense(adata.X, "X")
    if use_rep not in adata.obsm:
        there = join_names(list(adata.obsm.keys())) or "nothing"
        raise ValueError(f"obsm has no {use_rep!r}; it has {there}. Compute it first, or pass use_rep='X'.")
    found = adata.obsm[use_rep]
    return _dense(found.to_numpy() if hasattr(found, "to_numpy") else found, f"obsm[{use_rep!r}]")


def _parameter(adata: CellTable, method: SpectralEstimator, obsp: str) -> str:
    """Return the parameter that is "precomputed" for an entry of obsp: ``metric`` for distances, else ``kernel``."""
    own, name = method.get_params(deep=False), type(method).__name__
    chosen = [parameter for parameter in ("metric", "kernel") if own.get(parameter) == "precomputed"]
    parameter = chosen[0] if chosen else "metric" if _is_distance(adata, obsp) else "kernel"
    if parameter not in own or isinstance(method, Roseland):
        what = "distances" if parameter == "metric" else "affinities"
        raise ValueError(f"{name} takes no {what}, which obsp[{obsp!r}] holds: pass use_rep, or DiffusionMaps.")
    return parameter


def _is_distance(adata: CellTable, obsp: str) -> bool:
    """Return whether an entry of obsp holds distances, by ``uns`` of the neighbours, else by its name."""
    graphs = [known for known in adata.uns.values() if isinstance(known, Mapping)]
    if any(known.get("distances_key") == obsp for known in graphs):
        return True
    if any(known.get("connectivities_key") == obsp for known in graphs):
        return False
    return obsp == "distances" or obsp.endswith("_distances")


def _pairs(adata: CellTable, obsp: str) -> Array:
    if obsp not in adata.obsp:
        raise ValueError(f"obsp has no {obsp!r}; it has {join_names(list(adata.obsp.keys())) or 'nothing'}.")
    found: Array = adata.obsp[obsp]
    return found if issparse(found) else _dense(found, f"obsp[{obsp!r}]")


def _dense(values: Any, told: str) -> Array:
    """Return ``values`` as a dense array; raise if it would not fit into memory."""
    instead = "Reduce it first (scanpy's pp.pca), and pass use_rep."
    check_fits(8.0 * np.prod(values.shape), f"As an array {told} of shape {values.shape} needs", instead)
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=float)
