"""The time of each range's GPU work, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpline.render.diagnosis.lines import BOLD, GAP, Lines
from warpline.render.escaping import display_width, pad, shorten
from warpline.result import Diagnosis, Phase
from warpline.result.shares import counted, percent
from warpline.units import format_ns

_LABEL = 20
_PHASES = 8
_DEPTH = 3
_NEARLY_ALL = 0.98  # of the enclosing phase
_OUTSIDE = "outside ranges"
_LARGEST = "largest part"
_NUMBERS = 31  # columns of three numbers, and gaps
_STEP = 0.9  # of the total time: a phase this long is the step itself


def phases(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the ranges with the most busy and idle time."""
    every = diagnosis.phases
    has_steps = any(item.count for item in diagnosis.breakdown)
    if not has_steps:
        every = tuple(_without_tail(item) for item in every)
    per = max(sum(item.count for item in diagnosis.breakdown), 1)
    whole = sum(part.ns for item in diagnosis.breakdown for part in counted(item)[0])
    shown = _longest_phases(every, whole)
    if not shown:
        return
    hidden = len(diagnosis.phases) - len(shown)
    title = "Phases" + (f", {len(shown)} of {len(diagnosis.phases)}" if hidden else "")
    width = max(_LABEL, min(lines.width - 54, max(map(_phase_width, shown))))
    heads = ("per step" if has_steps else "time", "share", "idle")
    largest = [max(item.parts, key=lambda part: part.ns, default=None) for item in shown]
    names = [part.category if part else "" for part in largest]
    has_room = len(GAP) + width + _NUMBERS + max(map(len, (_LARGEST, *names))) <= lines.width
    line = GAP.join((pad(title, width + len(GAP)), f"{heads[0]:>9}", f"{heads[1]:>7}"))
    yield lines.styled(f"{line}{GAP}{heads[2]:>7}{GAP}{_LARGEST if has_room else ''}", BOLD)
    for item, largest_name in zip(shown, names, strict=True):
        name = item.path[-1] if item.path else _OUTSIDE
        label = "  " * max(len(item.path) - 1, 0) + lines.clean(name)
        label = shorten(label, width, lines.ellipsis)
        idle_ns = sum(part.ns for part in item.parts if part.kind == "idle")
        numbers = (
            f"{format_ns(item.total_ns / per):>9}",
            f"{percent(item.total_ns, whole):>7}",
            f"{percent(idle_ns, item.total_ns):>7}",
            largest_name if has_room else "",
        )
        yield GAP + GAP.join((pad(label, width), *numbers))


def _without_tail(item: Phase) -> Phase:
    parts = tuple(part for part in item.parts if part.category != "tail")
    tail_ns = item.total_ns - sum(part.ns for part in parts)
    return replace(item, total_ns=item.total_ns - tail_ns, parts=parts)


def _longest_phases(phases: Sequence[Phase], whole_ns: int) -> list[Phase]:
    """Return the longest phases in program order, without deeply nested ones.

    A phase that makes up nearly all of its enclosing phase is omitted, unless that is the step.
    """
    total_ns = {item.path: item.total_ns for item in phases}

    def is_new(item: Phase) -> bool:
        around_ns = total_ns.get(item.path[:-1], 0) if len(item.path) > 1 else 0
        return item.total_ns < _NEARLY_ALL * around_ns or not around_ns < _STEP * whole_ns

    outer = [
        row
        for row, item in enumerate(phases)
        if len(item.path) <= _DEPTH and item.total_ns and (len(item.path) < 2 or is_new(item))
    ]
    longest = sorted(outer, key=lambda row: -phases[row].total_ns)[:_PHASES]
    return [phases[row] for row in sorted(longest)]


def _phase_width(item: Phase) -> int:
    name = item.path[-1] if item.path else _OUTSIDE
    return 2 * max(len(item.path) - 1, 0) + display_width(name)
