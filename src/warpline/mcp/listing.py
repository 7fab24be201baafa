"""The tool ``recordings``: what is in the folders."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from warpline import plugins
from warpline.errors import WarplineError
from warpline.mcp.opened import Opened
from warpline.mcp.pages import Section, page
from warpline.trace.reading import HEAD_BYTES, READERS

_COLUMNS = ("recording", "format", "bytes", "modified")
_MOST_FILES = 2000


def recordings(opened: Opened, *, contains: str = "", cursor: str | None = None) -> str:
    """Return the files in the folders that can be read, by path."""
    plugins.load("readers")
    endings = tuple({ending for reader in READERS for ending in reader.extensions})
    part = contains.lower()
    rows = []
    for shown, path in opened.folders.files():
        if not shown.lower().endswith(endings) or part not in shown.lower():
            continue
        format_name = _format(path)
        if format_name is not None:
            status = path.stat()
            when = dt.datetime.fromtimestamp(status.st_mtime, dt.UTC)
            modified = when.isoformat(timespec="seconds")
            rows.append([shown, format_name, status.st_size, modified])
        if len(rows) >= _MOST_FILES:
            break
    return page({"found": len(rows)}, [Section("recordings", rows, _COLUMNS)], cursor)


def _format(path: Path) -> str | None:
    """Return the name of the format of a file; None if it is no recording."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        fitting = [reader.name for reader in READERS if reader.sniff(path, head)]
    except (OSError, ValueError, WarplineError):
        return None
    return fitting[0] if len(fitting) == 1 else None
