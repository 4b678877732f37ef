"""Calls of the library that Ctrl-C reaches at random moments: ``python interrupts.py SEED COUNT SIZE CALL ...``.

``KeyboardInterrupt`` must come through, soon, and leave the estimator as it was: its answers are the same bits.
"""

import json
import os
import random
import signal
import sys
import threading
import time
import warnings

import numpy as np

import outfold
from outfold import quality
from outfold.datasets import s_curve

POINTS = np.random.default_rng(1).normal(size=(20, 3))


def calls(size):
    """Name: (estimator that is fitted to few rows, the call)."""
    X = np.ascontiguousarray(s_curve(size, random_state=0)[0])
    small, some = X[:120], X[: max(300, size // 4)]

    def fitted(method):
        return method.fit(small)

    found = {
        "maps": (outfold.DiffusionMaps(2), lambda m: m.fit(X)),
        "gaussian": (outfold.DiffusionMaps(2, kernel="gaussian"), lambda m: m.fit(X)),
        "landmarks": (outfold.DiffusionMaps(2, landmarks=100, random_state=0), lambda m: m.fit(X)),
        "roseland": (outfold.Roseland(2, landmarks=100, random_state=0), lambda m: m.fit(X)),
        "nearest": (outfold.Roseland(2, landmarks=100, n_neighbors=8, random_state=0), lambda m: m.fit(X)),
        "isomap": (outfold.Isomap(n_neighbors=8), lambda m: m.fit(some)),
        "lle": (outfold.LocallyLinearEmbedding(n_neighbors=8), lambda m: m.fit(X)),
        "pca": (outfold.KernelPCA(2, kernel="rbf", gamma="auto"), lambda m: m.fit(some)),
        "mds": (outfold.ClassicalMDS(2), lambda m: m.fit(some)),
        "phate": (outfold.PHATE(random_state=0), lambda m: m.fit(some)),
        "clusters": (outfold.SpectralClustering(3), lambda m: m.fit(some)),
        "transform": (outfold.DiffusionMaps(2), lambda m: m.transform(np.tile(X, (8, 1)), on_far="keep")),
        "trust": (outfold.DiffusionMaps(2), lambda m: m.trust(np.tile(X, (4, 1)))),
        "calibrate": (outfold.DiffusionMaps(2), lambda m: m.calibrate(folds=5)),
        "update": (outfold.Roseland(2, landmarks=60, updatable=True, random_state=0), lambda m: m.update(X)),
        "quality": (outfold.DiffusionMaps(2), lambda m: quality.trustworthiness(some, some[:, :2])),
    }
    return {name: (fitted(method), call) for name, (method, call) in found.items()}


class Alarm:
    """SIGINT to this process after some seconds, unless it is called off."""

    def __init__(self, seconds):
        self.sent, self._timer = None, threading.Timer(seconds, self._send)

    def start(self):
        self._timer.start()

    def _send(self):
        self.sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def call_off(self):
        self._timer.cancel()
        self._timer.join()


def state_of(model):
    return model.transform(POINTS, on_far="keep").tobytes(), str(model.report_), sorted(model.__dict__)


def sweep(seed, count, size, names):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    draw, told, slowest, faults = random.Random(seed), {"interrupted": 0, "done": 0}, (0.0, ""), []
    every = calls(size)
    for name in names or every:
        model, call = every[name]
        model.trust(POINTS)  # caches of the first use
        saved = dict(model.__dict__)  # to begin again where a call was done
        began = time.monotonic()
        call(model)
        lasts = time.monotonic() - began
        model.__dict__ = dict(saved)
        before = state_of(model)
        for number in range(count):
            delay = draw.uniform(0, lasts)
            alarm, caught = Alarm(delay), None
            try:
                alarm.start()
                call(model)
                alarm.call_off()
                time.sleep(0.05)  # a signal may be on its way
            except KeyboardInterrupt:
                caught = time.monotonic()
            except BaseException as error:
                chain, at = [], error
                while at is not None:
                    chain.append(f"{type(at).__name__}: {at}")
                    at = at.__cause__ or at.__context__
                faults.append(f"{name} {number} after {delay:.3f} s: {chain}")
                alarm.sent = None
            if caught is not None:
                told["interrupted"] += 1
                slowest = max(slowest, (caught - alarm.sent, f"{name} after {delay:.3f} of {lasts:.3f} s"))
                if name not in ("calibrate", "update") and state_of(model) != before:
                    faults.append(f"{name} {number} after {delay:.3f} s: the estimator is another")
                elif state_of(model) != before and model.__dict__.keys() == saved.keys():
                    told["changed"] = told.get("changed", 0) + 1  # done, and the signal came after it
            else:
                if alarm.sent is not None:
                    faults.append(f"{name} {number} after {delay:.3f} s: the interrupt was lost")
                told["done"] += 1
            model.__dict__ = dict(saved)
    return {"told": told, "slowest": slowest, "faults": faults}


if __name__ == "__main__":
    print(outfold.__version__, flush=True)
    print(json.dumps(sweep(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])))
