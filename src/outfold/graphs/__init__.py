"""Which anchors a point keeps, as a function of distances alone, so that any point can be asked.

``AllPairs`` keeps everything (dense). The sparse rules keep an edge by a predicate on d(x, x_j)::

    Union(k)    d <= max(r(x), r_j)          Ball(radius)     d <= radius
    Mutual(k)   d <= min(r(x), r_j)          Threshold(eta)   w >= eta

with r midway between the k-th and the (k+1)-th distance, counting the point itself. ``local=k`` measures
in local units, d^2 / (sigma(x) sigma_j), sigma the k-th distance: self-tuning with any rule, continuous
k-NN with a ball. A fitted graph has twin verbs, ``gram()`` and ``cross(Z)``, that give squared distances
(in local units if asked), dense or as CSR with every kept entry explicit. ``symmetrize`` makes a precomputed directed
graph symmetric.
"""

from .given import symmetrize
from .rules import AllPairs, Ball, Mutual, Threshold, Union

__all__ = ["AllPairs", "Ball", "Mutual", "Threshold", "Union", "symmetrize"]
