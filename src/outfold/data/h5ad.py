"""Reading and writing .h5ad files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from .._runtime.extras import extra
from .._runtime.typing import Array
from ..exceptions import TableError
from .sources import readable
from .tables import Matrix, Table, join_names

OBS_NAMES = "obs_names"  # name of the column that holds the names of the observations


# -- files ---------------------------------------------------------------------------------


def table(path: Path, obsm: str | None) -> Table:
    """Return X, or an entry of obsm, of an h5ad file as a table; columns of obs can be carried along."""
    library = extra("anndata", "anndata")
    with readable(path.name, "an h5ad file"):
        found = library.read_h5ad(path, backed="r")
    if obsm is None:
        columns = tuple(map(str, found.var_names))
        if not columns:
            raise TableError(f"{path.name} has no X; name an entry of obsm ({join_names(list(found.obsm.keys()))}).")
        values = found.X
    else:
        if obsm not in found.obsm:
            raise TableError(f"{path.name} has no obsm {obsm!r}; it has {join_names(list(found.obsm.keys()))}.")
        values, columns = found.obsm[obsm], ()
        if hasattr(values, "columns"):
            values, columns = values.to_numpy(), tuple(map(str, values.columns))
        columns = columns or tuple(f"{obsm}_{at}" for at in range(1, values.shape[1] + 1))
    beside = {OBS_NAMES: found.obs_names.to_numpy(object)}
    beside |= {str(name): _column(found.obs[name]) for name in found.obs.columns}
    for name in beside.keys() & set(columns):
        del beside[name]
    return Matrix(values, path.name, columns, beside)


def _column(values: Any) -> Array:
    """Return a column of obs as an array: of numbers, or of objects."""
    column: Array = values.to_numpy() if values.dtype.kind in "iufb" else values.astype(object).to_numpy(object)
    return column


def write(path: Path, carried: dict[str, list[Any]], places: Array, names: list[str]) -> None:
    """Write an h5ad file without X: columns in obs, coordinates in obsm.

    The first column names the observations if its values are distinct.
    """
    library, frames = extra("anndata", "anndata"), extra("pandas", "anndata")
    first = [str(value) for value in next(iter(carried.values()), [])]
    index = first if first and len(set(first)) == len(first) else [str(row) for row in range(len(places))]
    columns = {
        name: values if all(isinstance(v, int | float | np.number) for v in values) else [_text(v) for v in values]
        for name, values in carried.items()
        if name != OBS_NAMES
    }
    found = library.AnnData(obs=frames.DataFrame(columns, index=frames.Index(index, dtype=object)))
    found.obsm["X_outfold"] = places
    found.uns["outfold"] = {"columns": names}
    # In memory first: HDF5 that cannot write to a full disk ends the process with a fault when Python exits.
    held = io.BytesIO()
    with extra("h5py", "anndata").File(held, "w") as file:
        extra("anndata.io", "anndata").write_elem(file, "/", found)
    path.write_bytes(held.getbuffer())


def _text(value: object) -> str:
    return "" if value is None else str(value)
