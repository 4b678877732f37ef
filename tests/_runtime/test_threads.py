"""Threads: blocks of rows, order, errors and progress."""

import signal
import threading
import time
import warnings

import numpy as np
import pytest

from outfold import DiffusionMaps
from outfold._runtime.threads import Threads, one_thread, row_blocks

X = np.random.default_rng(0).normal(size=(300, 3))


def test_row_blocks_cover_every_row_once():
    for rows, width in ((1, 1), (1000, 10**6), (100_000, 300), (17, 0)):
        blocks = row_blocks(rows, width)
        assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
        assert blocks[-1].stop == rows


def test_threads_keep_order_and_pass_errors_on():
    blocks = row_blocks(5000, 10**5)
    assert [r.start for r in Threads(4).map(lambda b: b, blocks, "")] == [b.start for b in blocks]
    with pytest.raises(ZeroDivisionError):
        list(Threads().map(lambda b: 1 / 0, blocks, ""))
    assert Threads(-1).workers == Threads().workers
    assert Threads(3).workers == 3


@pytest.mark.parametrize("verb", ["run", "each"])
def test_an_interrupt_cancels_the_blocks_that_wait(verb):
    blocks, begun = [slice(i, i + 1) for i in range(200)], []

    def work(block):
        begun.append(block)
        if block.start == 3:
            signal.raise_signal(signal.SIGINT)  # Python hands it to the main thread
        time.sleep(0.01)

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        Threads(2).run(work, blocks) if verb == "run" else Threads(2).each(work, blocks, "")
    time.sleep(0.1)  # blocks that had begun end
    count = len(begun)
    time.sleep(0.1)
    assert count == len(begun) < 100
    if verb == "each":
        assert set(threading.enumerate()) <= before


def test_inside_one_thread_nothing_starts_another():
    def here(block):
        return threading.get_ident()

    blocks, mine = row_blocks(5000, 10**5), threading.get_ident()
    with one_thread():
        assert Threads(4).workers == Threads().workers == 1
        assert set(Threads(4).map(here, blocks, "")) == {mine}
    assert Threads(4).workers == 4
    assert mine not in set(Threads(4).map(here, blocks, ""))


def test_n_jobs_does_not_change_a_bit_of_transform():
    maps = DiffusionMaps(3).fit(X)
    Z = np.random.default_rng(2).normal(size=(20_000, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [maps.set_params(n_jobs=jobs).transform(Z) for jobs in (None, 1, 2, 3)]
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_verbose_shows_progress_on_stderr_only_when_it_takes_long(capsys, monkeypatch):
    DiffusionMaps(verbose=True).fit(X)
    assert capsys.readouterr().err == ""  # under two seconds: nothing
    import tqdm

    slow = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda *a, **k: slow(*a, **{**k, "delay": 0, "mininterval": 0}))
    for kernel, first in (("gaussian", "distances"), ("adaptive", "products")):
        DiffusionMaps(verbose=True, kernel=kernel).fit(np.random.default_rng(0).uniform(size=(1500, 2)))
        shown = capsys.readouterr().err
        assert first in shown
        assert "solving" in shown
    DiffusionMaps(verbose=True, n_neighbors=8, solver="lobpcg").fit(np.random.default_rng(0).uniform(size=(3000, 2)))
    assert "residual" in capsys.readouterr().err
