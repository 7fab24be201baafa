"""The tool ``table``: the tables of `warpline stats`, with conditions and order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpline import api, plugins
from warpline.errors import UsageError
from warpline.mcp import conditions, unknown
from warpline.mcp.opened import Opened
from warpline.mcp.pages import Section, page
from warpline.mcp.unknown import CANNOT_SAY
from warpline.result import ANALYSES, Result, Skipped

if TYPE_CHECKING:
    from warpline.trace import Trace

_MOST_ROWS = 500_000  # that one call looks at


def table(  # noqa: PLR0913 - the arguments of a call
    opened: Opened,
    *,
    recordings: Sequence[str],
    name: str | None = None,
    where: Sequence[str] = (),
    sort: str | None = None,
    columns: Sequence[str] = (),
    time: str | None = None,
    nvtx: str | None = None,
    exclude: Sequence[str] = (),
    cursor: str | None = None,
) -> str:
    """Return rows of a table, or which tables there are."""
    if name is None:
        return _tables(opened.trace(recordings), cursor)
    api.split_name(name)  # a mistyped name fails before a large file is read
    part = (time, nvtx, tuple(exclude))
    found: Result | Skipped = opened.answer(
        recordings,
        ("table", name, part),
        lambda: api.run(_part(opened.trace(recordings), *part), name),
    )
    if isinstance(found, Skipped):
        return page(
            {"table": name, "answer": CANNOT_SAY},
            [unknown.section([unknown.row_of(found)])],
            cursor,
        )
    if len(found) > _MOST_ROWS:
        raise UsageError(
            f"{len(found)} rows of {name} are too many to look at",
            hint="name a time or an nvtx range",
        )
    names = [field.name for field in found.fields]
    rows: Sequence[Sequence[Any]] = conditions.chosen(names, found.rows(), where)
    if sort is not None:
        rows = conditions.ordered(names, rows, sort)
    if columns:
        names, rows = conditions.picked(names, rows, columns)
    head: dict[str, Any] = {
        "table": name,
        "title": found.title,
        "rows_of_table": len(found),
        "matching": len(rows),
    }
    if found.notes:
        head["notes"] = list(found.notes)
    return page(head, [Section("rows", [list(row) for row in rows], names)], cursor)


def _part(trace: Trace, time: str | None, nvtx: str | None, exclude: Sequence[str]) -> Trace:
    if time is None and nvtx is None and not exclude:
        return trace
    return api.select(trace, filter_time=time, filter_nvtx=nvtx, exclude=exclude)


def _tables(trace: Trace, cursor: str | None) -> str:
    """Return the names of the tables for which the recording has events."""
    plugins.load("analyses")
    there = {name for name in trace.tables if trace.row_count(name)}
    fitting = sorted(
        (item for item in ANALYSES if not item.needs or there.intersection(item.needs)),
        key=lambda item: item.name,
    )
    if not fitting:
        raise UsageError("the recording is empty")
    rows = [[item.name, item.title] for item in fitting]
    head = {"tables_with_data": len(rows), "help": "the tool explain says what one measures"}
    return page(head, [Section("tables", rows, ("table", "title"))], cursor)
