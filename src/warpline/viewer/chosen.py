"""The part of a timeline that a picture shows: a step, a finding, or a time range."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from warpline.derived.work.operations import operations
from warpline.errors import UsageError
from warpline.result import Diagnosis
from warpline.trace import Run
from warpline.trace.selection import parse_window
from warpline.units import format_ns
from warpline.viewer.focus import focuses, step_lists

_HINT = "use step:3, finding:1, or a time range such as 10ms-20ms"
_FORM = re.compile(r"(step|finding):(.+)", re.DOTALL)
_LAST_NUMBER = re.compile(r"(?<![0-9])0*([0-9]{1,18})\Z")
_ROOM = 0.6  # around a finding, relative to its length
_LEAST_ROOM_NS = 500


class Chosen(NamedTuple):
    """A time range.

    Attributes:
        start_ns: Start, in the time of the trace.
        end_ns: End, after the start.
        title: What it is.
        origin_ns: The time that times are relative to.
        origin: What that time is.
    """

    start_ns: int
    end_ns: int
    title: str
    origin_ns: int
    origin: str


def choose(run: Run, text: str | None, diagnose: Callable[[], Diagnosis]) -> Chosen:
    """Return the time range that a text names; without one, that of the GPU work.

    Args:
        run: The trace, and the choice of its steps.
        text: ``step:3``, ``finding:1``, or ``10ms-20ms``.
        diagnose: Returns the diagnosis, which only findings need.

    Raises:
        UsageError: There is no such step or finding, or the text is invalid.
    """
    if text is None:
        return _all_work(run)
    found = _FORM.fullmatch(text)
    if found is None:
        return _window(run, text)
    kind, name = found.groups()
    return _step(run, name) if kind == "step" else _finding(run, name, diagnose())


def _all_work(run: Run) -> Chosen:
    work, (start_ns, end_ns) = operations(run.trace), run.trace.span()
    title = "whole recording"
    if len(work):
        start_ns, end_ns = int(work.start_ns.min()), int(work.end_ns.max())
        title = "all GPU work"
    return _of_recording(run, start_ns, end_ns, title)


def _of_recording(run: Run, start_ns: int, end_ns: int, title: str) -> Chosen:
    end_ns = max(end_ns, start_ns + 1)
    said = f"{title}, {format_ns(end_ns - start_ns)}"
    return Chosen(start_ns, end_ns, said, run.trace.span()[0], "from start of recording")


def _window(run: Run, text: str) -> Chosen:
    sides = text.split("-")
    if len(sides) != 2 or "/" in text:
        raise UsageError(f"--select: unknown {text!r}", hint=_HINT)
    try:
        start, end = parse_window("/".join(sides))
    except UsageError:
        raise UsageError(f"--select: invalid time range {text!r}", hint=_HINT) from None
    low, high = run.trace.span()
    start_ns, end_ns = low if start is None else start, high if end is None else end
    if start_ns >= high or end_ns <= low:
        raise UsageError(
            f"--select: nothing was recorded in {text}",
            hint=f"the recording has events from {format_ns(low)} to {format_ns(high)}",
        )
    if start_ns >= end_ns:
        raise UsageError(f"--select: time range {text!r} is empty", hint=_HINT)
    return Chosen(start_ns, end_ns, text, 0, "from time 0 of the recording")


def _step(run: Run, name: str) -> Chosen:
    lists = step_lists(run, 0)
    if not lists:
        raise UsageError("--select: no steps were found", hint="see warpline analyze, or --steps")
    first = lists[0]
    texts = first["text"]
    numbers = [found[1] if (found := _LAST_NUMBER.search(text)) else None for text in texts]
    places = [place for place, text in enumerate(texts) if text == name]
    wanted = _LAST_NUMBER.fullmatch(name)
    if not places and wanted:
        places = [place for place, number in enumerate(numbers) if number == wanted[1]]
    if not places:
        raise UsageError(
            f"--select: there is no step {name!r}", hint=f"steps: {texts[0]} to {texts[-1]}"
        )
    start_ns, end_ns = first["start_ns"][places[0]], first["end_ns"][places[0]]
    label = texts[places[0]]
    label = f"step {label}" if label.isdecimal() else label
    title = f"{label} on {first['label']}, {format_ns(end_ns - start_ns)}"
    return Chosen(start_ns, max(end_ns, start_ns + 1), title, start_ns, f"from start of {label}")


def _finding(run: Run, name: str, diagnosis: Diagnosis) -> Chosen:
    known = [finding.id for finding in diagnosis.findings]
    wanted = name if name in known else f"F{name}"
    if wanted not in known:
        hint = f"findings: {known[0]} to {known[-1]}" if known else "the recording has no findings"
        raise UsageError(f"--select: there is no finding {name!r}", hint=hint)
    place = known.index(wanted)
    windows = focuses(run.trace, diagnosis, (), 0)[place]["windows_ns"]
    if not windows:
        raise UsageError(
            f"--select: finding {wanted} has no place on the timeline", hint="select a step"
        )
    start_ns, end_ns = windows[0]
    room = max(round(_ROOM * (end_ns - start_ns)), _LEAST_ROOM_NS)
    low, high = run.trace.span()
    title = f"{wanted} {diagnosis.findings[place].title}"
    view = int(np.clip(start_ns - room, low, high)), int(np.clip(end_ns + room, low, high))
    return _of_recording(run, *view, title)
