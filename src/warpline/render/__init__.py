"""Renderers: each writes a Document to a text stream in one format.

A renderer is a module of this package. Importing it registers it. It sees only titles, columns,
units and rows, so a new analysis needs no code here.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping
from typing import Literal, TextIO

from warpline.frozen import frozen
from warpline.registry import Registry
from warpline.result import Document

TimeUnit = Literal["ns", "us", "ms", "s"]

TERMINAL_ROWS = 40
_FALLBACK_WIDTH = 80


@frozen
class Options:
    """How to render.

    Attributes:
        width: Columns of the terminal; None for a file or a pipe, where nothing is shortened.
        row_limit: Rows of a table that text and Markdown show; None shows all. CSV and JSON
            always contain all.
        color: Whether to write escape sequences for color.
        unicode: Whether the stream accepts Unicode; if not, non-ASCII characters are escaped.
        time_unit: Unit of ns columns in text, CSV and Markdown; None shows ns.
    """

    width: int | None = None
    row_limit: int | None = None
    color: bool = False
    unicode: bool = True
    time_unit: TimeUnit | None = None


@frozen
class Renderer:
    """A registered output format.

    Attributes:
        name: The value of ``--format``.
        doc: One sentence.
        render: Writes the document to the stream.
        limits_rows: Whether it applies `Options.row_limit`. Commands shorten the tables of other
            formats if rows are limited on request.
        has_warnings: Whether it writes the warnings of the document, too.
    """

    name: str
    doc: str
    render: Callable[[Document, TextIO, Options], None]
    limits_rows: bool = False
    has_warnings: bool = False


RENDERERS: Registry[Renderer] = Registry("format")


def detect_options(stream: TextIO, environ: Mapping[str, str]) -> Options:
    """Return the options that suit a stream: a terminal gets its width, 40 rows and color.

    Honors ``NO_COLOR``, then ``FORCE_COLOR`` and ``CLICOLOR_FORCE``, which also color pipes, then
    ``TERM=dumb``. Also honors ``COLUMNS`` and the encoding of the stream.
    """
    unicode = _takes_unicode(stream)
    if not stream.isatty():
        return Options(unicode=unicode, color=_forces_color(environ))
    return Options(
        width=_terminal_width(stream, environ),
        row_limit=TERMINAL_ROWS,
        color=_takes_color(environ),
        unicode=unicode,
    )


def _takes_unicode(stream: TextIO) -> bool:
    encoding = getattr(stream, "encoding", None)
    if encoding is None:  # a stream in memory holds text, not bytes
        return True
    try:
        return codecs.lookup(encoding).name.startswith("utf")
    except LookupError:
        return False


def _takes_color(environ: Mapping[str, str]) -> bool:
    if _forces_color(environ):
        return True
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    # Old Windows consoles print escape sequences literally. Newer terminals set these variables.
    return os.name != "nt" or "WT_SESSION" in environ or "TERM" in environ


def _forces_color(environ: Mapping[str, str]) -> bool:
    names = ("FORCE_COLOR", "CLICOLOR_FORCE")
    is_forced = any(environ.get(name, "") not in {"", "0"} for name in names)
    return is_forced and not environ.get("NO_COLOR")


def _terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _FALLBACK_WIDTH
    except (OSError, ValueError):
        return _FALLBACK_WIDTH
