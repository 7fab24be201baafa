"""Writes a comparison of two jobs as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from warpline.presentation import fleet_comparison as blocks
from warpline.render import Options
from warpline.render.diagnosis import markdown as markdown_blocks
from warpline.render.diagnosis import text as text_blocks
from warpline.render.fleet import write_object
from warpline.result.fleet_comparison import FleetComparison

Write = Callable[[FleetComparison, TextIO, Options], None]
_LISTS = ("parts", "work", "stragglers", "ranks", "collectives", "hosts", "findings", "environment")


def write_text(found: FleetComparison, out: TextIO, options: Options) -> None:
    """Write the comparison for a terminal."""
    text_blocks.write(blocks.screen(found), out, options)


def write_markdown(found: FleetComparison, out: TextIO, options: Options) -> None:
    """Write the comparison for a pull request or an issue."""
    markdown_blocks.write(blocks.markdown(found), out, options)


def write_json(found: FleetComparison, out: TextIO, options: Options) -> None:
    """Write one object, described in docs/fleet-compare.schema.json; a rank or part per line."""
    write_object(found.to_dict(), _LISTS, out)


WRITERS: dict[str, Write] = {"text": write_text, "markdown": write_markdown, "json": write_json}
