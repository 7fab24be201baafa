"""Writes the answer about all ranks of a job as text, Markdown and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from warpline.presentation.fleet import fleet as presentation
from warpline.render import Options
from warpline.render.diagnosis import markdown as markdown_blocks
from warpline.render.diagnosis import text as text_blocks
from warpline.result.fleet import Fleet

Write = Callable[[Fleet, TextIO, Options], None]
_LISTS = ("stragglers", "findings", "collectives", "ranks", "dumps", "left_out")


def write_text(found: Fleet, out: TextIO, options: Options) -> None:
    """Write the answer for a terminal."""
    text_blocks.write(presentation(found), out, options)


def write_markdown(found: Fleet, out: TextIO, options: Options) -> None:
    """Write the answer for a pull request or an issue."""
    markdown_blocks.write(presentation(found), out, options)


def write_json(found: Fleet, out: TextIO, options: Options) -> None:
    """Write one object, described in docs/fleet.schema.json; a rank or finding per line."""
    write_object(found.to_dict(), _LISTS, out)


def write_object(values: Mapping[str, Any], lists: Sequence[str], out: TextIO) -> None:
    """Write one object of JSON, with some of its lists an item per line."""
    opening = "{"
    for name, value in values.items():
        out.write(f"{opening}\n{json.dumps(name)}: ")
        opening = ","
        if name in lists and value:
            out.write("[\n" + ",\n".join(map(_encoded, value)) + "]")
        else:
            out.write(_encoded(value))
    out.write("\n}\n")


def _encoded(value: Any) -> str:
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


WRITERS: dict[str, Write] = {"text": write_text, "markdown": write_markdown, "json": write_json}
