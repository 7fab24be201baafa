import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_documents import KERNEL, integers, rendered, sample, table, texts

from warpline.render import Options
from warpline.result import Document

SAMPLE = f"""\
> **Warning:** kernels were lost: 4

### Kernel summary (`kern_sum:base`)

| Time (%) | Total Time (ns) | Instances | Avg (ns) | Max (MB) | Name | p95\\_ns |
| ---: | ---: | ---: | ---: | ---: | :--- | ---: |
| 29.0 | 1234567 | 2000 | 617.3 | 0.004 | `{KERNEL}` | 1.0 |
| 50.0 | 5 | 1 | 1.1 | 1000.000 | ``a\\|b\\x1b[31m`c`, "d"\\n`` | 2.0 |

1 more row not shown.

Counted once.

`osrt_sum`: skipped: no OS calls were recorded (record with -t osrt)

### Kernel summary (`kern_sum:base`)

| Time (%) | Total Time (ns) | Instances | Avg (ns) | Max (MB) | Name | p95\\_ns |
| ---: | ---: | ---: | ---: | ---: | :--- | ---: |
"""


def test_sample():
    assert rendered("markdown", sample(), Options(row_limit=2)) == SAMPLE


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("plain", "`plain`"),
        ("<img src=x onerror=alert(1)>", "`<img src=x onerror=alert(1)>`"),
        ("a|b", "`a\\|b`"),
        ("a\\|b", "a\\\\\\|b"),
        ("`", "`` ` ``"),
        ("a``b", "```a``b```"),
        (" a", "`  a `"),
        ("\n| x |", "`\\n\\| x \\|`"),
        ("", ""),
    ],
)
def test_names_are_text(name, cell):
    lines = rendered("markdown", table({"x": texts(name)})).splitlines()
    assert lines[-1] == f"| {cell} |"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("see https://x.org or www.x.org", "see https\\://x.org or www\\.x.org"),
        (
            "<b>*a* _b_ [c](d) &amp; $x$ `e` ~f~ \\ |",
            "\\<b\\>\\*a\\* \\_b\\_ \\[c\\](d) \\&amp; \\$x\\$ \\`e\\` \\~f\\~ \\\\ \\|",
        ),
        ("# no heading", "\\# no heading"),
    ],
)
def test_sentences_are_text(said, written):
    line = rendered("markdown", Document("", {}, (), (said,))).splitlines()[0]
    assert line == f"> **Warning:** {written}"


CELL = re.compile(r"(?:\\.|[^|\\])*")  # as GitHub splits a row: a pipe counts unless escaped


@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=8), max_size=9))
def test_every_row_has_as_many_cells_as_the_heading(names):
    document = table({"a": texts(*names), "n": integers(*range(len(names)))})
    lines = rendered("markdown", document).splitlines()[2:]
    assert len(lines) == 2 + len(names)
    for line in lines:
        assert len(CELL.sub("", line)) == 3, line
