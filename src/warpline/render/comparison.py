"""Writes a comparison as text, Markdown and JSON."""

from __future__ import annotations

from typing import TextIO

from warpline.presentation.comparison import markdown, screen
from warpline.render import Options
from warpline.render import json as tables_in_json
from warpline.render import markdown as tables_in_markdown
from warpline.render import text as tables_in_text
from warpline.render.diagnosis import markdown as markdown_blocks
from warpline.render.diagnosis import text as text_blocks
from warpline.render.json import encoder
from warpline.result import Document
from warpline.result.comparison import Comparison

_LISTS = (*("parts", "kernels", "collectives", "copies", "calls", "ranges", "phases", "findings"),)


def render_text(document: Document, out: TextIO, options: Options) -> None:
    """Write a comparison for a terminal; `document` must be a Comparison."""
    assert isinstance(document, Comparison)
    text_blocks.write(screen(document), out, options)
    if document.sections:
        out.write("\n")
        tables_in_text.render(document, out, options)


def render_markdown(document: Document, out: TextIO, options: Options) -> None:
    """Write a comparison for a pull request; `document` must be a Comparison."""
    assert isinstance(document, Comparison)
    markdown_blocks.write(markdown(document), out, options)
    if document.sections:
        out.write("\n")
        tables_in_markdown.render(document, out, options)


def render_json(document: Document, out: TextIO, options: Options) -> None:
    """Write one object, as docs/compare.md describes it; `document` must be a Comparison."""
    assert isinstance(document, Comparison)
    encode = encoder(options)
    opening = "{"
    for name, value in document.to_dict().items():
        out.write(f"{opening}\n{encode(name)}: ")
        opening = ","
        if name in _LISTS and value:
            out.write("[\n" + ",\n".join(map(encode, value)) + "]")
        else:
            out.write(encode(value))
    out.write(',\n"tables": [')
    tables_in_json.write_tables(document, out, encode)
    out.write("]\n}\n")
