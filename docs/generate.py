"""Write the pages of this folder that follow from the code: schema, tables, command line.

Usage: python docs/generate.py [--check]

With --check nothing is written; the exit status is 1 if a page differs from what it should be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from warpline.schema import SCHEMA_VERSION, TABLES, Column, TableSpec
from warpline.units import Unit

FOLDER = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py; change the code, then run `make docs`. -->"

SCHEMA_INTRODUCTION = (
    f"Schema version {SCHEMA_VERSION}. Times are int64 ns from the trace's origin, intervals"
    " are half-open. A column that may be null has a validity mask beside its values."
    " A reference holds row numbers of the table it names; `string` is the pool of texts."
    " In a DataFrame a text stands in place of its number, and its column has no `_id`."
)


def table_of(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; a `|` inside a cell is escaped."""
    names = list(headers)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def schema_page() -> str:
    """Return the page about the tables of a trace."""
    parts = [
        NOTE,
        "# The tables of a trace",
        SCHEMA_INTRODUCTION,
        "\n".join(f"- [{spec.name}](#{spec.name}): {spec.doc}" for spec in TABLES.values()),
        *(_schema_section(spec) for spec in TABLES.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _schema_section(spec: TableSpec) -> str:
    parts = [f"## {spec.name}", spec.doc]
    if spec.order:
        parts.append("Rows are in the order of: " + ", ".join(f"`{name}`" for name in spec.order))
    rows = (_schema_row(column) for column in spec.columns)
    parts.append(table_of(("column", "type", "unit", "refers to", "meaning"), rows))
    return "\n\n".join(parts)


def _schema_row(column: Column) -> tuple[str, ...]:
    kind = column.dtype.value + (", may be null" if column.nullable else "")
    unit = "" if column.unit in {Unit.NONE, Unit.ID} else column.unit.value
    meaning = column.doc
    if column.labels:
        meaning += " " + ", ".join(f"{value} {label}" for value, label in column.labels.items())
    return f"`{column.name}`", kind, unit, column.ref or "", meaning


PAGES: Mapping[str, Callable[[], str]] = {
    "schema.md": schema_page,
}


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description="Write the pages that follow from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name}: {'differs from the code; run `make docs`' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
