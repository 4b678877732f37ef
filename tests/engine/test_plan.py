"""A plan says what a fit takes before it takes it."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from catalogue import ALL_METHODS, quietly
from outfold import (
    ClassicalMDS,
    DiffusionMaps,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    LocallyLinearEmbedding,
    Roseland,
    landmarks,
    plan,
)
from outfold.datasets import s_curve

X = s_curve(400, random_state=0)[0]


@pytest.mark.parametrize("method", ALL_METHODS.values(), ids=ALL_METHODS.keys())
def test_every_method_has_a_plan(method):
    found = plan((5000, 3), method)
    assert found.peak > 0
    assert found.seconds > 0
    assert found.shape == (5000, 3)
    assert all(stage.bytes >= 0 and stage.seconds >= 0 for stage in found.stages)
    for stage in found.stages:
        assert stage.name in str(found)


@pytest.mark.parametrize("method", [DiffusionMaps(3), Roseland(3), Roseland(3, landmarks=0.5), KernelPCA(3), Isomap(3)])
def test_the_plan_knows_what_auto_chooses(method):
    found = plan(X, method)
    report = method.set_params(random_state=0).fit(X).report_
    assert found.anchors == report.n_anchors
    assert found.edges.split(":")[0] == report.edges.split(":")[0] or isinstance(method, Isomap)
    assert found.solver == report.solver
    assert replace(plan(X.shape, method, in_memory=True), memory=0) == replace(found, memory=0)


@pytest.mark.parametrize(
    "choice", [50, 0.125, np.zeros((50, 3)), landmarks.KMeans(50), landmarks.Random(0.125), landmarks.FarthestPoint(50)]
)
def test_landmarks_are_counted(choice):
    assert plan(X, Roseland(2, landmarks=choice)).anchors == 50


def test_a_class_will_do_and_other_things_will_not(tmp_path):
    assert plan((1000, 3), Roseland).anchors == 500
    np.save(tmp_path / "rows.npy", X)
    assert plan(tmp_path / "rows.npy", Roseland).shape == (400, 3)
    with pytest.raises(ValueError, match="none of Outfold's methods"):
        plan(X, "Roseland")
    with pytest.raises(ValueError, match="shape"):
        plan((0, 3), Roseland)


def test_a_shape_stands_for_rows_that_need_not_be_in_memory():
    method = Roseland(10, landmarks=10_000, memory="1GB")
    streamed, held = plan((20_000_000, 3), method), plan((20_000_000, 3), method, in_memory=True)
    assert streamed.fits
    assert held.peak > 8 * 20_000_000 * 10
    assert held.stages[-1].name == "embedding"
    assert plan((2000, 3), DiffusionMaps()).stages[-1].name == "embedding"


def test_more_is_never_less():
    for make in (DiffusionMaps, ClassicalMDS, Isomap, LocallyLinearEmbedding, Roseland):
        peaks = [plan((n, 3), make()).peak for n in (1000, 10_000, 100_000)]
        assert peaks == sorted(peaks)


def test_a_fit_beyond_its_memory_is_refused_with_the_call_that_fits():
    rows = s_curve(20_000, random_state=0)[0]
    with pytest.raises(MemoryError, match=r"needs about 0\.\d+ GB.*allows 0\.1 GB. Pass landmarks=\d+") as told:
        Roseland(2, landmarks=3000, n_neighbors=None, memory="100MB").fit(rows)
    fewer = int(str(told.value).split("landmarks=")[1].split(",")[0])
    Roseland(2, landmarks=fewer, n_neighbors=None, memory="100MB", random_state=0).fit(rows)
    assert plan(rows, Roseland(2, landmarks=fewer, n_neighbors=None, memory="100MB")).fits
    with pytest.raises(MemoryError, match="Pass memory="):
        Roseland(2, landmarks=3000, n_neighbors=None, memory="1kB").fit(rows)


@pytest.mark.parametrize("value", ["much", "1.2.3GB", "-4GB", 0, -1, "4XB", None])
def test_memory_is_a_number_of_bytes(value):
    with pytest.raises(ValueError, match="memory="):
        Roseland(2, memory=value).fit(X)


@pytest.mark.parametrize(("text", "count"), [("1GB", 1e9), ("2 GiB", 2**31), ("500mb", 5e8), (1024, 1024.0)])
def test_memory_has_units(text, count):
    assert Roseland(2, memory=text)._recipe().view.memory == count


MEASURED = """
import sys, threading, time, warnings, numpy as np
warnings.simplefilter("ignore")
from outfold import DiffusionMaps, Roseland, plan
from outfold.datasets import s_curve
method, rows = eval(sys.argv[1]), np.load(sys.argv[2], mmap_mode="r" if sys.argv[3] == "disk" else None)
method.fit(s_curve(6000, random_state=1)[0][: 6000 if method.landmarks is None else None])  # compile, load
def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
before, most, done = held(), [0], threading.Event()
def watch():
    while not done.wait(0.002):
        most[0] = max(most[0], held())
