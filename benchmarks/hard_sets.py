"""Graphs that solvers struggle with: functions of a scale, 1 for the whole, that return sparse affinities or rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from peers import real
from scipy.sparse import block_diag, coo_array, csr_array, diags_array, eye_array, kron, triu
from sets import standard

import graphs


class Hard(NamedTuple):
    make: Callable  # of a scale: affinities, or rows of a table
    inverse: bool = False  # whether factors of the matrix can be expected to fit in memory
    rows: bool = False  # a table, whose neighbours the fit finds
    file: str = ""  # of the data folder
    how: dict | None = None  # other parameters of the fit


def symmetric(rows, columns, weights, n):
    """The graph with these edges, each in both directions."""
    upper = triu(coo_array((weights, (np.minimum(rows, columns), np.maximum(rows, columns))), shape=(n, n)), 1)
    return csr_array(upper + upper.T)


# -- graphs by construction ----------------------------------------------------------------


def separated(weight, scale):
    """Twenty clusters of 2,000 nodes in a ring, each joined to the next by one edge of this weight."""
    n = max(int(2000 * scale), 60)
    random = np.random.default_rng(0)
    whole = block_diag([graphs.nearest(random.normal(size=(n, 5))) for _ in range(20)], format="csr")
    ends = np.arange(20) * n
    return csr_array(whole + whole.T + symmetric(ends, np.roll(ends, -1), np.full(20, weight), 20 * n))


def path(closed, scale):
    n = max(int(100_000 * scale), 100)
    some = n if closed else n - 1
    return symmetric(np.arange(some), np.arange(1, some + 1) % n, np.ones(some), n)


def solid_grid(scale):
    m = max(round(46 * scale ** (1 / 3)), 5)
    line = diags_array([np.ones(m - 1), np.ones(m - 1)], offsets=[-1, 1])
    eye = eye_array(m)
    return csr_array(kron(kron(line, eye), eye) + kron(kron(eye, line), eye) + kron(kron(eye, eye), line))


def hubs(scale, edges=5):
    """Barabasi and Albert: every new node joins five others, with probabilities in proportion to their degrees."""
    n = max(int(100_000 * scale), 100)
    random = np.random.default_rng(0)
    ends = np.zeros(2 * edges * n, dtype=int)  # every node as often as it has edges
    ends[: 2 * edges : 2] = edges
    ends[1 : 2 * edges : 2] = np.arange(edges)
    for node in range(edges + 1, n):
        full = 2 * edges * (node - edges)
        chosen = ends[random.integers(full, size=edges)]
        ends[full : full + 2 * edges : 2], ends[full + 1 : full + 2 * edges : 2] = node, chosen
    known = 2 * edges * (n - edges)
    graph = symmetric(ends[0:known:2], ends[1:known:2], np.ones(known // 2), n)
    graph.data[:] = 1  # an edge that was drawn twice
    return graph


def pairs(scale):
    """A graph of neighbours of 50,000 nodes, and 2,000 pairs with no edge to anything else."""
    n, count = max(int(50_000 * scale), 500), max(int(2000 * scale), 20)
    big = graphs.nearest(np.random.default_rng(0).uniform(size=(n, 3)))
    first, n = np.arange(0, 2 * count, 2), 2 * count
    return csr_array(block_diag([big + big.T, symmetric(first, first + 1, np.ones(count), n)], format="csr"))


def blocks(scale, within=15.0, between=1.0):
    """A social network: 50,000 people in 20 groups of unequal sizes, with friends in and out of theirs."""
    n = max(int(50_000 * scale), 500)
    random = np.random.default_rng(0)
    group = random.choice(20, size=n, p=random.dirichlet(np.full(20, 3.0)))
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group, minlength=20)
    first = np.append(0, sizes.cumsum())[:-1]
    mine = random.integers(n, size=int(n * within / 2))
    other = order[first[group[mine]] + random.integers(sizes[group[mine]])]
    a, b = random.integers(n, size=(2, int(n * between / 2)))
    graph = symmetric(np.append(mine, a), np.append(other, b), np.ones(len(mine) + len(a)), n)
    graph.data[:] = 1
    return graph


# -- tables, as graphs of neighbours or as they are ----------------------------------------


def heavy(kind, scale):
    """Ten features with heavy tails, 50,000 rows."""
    random, shape = np.random.default_rng(0), (max(int(50_000 * scale), 500), 10)
    return random.standard_t(2, size=shape) if kind == "t" else random.lognormal(sigma=1.5, size=shape)


def survey(n, scale):
    """A land survey: height, aspect, slope, four distances and three shades of the cells of four far areas.

    Whole numbers before they are standardised, with heavy tails; areas and kinds of cover nearly separate.
    """
    n = max(int(n * scale), 500)
    random = np.random.default_rng(0)
    area = random.choice(4, size=n, p=[0.45, 0.05, 0.44, 0.06])
    cover = 4 * area + random.choice(4, size=n, p=[0.55, 0.3, 0.1, 0.05])
    centre, far = random.normal(size=(16, 2)), random.uniform(0.3, 3, size=(16, 4))
    height = 2000 + 350 * area + 120 * centre[cover, 0] + 60 * random.normal(size=n)
    aspect = (180 + 90 * centre[cover, 1] + 70 * random.standard_t(3, size=n)) % 360
    slope = np.minimum(random.gamma(3, 4.5, size=n) * (1 + 0.2 * area), 66)
    across = 250 * far[cover, 0] * random.gamma(1.1, size=n)
    down = across * 0.17 * random.normal(size=n)
    roads, fires = (1200 * far[cover, k] * random.gamma(1.8, size=n) + 900 * area for k in (1, 2))
    tilt, turn = np.radians(slope), np.radians(aspect)
    sun = zip((45, 80, 45), (110, 180, 250))
    shades = [
        255 * (np.cos(tilt) * np.sin(up) + np.sin(tilt) * np.cos(up) * np.cos(turn - at))
        for up, at in ((np.radians(up), np.radians(at)) for up, at in sun)
    ]
    columns = height, aspect, slope, across, down, roads, fires, *(np.clip(shade, 0, 254) for shade in shades)
    return standard(np.round(np.column_stack(columns)))


def table(name, n, scale):
    """The first rows of a real table."""
    return np.asarray(real.TABLES[name].rows(max(int(n * scale), 500)), dtype=float)


def clusters(scale):
    return graphs.clusters(max(int(50_000 * scale), 500))


def both(name, rows, file=""):
    """A table twice: as the graph of its neighbours, and as rows."""
    return {
        name: Hard(lambda scale: graphs.nearest(rows(scale), local=True), file=file),
        f"{name}, rows": Hard(rows, rows=True, file=file),
    }


GRAPHS = {
    **{
        f"separated, {weight:.0e}": Hard(partial(separated, weight), True)
        for weight in (1e-3, 1e-6, 1e-9, 1e-12, 1e-13, 1e-14)
    },
    **both("Student t", partial(heavy, "t")),
    **both("lognormal", partial(heavy, "lognormal")),
    "hubs": Hard(hubs),
    "pairs": Hard(pairs, True),
    "pairs, largest": Hard(pairs, True, how={"components": "largest"}),
    "grid, 300 x 300": Hard(lambda scale: graphs.grid(max(round(300 * scale**0.5), 10)), True),
    "grid, 1000 x 1000": Hard(lambda scale: graphs.grid(max(round(1000 * scale**0.5), 10)), True),
    "solid grid": Hard(solid_grid, True),
    "path": Hard(partial(path, False), True),
    "ring": Hard(partial(path, True), True),
    "social network": Hard(blocks),
    **both("clusters", clusters),
    **both("survey, 100,000", partial(survey, 100_000)),
    **both("survey, 500,000", partial(survey, 500_000)),
    **both("flights, 300,000", partial(table, "flights", 300_000), real.TABLES["flights"].file),
    **both("cytometry", partial(table, "cytometry", 36_144), real.TABLES["cytometry"].file),
    **both("MNIST, 20,000", partial(table, "MNIST", 20_000), real.TABLES["MNIST"].file),
}
