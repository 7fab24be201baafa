import io

import pytest

from warpline.render import Options, detect_options


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding="utf-8"):
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self):
        return True


def test_a_pipe_gets_all_of_it_plainly():
    assert detect_options(io.StringIO(), {"COLUMNS": "80"}) == Options()
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert detect_options(pipe, {}) == Options(unicode=False)


def test_a_terminal_gets_what_fits():
    found = detect_options(Terminal(), {"COLUMNS": "132", "TERM": "xterm"})
    assert found == Options(width=132, row_limit=40, color=True)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(environ):
    assert detect_options(Terminal(), environ).color is False


@pytest.mark.parametrize("columns", ["", "0", "-5", "wide", "²"])
def test_a_terminal_of_unknown_width_has_80_columns(columns):
    assert detect_options(Terminal(), {"COLUMNS": columns}).width == 80


@pytest.mark.parametrize(
    ("encoding", "unicode"), [("utf-8", True), ("utf-16", True), ("cp1252", False)]
)
def test_only_unicode_encodings_take_every_character(encoding, unicode):
    assert detect_options(Terminal(encoding), {}).unicode is unicode
