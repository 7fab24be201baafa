from hypothesis import given
from hypothesis import strategies as st
from support.small_documents import KERNEL, integers, rendered, sample, summary, table, texts

from warpline.render import Options
from warpline.render.escaping import display_width
from warpline.result import Document, Field
from warpline.units import Unit

PIPED = f"""\
Kernel summary (kern_sum:base)

Time (%)  Total Time (ns)  Instances  Avg (ns)  Max (MB)  p95_ns  Name
--------  ---------------  ---------  --------  --------  ------  {"-" * len(KERNEL)}
    29.0          1234567       2000     617.3     0.004     1.0  {KERNEL}
    50.0                5          1       1.1  1000.000     2.0  a|b\\x1b[31m`c`, "d"\\n
     0.0                6          1                         3.0
note: Counted once.

Kernel summary (kern_sum:base)

Time (%)  Total Time (ns)  Instances  Avg (ns)  Max (MB)  p95_ns  Name
--------  ---------------  ---------  --------  --------  ------  ----
"""

NARROW = """\
Kernel summary (kern_sum:base)

Time (%)  Name
────────  ──────────────────────────────
    29.0  void at::native::ele…(int, T2)
    50.0  a|b\\x1b[31m`c`, "d"\\n
… 1 more row (show all with --rows 0 or
  --format csv)
… no room for Total Time (ns),
  Instances, Avg (ns), Max (MB), p95_ns
note: Counted once.
"""

USUAL = """\
<b>Kernel summary (kern_sum:base)<0>

<b>Time (%)  Total Time (ns)  Instances  Avg (ns)  Name<0>
<d>────────  ───────────────  ─────────  ────────  ────────────────────────────────<0>
    29.0        1,234,567      2,000     617.3  void at::native::elem…>(int, T2)
    50.0                5          1       1.1  a|b\\x1b[31m`c`, "d"\\n
     0.0                6          1
<d>… no room for Max (MB), p95_ns<0>
<d>note: Counted once.<0>
"""

WIDE_ASCII = f"""\
Kernel summary (kern_sum:base)

Time (%)  Total Time (ms)  Instances  Avg (ms)   Max (MB)  p95_ms  Name
--------  ---------------  ---------  --------  ---------  ------  {"-" * len(KERNEL)}
    29.0           1.2346      2,000    0.0006      0.004  0.0000  {KERNEL}
    50.0           0.0000          1    0.0000  1,000.000  0.0000  a|b\\x1b[31m`c`, "d"\\n
     0.0           0.0000          1                       0.0000
note: Counted once.
"""


def first_table(options):
    written = rendered("text", Document("", {}, (summary(notes=["Counted once."]),)), options)
    for code, mark in (("\x1b[1m", "<b>"), ("\x1b[2m", "<d>"), ("\x1b[0m", "<0>")):
        written = written.replace(code, mark)
    return written


def test_a_pipe_gets_everything():
    assert rendered("text", sample()) == PIPED


def test_40_columns():
    assert first_table(Options(width=40, row_limit=2)) == NARROW


def test_80_columns_in_colour():
    assert first_table(Options(width=80, row_limit=40, color=True)) == USUAL


def test_200_columns_in_ascii_and_milliseconds():
    assert first_table(Options(width=200, unicode=False, time_unit="ms")) == WIDE_ASCII


def test_wide_characters_are_aligned():
    document = table({"a": texts("日本", "ab", None, "e\u0301"), "b": texts("x", "y", "z", "w")})
    assert rendered("text", document).splitlines()[2:] == [
        "a     b",
        "----  -",
        "日本  x",
        "ab    y",
        "      z",
        "e\u0301     w",
    ]


def test_a_long_text_in_the_middle_does_not_widen_every_row_of_a_pipe():
    document = table({"a": texts("x" * 150, "y"), "b": texts("1", "2")})
    assert rendered("text", document).splitlines()[4:] == ["x" * 150 + "  1", f"{'y':100}  2"]


def test_keys_stay_on_a_narrow_terminal():
    lines = first_table(Options(width=10)).splitlines()
    assert lines[2] == "Time (%)  Name"


def test_numbers_of_other_units_are_not_grouped():
    document = table({"id": integers(1234567)}, id=Field("id", Unit.ID, ""))
    assert rendered("text", document, Options(width=80)).splitlines()[-1] == "1234567"


NAMES = st.lists(st.text(st.characters(exclude_categories=[]), max_size=60), min_size=1, max_size=6)


@given(NAMES, st.sampled_from([40, 80, 200]), st.booleans())
def test_hostile_names_stay_in_their_cell(names, width, unicode):
    document = table({"n": integers(*range(len(names))), "a": texts(*names), "b": texts(*names)})
    for options in (Options(width=width, unicode=unicode), Options(unicode=unicode)):
        lines = rendered("text", document, options).split("\n")
        rows = lines[4 : 4 + len(names)]
        assert [row.split()[0] for row in rows] == [str(index) for index in range(len(names))]
        assert all(line.isprintable() for line in lines)
        assert unicode or all(line.isascii() for line in lines)
        assert options.width is None or max(map(display_width, rows)) <= width
