"""Writes where the time of stacks goes as text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from warpline.presentation.flame import screen
from warpline.render import Options
from warpline.render.diagnosis import markdown, text
from warpline.result import Document


def render_text(
    document: Document, out: TextIO, options: Options, *, recordings: Sequence[str]
) -> None:
    """Write the document for a terminal; `recordings` are those that were named."""
    text.write(screen(document, recordings), out, options)


def render_markdown(
    document: Document, out: TextIO, options: Options, *, recordings: Sequence[str]
) -> None:
    """Write the document in Markdown; `recordings` are those that were named."""
    markdown.write(screen(document, recordings), out, options)
