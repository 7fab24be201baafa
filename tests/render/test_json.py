import json

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

from warpline.render import Options
from warpline.result import Document, Field
from warpline.units import Unit


def test_sample():
    document = json.loads(rendered("json", sample()))
    first, second = document.pop("tables")
    assert document == {
        "schema_version": 1,
        "title": "a.sqlite",
        "trace": {"paths": ["a.sqlite"], "span_ns": 2**62, "host": None},
        "skipped": [
            {
                "table": "osrt_sum",
                "reason": "no OS calls were recorded",
                "hint": "record with -t osrt",
            }
        ],
        "warnings": ["kernels were lost: 4"],
    }
    rows = first.pop("rows")
    assert rows[0] == {
        "time_ratio": 0.2895,
        "total_ns": 1_234_567,
        "instances": 2000,
        "mean_ns": 617.25,
        "max_bytes": 4500,
        "name": KERNEL,
        "p95_ns": 1.0,
    }
    assert rows[1]["name"] == HOSTILE
    assert (rows[2]["mean_ns"], rows[2]["max_bytes"], rows[2]["name"]) == (None, None, None)
    assert second.pop("rows") == []
    assert first.pop("columns")[:2] == [
        {"name": "time_ratio", "unit": "ratio", "doc": "Share.", "heading": "Time (%)"},
        {"name": "total_ns", "unit": "ns", "doc": "Sum.", "heading": "Total Time (ns)"},
    ]
    assert first == {
        "name": "kern_sum:base",
        "title": "Kernel summary",
        "key": ["name"],
        "notes": ["Counted once."],
    }


def test_options_for_the_eye_change_nothing():
    options = Options(width=40, row_limit=1, color=True, time_unit="ms")
    assert rendered("json", sample(), options) == rendered("json", sample())


def test_a_row_is_a_line():
    lines = rendered("json", sample()).splitlines()
    assert sum(line.startswith('{"time_ratio": ') for line in lines) == 3


def test_an_empty_document():
    assert json.loads(rendered("json", Document("", {}, ())))["tables"] == []


def test_what_is_not_finite_is_null_everywhere():
    inf = float("inf")
    document = Document("", {"a": [1.5, -inf], "b": {"c": float("nan")}}, ())
    assert json.loads(rendered("json", document))["trace"] == {"a": [1.5, None], "b": {"c": None}}
    rows = json.loads(rendered("json", table({"x": floats(inf, -inf, 1e300)})))["tables"][0]["rows"]
    assert rows == [{"x": None}, {"x": None}, {"x": 1e300}]


def test_text_stays_readable_and_harmless():
    names = ["é日😀", "\x9b31m\x7f\u202e", "\udc80"]
    document = table({"x": texts(*names)})
    written = rendered("json", document)
    assert "é日😀" in written
    assert all(char.isprintable() or char == "\n" for char in written)
    assert [row["x"] for row in json.loads(written)["tables"][0]["rows"]] == names
    assert rendered("json", document, Options(unicode=False)).isascii()


ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=8)
ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
ANY_INTEGER = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(ANY_INTEGER, ANY_FLOAT, ANY_TEXT | st.none()), max_size=9), ANY_TEXT)
def test_what_is_read_back_is_what_was_computed(rows, key):
    name = f"{key}%s"  # hostile arguments end up in names of columns
    document = table(
        {
            name: integers(*[row[0] for row in rows]),
            "f": floats(*[row[1] for row in rows]),
            "t": texts(*[row[2] for row in rows]),
        },
        f=Field("f", Unit.NS, "", "F (ns)", 1.0, 1),
    )
    found = json.loads(rendered("json", document))["tables"][0]["rows"]
    assert found == [dict(zip([name, "f", "t"], row, strict=True)) for row in rows]
