"""Writes who holds the memory of GPUs as text and Markdown, of one recording or of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from warpline.presentation.memory import screen
from warpline.render import Options
from warpline.render.diagnosis import markdown, text
from warpline.result import Document


def render_text(
    document: Document, out: TextIO, options: Options, *, recordings: Sequence[str]
) -> None:
    """Write the document for a terminal; `recordings` are the one or two that were named."""
    text.write(screen(document, recordings), out, options)


def render_markdown(
    document: Document, out: TextIO, options: Options, *, recordings: Sequence[str]
) -> None:
    """Write the document in Markdown; `recordings` are the one or two that were named."""
    markdown.write(screen(document, recordings), out, options)
