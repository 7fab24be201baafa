import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.render.escaping import display_width, pad, shorten, visible, wrap, writable

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kernel<int>", "kernel<int>"),
        ("é日😀", "é日😀"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("\x00\x1b[2J\x7f\x9b", "\\x00\\x1b[2J\\x7f\\x9b"),
        ("\u202eabc\u2066\u200b", "\\u202eabc\\u2066\\u200b"),
        ("\udc80\U000e0001", "\\udc80\\U000e0001"),
    ],
)
def test_what_does_not_print_becomes_visible(text, shown):
    assert visible(text) == shown


@given(ANY_TEXT)
def test_visible_text_prints(text):
    assert visible(text).isprintable()
    assert visible(text, unicode=False).isascii()
    assert visible(visible(text)) == visible(text)


@given(ANY_TEXT)
def test_writable_text_can_be_encoded(text):
    assert writable(text).encode("utf-8") is not None
    assert writable(text, unicode=False).isascii()


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefghijkl", 7, "abcd…kl"),
        ("日本語日本語", 7, "日本…語"),
        ("日本語日本語", 6, "日本…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
    ],
)
def test_shortening_keeps_both_ends(text, width, short):
    assert shorten(text, width) == short


def test_shortening_in_ascii():
    assert shorten("abcdefghijkl", 9, "...") == "abcd...kl"
    assert shorten("abcdef", 2, "...") == ".."


@given(ANY_TEXT.map(visible), st.integers(0, 40))
def test_a_shortened_and_padded_text_fills_its_cell(text, width):
    short = shorten(text, width)
    assert display_width(short) <= width
    assert display_width(pad(short, width)) == width


def test_display_width():
    assert [display_width(text) for text in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]


def test_prose_wraps_at_spaces_and_later_lines_are_indented():
    assert wrap("one two three four", 9, "  ") == ["one two", "  three", "  four"]
    assert wrap("a 日本語 b", 8) == ["a 日本語", "b"]
    assert wrap("short", 60) == ["short"]
    assert wrap("  indented text here", 14, "    ") == ["  indented", "    text here"]
    assert wrap("x" * 30 + " y", 10) == ["x" * 30, "y"]
    assert wrap("", 10) == [""]
