"""JSON for programs: Warpline's column names, raw values, all rows.

One object: ``schema_version``, ``title``, ``trace`` (facts about the recording), ``tables``,
``skipped`` and ``warnings``. A table has ``name``, ``title``, ``columns``, ``key``, ``notes`` and
``rows``; a row is an object keyed by column name, on a separate line. Times are in ns, ratios
are in [0, 1], and missing or nonfinite values are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from warpline.render import RENDERERS, Options, Renderer
from warpline.render.cells import TextCells, blocks
from warpline.result import Document, Field, Numbers, Result, Skipped, Texts, Values

SCHEMA_VERSION = 1

_CellsOfRows = Callable[[slice], Sequence[str]]


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write the document as one object; rows are streamed."""
    encode = encoder(options)
    head = {"schema_version": SCHEMA_VERSION, "title": document.title, "trace": dict(document.meta)}
    for name, value in head.items():
        out.write("{" if name == "schema_version" else ",")
        out.write(f"\n{encode(name)}: {encode(value)}")
    out.write(',\n"tables": [')
    write_tables(document, out, encode)
    skipped = [
        {"table": section.name, "reason": section.reason, "hint": section.hint}
        for section in document.sections
        if isinstance(section, Skipped)
    ]
    out.write(f'],\n"skipped": {encode(skipped)}')
    out.write(f',\n"warnings": {encode(document.warnings)}\n}}\n')


def write_tables(document: Document, out: TextIO, encode: Callable[[Any], str]) -> None:
    """Write the tables of a document as the items of a list."""
    for index, result in enumerate(_results(document)):
        out.write(",\n" if index else "\n")
        _write_table(result, out, encode)


def _results(document: Document) -> Iterator[Result]:
    return (section for section in document.sections if isinstance(section, Result))


def _write_table(result: Result, out: TextIO, encode: Callable[[Any], str]) -> None:
    head = {
        "name": result.name,
        "title": result.title,
        "columns": [_column(field) for field in result.fields],
        "key": result.key,
        "notes": result.notes,
    }
    out.write(encode(head).removesuffix("}"))
    out.write(', "rows": [')
    names = (encode(field.name).replace("%", "%%") for field in result.fields)
    template = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
    columns = [_cells(field, result.columns[field.name], encode) for field in result.fields]
    for rows in blocks(len(result)):
        lines = map(template.__mod__, zip(*(texts(rows) for texts in columns), strict=True))
        out.write(",\n" if rows.start else "\n")
        out.write(",\n".join(lines))
    out.write("]}")


def _column(field: Field) -> dict[str, str | None]:
    unit = field.unit.value or None
    return {"name": field.name, "unit": unit, "doc": field.doc, "heading": field.heading}


def _cells(field: Field, values: Values, encode: Callable[[Any], str]) -> _CellsOfRows:
    if isinstance(values, Texts):
        return TextCells(field, values, encode, missing="null").texts
    return lambda rows: _number_cells(values, rows)


def _number_cells(numbers: Numbers, rows: slice) -> list[str]:
    values = numbers.values[rows]
    # str, not json.dumps: for int and finite float they agree, and str is far faster.
    texts = list(map(str, values.tolist()))
    present = np.isfinite(values) if numbers.valid is None else numbers.valid[rows]
    for row in np.flatnonzero(~(present & np.isfinite(values))).tolist():
        texts[row] = "null"
    return texts


def encoder(options: Options) -> Callable[[Any], str]:
    """Return a function that writes a value as one line of JSON, safe on a terminal."""
    writer = json.JSONEncoder(ensure_ascii=not options.unicode, allow_nan=False)

    def encode(value: Any) -> str:
        text = writer.encode(value if isinstance(value, str) else _finite(value))
        if text.isprintable():
            return text
        # JSON allows lone surrogates and terminal controls. Escaped, they are harmless.
        return "".join(char if char.isprintable() else _escape(char) for char in text)

    return encode


def _escape(char: str) -> str:
    escaped = json.dumps(char)[1:-1]
    return escaped if escaped.startswith("\\") else f"\\u{ord(char):04x}"


def _finite(value: Any) -> Any:
    """Return a JSON value with null for nonfinite numbers."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


RENDERERS.add(
    "json",
    Renderer("json", "One JSON object with raw values and all rows.", render, has_warnings=True),
)
