"""Columns that text and Markdown leave out if they have no value."""

import pytest
from support.small_documents import integers, rendered, table, texts

from warpline.result import Field, Values
from warpline.units import Unit

FIELDS = {
    "b_ns": Field("b_ns", Unit.NS, "B.", "B (ns)", is_optional=True),
    "c": Field("c", Unit.NONE, "C.", "C (s)", is_optional=True),
    "d": Field("d", Unit.NONE, "D.", "D (s)"),
}


def written(name: str, *, rows: int = 2) -> str:
    columns: dict[str, Values] = {
        "b_ns": integers(*[None, 3][:rows]),
        "c": texts(*[None, None][:rows]),
        "d": texts(*[None, None][:rows]),
    }
    return rendered(name, table(columns, **FIELDS))


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_optional_columns_without_a_value_are_left_out(name: str) -> None:
    shown = [field.heading for field in FIELDS.values() if field.heading in written(name)]
    assert shown == ["B (ns)", "D (s)"]


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_a_table_without_rows_has_all_headings(name: str) -> None:
    assert all(field.heading in written(name, rows=0) for field in FIELDS.values())


@pytest.mark.parametrize("name", ["csv", "json"])
def test_programs_get_all_columns(name: str) -> None:
    assert ("C (s)" if name == "csv" else '"c"') in written(name)
