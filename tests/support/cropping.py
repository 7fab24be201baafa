"""Recordings that start or end while a program runs, cut as profilers cut them."""

from __future__ import annotations

from typing import Any, NamedTuple

from support.programs import Program

_OF_CALLS = ("host_wait", "event_record", "stream_wait")


class Window(NamedTuple):
    """The recorded part of a program.

    Attributes:
        start_ns: Calls before it are not recorded.
        end_ns: Calls that have not returned by then are not recorded.
        keeps_running: Whether operations that run at the start are recorded, without their calls.
        keeps_pending: Whether operations launched in the window and unfinished at its end are
            recorded, as by a profiler that waits for the GPU when it stops.
        keeps_ranges: Whether ranges that are open at the start or end are recorded, up to there.
    """

    start_ns: int
    end_ns: int
    keeps_running: bool = False
    keeps_pending: bool = False
    keeps_ranges: bool = False


def crop(program: Program, window: Window) -> None:
    """Remove what a recording of a window lacks."""
    rows = program.rows
    rows["api_call"] = [row for row in rows.get("api_call", []) if _is_within(row, window)]
    known = {row["correlation_id"] for row in rows["api_call"]}
    for table in _OF_CALLS:
        rows[table] = [row for row in rows.get(table, []) if row["correlation_id"] in known]
    for table in ("kernel", "memcpy"):
        rows[table] = [row for row in rows.get(table, []) if _is_recorded(row, window, known)]
    rows["range"] = [
        row
        | {
            "start_ns": max(row["start_ns"], window.start_ns),
            "end_ns": min(row["end_ns"], window.end_ns),
            "is_truncated": not _is_within(row, window),
        }
        for row in rows.get("range", [])
        if (_overlaps(row, window) if window.keeps_ranges else _is_within(row, window))
    ]
    program.rows = {table: kept for table, kept in rows.items() if kept}


def _is_recorded(row: dict[str, Any], window: Window, known: set[int]) -> bool:
    """Return whether an operation is recorded."""
    if row["correlation_id"] in known:
        return window.keeps_pending or row["end_ns"] <= window.end_ns
    return window.keeps_running and _overlaps(row, window) and row["end_ns"] <= window.end_ns


def _is_within(row: dict[str, Any], window: Window) -> bool:
    return bool(window.start_ns <= row["start_ns"] and row["end_ns"] <= window.end_ns)


def _overlaps(row: dict[str, Any], window: Window) -> bool:
    return bool(row["end_ns"] > window.start_ns and row["start_ns"] < window.end_ns)
