"""CSV in the format of nsys: its headings and digits, without padding.

A value is quoted only if necessary. A blank line separates tables.
"""

from __future__ import annotations

from typing import TextIO

from warpline.render import RENDERERS, Options, Renderer
from warpline.render.cells import blocks, cells_of
from warpline.render.escaping import writable
from warpline.render.packed_rows import write_packed
from warpline.result import Document, Result


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write every result of the document. Skipped tables are omitted."""
    results = [section for section in document.sections if isinstance(section, Result)]
    for index, result in enumerate(results):
        if index:
            out.write("\n")
        _write(result, out, options)


def _write(result: Result, out: TextIO, options: Options) -> None:
    def convert(text: str) -> str:
        return _quote(writable(text, unicode=options.unicode))

    def is_plain(text: str) -> bool:
        return convert(text) == text

    columns = cells_of(result, options, convert, is_plain)
    out.write(",".join(convert(column.heading) for column in columns) + "\n")
    if len(columns) > 1 and write_packed(columns, len(result), ",", out):
        return
    for rows in blocks(len(result)):
        lines = map(",".join, zip(*(column.texts(rows) for column in columns), strict=True))
        # A row of one empty cell is quoted, because an empty line would not count as a row.
        out.write("\n".join(lines if len(columns) > 1 else (line or '""' for line in lines)))
        out.write("\n")


def _quote(text: str) -> str:
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


RENDERERS.add("csv", Renderer("csv", "Comma-separated values in the format of nsys.", render))
