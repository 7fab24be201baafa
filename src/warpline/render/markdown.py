"""Markdown for issues and pull requests: GitHub's tables.

Names are text, never markup: they are code spans, where HTML, links and mentions have no effect.
Warnings and skipped tables are included, so that a forwarded document shows what data is missing.
"""

from __future__ import annotations

import re
from typing import TextIO

from warpline.render import RENDERERS, Options, Renderer
from warpline.render.cells import blocks, cells_of
from warpline.render.escaping import visible
from warpline.result import Document, Result, Skipped
from warpline.units import plural

# Characters that may open emphasis, code, a link, HTML, an entity, math, a cell, or a block.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$]|:(?=//)|(?<=www)\.|^[#+=-])")


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write warnings, results, and skipped tables."""
    out.writelines(f"> **Warning:** {plain(warning, options)}\n\n" for warning in document.warnings)
    for index, section in enumerate(document.sections):
        if index:
            out.write("\n")
        if isinstance(section, Result):
            _write_table(section, out, options)
        else:
            out.write(_skipped(section, options))


def _write_table(result: Result, out: TextIO, options: Options) -> None:
    result = result.without_empty()
    hidden = max(0, len(result) - options.row_limit) if options.row_limit else 0
    shown = result.head(len(result) - hidden) if hidden else result
    out.write(f"### {plain(result.title, options)} ({code(result.name, options)})\n\n")
    columns = cells_of(shown, options, lambda text: code(text, options))
    out.write(_row([plain(column.heading, options) for column in columns]))
    out.write(_row(["---:" if column.is_number else ":---" for column in columns]))
    for rows in blocks(len(shown)):
        lines = map(" | ".join, zip(*(column.texts(rows) for column in columns), strict=True))
        out.writelines(f"| {line} |\n" for line in lines)
    remarks = [f"{plural(hidden, 'more row')} not shown."] if hidden else []
    out.writelines(f"\n{plain(remark, options)}\n" for remark in (*remarks, *result.notes))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _skipped(skipped: Skipped, options: Options) -> str:
    hint = f" ({plain(skipped.hint, options)})" if skipped.hint else ""
    return f"{code(skipped.name, options)}: skipped: {plain(skipped.reason, options)}{hint}\n"


def code(text: str, options: Options) -> str:
    r"""Return the text as a code span for use in a table.

    A pipe becomes ``\|``, which tables unescape. After a backslash that does not work in code,
    so such a text is escaped as plain text instead.
    """
    shown = visible(text, unicode=options.unicode)
    if not shown:
        return ""
    if "\\|" in shown:
        return plain(shown, options)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{edge}{shown.replace('|', chr(92) + '|')}{edge}{fence}"


def plain(text: str, options: Options) -> str:
    """Return the text with Markdown markup escaped."""
    return _MARKUP.sub(r"\\\1", visible(text, unicode=options.unicode))


RENDERERS.add(
    "markdown",
    Renderer("markdown", "GitHub tables for issues and pull requests.", render, limits_rows=True),
    aliases=("md",),
)
