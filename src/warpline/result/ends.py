"""How a run ended, in a sentence: which process was killed, crashed or hung, in which range."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.trace import ProcessEnd
from warpline.units import format_ns, plural

_ABNORMAL = ("killed", "crashed", "died", "unwatched")
_SAME_NS = 100_000_000  # processes killed by one command end within this time
_HUNG_NS = 1_000_000_000  # in a range, without an event of its thread
_NAMES = 3  # of nested ranges
_NAME_CHARACTERS = 60
_STOPPED_BY = {
    "interrupt": "Recording stopped (Ctrl-C)",
    "duration": "Recording stopped at the end of -d",
    "capture range": "Recording stopped at the end of the capture range",
    "steps": "Recording stopped after --steps",
    "size": "Recording stopped at --max-size",
    "warpline stop": "Recording stopped (warpline stop)",
}


def how_it_ended(ends: Sequence[ProcessEnd]) -> str | None:
    """Return how the run ended, if abnormally; None if it ended normally.

    Args:
        ends: The ends of its processes, in order.

    This names the first process that ended abnormally, or the program itself if it ended at the
    same time. If recording stopped earlier, it names the program, or the process with the longest
    open range, if the range's thread had no event for a second or more: it may hang there.
    """
    bad = [end for end in ends if _is_bad(end)]
    if bad:
        first = next((end for end in bad if _is_with(end, bad[0])), bad[0])
        more = len(bad) - 1
        others = f" {plural(more, 'more process', 'more processes')} ended abnormally."
        return f"{_what_happened(first)}{_where(first)}.{others if more else ''}"
    hung = [end for end in ends if _is_hung(end)]
    if hung:
        first = min(hung, key=lambda end: (not end.is_program, end.opened_ns or 0))
        more = len(hung) - 1
        others = f" {plural(more, 'more process', 'more processes')} had an open range without"
        others += f" events for at least {format_ns(_HUNG_NS)}."
        who = "" if first.is_program else f" of {_who(first)}"
        stopped = _STOPPED_BY.get(first.stopped_by or "", "Recording stopped")
        return f"{stopped}{_where(first, who)}.{others if more else ''}"
    return None


def _is_bad(end: ProcessEnd) -> bool:
    return end.cause in _ABNORMAL or (end.cause == "exited" and bool(end.exit_status))


def _is_with(end: ProcessEnd, first: ProcessEnd) -> bool:
    return end.is_program and end.ended_ns - first.ended_ns <= _SAME_NS


def _is_hung(end: ProcessEnd) -> bool:
    is_known = end.cause in {"stopped", "alive"} and end.opened_ns is not None
    return is_known and end.ended_ns - (end.last_event_ns or end.ended_ns) >= _HUNG_NS


def _who(end: ProcessEnd) -> str:
    return f"process {end.pid}"


def _what_happened(end: ProcessEnd) -> str:
    who = "The program" if end.is_program else f"Process {end.pid}"
    if end.cause == "killed":
        return f"{who} was killed ({end.signal})" if end.signal else f"{who} was killed"
    if end.cause == "crashed":
        return f"{who} crashed ({end.signal})" if end.signal else f"{who} crashed"
    if end.cause == "exited":
        return f"{who} exited with status {end.exit_status}"
    if end.cause == "unwatched":
        who = "" if end.is_program else f" of process {end.pid}"
        return f"Recording{who} was cut off"
    return f"{who} ended abruptly"


def _where(end: ProcessEnd, who: str = "") -> str:
    """Return the open range and its duration, as the end of a sentence."""
    if end.opened_ns is None or not end.path:
        return ""
    names = [_shortened(name) for name in end.path]
    if len(names) > _NAMES:
        names[1:-1] = ["..."]
    is_main = end.tid in {None, end.pid}
    thread = "" if is_main else f" of thread {end.tid}"
    least = "at least " if end.cause == "unwatched" else ""
    duration = format_ns(end.ended_ns - end.opened_ns)
    return f" in `{'/'.join(names)}`{thread}{who}, open for {least}{duration}"


def _shortened(name: str) -> str:
    if not name:
        return "(unnamed)"
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 3]}..."
