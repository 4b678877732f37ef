"""AnnData: read obsm or obsp, write obsm and uns, and say how columns compare with scanpy's."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph

from outfold import PHATE, ClassicalMDS, DiffusionMaps, Isomap, KernelPCA, LaplacianEigenmaps, Roseland
from outfold.datasets import s_curve
from outfold.integrations.anndata import embed

anndata = pytest.importorskip("anndata")
sparse = pytest.importorskip("scipy.sparse")


@pytest.fixture
def cells():
    X = np.asarray(s_curve(150, random_state=0)[0])
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    weights = np.exp(-squared / 0.4)
    np.fill_diagonal(weights, 0.0)  # as scanpy's connectivities are
    adata = anndata.AnnData(np.column_stack([X, X**2]), obsm={"X_pca": X})
    adata.obsp["connectivities"] = sparse.csr_matrix(weights)
    return adata


def scanpy_formula(W, count):
    """Unit eigenvectors of the symmetric transition matrix, density removed; largest eigenvalue first."""
    q = W.sum(axis=1)
    K = W / np.outer(q, q)
    d = K.sum(axis=1)
    values, vectors = np.linalg.eigh(K / np.sqrt(np.outer(d, d)))
    return values[::-1][:count], vectors[:, ::-1][:, :count], d / d.sum()


def test_a_representation_is_embedded_as_by_the_estimator(cells):
    maps = DiffusionMaps(4)
    assert embed(cells, maps) is None
    expected = DiffusionMaps(4).fit(cells.obsm["X_pca"])
    np.testing.assert_array_equal(cells.obsm["X_outfold"], expected.transform(cells.obsm["X_pca"]))
    np.testing.assert_array_equal(cells.uns["outfold_evals"], expected.eigenvalues_)
    assert cells.uns["outfold"]["method"] == "DiffusionMaps"
    assert cells.uns["outfold"]["use_rep"] == "X_pca"
    assert maps.transform(cells.obsm["X_pca"][:2]).shape == (2, 4)  # fitted, for new cells


def test_connectivities_give_scanpys_eigenvalues_and_up_to_sqrt_pi_its_vectors(cells):
    embed(cells, DiffusionMaps(5), obsp="connectivities", trivial=True, key_added="diffusion")
    values, vectors, pi = scanpy_formula(cells.obsp["connectivities"].toarray(), 6)
    np.testing.assert_allclose(cells.uns["diffusion_evals"], values, atol=1e-10)
    assert cells.uns["diffusion_evals"][0] == 1.0
    found = cells.obsm["X_diffusion"] / cells.uns["diffusion_evals"] * np.sqrt(pi)[:, None]  # psi: t = 1
    np.testing.assert_allclose(np.abs((found * vectors).sum(axis=0)), 1.0, atol=1e-8)
    np.testing.assert_array_equal(cells.obsm["X_diffusion"][:, 0], 1.0)


def test_without_trivial_the_first_column_is_the_first_that_varies(cells):
    embed(cells, DiffusionMaps(3), trivial=True, key_added="with")
    embed(cells, DiffusionMaps(3), key_added="without")
    np.testing.assert_array_equal(cells.obsm["X_with"][:, 1:], cells.obsm["X_without"])
    np.testing.assert_array_equal(cells.uns["with_evals"][1:], cells.uns["without_evals"])
    embed(cells, LaplacianEigenmaps(3), trivial=True, key_added="laplacian")
    assert cells.uns["laplacian_evals"][0] == 0.0


def test_copy_leaves_the_given_one_and_what_is_written_can_be_saved(cells, tmp_path):
    found = embed(cells, Roseland(2, landmarks=50, random_state=0), copy=True)
    assert "X_outfold" not in cells.obsm
    found.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(again.obsm["X_outfold"], found.obsm["X_outfold"])
    np.testing.assert_array_equal(again.uns["outfold_evals"], found.uns["outfold_evals"])


@pytest.mark.parametrize(
    ("key", "neighbors"),
    [
        ("distances", {}),
        ("pca_distances", {}),
        ("lengths", {"neighbors": {"distances_key": "lengths", "connectivities_key": "connectivities"}}),
    ],
)
@pytest.mark.parametrize("method", [DiffusionMaps, LaplacianEigenmaps, Isomap, PHATE])
def test_distances_are_not_taken_for_affinities(cells, key, neighbors, method):
    graph = kneighbors_graph(cells.obsm["X_pca"], 14, mode="distance")  # without the cell itself, as scanpy's
    cells.obsp[key], cells.uns = graph, neighbors
    embed(cells, method(3), obsp=key)
    expected = method(3, metric="precomputed").fit_transform(graph)
    np.testing.assert_array_equal(cells.obsm["X_outfold"], expected)
    with_self = KNeighborsTransformer(n_neighbors=14, mode="distance").fit_transform(cells.obsm["X_pca"])
    again = method(3, metric="precomputed").fit_transform(with_self)
    np.testing.assert_allclose(expected, again, rtol=0, atol=1e-10 * np.abs(again).max())


def test_near_cells_are_near_by_their_distances(cells):
    X = cells.obsm["X_pca"]
    cells.obsp["distances"] = kneighbors_graph(X, 20, mode="distance")
    embed(cells, DiffusionMaps(2), obsp="distances")
    of_features = DiffusionMaps(2).fit(X).embedding_
    found = cells.obsm["X_outfold"]
    correlation = np.abs(np.corrcoef(found.T, of_features.T))[:2, 2:].diagonal()
    assert correlation.min() > 0.999  # all but the neighbours that one end wants; as affinities: below 0.5


def test_the_method_says_what_an_entry_holds_whatever_its_name(cells):
    weights = cells.obsp["connectivities"]
    cells.obsp["distances"] = weights
    embed(cells, DiffusionMaps(2, kernel="precomputed"), obsp="distances")
    np.testing.assert_array_equal(
        cells.obsm["X_outfold"], DiffusionMaps(2, kernel="precomputed").fit_transform(weights)
    )
    cells.obsp["lengths"] = kneighbors_graph(cells.obsm["X_pca"], 14, mode="distance")
    maps = DiffusionMaps(2, metric="precomputed")
    embed(cells, maps, obsp="lengths")
    assert maps.kernel == "auto"
    cells.uns = {"neighbors": {"connectivities_key": "odd_distances", "distances_key": "distances"}}
    cells.obsp["odd_distances"] = weights
    maps = DiffusionMaps(2)
    embed(cells, maps, obsp="odd_distances")
    assert (maps.kernel, maps.metric) == ("precomputed", "euclidean")


def test_x_itself_sparse_or_not(cells):
    embed(cells, DiffusionMaps(2), use_rep="X", key_added="dense")
    cells.X = sparse.csr_matrix(cells.X)
    embed(cells, DiffusionMaps(2), use_rep="X", key_added="sparse")
    np.testing.assert_allclose(cells.obsm["X_dense"], cells.obsm["X_sparse"], atol=1e-10)  # sums in another order


def test_what_is_not_there_is_told(cells, monkeypatch):
    with pytest.raises(ValueError, match="obsm has no 'X_umap'; it has 'X_pca'"):
        embed(cells, use_rep="X_umap")
    with pytest.raises(ValueError, match="obsp has no 'distances'; it has 'connectivities'"):
        embed(cells, obsp="distances")
    with pytest.raises(ValueError, match="ClassicalMDS has no constant eigenvector"):
        embed(cells, ClassicalMDS(2), trivial=True)
    with pytest.raises(ValueError, match="Roseland takes no affinities"):
        embed(cells, Roseland(2), obsp="connectivities")
    cells.obsp["distances"] = cells.obsp["connectivities"]
    with pytest.raises(ValueError, match=r"KernelPCA takes no distances, which obsp\['distances'\] holds"):
        embed(cells, KernelPCA(2), obsp="distances")
    monkeypatch.setattr("outfold._runtime.memory.free_memory", lambda: 10.0)
    with pytest.raises(MemoryError, match="Reduce it first"):
        embed(cells)
