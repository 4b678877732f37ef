"""The report of a fit, as data and as a short table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from .._runtime.typing import FREE
from ..operators.cluster_count import ClusterCount


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The changes by the last update."""

    updates: int  #: number of updates since the fit
    rows: int  #: new rows in the last update
    landmarks: int  #: landmarks added by the last update
    exact: bool  #: whether all rows, old and new, were passed over again
    moved: Annotated[
        float, FREE
    ]  #: root mean squared displacement of the old landmarks, relative to their standard deviation
    moved_since_fit: Annotated[float, FREE]  #: the same since the fit, over the landmarks of the fit
    eigenvalues: Annotated[
        float, FREE
    ]  #: largest change of a selected eigenvalue, relative to its distance from the trivial one

    def __str__(self) -> str:
        return (
            f"{self.updates} since the fit, the last with {self.rows} rows and {self.landmarks} landmarks"
            f"{', exact' if self.exact else ''}; old ones moved by {self.moved:.2g} of their spread "
            f"({self.moved_since_fit:.2g} since the fit), eigenvalues by {self.eigenvalues:.2g}"
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """Facts of one fit. Print it."""

    method: str
    n_samples: int
    n_features: int
    n_anchors: int
    edges: str  #: which pairs of anchors the graph connects
    degree: Annotated[float, FREE]  #: mean number of anchors in a row
    epsilon: Annotated[float, FREE]  #: bandwidth; NaN if the kernel has none
    bandwidth: str
    dimension: Annotated[float | None, FREE]
    solver: str
    solver_why: str
    n_components: int
    components: int  #: number of connected components of the graph
    component_sizes: tuple[int, ...]
    multiplicity: int  #: of the trivial eigenvalue
    residual: Annotated[float, FREE]  #: largest residual over the distance of its eigenvalue from the trivial one
    gap: Annotated[float, FREE]  #: last selected eigenvalue minus the next; NaN if the next was not computed
    trace: Annotated[float, FREE]
    negative_mass: Annotated[
        float, FREE
    ]  #: negative part of ``sum |lambda|``: of all pairs for centred kernels, else of the computed
    amplification: Annotated[
        float, FREE
    ]  #: how much the row rule magnifies rounding, at least 1 (max lambda^(t-1) for diffusion)
    extension_gap: Annotated[float, FREE]  #: largest ``|transform - spectral embedding|`` over a sample of the anchors
    features: str = ""  #: how features were used, and the range of their standard deviations; "" if they do not matter
    products: int | None = None  #: products of the matrix with a vector that the solver computed; None: not counted
    extension: str = "nystrom"
    candidates: tuple[Any, ...] = field(default=(), repr=False)  #: extensions that "auto" compared, best first
    warnings: tuple[str, ...] = field(default=())
    clusters: ClusterCount | None = None  #: how n_clusters="auto" was resolved
    drift: Drift | None = None  #: changes by the last update; None before the first
    #: After each selected eigenpair, how much farther from the trivial eigenvalue the next pair is, relative to the
    #: nearer of the two. Coordinates turn into each other where that is small. NaN if the next was not computed.
    relative_gaps: Annotated[tuple[float, ...], FREE] = field(default=(), repr=False)
    #: Share of the 15 nearest neighbours that an approximate search finds, from a sample of anchors searched exactly.
    #: None if the search is exact, NaN if it is a transformer's, which nobody has checked.
    recall: Annotated[float | None, FREE] = None

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.component_sizes[:5])) + (", ..." if self.components > 5 else "")
        products = "" if self.products is None else f"; {self.products} products"
        rows: list[tuple[str, Any]] = [
            ("data", f"{self.n_samples} rows x {self.n_features} features, {self.n_anchors} anchors"),
            ("graph", f"{self.edges}; {self.degree:.4g} a row"),
            ("components", f"{self.components} (sizes {sizes})"),
            (
                "spectrum",
                f"{self.n_components} kept, trivial eigenvalue x{self.multiplicity}, gap {self.gap:.3g}",
            ),
            (
                "solver",
                f"{self.solver}: {self.solver_why}{products}; residual {self.residual:.1e} of the distance to trivial",
            ),
            (
                "extension",
                f"{self.extension}; gap {self.extension_gap:.1e}, rounding magnified x{self.amplification:.3g}",
            ),
        ]
        if self.dimension is not None:
            rows.insert(1, ("dimension", f"about {self.dimension:.2g}"))
        if self.epsilon == self.epsilon:  # not NaN: there is a bandwidth
            rows.insert(1, ("epsilon", f"{self.epsilon:.6g} ({self.bandwidth})"))
        if self.features:
            rows.insert(1, ("features", self.features))
        if self.trace == self.trace:  # not NaN: the trace is only computed for Markov operators
            rows.append(("trace", f"{self.trace:.4g} (a row that sees only itself adds 1)"))
        if self.negative_mass > 0:
            rows.append(("negative", f"{self.negative_mass:.3g} of the spectrum's mass"))
        if self.candidates:
            rows.append(("chosen", f"among {len(self.candidates)}: " + "; ".join(map(str, self.candidates[:3]))))
        if self.clusters is not None:
            rows.append(("clusters", str(self.clusters)))
        if self.drift is not None:
            rows.append(("updates", str(self.drift)))
        rows += [("note", text) for text in self.warnings]
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.method, *(f"  {name:<{width}}  {value}" for name, value in rows)])
