import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_documents import (
    HOSTILE,
    KERNEL,
    floats,
    integers,
    rendered,
    sample,
    table,
    texts,
)

from warpline import plugins
from warpline.render import RENDERERS, Options
from warpline.result import Field, Numbers, Texts
from warpline.result.plain_texts import PlainTexts
from warpline.units import Unit

SAMPLE = f"""\
Time (%),Total Time (ns),Instances,Avg (ns),Max (MB),Name,p95_ns
29.0,1234567,2000,617.3,0.004,"{KERNEL}",1.0
50.0,5,1,1.1,1000.000,"a|b\x1b[31m`c`, ""d""
",2.0
0.0,6,1,,,,3.0

Time (%),Total Time (ns),Instances,Avg (ns),Max (MB),Name,p95_ns
"""


def test_sample():
    assert rendered("csv", sample()) == SAMPLE


@pytest.mark.parametrize(("buffering", "encoding"), [(-1, "utf-8"), (-1, "latin-1"), (0, "utf-8")])
def test_files_of_any_buffering_and_encoding(tmp_path, buffering, encoding):
    plugins.load("renderers")
    path = tmp_path / "out.csv"
    with (
        path.open("wb", buffering) as below,
        io.TextIOWrapper(below, encoding, newline="\n", write_through=not buffering) as out,
    ):
        out.write("before\n")
        RENDERERS.get("csv").render(sample(), out, Options())
        out.write("after\n")
    assert path.read_text(encoding) == f"before\n{SAMPLE}after\n"


def test_neither_a_terminal_nor_a_row_limit_takes_anything_away():
    options = Options(width=40, row_limit=1, color=True)
    assert rendered("csv", sample(), options) == SAMPLE


@pytest.mark.parametrize(
    ("unit", "lines"),
    [
        ("ns", ["Start (ns),mean_ns,Bytes", "1234567,0.5,7", "-50,12345.7,7"]),
        ("us", ["Start (us),mean_us,Bytes", "1234.567,0.001,7", "-0.050,12.346,7"]),
        ("ms", ["Start (ms),mean_ms,Bytes", "1.2346,0.0000,7", "-0.0000,0.0123,7"]),
        ("s", ["Start (sec),mean_sec,Bytes", "0.0012,0.0000,7", "-0.0000,0.0000,7"]),
    ],
)
def test_time_units_are_those_of_nsys(unit, lines):
    document = table(
        {
            "start_ns": integers(1_234_567, -50),
            "mean_ns": floats(0.45, 12345.65),
            "bytes": integers(7, 7),
        },
        start_ns=Field("start_ns", Unit.NS, "", "Start (ns)"),
        mean_ns=Field("mean_ns", Unit.NS, "", None, 1.0, 1),
        bytes=Field("bytes", Unit.BYTES, "", "Bytes"),
    )
    assert rendered("csv", document, Options(time_unit=unit)).splitlines() == lines


def test_many_rows_pass_through_blocks_unchanged():
    count = 20_000
    numbers = [None if row % 3 == 0 else row * 1_000_003 for row in range(count)]
    names = [f"n{row % 700}" for row in range(count)]
    document = table({"a": integers(*numbers), "few": integers(*[5] * count), "b": texts(*names)})
    rows = list(csv.reader(io.StringIO(rendered("csv", document))))
    expected = zip(numbers, names, strict=True)
    assert rows[1:] == [["" if a is None else str(a), "5", b] for a, b in expected]


def test_one_column_keeps_its_empty_rows():
    document = table({"a": texts("x", None, "")})
    assert rendered("csv", document) == 'a\nx\n""\n""\n'


def test_no_column():
    assert rendered("csv", table({})) == "\n"


def test_what_the_stream_cannot_take_is_escaped():
    document = table({"a": texts("é\udc80", "日")})
    assert rendered("csv", document) == "a\né\\udc80\n日\n"
    assert rendered("csv", document, Options(unicode=False)) == "a\n\\xe9\\udc80\n\\u65e5\n"


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
HOSTILE_NAMES = st.sampled_from([HOSTILE, ",", '"', "\r", "\r\n", " ", "=1+1", "a\tb", "\u202e"])


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), NAMES | HOSTILE_NAMES), max_size=9))
def test_the_csv_module_reads_back_what_was_written(rows):
    document = table(
        {"n": integers(*[row[0] for row in rows]), "name": texts(*[row[1] for row in rows])}
    )
    written = io.StringIO(rendered("csv", document), newline="")
    assert list(csv.reader(written)) == [
        ["n", "name"],
        *([str(number), name] for number, name in rows),
    ]


@pytest.mark.parametrize("use_core", [True, False])
@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_numbers_are_written_as_python_writes_them(use_core, values):
    from warpline import native

    document = table({"n": integers(*values)}, n=Field("n", Unit.COUNT, ""))
    with pytest.MonkeyPatch.context() as patch:
        if not use_core:
            patch.setattr(native, "core", lambda: None)
        assert rendered("csv", document).split() == ["n", *map(str, values)]


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**31), 2**31 - 1),
            st.none() | st.floats(allow_nan=False, width=32),
            st.none() | NAMES | HOSTILE_NAMES,
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([None, "us"]),
    st.booleans(),
)
def test_rows_of_the_core_are_those_of_python(rows, unit, is_unicode):
    from warpline import native

    wide, narrow, reals, names = zip(*rows, strict=True)
    narrow_numbers = Numbers(np.array(narrow, np.int32))
    columns: dict[str, Texts | Numbers] = {
        "wide_ns": integers(*wide),
        "narrow": narrow_numbers,
        "real": Numbers(
            np.array([real or 0.0 for real in reals]),
            np.array([real is not None for real in reals]),
        ),
        "path": Texts(np.arange(len(rows), dtype=np.int32)[::-1], paths(len(rows))),
        "name": texts(*names),
    }
    document = table(
        columns, wide_ns=Field("wide_ns", Unit.NS, ""), real=Field("real", Unit.NONE, "", "Real")
    )
    options = Options(time_unit=unit, unicode=is_unicode)
    by_core = rendered("csv", document, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "core", lambda: None)
        assert rendered("csv", document, options) == by_core


def paths(count):
    words = [":" + ":".join(map(str, range(place))) for place in range(count)]
    offsets = np.cumsum([0, *map(len, words)])
    packed = PlainTexts(np.frombuffer("".join(words).encode(), np.uint8), offsets)
    assert [*packed] == words == [packed[place] for place in range(count)] == packed[:]
    return packed


def test_many_distinct_names_are_packed_by_the_block():
    names = [f"n{row},{row}" for row in range(70_000)]
    numbers = Numbers(np.arange(70_000))
    document = table({"a": numbers, "b": Texts(np.arange(70_000, dtype=np.int32), names)})
    lines = rendered("csv", document).splitlines()
    assert lines[1:] == [f'{row},"{name}"' for row, name in enumerate(names)]
