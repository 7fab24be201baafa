"""Writes a comparison as text, Markdown and JSON."""

from __future__ import annotations

from typing import TextIO

from warpline.presentation import comparison as steps
from warpline.presentation import kernel_comparison as kernels
from warpline.presentation.blocks import Presentation
from warpline.render import Options
from warpline.render import json as tables_in_json
from warpline.render import markdown as tables_in_markdown
from warpline.render import text as tables_in_text
from warpline.render.diagnosis import markdown as markdown_blocks
from warpline.render.diagnosis import text as text_blocks
from warpline.render.json import encoder
from warpline.result import Document
from warpline.result.comparison import Comparison
from warpline.result.kernel_comparison import KernelComparison

_LISTS = (*("parts", "kernels", "collectives", "copies", "calls", "ranges", "phases", "findings"),)


def render_text(document: Document, out: TextIO, options: Options) -> None:
    """Write a comparison of steps or of kernels for a terminal."""
    text_blocks.write(_screen(document), out, options)
    if document.sections:
        out.write("\n")
        tables_in_text.render(document, out, options)


def render_markdown(document: Document, out: TextIO, options: Options) -> None:
    """Write a comparison of steps or of kernels for a pull request."""
    markdown_blocks.write(_markdown(document), out, options)
    if document.sections:
        out.write("\n")
        tables_in_markdown.render(document, out, options)


def render_json(document: Document, out: TextIO, options: Options) -> None:
    """Write a comparison of steps or of kernels as one object, as docs/compare.md describes it."""
    assert isinstance(document, Comparison | KernelComparison)
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


def _screen(document: Document) -> Presentation:
    if isinstance(document, KernelComparison):
        return kernels.screen(document)
    assert isinstance(document, Comparison)
    return steps.screen(document)


def _markdown(document: Document) -> Presentation:
    if isinstance(document, KernelComparison):
        return kernels.markdown(document)
    assert isinstance(document, Comparison)
    return steps.markdown(document)
