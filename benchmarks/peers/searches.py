"""One neighbour search at one problem, in a process of its own: the program every environment runs.

It reads a task as JSON from standard input and prints one JSON line; NumPy and the library measured are all it needs.
An index whose recall depends on a setting gets the first setting that reaches the recall asked for, found with the true
neighbours of some rows. No user has those; ours finds its own setting, and the time of that counts.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import warnings

import numpy as np
from contenders import clock, timed

WARM = 2000  # rows of a first index that is not timed


class Search:
    """An index over rows: the defaults of the simplest."""

    library = "faiss-cpu"
    compiles = False  # for long, in every process
    exact = False  # compares all pairs, or visits a tree until nothing nearer is left
    settings = (None,)  # of an answer, quickest first
    builds = (None,)  # of an index, quickest first

    def warm(self, X, k):
        """What else may be compiled."""

    def build(self, X, how):
        raise NotImplementedError

    def set(self, value):
        pass

    def ask(self, Z, k):
        """The k nearest of each row, (len(Z), k); -1 where it finds too few."""
        raise NotImplementedError

    def graph(self, X, k):
        return self.ask(X, k)

    def prepare(self):
        """Do what is done once, before it can be asked about new rows."""

    def facts(self):
        return {}


class Ours(Search):
    library = "outfold"

    def __init__(self, name):
        self.name = name
        self.exact = name in ("tree", "brute")

    def warm(self, X, k):
        """Which search is taken depends on the number of rows."""
        for name in ("tree", "brute", "cells") if self.name == "auto" else ():
            one = Ours(name)
            one.build(X, None)
            one.ask(X[:500], k)

    def build(self, X, how):
        from outfold import neighbors
        from outfold._runtime.threads import Threads
        from outfold.distances import Metric

        self.runner = Threads()
        self.index = neighbors.build(Metric().fit(X), self.name, self.runner)

    def ask(self, Z, k):
        lists = self.index.closest(Z, k, self.runner)
        return lists.index[lists.ptr[:-1, None] + np.arange(k)]

    def facts(self):
        return {"taken": type(self.index).__name__.lower()}


class Descent(Search):
    library = "pynndescent"
    compiles = True
    settings = (0.1, 0.2, 0.4)
    builds = (16, 30, 60)  # neighbours in its graph

    def build(self, X, how):
        import pynndescent

        self.index = pynndescent.NNDescent(X, n_neighbors=how, random_state=0, n_jobs=-1)

    def set(self, value):
        self.epsilon = value

    def graph(self, X, k):
        return self.index.neighbor_graph[0][:, :k]

    def prepare(self):
        self.index.prepare()

    def ask(self, Z, k):
        return self.index.query(Z, k=k, epsilon=self.epsilon)[0]


class Flat(Search):
    exact = True

    def build(self, X, how):
        import faiss

        self.index = self.empty(faiss, *X.shape)
        single = np.ascontiguousarray(X, dtype=np.float32)
        if not self.index.is_trained:
            self.index.train(single)
        self.index.add(single)

    def empty(self, faiss, rows, features):
        return faiss.IndexFlatL2(features)

    def ask(self, Z, k):
        return self.index.search(np.ascontiguousarray(Z, dtype=np.float32), k)[1]


class Lists(Flat):
    exact = False
    settings = (2, 4, 8, 16, 32, 64, 128)

    def empty(self, faiss, rows, features):
        self.coarse = faiss.IndexFlatL2(features)
        return faiss.IndexIVFFlat(self.coarse, features, int(np.sqrt(rows)))

    def set(self, value):
        self.index.nprobe = value


class SmallWorld(Flat):
    exact = False
    settings = (16, 32, 64, 128, 256, 512)

    def empty(self, faiss, rows, features):
        return faiss.IndexHNSWFlat(features, 32)

    def set(self, value):
        self.index.hnsw.efSearch = value


class Hnswlib(Search):
    library = "hnswlib"
    settings = (16, 32, 64, 128, 256, 512)

    def build(self, X, how):
        import hnswlib

        self.index = hnswlib.Index(space="l2", dim=X.shape[1])
        self.index.init_index(max_elements=len(X), ef_construction=200, M=16, random_seed=0)
        self.index.add_items(X, num_threads=-1)

    def set(self, value):
        self.index.set_ef(value)

    def ask(self, Z, k):
        return self.index.knn_query(Z, k=k)[0].astype(np.int64)


class Usearch(Search):
    library = "usearch"
    settings = (16, 32, 64, 128, 256, 512)

    def build(self, X, how):
        from usearch.index import Index

        self.index = Index(ndim=X.shape[1], metric="l2sq", dtype="f32")
        self.index.add(np.arange(len(X)), np.ascontiguousarray(X, dtype=np.float32))

    def set(self, value):
        self.index.expansion_search = value

    def ask(self, Z, k):
        return self.index.search(np.ascontiguousarray(Z, dtype=np.float32), k).keys.astype(np.int64).reshape(len(Z), k)


SEARCHES = {
    **{f"outfold {name}": Ours(name) for name in ("auto", "tree", "brute", "cells")},
    "pynndescent": Descent(),
    "faiss Flat": Flat(),
    "faiss IVFFlat": Lists(),
    "faiss HNSW": SmallWorld(),
    "hnswlib": Hnswlib(),
    "usearch": Usearch(),
}


def others(found, rows):
    """The neighbours without the rows themselves, one column less."""
    mine = found == rows[:, None]
    mine[~mine.any(axis=1), -1] = True  # it has not found itself: the farthest goes
    return found[~mine].reshape(len(found), -1)


def recall(X, Z, found, radii):
    """Share of the neighbours found that are no farther than the last true one, whose distance is the radius."""
    lengths = np.linalg.norm(X[found].astype(float) - Z[:, None].astype(float), axis=2)
    return float(((lengths <= radii[:, None] * (1 + 1e-5)) & (found >= 0)).mean())


def same(found, again):
    """Share of the rows with the same neighbours, in whatever order."""
    return float((np.sort(found, axis=1) == np.sort(again, axis=1)).all(axis=1).mean())


def repeats(search, X, k):
    """Whether an index of some rows made twice gives the same answers; what compiles, compiles here."""
    some, answers = X[:WARM], []
    search.warm(some, k)
    for _ in range(2):
        search.build(some, search.builds[0])
        search.set(search.settings[0])
        answers.append(search.graph(some, k))
        search.prepare()
        search.ask(some[:500], k)
    return same(*answers) == 1


def measure(task):
    """The line about one search at one problem."""
    search, k = SEARCHES[task["search"]], task["k"]
    X, Z, truth = np.load(task["rows"]), np.load(task["new_rows"]), np.load(task["truth"])
    at, radii = truth["at"], truth["new_radii"]
    seen = Z[: len(radii)]

    def known(found):
        return recall(X, X[at], others(found, at), truth["radii"])

    def fresh():
        return recall(X, seen, search.ask(seen, k), radii)

    line = {"deterministic": repeats(search, X, k + 1)}
    clock(task["limit"])
    for how in search.builds:
        _, built = timed(lambda rows, how=how: search.build(rows, how), X)
        if len(search.builds) == 1:
            search.set(reaching(search, task["recall"], lambda: min(known(search.ask(X[at], k + 1)), fresh())))
        found, graph = timed(lambda rows: search.graph(rows, k + 1), X)
        line |= {"graph_seconds": built["seconds"] + graph["seconds"], "peak_mb": graph["peak_mb"]}
        line["graph_recall"] = known(found[at])
        if line["graph_recall"] >= task["recall"]:
            break
    line["prepare_seconds"] = timed(lambda _: search.prepare(), X)[1]["seconds"]
    if len(search.builds) > 1:
        search.set(reaching(search, task["recall"], fresh))
    new, asked = timed(lambda rows: search.ask(rows, k), Z)
    line |= {"new_seconds": asked["seconds"], "new_recall": recall(X, seen, new[: len(seen)], radii)}
    line["alike"] = same(found[at], search.ask(X[at], k + 1))
    names = ("numpy", search.library)
    return line | search.facts() | {"versions": {name: importlib.metadata.version(name) for name in names}}


def reaching(search, wanted, rate):
    """The first setting with the recall that is wanted, else the last."""
    for value in search.settings:
        search.set(value)
        if len(search.settings) == 1 or rate() >= wanted:
            break
    return value


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n" + json.dumps(measure(json.load(sys.stdin))), flush=True)
