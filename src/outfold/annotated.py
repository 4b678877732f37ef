"""AnnData: embeddings of ``obsm`` or ``obsp``, written where single-cell tools look; h5ad files as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exceptions import TableError
from .runners import check_fits
from .sources import extra
from .tables import Matrix, Table, listed

Array = NDArray[Any]

NAMES = "obs_names"  # what the names of the observations are called as a column

_TRIVIAL = {"DiffusionMaps": 1.0, "Roseland": 1.0, "LaplacianEigenmaps": 0.0}  # eigenvalue of the constant


def embed(
    adata: Any,
    method: Any = None,
    *,
    use_rep: str = "X_pca",
    obsp: str | None = None,
    key_added: str = "outfold",
    trivial: bool = False,
    copy: bool = False,
) -> Any:
    """Embed the observations of an AnnData object, as scanpy's ``tl.diffmap`` does.

    Writes ``obsm["X_outfold"]``, ``uns["outfold_evals"]`` and, in ``uns["outfold"]``, how they came about. The first
    column is the first eigenvector that is not constant. Scanpy's is the trivial one, of eigenvalue 1; ``trivial=True``
    puts that (ones, here) in front, so that columns and eigenvalues line up with scanpy's. Scanpy's columns are unit
    eigenvectors of the symmetric matrix, sqrt(pi) psi; these are lambda^t psi.

    Parameters
    ----------
    adata : AnnData, or anything with its ``X``, ``obsm``, ``obsp`` and ``uns``
    method : estimator, optional
        It is fitted, and embeds new observations afterwards. DiffusionMaps(15) without it.
    use_rep : str
        The entry of ``obsm`` to embed; "X" is ``adata.X``.
    obsp : str, optional
        Affinities between observations to use instead, such as "connectivities".
    key_added : str
    trivial : bool
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
    if method is None:
        from .methods import DiffusionMaps

        method = DiffusionMaps(15)
    if trivial and type(method).__name__ not in _TRIVIAL:
        raise ValueError(
            f"{type(method).__name__} has no constant eigenvector: trivial=True is for {listed([*_TRIVIAL])}."
        )
    if obsp is None:
        places = method.fit_transform(_features(adata, use_rep))
    else:
        if "kernel" not in method.get_params():
            raise ValueError(f"{type(method).__name__} takes no affinities: pass use_rep, or DiffusionMaps.")
        places = method.set_params(kernel="precomputed").fit_transform(_affinities(adata, obsp))
    how = {"use_rep": use_rep} if obsp is None else {"obsp": obsp}
    _keep(adata, method, np.asarray(places, dtype=float), key_added, trivial, how)
    return adata if copy else None


def _keep(adata: Any, method: Any, places: Array, key: str, trivial: bool, how: dict[str, Any]) -> None:
    """Columns, eigenvalues and how they came about, into ``obsm`` and ``uns``."""
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


def _features(adata: Any, use_rep: str) -> Array:
    if use_rep == "X":
        return _dense(adata.X, "X")
    if use_rep not in adata.obsm:
        there = listed(list(adata.obsm.keys())) or "nothing"
        raise ValueError(f"obsm has no {use_rep!r}; it has {there}. Compute it first, or pass use_rep='X'.")
    found = adata.obsm[use_rep]
    return _dense(found.to_numpy() if hasattr(found, "to_numpy") else found, f"obsm[{use_rep!r}]")


def _affinities(adata: Any, obsp: str) -> Array:
    if obsp not in adata.obsp:
        raise ValueError(f"obsp has no {obsp!r}; it has {listed(list(adata.obsp.keys())) or 'nothing'}.")
    return _dense(adata.obsp[obsp], f"obsp[{obsp!r}]")


def _dense(values: Any, told: str) -> Array:
    """As an array, if it fits."""
    instead = "Reduce it first (scanpy's pp.pca), and pass use_rep."
    check_fits(8.0 * np.prod(values.shape), f"As an array {told} of shape {values.shape} needs", instead)
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=float)


# -- files ---------------------------------------------------------------------------------


def table(path: Path, obsm: str | None) -> Table:
    """X, or an entry of obsm, of an h5ad file; columns of obs can be carried along."""
    library = extra("anndata", "anndata")
    try:
        found = library.read_h5ad(path, backed="r")
    except (OSError, ValueError, KeyError) as error:
        raise TableError(
            f"{path.name} is not an h5ad file, or is damaged: {str(error).splitlines()[0][:200]}"
        ) from error
    beside = {NAMES: found.obs_names.to_numpy(object)}
    beside |= {str(name): _column(found.obs[name]) for name in found.obs.columns}
    if obsm is None:
        columns = tuple(map(str, found.var_names))
        if not columns:
            raise TableError(f"{path.name} has no X; name an entry of obsm ({listed(list(found.obsm.keys()))}).")
        values = found.X
    else:
        if obsm not in found.obsm:
            raise TableError(f"{path.name} has no obsm {obsm!r}; it has {listed(list(found.obsm.keys()))}.")
        values, columns = found.obsm[obsm], ()
        if hasattr(values, "columns"):
            values, columns = values.to_numpy(), tuple(map(str, values.columns))
        columns = columns or tuple(f"{obsm}_{at}" for at in range(1, values.shape[1] + 1))
    return Matrix(values, path.name, columns, {name: kept for name, kept in beside.items() if name not in set(columns)})


def _column(values: Any) -> Array:
    return values.to_numpy() if values.dtype.kind in "iufb" else values.astype(object).to_numpy(object)


def write(path: Path, carried: dict[str, list[Any]], places: Array, names: list[str]) -> None:
    """An h5ad file without X: columns in obs, the first one as names where they differ, coordinates in obsm."""
    library, frames = extra("anndata", "anndata"), extra("pandas", "anndata")
    first = [str(value) for value in next(iter(carried.values()), [])]
    index = first if first and len(set(first)) == len(first) else [str(row) for row in range(len(places))]
    columns = {
        name: values if all(isinstance(v, int | float | np.number) for v in values) else [_text(v) for v in values]
        for name, values in carried.items()
        if name != NAMES
    }
    found = library.AnnData(obs=frames.DataFrame(columns, index=frames.Index(index, dtype=object)))
    found.obsm["X_outfold"] = places
    found.uns["outfold"] = {"columns": names}
    found.write_h5ad(path)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


__all__ = ["embed"]
