"""A warning where nearest neighbours cut a Gaussian of a given epsilon while its weights still matter."""

from __future__ import annotations

import numpy as np

from .._runtime.threads import Threads
from ..bandwidths import Fixed
from ..graphs.fitted import SparseGraph
from ..graphs.pair_statistics import masses_within
from ..graphs.protocols import FittedKernel, Graph
from ..kernels import Gaussian, Kernel
from .concerns import Concern, Importance

CUT_WEIGHS = 0.1  # weight at the cut, w(x, x) = 1, above which the cut shapes the result
CUT_TARGET = 0.01  # weight at the cut that the remedies aim at


def cut_notes(asked: Kernel, kernel: FittedKernel, graph: Graph, runner: Threads) -> tuple[Concern, ...]:
    """Return a warning if the median weight at the cut exceeds ``CUT_WEIGHS``, else nothing.

    An epsilon that a rule has chosen suits the graph, and local units have no cut in common: both are silent.
    """
    given = isinstance(asked, Gaussian) and isinstance(asked.rule, Fixed) and np.isfinite(asked.rule.epsilon)
    if not given or not isinstance(graph, SparseGraph) or graph.radii is None or graph.local is not None:
        return ()
    epsilon, squared = kernel.bandwidth.epsilon, float(np.median(graph.radii))
    weight = float(np.exp(-0.5 * squared / epsilon))
    if weight <= CUT_WEIGHS:
        return ()
    enough = np.median(masses_within(graph.distances, graph.measure, kernel.reach(CUT_TARGET), runner))
    text = (
        f"n_neighbors={graph.k} cuts the Gaussian of epsilon={epsilon:.3g} where it still weighs {weight:.2g} (median "
        "over rows; a row weighs 1 on itself), so the result depends on the cut more than on epsilon. Leave "
        f"n_neighbors out, raise it to about {enough:.0f}, or lower epsilon to about "
        f"{-0.5 * squared / np.log(CUT_TARGET):.2g}."
    )
    return (Concern(Importance.CUT, text),)