watcher = threading.Thread(target=watch)
watcher.start()
method.fit(rows)
done.set()
watcher.join()
print(most[0] - before, plan(rows, method).peak)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize(
    ("call", "n"),
    [
        ("Roseland(10, landmarks=4000, random_state=0)", 400_000),
        ("Roseland(10, landmarks=4000, random_state=0, memory='300MB')", 1_000_000),
        ("Roseland(10, landmarks=2500, n_neighbors=None, random_state=0)", 60_000),
        pytest.param("DiffusionMaps(10)", 200_000, marks=pytest.mark.slow),
        pytest.param("DiffusionMaps(10, n_neighbors=None)", 6_000, marks=pytest.mark.slow),
        pytest.param("KernelPCA(10)", 6_000, marks=pytest.mark.slow),
        pytest.param("ClassicalMDS(10)", 6_000, marks=pytest.mark.slow),
        pytest.param("Isomap(10)", 5_000, marks=pytest.mark.slow),
    ],
)
def test_the_estimated_peak_is_right_within_a_quarter(call, n, where, tmp_path):
    if where == "disk" and "Roseland" not in call:
        pytest.skip("reads everything into memory")
    np.save(tmp_path / "rows.npy", s_curve(n, random_state=0)[0])
    run = [sys.executable, "-c", MEASURED, call, str(tmp_path / "rows.npy"), where]
    told = subprocess.run(run, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    measured, planned = map(float, told.stdout.split())
    assert planned == pytest.approx(measured, rel=0.25), f"{planned / 1e6:.0f} and {measured / 1e6:.0f} MB"


@pytest.mark.parametrize(
    "method",
    [
        DiffusionMaps(3, n_neighbors=10),
        LaplacianEigenmaps(3, laplacian="unnormalized", n_neighbors=10),
        LaplacianEigenmaps(3, laplacian="unnormalized"),
        LocallyLinearEmbedding(3, n_neighbors=10),
        KernelPCA(3),
        ClassicalMDS(2),
        Isomap(3),
    ],
)
@pytest.mark.parametrize("n", [400, 1100])
def test_the_plan_names_the_solver_of_the_fit(method, n):
    rows = s_curve(n, random_state=0)[0]
    assert plan(rows, method).solver == method.fit(rows).report_.solver


def test_a_search_in_cells_takes_less_time_than_all_pairs():
    seconds = [plan((n, 200), DiffusionMaps()).seconds for n in (16_000, 64_000, 256_000)]
    assert seconds[1] < 4**1.6 * seconds[0]  # rows times the square root of the anchors
    assert seconds[2] < 4**1.6 * seconds[1]


def test_many_features_are_solved_by_subspace_iteration():
    X = np.random.default_rng(0).normal(size=(3100, 20))
    assert plan(X, DiffusionMaps()).solver == quietly(DiffusionMaps().fit, X).report_.solver == "filtered"
