"""Tables of AnnData files."""

import numpy as np
import pytest

from catalogue import whole
from outfold.data import table_files
from outfold.data.columns import prepare
from outfold.exceptions import TableError


def test_h5ad_gives_x_obsm_and_obs(tmp_path):
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    sparse = pytest.importorskip("scipy.sparse")
    X = np.array([[0, 1.0, 0], [2, 0, 0], [0, 0, 3], [4, 0, 5]])
    obs = pandas.DataFrame({"kind": pandas.Categorical(["a", "b", "a", "c"]), "age": [3, 1, 4, 1]}, index=list("wxyz"))
    var = pandas.DataFrame(index=["g1", "g2", "g3"])
    cells = anndata.AnnData(sparse.csr_matrix(X), obs=obs, var=var, obsm={"X_pca": X[:, :2]})
    cells.write_h5ad(tmp_path / "a.h5ad")
    table = table_files.open_table(tmp_path / "a.h5ad")
    values, (names, kinds, ages) = whole(table, ("g3", "g1"), ("obs_names", "kind", "age"))
    np.testing.assert_array_equal(values, X[:, [2, 0]])
    assert (names, kinds, ages) == (list("wxyz"), list("abac"), [3, 1, 4, 1])
    part = table_files.open_table(tmp_path / "a.h5ad", obsm="X_pca")
    np.testing.assert_array_equal(whole(part, part.numeric)[0], X[:, :2])
    with pytest.raises(TableError, match=r"no obsm 'X_umap'; it has 'X_pca'"):
        table_files.open_table(tmp_path / "a.h5ad", obsm="X_umap")
    found, _ = prepare(table, label="age")
    assert (found.columns, found.text, found.find_ignored(table)) == (("g1", "g2", "g3"), (), ())
    anndata.AnnData(obs=obs, obsm={"X_pca": X[:, :2]}).write_h5ad(tmp_path / "b.h5ad")
    with pytest.raises(TableError, match=r"b\.h5ad has no X; name an entry of obsm \('X_pca'\)"):
        table_files.open_table(tmp_path / "b.h5ad")
