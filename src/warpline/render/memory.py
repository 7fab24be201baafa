"""Writes who holds the memory of GPUs as text and Markdown."""

from __future__ import annotations

from typing import TextIO

from warpline.presentation import memory
from warpline.render import Options
from warpline.render.diagnosis import markdown, text
from warpline.result import Document


def render_text(document: Document, out: TextIO, options: Options) -> None:
    """Write the document of one recording for a terminal."""
    text.write(memory.screen(document), out, options)


def render_markdown(document: Document, out: TextIO, options: Options) -> None:
    """Write the document of one recording in Markdown."""
    markdown.write(memory.screen(document), out, options)


def render_text_of_two(document: Document, out: TextIO, options: Options) -> None:
    """Write the comparison of two recordings for a terminal."""
    text.write(memory.screen_of_two(document), out, options)


def render_markdown_of_two(document: Document, out: TextIO, options: Options) -> None:
    """Write the comparison of two recordings in Markdown."""
    markdown.write(memory.screen_of_two(document), out, options)
