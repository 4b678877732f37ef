"""What a description of a graph says of the search."""

import numpy as np

from outfold.neighbors import approximation


def test_an_approximate_search_is_described_with_its_recall():
    assert approximation(None) == ""
    assert approximation(np.nan) == ", found approximately"
    assert approximation(0.9871) == ", found approximately: 98.7% of the 15 nearest"
