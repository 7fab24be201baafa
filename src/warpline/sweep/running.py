"""Makes the runs of a sweep one at a time, and notes each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warpline.frozen import frozen, replace
from warpline.sweep import predicting
from warpline.sweep.axes import axis
from warpline.sweep.failures import SKIPPED
from warpline.sweep.order import next_run
from warpline.sweep.points import Point, title
from warpline.sweep.predicting import Border
from warpline.sweep.state import Attempt, Prediction, State
from warpline.units import format_bytes

# Runs the program at a point. Recordings are named after the text. None: it was interrupted.
RunPoint = Callable[[Point, str], Attempt | None]
# Returns what was measured of the recordings of a run, and how to say it; None if nothing is.
Measure = Callable[[Attempt], tuple[Mapping[str, Any], str] | None]
Tell = Callable[[str], None]


@frozen
class Policy:
    """What is run beside the points that are given.

    Attributes:
        finds_border: Whether to add points until it is known where memory runs out.
        skips: Whether points that are predicted to run out of memory are not run.
    """

    finds_border: bool = False
    skips: bool = False


def run(
    state: State,
    folder: Path,
    run_point: RunPoint,
    tell: Tell,
    measure: Measure = lambda _: None,
    policy: Policy = Policy(),  # noqa: B008 - frozen
) -> bool:
    """Make the runs that are missing; return whether all are made.

    Each run is saved when it ends, so what was done before an interruption is kept. A run that
    fails is a result, and the sweep goes on. What memory a point is predicted to take is saved
    before it is run.

    Args:
        state: The sweep; its runs are added, and points where values go on.
        folder: Its directory.
        run_point: Runs the program at a point.
        tell: Prints a line.
        measure: Measures the recordings of a run.
        policy: What is run beside the points that are given.
    """
    made_now = 0
    told: str | None = None
    while (found := next_run(state, finds_border=policy.finds_border)) is not None:
        place, number = found
        point = state.points[place]
        predicted = state.predicted.get(place) or predicting.predicted(state, place)
        if predicted is not None and number == 0:
            state.predicted[place] = predicted
        state.save(folder)
        reason = _why_skipped(state, place, predicted) if policy.skips else None
        if reason is not None:
            state.attempts[place, number] = Attempt((), f"{SKIPPED}{reason}", 0.0)
            tell(f"{title(point)}: {SKIPPED}{reason}")
            continue
        made_now += 1
        tell(f"run {_count(state, made_now, policy)}: {title(point)}{_prediction(predicted)}")
        measured = None
        try:
            made = run_point(point, name_of(state, place, number))
            if made is not None and made.failure is None:
                measured = measure(made)
        except KeyboardInterrupt:
            made = None
        if made is None:
            return False
        if measured is not None:
            made = replace(made, results=measured[0])
        state.attempts[place, number] = made
        state.save(folder)
        what = made.failure if made.failure is not None else measured and measured[1]
        if what:
            tell(f"{title(point)}: {what}")
        border = border_in_words(state, point)
        if border is not None and border != told:
            tell(border)
            told = border
    state.save(folder)
    return True


def has_more(state: State, policy: Policy) -> bool:
    """Return whether runs are missing; a point may be added to see that."""
    return next_run(state, finds_border=policy.finds_border) is not None


def border_in_words(state: State, point: Point) -> str | None:
    """Return where memory is predicted to run out; None if that is unknown or far away."""
    found = predicting.border(state, point)
    along = axis(state.definition)
    if found is None or along is None:
        return None
    return f"predicted to fit: {border_range(state, found)}"


def border_range(state: State, border: Border) -> str:
    """Return a border in words: ``batch up to 90 (88 to 92) with context=1024``."""
    item = axis(state.definition)
    assert item is not None
    at, low, high = predicting.rounded(border, item)
    bounds = f" ({low} to {high})" if low != high else ""
    others = f" with {title(border.others)}" if border.others else ""
    return f"{border.name} up to {at}{bounds}{others}, in {format_bytes(border.limit_bytes)}"


def name_of(state: State, point: int, number: int) -> str:
    """Return the name of the files of a run: ``point-03``, or ``point-03-run-2``."""
    width = len(str(len(state.definition.points())))
    more = f"-run-{number + 1}" if state.definition.repeats > 1 else ""
    return f"point-{point + 1:0{width}}{more}"


def _count(state: State, made: int, policy: Policy) -> str:
    """Return the number of a run, with the number of all if that is known."""
    grows = policy.finds_border or any(item.is_open for item in state.definition.parameters)
    return str(made) if grows else f"{made} of {made + len(state.missing()) - 1}"


def _prediction(predicted: Prediction | None) -> str:
    """Return in words what a point is predicted to take of a GPU's memory."""
    if predicted is None:
        return ""
    least = predicted.bytes + predicted.error_bytes
    doubt = "" if predicted.fits else ": does not fit"
    doubt = doubt or ("" if least <= predicted.limit_bytes else ": may not fit")
    return f" ({_in_words(predicted)}{doubt})"


def _in_words(predicted: Prediction) -> str:
    return (
        f"predicted peak {format_bytes(predicted.bytes)} +/-"
        f" {format_bytes(predicted.error_bytes)} of {format_bytes(predicted.limit_bytes)}"
    )


def _why_skipped(state: State, place: int, predicted: Prediction | None) -> str | None:
    """Return why a point is not run; None if it is."""
    if predicting.is_hopeless(state, place):
        return "a smaller point ran out of GPU memory"
    if predicted is not None and not predicted.fits:
        return _in_words(predicted)
    return None
