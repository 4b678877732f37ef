"""Model files of older versions still give their answers."""

import numpy as np
import pytest

from catalogue import ROOT
from outfold import load

both = pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
ARCHIVE = ROOT / "tests" / "archive"
ARCHIVED = sorted(str(path.relative_to(ARCHIVE)) for path in ARCHIVE.rglob("*.outfold"))


@both
@pytest.mark.parametrize("name", ARCHIVED)
def test_an_archived_model_still_gives_its_answers(name, mmap):
    path = ARCHIVE / name
    with np.load(path.parent / "answers.npz", allow_pickle=False) as answers:
        wanted = {part: answers[part] for part in answers.files if part.split()[0] == path.stem}
        rows = answers["rows"]
    model = load(path, mmap=mmap)
    trust = model.trust(rows)
    found = {path.stem: model.transform(rows, on_far="keep"), f"{path.stem} support": trust.support}
    found[f"{path.stem} error"] = trust.error
    if f"{path.stem} back" in wanted:
        found[f"{path.stem} back"] = model.inverse_transform(wanted[path.stem])
    if f"{path.stem} label" in wanted:
        found[f"{path.stem} label"] = model.predict(rows)
    for part, values in wanted.items():
        size = np.abs(values[np.isfinite(values)]).max()
        np.testing.assert_allclose(found[part], values, rtol=1e-9, atol=1e-9 * size)
    assert path.stat().st_size < 30_000


def test_the_archive_is_all_there():
    assert len(ARCHIVED) >= 10
