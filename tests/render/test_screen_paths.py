"""Long paths on the screen of the summary."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support import sampled_stacks

from warpline import api
from warpline.render import Options, screen
from warpline.trace import MemorySource, Trace, TraceMeta

DEEP = "/home/someone/projects/vision/" + "a-folder-of-many/" * 6
WIDTH = 100
HEADINGS = ["file", "self", "total", "self", "total"]


def lines_of(folder: str, options: Options) -> list[list[str]]:
    """Return the words of the table of CPU time: its headings and its rows."""
    tables = sampled_stacks.tables()
    for table in tables.values():
        for name, values in table.items():
            table[name] = [
                folder + value[1:] if str(value).startswith("/app/") else value for value in values
            ]
    out = io.StringIO()
    trace = Trace(MemorySource(tables, TraceMeta((Path("run"),), "hand-made")))
    screen.render(api.summary(trace), out, options)
    assert max(map(len, out.getvalue().splitlines())) <= WIDTH
    block = out.getvalue().partition("CPU time by function")[2].partition("\n\n")[0]
    return [line.split() for line in block.splitlines()]


@pytest.mark.parametrize(("is_unicode", "ellipsis"), [(True, "…"), (False, "...")])
def test_a_long_path_leaves_room_for_the_numbers(is_unicode: bool, ellipsis: str) -> None:
    options = Options(width=WIDTH, unicode=is_unicode)
    short, long = lines_of("/", options), lines_of(DEEP, options)
    assert short[0][-5:] == long[0][-5:] == HEADINGS
    for row, cut in zip(short[1:], long[1:], strict=True):
        place = next((n for n, word in enumerate(row) if word.startswith("/app/")), None)
        if place is None:
            assert row == cut
            continue
        assert row[place + 1 :] == cut[place + 1 :]  # the numbers
        assert cut[place].startswith(ellipsis + "/")
        assert cut[place].endswith(row[place])  # from a folder on
        assert len(cut[place]) <= 32
    assert any("fib.py" in word for row in long for word in row)
