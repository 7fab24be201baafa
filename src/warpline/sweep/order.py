"""Which run of a sweep comes next; points are added where values go on, or a border is searched."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.sweep import predicting
from warpline.sweep.axes import axis, between
from warpline.sweep.failures import OUT_OF_MEMORY, SKIPPED
from warpline.sweep.points import MOST_OPEN, MOST_POINTS, Parameter, number, text_of
from warpline.sweep.state import State


def next_run(state: State, *, finds_border: bool) -> tuple[int, int] | None:
    """Return the run to make next, by the place of its point and its number; None if all are made.

    The first runs of all points precede the second ones, and points are added before those.

    Args:
        state: The sweep; points are added to it.
        finds_border: Whether points are added until it is known where memory runs out.
    """
    missing = state.missing()
    first = next((run for run in missing if run[1] == 0), None)
    along = axis(state.definition)
    grows = along is not None and (along.is_open or finds_border)
    if along is None or not grows or len(state.points) >= MOST_POINTS:
        return next(iter(missing), None)
    if first is not None and not along.is_open:
        return first
    # A line whose values go on is finished before the next one begins.
    for line in _lines(state, along):
        ready = next((place for place in line if (place, 0) in missing), None)
        if ready is not None:
            return ready, 0
        added = _following(state, along, line)
        if added is None and finds_border:
            added = _on_border(state, along, line)
        if added is not None:
            state.points.append({**state.points[line[0]], along.name: added})
            return len(state.points) - 1, 0
    return next(iter(missing), None)


def _lines(state: State, along: Parameter) -> list[list[int]]:
    """Return the places of points with the same other values."""
    lines: dict[tuple[str, ...], list[int]] = {}
    for place, point in enumerate(state.points):
        others = tuple(value for name, value in point.items() if name != along.name)
        lines.setdefault(others, []).append(place)
    return list(lines.values())


def _following(state: State, along: Parameter, line: Sequence[int]) -> str | None:
    """Return the next value of a line that goes on; None if one of its runs failed."""
    made = [state.attempts.get((place, 0)) for place in line]
    if not along.is_open or len(line) >= MOST_OPEN:
        return None
    if any(one is None or one.failure is not None for one in made):
        return None
    return along.following(state.points[line[-1]][along.name])


def _on_border(state: State, along: Parameter, line: Sequence[int]) -> str | None:
    """Return the next value between the largest that fits and the smallest that does not."""
    fits, too_large = [], []
    for place in line:
        value = number(state.points[place][along.name])
        made = state.attempts.get((place, 0))
        if made is None or value is None:
            continue
        if made.failure is None:
            fits.append(value)
        elif made.failure == OUT_OF_MEMORY or made.failure.startswith(SKIPPED):
            too_large.append(value)
    if not fits or not too_large or max(fits) >= min(too_large):
        return None
    guess = predicting.border(state, state.points[line[0]])
    found = between(along, max(fits), min(too_large), guess.at if guess else None)
    return text_of(found) if found is not None else None
