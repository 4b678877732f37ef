"""Rows in streams, drawn by a seed: the answer of the array, or an error that names the place."""

import pytest

from fuzz import seeds, streams

FEW = {"blocks": 150, "fits": 20, "row_files": 80, "table_file": 80, "text": 300, "two_readers": 150, "command": 25,
       "dask_rows": 20, "checkpoints": 12}  # fmt: skip
MANY = 25  # times as many in the second tier

each_law = pytest.mark.parametrize("law", streams.ALL, ids=lambda law: law.__name__)


@seeds.each_seed
@each_law
def test_streams_give_the_answer_of_the_array_or_a_refusal(law, seed):
    seen = seeds.run(law, seed, FEW[law.__name__])
    assert len(seen) > 1 or not seeds.is_whole(seed)


@pytest.mark.slow
@seeds.each_seed
@each_law
def test_many_streams_give_the_answer_of_the_array_or_a_refusal(law, seed):
    seen = seeds.run(law, seed, MANY * FEW[law.__name__])
    assert {"taken", "refused"} <= seen.keys() or not seeds.is_whole(seed)
