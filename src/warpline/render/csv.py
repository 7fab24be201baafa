"""CSV as nsys prints it: its headings, its digits, no blanks for the eye.

A value is quoted only where it must be. Tables follow each other after one blank line.
"""

from __future__ import annotations

from typing import TextIO

from warpline.render import RENDERERS, Options, Renderer
from warpline.render.cells import blocks, cells_of
from warpline.render.escaping import writable
from warpline.result import Document, Result


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write every result of the document; what was skipped is not data and leaves no trace."""
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
    for rows in blocks(len(result)):
        lines = map(",".join, zip(*(column.texts(rows) for column in columns), strict=True))
        # A row of one empty cell is quoted: an empty line would read as no row.
        out.write("\n".join(lines if len(columns) > 1 else (line or '""' for line in lines)))
        out.write("\n")


def _quote(text: str) -> str:
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


RENDERERS.add("csv", Renderer("csv", "Comma-separated values, as nsys prints them.", render))
