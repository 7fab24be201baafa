"""The mapped file of a huge recording."""

from __future__ import annotations

import numpy as np

from warpline.viewer.stored_rows import _places


def test_places_among_small_integers_are_those_among_large_ones():
    ascending = np.array([0, 7, 254, 255], np.uint8)
    wanted = np.array([0, 1, 254, 255, 256, 70_000])
    assert _places(ascending, wanted).tolist() == [0, 1, 2, 3, 4, 4]
    assert _places(ascending.astype(np.int64), wanted).tolist() == [0, 1, 2, 3, 4, 4]
