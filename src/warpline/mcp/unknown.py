"""What a recording cannot say: a value of answers, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpline.mcp.pages import Section
from warpline.result import Skipped

CANNOT_SAY = "cannot say"
COLUMNS = ("about", "because", "hint")


def section(rows: Iterable[tuple[str, str, str | None]]) -> Section:
    """Return the part of an answer with what it has no data for."""
    return Section("cannot_say", [list(row) for row in rows], COLUMNS)


def row_of(skipped: Skipped) -> tuple[str, str, str | None]:
    """Return the row of a table or rule without a result."""
    return (skipped.name, skipped.reason, skipped.hint)


def known(value: Any) -> Any:
    """Return a value, or that it is not known."""
    return CANNOT_SAY if value is None else value
