"""Memory: what is free is the least that anything allows, and what cannot fit is refused before it is made."""

import subprocess
import sys

import numpy as np
import pytest

from catalogue import cloud
from outfold import ClassicalMDS, Isomap, KernelPCA
from outfold._runtime import memory

resource = pytest.importorskip("resource")  # not on Windows

X = cloud(0, rows=120)
MB = 1 << 20
MACHINE = {"proc/meminfo": f"MemTotal: 9000000 kB\nMemAvailable:    {4000 * 1024} kB\n"}
MOUNTS = {  # mountinfo: the folder of the file system that is mounted, where, and its kind
    1: "35 31 0:32 {root} /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n",
    2: "41 31 0:38 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return a function that writes files below a made-up root, which `memory` reads in place of the true one."""
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(str(text))

    return write


def second(folder, *, most="max", high="max", current=0, cache=0):
    stat = f"anon {current}\nfile 5\ninactive_file {cache}\nactive_file 7\n"
    files = {"memory.max": most, "memory.high": high, "memory.current": current, "memory.stat": stat}
    return {f"sys/fs/cgroup/{folder}/{name}": text for name, text in files.items()}


def first(folder, *, most=9223372036854771712, used=0, cache=0, hierarchical=9223372036854771712):
    stat = f"inactive_file 3\nhierarchical_memory_limit {hierarchical}\ntotal_inactive_file {cache}\n"
    files = {"memory.limit_in_bytes": most, "memory.usage_in_bytes": used, "memory.stat": stat}
    return {f"sys/fs/cgroup/memory/{folder}/{name}": text for name, text in files.items()}


def member(version, path, root="/"):
    line = f"0::{path}\n" if version == 2 else f"5:cpu,cpuacct:/other\n4:memory:{path}\n0::/\n"
    return {"proc/self/cgroup": line, "proc/self/mountinfo": MOUNTS[version].format(root=root)}


def test_without_limits_it_is_what_the_machine_has(tree):
    tree({**MACHINE, **member(2, "/job"), **second("job")})
    assert memory.free_memory() == 4000 * MB
    tree(second("job", most=9000 * MB, current=1))
    assert memory.free_memory() == 4000 * MB


def test_a_limit_of_version_2_counts_without_the_cache_of_files(tree):
    tree({**MACHINE, **member(2, "/job"), **second("job", most=1000 * MB, current=700 * MB, cache=300 * MB)})
    assert memory.free_memory() == 600 * MB


def test_the_high_mark_of_version_2_is_a_limit(tree):
    tree({**MACHINE, **member(2, "/job"), **second("job", most=1000 * MB, high=500 * MB, current=100 * MB)})
    assert memory.free_memory() == 400 * MB


@pytest.mark.parametrize("least", ["", "pod", "pod/box"])
def test_the_least_of_nested_limits_counts(tree, least):
    tree({**MACHINE, **member(2, "/pod/box")})
    for folder in ("", "pod", "pod/box"):
        most, used = (300 * MB, 100 * MB) if folder == least else (2000 * MB, 500 * MB)
        tree(second(folder, most=most, current=used))
    assert memory.free_memory() == 200 * MB


def test_a_limit_of_version_1_counts_and_its_huge_number_is_none(tree):
    tree({**MACHINE, **member(1, "/docker/a"), **first("docker/a"), **first("docker"), **first("")})
    assert memory.free_memory() == 4000 * MB
    tree(first("docker/a", most=800 * MB, used=500 * MB, cache=100 * MB))
    assert memory.free_memory() == 400 * MB
    tree(first("docker", most=600 * MB, used=550 * MB))
    assert memory.free_memory() == 50 * MB


def test_a_limit_above_the_mounted_folder_is_known_from_the_statistics(tree):
    """In a container of version 1 the path is that of the host, and its own folder is the mounted root."""
    tree({**MACHINE, **member(1, "/docker/a", root="/docker/a"), **first("", used=200 * MB, hierarchical=700 * MB)})
    assert memory.free_memory() == 500 * MB


def test_a_path_of_another_namespace_is_read_at_the_mounted_folder(tree):
    tree({**MACHINE, **member(2, "/../../elsewhere"), **second("", most=700 * MB, current=600 * MB)})
    assert memory.free_memory() == 100 * MB


def test_more_used_than_allowed_leaves_nothing(tree):
    tree({**MACHINE, **member(2, "/"), **second("", most=100 * MB, current=200 * MB)})
    assert memory.free_memory() == 0


def test_odd_and_missing_files_set_no_limit(tree, tmp_path):
    tree({**MACHINE, **member(2, "/job"), **second("job", most="", high="no number", current="\x00")})
    assert memory.free_memory() == 4000 * MB
    tree({"proc/self/cgroup": "nonsense\n\n0\n::::\n", "proc/self/mountinfo": "- - -\n41 cgroup2\n"})
    assert memory.free_memory() == 4000 * MB
    (tmp_path / "proc/self/mountinfo").unlink()
    (tmp_path / "proc/self/mountinfo").mkdir()  # cannot be read, whoever asks
    tree({"proc/meminfo": "MemAvailable: many\n"})
    assert memory.free_memory() > 0  # of a machine that does not say, all it has


def test_limits_of_the_process_count_without_what_it_holds(tree, monkeypatch):
    tree({**MACHINE, "proc/self/status": f"Name:\tpython\nVmSize:\t{900 * 1024} kB\nVmData:\t{300 * 1024} kB\n"})
    limits = {resource.RLIMIT_AS: 3000 * MB, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda name: (limits[name], limits[name]))
    assert memory.free_memory() == 2100 * MB
    limits[resource.RLIMIT_DATA] = 1000 * MB
    assert memory.free_memory() == 700 * MB


def test_tables_that_cannot_fit_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr("outfold._runtime.memory.free_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match="n = 120 points.*landmarks"):
        ClassicalMDS().fit(X)
    with pytest.raises(MemoryError, match="n = 120 points.*landmarks"):
        KernelPCA().fit(X)
    with pytest.raises(MemoryError, match="Geodesics between 120 points and 120 anchors.*landmarks"):
        Isomap().fit(X)


UNDER_A_LIMIT = """
import re, resource, sys, warnings
import numpy as np
import outfold
from outfold import *
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
X = np.random.default_rng(0).normal(size=(20_000, 3))
for call in sys.argv[1:]:
    try:
        eval(call).fit(X)
    except MemoryError as error:
        told = str(error)
        assert re.search(r"[0-9.]+ GB", told) and "GB are free" in told, told
        assert "Unable to allocate" not in told, told
        assert re.search("landmarks=[0-9]+", told), told
    else:
        raise SystemExit(f"{call} was fitted")
found = re.search("landmarks=([0-9]+)", told)
ours = outfold.plan(X, eval(call).set_params(landmarks=int(found[1])))
assert ours.fits, ours
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not limit the address space")
def test_what_ulimit_does_not_allow_is_refused_before_numpy_refuses_it():
    calls = [
        "KernelPCA()",
        "ClassicalMDS()",
        "Isomap()",
        "DiffusionMaps(epsilon=1.0, n_neighbors=None)",
        "LaplacianEigenmaps(epsilon=9.0, laplacian='unnormalized')",
        "SpectralClustering(kernel='gaussian', n_neighbors=None)",
        "LocallyLinearEmbedding(n_neighbors=500)",
        "Roseland(landmarks=15_000, n_neighbors=None)",
        "PHATE(landmarks=None)",
    ]
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNDER_A_LIMIT, *calls], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr + told.stdout


def test_an_allocation_of_numpy_that_fails_is_told_with_bytes_and_a_remedy(monkeypatch):
    from outfold.methods import DiffusionMaps

    def allocate(self, X, sample_weight):
        np.empty((10**9, 10**6))

    monkeypatch.setattr(DiffusionMaps, "_fit", allocate)
    monkeypatch.setattr(memory, "free_memory", lambda: 3e9)
    with pytest.raises(
        MemoryError, match=r"The fit of DiffusionMaps needed .* about 8e\+06 GB, and 3 GB are free\. Pass"
    ):
        DiffusionMaps().fit(np.eye(3))
    with pytest.raises(MemoryError, match=r"^ours$"), memory.explain_memory("It", "Do."):
        raise MemoryError("ours")
    with pytest.raises(MemoryError, match=r"It ran out of memory; 3 GB are free"), memory.explain_memory("It", "Do."):
        raise MemoryError
