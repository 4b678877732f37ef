"""Other ways to run: processes of multiprocessing and joblib, gunicorn, and users who may write nowhere.

Each runs in a process of its own with an end, so that one that hangs is a failure.
"""

import http.client
import importlib.util
import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import outfold
from clients import X
from outfold import storage
from outfold.data.columns import Preparation

SECONDS = 120  # far more than any of these takes

USES = """
import multiprocessing, sys, warnings
import numpy as np
import outfold
from outfold.datasets import s_curve

X = np.asarray(s_curve(3000, random_state=0)[0])  # enough rows for several threads of OpenMP
METHODS = ("ClassicalMDS", "DiffusionMaps", "SpectralClustering")

def fit(name):
    return getattr(outfold, name)(2, landmarks=100, random_state=0).fit(X[:500])

def use(model):
    found = [model.transform(X, on_far="keep"), model.trust(X).score]
    return [*found, model.predict(X)] if hasattr(model, "predict") else found

def same(found, wanted):
    return all(np.allclose(a, b, rtol=0, atol=1e-11) for a, b in zip(found, wanted, strict=True))
"""
START = (
    USES
    + """
def child(queue, models):
    queue.put([(use(model), use(fit(name))) for name, model in models.items()])

if __name__ == "__main__":
    models = {name: fit(name) for name in METHODS}
    wanted = [use(model) for model in models.values()]
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=child, args=(queue, models))
    process.start()
    found = queue.get()
    process.join()
    print(all(same(own, w) and same(again, w) for (own, again), w in zip(found, wanted, strict=True)))
"""
)
LOKY = (
    USES
    + """
if __name__ == "__main__":
    from joblib import Parallel, delayed

    models = {name: fit(name) for name in METHODS}
    wanted = [use(model) for model in models.values()]
    run = Parallel(n_jobs=2, backend="loky")
    found = run(delayed(use)(model) for model in models.values())
    fitted = run(delayed(fit)(name) for name in METHODS)
    print(all(same(f, w) and same(use(model), w) for f, model, w in zip(found, fitted, wanted, strict=True)))
"""
)
NETWORK = """
import multiprocessing, warnings
import numpy as np
import outfold
from outfold.datasets import s_curve
from outfold.neural import training

training.SHARED_WORK = 1  # so that a small fit trains on several threads
warnings.simplefilter("ignore")
X = np.asarray(s_curve(1500, random_state=0)[0])

def fit(*ignored):
    outfold.DiffusionNet(2, random_state=0, max_iter=3).fit(X)

if __name__ == "__main__":
    fit()
    process = multiprocessing.get_context("fork").Process(target=fit)
    process.start()
    process.join()
    print(process.exitcode == 0)
"""
NOWHERE = """
import os, sys
import numpy as np
import outfold
from outfold.datasets import s_curve

X = np.asarray(s_curve(200, random_state=0)[0])
assert not os.access(os.path.dirname(outfold.__file__), os.W_OK)
maps = outfold.DiffusionMaps(2, n_neighbors=10, random_state=0).fit(X)
maps.transform(X[:9]), maps.trust(X[:9])
try:
    maps.save(os.path.join(sys.argv[1], "m.outfold"))
except OSError as error:
    print(error)
"""
APPLICATION = """
from outfold import storage
from outfold.app.service import service

app = service.application(service.Service(*storage.open_model({path!r})))
"""


def said(folder, program, *words, before=(), **environment):
    """What a program prints, in a process with two threads of OpenMP; an error if it fails or hangs."""
    script = folder / "program.py"
    script.write_text(program)
    settings = {**os.environ, "OMP_NUM_THREADS": "2", **environment}
    with subprocess.Popen(
        [*before, sys.executable, str(script), *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # with its children
            raise
    assert process.returncode == 0, errors
    return out.strip()


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_a_model_works_in_a_process_of_multiprocessing_and_so_does_a_fit(tmp_path, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    assert said(tmp_path, START, method) == "True"


def test_a_model_works_in_workers_of_joblib_and_so_does_a_fit(tmp_path):
    assert said(tmp_path, LOKY) == "True"


@pytest.mark.slow
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_a_network_is_trained_in_a_forked_process(tmp_path):
    pytest.importorskip("torch")
    assert said(tmp_path, NETWORK) == "True"


@pytest.mark.slow
def test_a_user_who_may_write_nowhere_can_fit_and_is_told_where_a_model_cannot_go(tmp_path):
    if not hasattr(os, "getuid") or os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, by setpriv")
    reads = "+dac_read_search"  # may read the package wherever it is
    user = ["--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={reads}", f"--ambient-caps={reads}"]
    nothing = {"HOME": "/nonexistent", "TMPDIR": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}
    told = said(tmp_path, NOWHERE, tmp_path, before=["setpriv", *user], **nothing)
    assert "Could not write" in told
    assert "Is the folder writable?" in told


@pytest.mark.parametrize("loaded", ["in the workers", pytest.param("before the fork", marks=pytest.mark.slow)])
def test_gunicorn_serves_an_application(tmp_path, loaded):
    for package in ("gunicorn", "uvicorn_worker"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    path = tmp_path / "m.outfold"
    estimator = outfold.SpectralClustering(3, random_state=0).fit(X[:200])
    storage.save(estimator, path, preparation=Preparation(columns=("a", "b", "c")))
    (tmp_path / "served.py").write_text(APPLICATION.format(path=str(path)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["-w", "2", "-k", "uvicorn_worker.UvicornWorker", "-b", f"127.0.0.1:{port}", "--chdir", str(tmp_path)]
    words += ["--preload"] * (loaded == "before the fork")
    command = [sys.executable, "-m", "gunicorn", *words, "served:app"]
    with open(tmp_path / "log", "w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            rows = np.tile(X, (10, 1))
            for _ in range(4):
                assert ask_when_it_answers(port, rows) == estimator.predict(rows).tolist()
        finally:
            process.terminate()
    assert "Traceback" not in (tmp_path / "log").read_text()


def ask_when_it_answers(port, rows):
    """The clusters of rows, as soon as the port answers."""
    end = time.monotonic() + SECONDS
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("POST", "/v1/transform", json.dumps({"rows": rows.tolist()}),
                               {"Content-Type": "application/json"})  # fmt: skip
            return json.loads(connection.getresponse().read())["cluster"]
        except ConnectionError:
            assert time.monotonic() < end
            time.sleep(0.2)
        finally:
            connection.close()
