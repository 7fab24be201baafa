"""Blocks that no section of a diagnosis has in this form: the writers need no code for it."""

from __future__ import annotations

import io

import pytest

from warpline.presentation import (
    Cell,
    Column,
    Commands,
    Fit,
    Items,
    Line,
    Presentation,
    Row,
    Section,
    Table,
)
from warpline.render import Options
from warpline.render.diagnosis import markdown, text

COLUMNS = (
    Column("kernel", width=8, fit=Fit.SHORTEN),
    Column("occupancy", "occ.", width=6, is_number=True),
    Column("limited by", width=10, fit=Fit.DROP),
)
ROWS = (
    Row((Cell("a|b", is_code=True), Cell("12.5%"), Cell("registers"))),
    Row((Cell("inner"), Cell("100.0%"), Cell("shared memory")), depth=1),
)
SECTION = Section(
    "Kernel counters",
    (
        Table(columns=COLUMNS, rows=ROWS, is_tree=True),
        Line("Measured *once*."),
        Items(((Cell("first "), Cell("part")), (Cell("second"),))),
        Commands(("warpline kernels",), "Next"),
    ),
)


def written(writer, **options):
    out = io.StringIO()
    writer.write(Presentation((SECTION,), ("my run",)), out, Options(**options))
    return out.getvalue().splitlines()


def test_a_section_on_a_terminal():
    assert written(text, width=80) == [
        "Kernel counters",
        "  kernel    occupancy  limited by",
        "  a|b           12.5%  registers",
        "    inner      100.0%  shared memory",
        "  Measured *once*.",
        "  first part",
        "  second",
        "  Next: warpline kernels 'my run'",
    ]


@pytest.mark.parametrize("width", [30, 31, 32, 33])
def test_a_column_that_has_no_room_is_left_out(width):
    lines = written(text, width=width)[1:4]
    # Indentation 2, label 8, gap 2, number 6, gap 2, and the last text's 13 columns.
    assert ["limited by" in lines[0], "shared" in lines[2]] == [width >= 33] * 2
    assert all("occ." in line or "%" in line for line in lines)


def test_a_section_in_markdown():
    assert written(markdown) == [
        "### Kernel counters",
        "",
        "| kernel | occupancy | limited by |",
        "| :--- | ---: | :--- |",
        "| `a\\|b` | 12.5% | registers |",
        "| inner | 100.0% | shared memory |",
        "",
        "Measured \\*once\\*.",
        "",
        "- first part",
        "- second",
    ]
