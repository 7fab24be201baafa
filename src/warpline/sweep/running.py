"""Makes the runs of a sweep one at a time, and notes each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from warpline.sweep.points import Point, title
from warpline.sweep.state import Attempt, State

# Runs the program at a point. Recordings are named after the text. None: it was interrupted.
RunPoint = Callable[[Point, str], Attempt | None]
Tell = Callable[[str], None]


def run(state: State, folder: Path, run_point: RunPoint, tell: Tell) -> bool:
    """Make the runs that are missing; return whether all are made.

    Each run is saved when it ends, so what was done before an interruption is kept. A run that
    fails is a result, and the sweep goes on.

    Args:
        state: The sweep; its runs are added.
        folder: Its directory.
        run_point: Runs the program at a point.
        tell: Prints a line.
    """
    points = state.definition.points()
    missing = state.missing()
    if missing:
        state.save(folder)
    for place, (point, number) in enumerate(missing, 1):
        if (point, number) not in state.missing():  # an earlier run of the point failed
            continue
        tell(f"run {place} of {len(missing)}: {title(points[point])}")
        try:
            made = run_point(points[point], name_of(state, point, number))
        except KeyboardInterrupt:
            made = None
        if made is None:
            return False
        state.attempts[point, number] = made
        state.save(folder)
        if made.failure is not None:
            tell(f"{title(points[point])}: {made.failure}")
    return True


def name_of(state: State, point: int, number: int) -> str:
    """Return the name of the files of a run: ``point-03``, or ``point-03-run-2``."""
    width = len(str(len(state.definition.points())))
    more = f"-run-{number + 1}" if state.definition.repeats > 1 else ""
    return f"point-{point + 1:0{width}}{more}"
