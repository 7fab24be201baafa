"""Writes a graph check as text, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO

from warpline.presentation.graphcheck import graphcheck as presentation
from warpline.render import Options
from warpline.render.diagnosis import markdown as markdown_blocks
from warpline.render.diagnosis import text as text_blocks
from warpline.result.graphcheck import GraphCheck

Write = Callable[[GraphCheck, TextIO, Options], None]


def write_text(found: GraphCheck, out: TextIO, options: Options) -> None:
    """Write the check for a terminal."""
    text_blocks.write(presentation(found), out, options)


def write_markdown(found: GraphCheck, out: TextIO, options: Options) -> None:
    """Write the check for a pull request."""
    markdown_blocks.write(presentation(found), out, options)


def write_json(found: GraphCheck, out: TextIO, options: Options) -> None:
    """Write one object, described in docs/graphcheck.schema.json."""
    json.dump(found.to_dict(), out, indent=2, allow_nan=False)
    out.write("\n")


WRITERS: dict[str, Write] = {
    "text": write_text,
    "markdown": write_markdown,
    "json": write_json,
}
