import numpy as np
import pytest

from warpline.vocabulary import Vocabulary


class Color(Vocabulary):
    RED = "red"
    DARK_BLUE = "dark-blue", "the sea at night"


def test_members_are_numbered_in_order_and_known_by_number_and_label():
    assert [int(color) for color in Color] == [0, 1]
    assert Color.labels() == ("red", "dark-blue")
    assert Color.at(1) is Color.of("dark-blue") is Color.DARK_BLUE
    assert [color.meaning for color in Color] == ["", "the sea at night"]
    with pytest.raises(ValueError, match="2"):
        Color.at(2)
    with pytest.raises(KeyError):
        Color.of("green")


def test_arrays_take_members_and_stay_narrow():
    colors = np.array([0, 1, 1, 0], np.int8)
    assert (colors == Color.DARK_BLUE).tolist() == [False, True, True, False]
    assert np.isin(colors, [Color.RED]).tolist() == [True, False, False, True]
    assert np.where(colors == Color.RED, Color.DARK_BLUE, Color.RED).dtype == np.int8
    colors[colors == Color.RED] = Color.DARK_BLUE
    assert colors.tolist() == [1, 1, 1, 1]
    assert np.full(2, Color.DARK_BLUE, np.int8).tolist() == [1, 1]
    assert np.arange(6).reshape(3, 2)[:, Color.DARK_BLUE].tolist() == [1, 3, 5]
    assert np.arange(2)[[Color.DARK_BLUE, Color.RED]].tolist() == [1, 0]


def test_a_member_is_no_int():
    assert len({Color.RED, 0}) == 2
