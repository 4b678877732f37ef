"""The model file: damaged and hostile ones are refused, mapped ones are checked."""

import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from fuzz.files import put_together, taken_apart
from models import Z, assert_same_model, fitted
from outfold import DiffusionMaps, KernelPCA, load
from outfold.exceptions import ModelFileError


@pytest.fixture(scope="module")
def small():
    return fitted(DiffusionMaps(2, n_neighbors=8))


def child(code, *arguments):
    run = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def hostile_headers(content):
    """Files that lie about their arrays or their objects, each with right digests."""
    document, entries, arrays = taken_apart(content)
    assert put_together(document, entries, arrays)[-500:] == content[-500:]
    for name, entry in entries.items():
        start, stop = entry["data_offsets"]
        size = stop - start
        for change in (
            {"shape": [1 << 40]},  # 8 TiB
            {"shape": [1 << 40], "data_offsets": [start, start + (1 << 43)]},
            {"shape": [1 << 32, 1 << 32, size]},  # overflow
            {"shape": [1 << 61, 8]},
            {"shape": [0, 1 << 62, 1 << 62]},
            {"shape": [-1, -size // 8]},
            {"shape": [size / 8]},
            {"shape": [True] * 9},
            {"shape": "many"},
            {"dtype": "BF16"},
            {"dtype": "object"},
            {"dtype": ["F64"]},
            {"dtype": "I64" if entry["dtype"] == "F64" else "F64"},
            {"data_offsets": [start + 1, stop + 1]},
            {"data_offsets": [stop, start]},
            {"data_offsets": [0, 1 << 70]},
            {"data_offsets": [start]},
            {"offsets": [0, 1]},
        ):
            yield put_together(document, {**entries, name: {**entry, **change}}, arrays)
        for other in ("../" + name, "/etc/passwd", "", "a" * 300, "a\u0000b", "..\\x"):
            renamed = {other if n == name else n: e for n, e in entries.items()}
            yield put_together(document, renamed, {other if n == name else n: a for n, a in arrays.items()})
        number = (np.nan, np.inf, -np.inf)
        if entry["dtype"] == "F64":
            for value in number:
                changed = np.frombuffer(arrays[name]).copy()
                changed[len(changed) // 2] = value
                yield put_together(document, entries, {**arrays, name: changed.tobytes()})
    yield from lies(document, entries, arrays)
    yield from malformed(document, entries, arrays)


def lies(document, entries, arrays):
    """Objects that no model has."""

    def edited(path, value):
        copy = json.loads(json.dumps(document))
        at = copy
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        return put_together(copy, entries, arrays)

    model = ("estimator", "state", "model_")
    rule = (*model, "fields", "rule")
    graph = (*rule, "fields", "geometry")
    array = document["estimator"]["state"]["eigenvalues_"]
    for path, values in {
        ("format",): [0, -1, "1", None, True, 99, 1 << 40],
        ("estimator",): [None, [], {}, {"class": "Report", "fields": {}}],
        ("estimator", "estimator"): ["Pipeline", "os.system", "Islands", "GRAE", None, ["DiffusionMaps"]],
        ("estimator", "params", "metric"): ["no such metric", "precomputed", {"class": "os.system", "fields": {}}, 3],
        ("estimator", "params", "kernel"): ["eval", {"path": "/etc/passwd"}, array],
        ("estimator", "params", "__class__"): ["x"],
        ("estimator", "params", "n_components"): [-3, 1e300, "many", {"float": "NaN"}],
        ("estimator", "state", "__dict__"): [{"dict": []}],
        ("estimator", "state", "transform"): ["x"],
        ("estimator", "state", "n_features_in_"): [0, -1, 7, 2.0, True, 1 << 60, None],
        ("estimator", "state", "_n_features_out"): [0, 1, 3, "2"],
        ("estimator", "state", "eigenvalues_"): [None, 3, {"array": "../x"}, {"array": ["x"]}, {"array": 3}, {}],
        ("estimator", "state", "_carriers"): [None, {"tuple": []}, {"list": []}],
        ("estimator", "state", "report_"): [None, {"class": "Encoded", "fields": {}}],
        model: [None, array, {"class": "Report", "fields": {}}, {"estimator": "PHATE", "params": {}, "state": {}}],
        (*model, "class"): ["ExtendedModel", "subprocess.Popen", "__import__", None, 3],
        (*model, "fields", "basis"): [array, None, {**array, "order": "C"}, {**array, "x": 1}],
        (*model, "fields", "scale"): [3.0, "x", {"list": [1.0, 2.0]}],
        (*model, "fields", "extra"): [1],
        rule: [None, {"class": "Nystrom", "fields": {}}],
        (*rule, "fields", "gain"): [array, None],
        (*rule, "fields", "kernel"): [None, {"class": "Gaussian", "fields": {"rule": {"class": "Slope"}}}],
        (*graph, "fields", "kind"): ["all", None, 3],
        (*graph, "fields", "k"): [-1, 1 << 40, 2.5, None],
        (*graph, "fields", "radii"): [None, array],
        (*graph, "fields", "radius"): [{"float": "nan"}, -1.0],
        (*graph, "fields", "bridges"): [
            {"csr": [array, array, array], "shape": [60, 60]},
            {"csr": [], "shape": []},
            {"csr": [array], "shape": [1 << 40, 1 << 40]},
        ],
        (*graph, "fields", "search", "class"): ["Brutus", "Proposed2", "DenseGraph"],
        (*graph, "fields", "search", "fields", "distances", "fields", "name"): ["precomputed2", "cosine", 7],
        (*graph, "fields", "search", "fields", "distances", "fields", "params"): [
            {"dict": [["out", array]]},
            {"dict": [["p", 3.0], ["p", 2.0]]},
            {"dict": [[1, 2]]},
        ],
        ("preparation",): [[], {"class": "Popen", "fields": {}}, {"texts": "x"}, {"names": {"texts": array["array"]}}],
    }.items():  # fmt: skip
        for value in values:
            yield edited(path, value)
    deep = 1
    for _ in range(60):
        deep = {"list": [deep]}
    yield edited(("preparation",), deep)


def malformed(document, entries, arrays):
    """Headers that are not those of a model at all."""
    text = json.dumps(document)
    nothing = {}, {}, {}
    for change in (
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "[" + "[]," * 300_000 + "[]]",
        '{"format": 1, "arrays": {}, "x": [' + "{}," * 250_000 + "{}]}",
        "",
        "null",
        "[]",
        text[:-1],
        text.replace('"format": 1', '"format": NaN'),
        text.replace('"format": 1', '"format": 1e999'),
        text.replace('"format": 1', '"format": ' + "9" * 5000),
        text.replace('"format": 1', '"format": 1, "format": 1'),
    ):
        yield put_together(*nothing, text=change)
        yield put_together(document, entries, arrays, text=change)
    first, second = list(entries)[:2]
    twice = json.dumps(entries[first])
    for change in (
        lambda h: h[:-1] + f',"{first}":{twice}}}',  # an array twice
        lambda h: h[:-1] + f',"copy":{twice}}}',  # two arrays in one place
        lambda h: h[:-1] + ',"more":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}',
        lambda h: h.replace('"outfold"', '"outfild"', 1),
        lambda h: h.replace('"outfold"', '"x":"y","outfold"', 1),
        lambda h: h[:-1],
        lambda h: h + "}",
        lambda h: h[:-1] + ',"__metadata__":{}}',
    ):
        yield put_together(document, entries, arrays, change=change)
    whole = put_together(document, entries, arrays)
    for length in (0, 1, 1 << 20, (1 << 20) + 1, 1 << 40, 1 << 63, (1 << 64) - 1):
        yield length.to_bytes(8, "little") + whole[8:]
    yield whole + b"\0"
    yield whole + whole
    swapped = {first: entries[second], second: entries[first]}
    yield put_together(document, {**entries, **swapped}, arrays)


def no_models(folder):
    """Files of other kinds."""
    with zipfile.ZipFile(folder / "zip", "w") as archive:
        archive.writestr("model", "x" * 1000)
    np.savez(folder / "npz.npz", a=np.ones(3))
    np.save(folder / "npy.npy", np.ones(300))
    save_file({"a": np.ones(30)}, folder / "safetensors", {"outfold": "{}"})
    yield from (p.read_bytes() for p in sorted(folder.iterdir()))
    yield pickle.dumps(Evil())
    yield pickle.dumps(np.ones(100))
    yield from (b"", b"\0", b"\0" * 8, b"\xff" * 7, b"\xff" * 1000, b'{"__metadata__":{"sha256":"', b"a,b\n1,2\n" * 50)


class Evil:
    def __reduce__(self):
        return os.system, ("touch outfold-was-here",)


LOADING = """
import json, os, sys, tracemalloc
import outfold.storage as storage
from outfold.exceptions import ModelFileError
folder, events, now = sys.argv[1], [], None
paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
def watch(event, arguments):
    if now is None:
        return
    if event in ("import", "exec", "compile", "os.system", "subprocess.Popen", "os.exec", "os.fork", "marshal.loads",
                 "pickle.find_class", "ctypes.dlopen", "socket.connect", "os.remove", "os.rename", "os.mkdir"):
        events.append([now, event, str(arguments[0])[:60]])
    if event == "open" and os.fspath(arguments[0]) != now:
        events.append([now, event, str(arguments[0])[:60]])
sys.addaudithook(watch)
tracemalloc.start()
told, most, passed = set(), 0, []
for path in paths:
    for mmap in (False, True):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        now, caught = path, None
        try:
            model = storage.load(path, mmap=mmap)
            model.__getstate__()  # reads what is left
        except ModelFileError as error:
            caught = str(error)
        except BaseException as error:
            passed.append([path, mmap, repr(error)[:300]])
            caught = path
        now = None
        most = max(most, tracemalloc.get_traced_memory()[1] - before)
        if caught is None or path not in caught:
            passed.append([path, mmap, caught])
print(json.dumps([events, most, passed]))
"""


def refused(contents, folder):
    """Have a fresh process load them all: each is a ModelFileError that names the file, and nothing else happens."""
    folder.mkdir()
    for number, content in enumerate(contents):
        (folder / f"{number:05}").write_bytes(content)
    events, most, passed = json.loads(child(LOADING, folder))
    assert passed == []
    assert events == []
    assert most < 64e6
    return len(os.listdir(folder))


@pytest.fixture
def content(small, tmp_path):
    small.save(tmp_path / "good", embedding=True)
    return (tmp_path / "good").read_bytes()


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_damaged_and_hostile_files_are_refused(count, content, tmp_path):
    """Bit flips, truncations, headers that lie and files of other kinds; nothing runs, little is allocated."""
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(content[:8], "little")
    bits = np.append(rng.integers(0, 8 * header, count // 2), rng.integers(0, 8 * len(content), count - count // 2))
    lengths = rng.choice(len(content), count, replace=False)
    hostile = list(hostile_headers(content))
    assert len(hostile) >= 200
    chosen = rng.permutation(len(hostile))[: count if count < 200 else None]
    (tmp_path / "others").mkdir()
    files = [
        *(flipped(content, int(bit)) for bit in bits),
        *(content[:length] for length in lengths),
        *(hostile[i] for i in chosen),
        *no_models(tmp_path / "others"),
    ]
    assert refused(files, tmp_path / "files") == len(files) > 2 * count + min(count, 200)
    assert not os.path.exists("outfold-was-here")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="nowhere cannot be read as a model: No such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="not a file: a folder"):
        load(tmp_path)
    for path in ("\0bad", "a\0"):
        with pytest.raises(ModelFileError, match=r"cannot be the path of a file .*Name another"):
            load(path)


def test_a_newer_format_says_so(content, tmp_path):
    document, entries, arrays = taken_apart(content)
    document |= {"format": 2, "outfold": "9.1", "unknown": {}}
    (tmp_path / "m").write_bytes(put_together(document, entries, arrays))
    with pytest.raises(ModelFileError, match=r"m has format 2, written by outfold 9.1; .* Upgrade outfold"):
        load(tmp_path / "m")


def test_an_older_file_may_lack_what_came_later(content, small, tmp_path):
    document, entries, arrays = taken_apart(content)
    del document["estimator"]["params"]["coordinates"]
    del document["estimator"]["state"]["report_"]["fields"]["drift"]
    (tmp_path / "m").write_bytes(put_together(document, entries, arrays))
    assert_same_model(small, load(tmp_path / "m"))


def test_a_mapped_array_is_checked_when_it_is_used(content, small, tmp_path):
    _, entries, _ = taken_apart(content)
    start = 8 + int.from_bytes(content[:8], "little")
    at = {name: 8 * (start + e["data_offsets"][0]) for name, e in entries.items()}
    (tmp_path / "m").write_bytes(flipped(content, at["embedding_"]))
    model = load(tmp_path / "m", mmap=True)
    assert np.array_equal(model.transform(Z), small.transform(Z))
    with pytest.raises(ModelFileError, match="'embedding_' does not match its SHA-256"):
        model.embedding_  # noqa: B018
    (tmp_path / "m").write_bytes(flipped(content, at["model_.basis"]))
    model = load(tmp_path / "m", mmap=True)
    assert np.array_equal(model.embedding_, small.embedding_)
    for _ in range(2):
        with pytest.raises(ModelFileError, match="'model_.basis'"):
            model.transform(Z)
    with pytest.raises(ModelFileError, match="'model_.basis'"):
        load(tmp_path / "m")


def test_a_mapped_model_outlives_its_file(content, small, tmp_path):
    (tmp_path / "m").write_bytes(content)
    model = load(tmp_path / "m", mmap=True)
    fitted(KernelPCA()).save(tmp_path / "m")  # puts another file in its place
    assert_same_model(small, model)
    (tmp_path / "m").write_bytes(content)
    load(tmp_path / "m", mmap=True).save(tmp_path / "m", embedding=True)  # also where it came from
    assert (tmp_path / "m").read_bytes() == content
    model = load(tmp_path / "m", mmap=True)
    with pytest.raises(ValueError, match="read-only"):
        model.landmarks_[:] = 0
    os.remove(tmp_path / "m")
