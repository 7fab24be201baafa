"""Writes the result of a gate as text, Markdown, JSON and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TextIO
from xml.sax.saxutils import quoteattr

from warpline.presentation.gate import gate as presentation
from warpline.render import Options
from warpline.render.diagnosis import markdown as markdown_blocks
from warpline.render.diagnosis import text as text_blocks
from warpline.render.escaping import visible
from warpline.result.gate import Gate, MetricResult

Write = Callable[[Gate, TextIO, Options], None]


def write_text(found: Gate, out: TextIO, options: Options) -> None:
    """Write the result for a terminal."""
    text_blocks.write(presentation(found), out, options)


def write_markdown(found: Gate, out: TextIO, options: Options) -> None:
    """Write the result for a pull request."""
    markdown_blocks.write(presentation(found), out, options)


def write_json(found: Gate, out: TextIO, options: Options) -> None:
    """Write one object, described in docs/gate.schema.json."""
    json.dump(found.to_dict(), out, indent=2, allow_nan=False)
    out.write("\n")


def write_junit(found: Gate, out: TextIO, options: Options) -> None:
    """Write JUnit XML: a test for each metric; one that cannot be decided is an error."""
    kinds = [item.outcome for item in found.metrics]
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write(
        f'<testsuites>\n<testsuite name="warpline gate" tests="{len(kinds)}"'
        f' failures="{kinds.count("regression")}" errors="{kinds.count("undecided")}">\n'
    )
    out.writelines(map(_test, found.metrics))
    said = "\n".join((found.sentence, *found.notes))
    out.write(f"<system-out>{_content(said)}</system-out>\n</testsuite>\n</testsuites>\n")


def _test(item: MetricResult) -> str:
    opening = f'<testcase classname="warpline.gate" name={_quoted(f"{item.metric} {item.limit}")}'
    if item.outcome == "pass":
        return f"{opening}/>\n"
    kind = "failure" if item.outcome == "regression" else "error"
    return f"{opening}><{kind} message={_quoted(item.reason)}/></testcase>\n"


def _quoted(text: str) -> str:
    return quoteattr(visible(text))


def _content(text: str) -> str:
    lines = map(visible, text.splitlines())
    return "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


WRITERS: dict[str, Write] = {
    "text": write_text,
    "markdown": write_markdown,
    "json": write_json,
    "junit": write_junit,
}
