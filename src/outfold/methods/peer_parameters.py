"""Parameters of scikit-learn that we do not have: what to pass instead, or why nothing is needed.

The first class of ours among the parents of an estimator that lists a parameter has the answer.
"""

from __future__ import annotations

from difflib import get_close_matches

SHIFT_INVERT = (
    "Pass solver=: 'dense' is 'dense', 'arpack' is 'shift_invert', 'lobpcg' and 'amg' are 'lobpcg'. 'auto' chooses."
)
KRYLOV = "Pass solver=: 'dense' is 'dense', 'arpack' is 'lanczos', 'randomized' is 'krylov'. 'auto' chooses."
SOLVED = "It is not needed: every solver works to rounding, and report_.residual says what is left."
ANY_KERNEL = (
    "It belongs to kernels that are not Gaussian: pass a callable, kernel=lambda x, y: (gamma * x @ y + coef0) ** 3, "
    "or the matrix with kernel='precomputed'."
)
CLOSED_FORM = (
    "It belongs to iterative scaling: classical scaling has a closed form. For least stress use scikit-learn's MDS."
)
VARIANTS = "It belongs to the variants of the method that are not here: use scikit-learn's."
METRIC = "Pass metric=outfold.distances.Metric(name, params), such as Metric('minkowski', {'p': 3})."

INSTEAD: dict[str, dict[str, str]] = {  # class: parameter: what to do
    "SpectralEstimator": {
        "copy_X": "It is not needed: a model copies the rows that it stores, and X is never changed.",
    },
    "SpectralMethod": {
        "eigen_solver": "Pass solver=; 'auto' chooses.",
        "eigen_tol": SOLVED,
        "tol": SOLVED,
        "max_iter": SOLVED,
        "iterated_power": SOLVED,
        "metric_params": METRIC,
        "p": METRIC,
        "neighbors_algorithm": "It is not needed: the search is chosen by the number of rows and features.",
        "fit_inverse_transform": "It is not needed: inverse_transform is there, and fitted on first use.",
    },
    "AffinityMethod": {
        "affinity": (
            "For affinity='rbf' pass epsilon=1 / (2 gamma), 0.5 for gamma=1, and diagonal=False. The others are "
            "kernel='precomputed', fitted to: kneighbors_graph(X, k - 1) for 'nearest_neighbors', as k counts the "
            "sample itself; NearestNeighbors(n_neighbors=k - 1, metric='precomputed').fit(X).kneighbors_graph() for "
            "'precomputed_nearest_neighbors'; X with X.setdiag(0) for 'precomputed', as scikit-learn ignores the "
            "diagonal. n_neighbors=k, epsilon=inf is nearly 'nearest_neighbors', and takes features of new rows. For "
            "a callable pass kernel=callable."
        ),
        "gamma": "Pass epsilon=1 / (2 gamma), 0.5 for gamma=1: the kernel is exp(-d^2 / (2 epsilon)).",
        "degree": ANY_KERNEL,
        "coef0": ANY_KERNEL,
        "kernel_params": ANY_KERNEL,
        "eigen_solver": SHIFT_INVERT,
    },
    "SpectralClustering": {
        "n_components": "It is not needed: k-means runs on n_clusters - 1 coordinates (all but the constant one).",
        "n_init": "It is not needed: k-means always makes the same 30 starts.",
        "assign_labels": (
            "Labels are those of 'kmeans', so that new points have one too; normalize_rows=True is Ng, Jordan and "
            "Weiss. 'discretize' and 'cluster_qr' are not here."
        ),
    },
    "Isomap": {
        "radius": "Pass n_neighbors=outfold.graphs.Ball(radius).",
        "path_method": "It is not needed: geodesics are found from each landmark or row at once, by one compiled loop.",
        "neighbors_algorithm": (
            "It is not needed: the search is chosen by the number of rows and features. To set it pass "
            "n_neighbors=outfold.graphs.Union(6, search='tree') or 'brute', which counts the point itself."
        ),
        "eigen_solver": KRYLOV,
    },
    "LocallyLinearEmbedding": {
        "metric": (
            "Its weights reconstruct the features of a row from those of its neighbours, so it needs features, and the "
            "distance is Euclidean. For precomputed distances or another metric use Isomap or LaplacianEigenmaps."
        ),
        "method": "It is 'standard' always. Modified, Hessian and LTSA are not here: use scikit-learn's.",
        "hessian_tol": VARIANTS,
        "modified_tol": VARIANTS,
        "eigen_solver": "Pass solver=: 'dense' is 'dense', 'arpack' is 'shift_invert'. 'auto' chooses.",
    },
    "ClassicalMDS": {
        "metric_mds": "It is classical scaling always. For metric or non-metric scaling use scikit-learn's MDS.",
        "dissimilarity": "For dissimilarity='precomputed' pass metric='precomputed'.",
        "n_init": CLOSED_FORM,
        "init": CLOSED_FORM,
        "max_iter": CLOSED_FORM,
        "eps": CLOSED_FORM,
        "normalized_stress": CLOSED_FORM,
        "eigen_solver": KRYLOV,
    },
    "PHATE": {
        "components": (
            "It embeds every component of a disconnected graph. Raise n_neighbors or lower decay to connect them, or "
            "keep the rows of the largest one (scipy.sparse.csgraph.connected_components(graph) labels them)."
        ),
    },
    "Roseland": {
        "cut_off": "Pass threshold=: each row keeps the landmarks whose weight reaches it, a number between 0 and 1.",
    },
    "KernelPCA": {
        "alpha": (
            "It is the ridge of the inverse: pass inverse=outfold.extensions.KernelRidge(ridge=alpha). By default the "
            "inverse is chosen on held-out rows."
        ),
        "kernel_params": "Close over them: kernel=lambda x, y: k(x, y, scale=2).",
        "remove_zero_eig": (
            "It is not needed: eigenvalues that are rounding are never kept. n_components='auto' keeps those above "
            "a tenth of the first."
        ),
        "eigen_solver": KRYLOV,
    },
}


def explain(kind: type, name: str, own: list[str]) -> str:
    """Return what to do about a parameter that the class does not have; ``own``: those that it has."""
    told = f"{kind.__name__} has no parameter {name!r}."
    for base in kind.__mro__:
        if name in INSTEAD.get(base.__name__, {}):
            return f"{told} {INSTEAD[base.__name__][name]}"
    near = get_close_matches(name, own, n=1, cutoff=0.7)
    listed = f"It has {', '.join(own)}."
    return f"{told} Did you mean {near[0]!r}? {listed}" if near else f"{told} {listed}"
