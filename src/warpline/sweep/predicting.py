"""What the points of a sweep are predicted to take of a GPU's memory, from those that were run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from warpline.frozen import frozen
from warpline.sweep import memory_model
from warpline.sweep.axes import axis, granularity
from warpline.sweep.failures import OUT_OF_MEMORY
from warpline.sweep.memory_model import MemoryModel, Sample
from warpline.sweep.points import Parameter, Point, number
from warpline.sweep.state import Prediction, State

# Of what was measured of a run: memory at the peak, and what was free for the program before it.
PEAK, LIMIT = "peak_memory_bytes", "memory_limit_bytes"


@frozen
class Border:
    """Where memory is predicted to run out, along a parameter.

    Attributes:
        name: The parameter.
        at: The largest value that is predicted to fit, not rounded.
        low: What it is at least.
        high: What it is at most.
        limit_bytes: The memory that was free for the program.
        others: The other parameters, whose values it is for.
    """

    name: str
    at: float
    low: float
    high: float
    limit_bytes: int
    others: Mapping[str, str]


def predicted(state: State, place: int) -> Prediction | None:
    """Return what a point is predicted to take; None if too few points were measured to say."""
    point = state.points[place]
    model, limit = _model(state, point)
    if model is None or limit is None or not _is_covered(model, state, point):
        return None
    numbers = _numbers(state, point)
    return Prediction(round(model.bytes_at(numbers)), round(model.error_at(numbers)), limit)


def border(state: State, point: Point) -> Border | None:
    """Return where memory is predicted to run out, for the other parameters of a point."""
    along = axis(state.definition)
    model, limit = _model(state, point)
    if along is None or model is None or limit is None or not _is_covered(model, state, point):
        return None
    numbers = _numbers(state, point)
    begin = {**numbers, along.name: float(number(along.values[0]) or 0)}
    found = model.border(begin, along.name, limit) if begin[along.name] > 0 else None
    if found is None:
        return None
    others = {name: value for name, value in point.items() if name != along.name}
    return Border(along.name, *found, limit, others)


def borders(state: State) -> list[Border]:
    """Return where memory is predicted to run out, for each combination of the other parameters."""
    lines: dict[tuple[tuple[str, str], ...], Border | None] = {}
    along = axis(state.definition)
    for point in state.points:
        others = tuple(item for item in point.items() if along is None or item[0] != along.name)
        if others not in lines:
            lines[others] = border(state, point)
    return [found for found in lines.values() if found is not None]


def rounded(border: Border, item: Parameter) -> tuple[str, str, str]:
    """Return the value of a border and its bounds in words: whole if all values are whole."""
    values = (border.at, border.low, border.high)
    is_whole = granularity(item) is not None
    at, low, high = (str(int(of)) if is_whole else f"{of:.3g}" for of in values)
    return at, low, high


def is_hopeless(state: State, place: int) -> bool:
    """Return whether a point is larger than one that ran out of memory: no number is smaller."""
    point = state.points[place]
    return any(
        all(_is_at_least(item, point, other) for item in state.definition.parameters)
        for other in _out_of_memory(state)
    )


def _out_of_memory(state: State) -> Iterator[Point]:
    for (place, _), made in state.attempts.items():
        if made.failure == OUT_OF_MEMORY:
            yield state.points[place]


def _is_at_least(item: Parameter, point: Point, other: Point) -> bool:
    one, two = point[item.name], other[item.name]
    if not item.is_numeric:
        return one == two
    return (number(one) or 0) >= (number(two) or 0)


def _model(state: State, point: Point) -> tuple[MemoryModel | None, int | None]:
    """Return the model of points whose parameters that are no numbers have the same values."""
    words = [item.name for item in state.definition.parameters if not item.is_numeric]
    samples, limits = [], []
    for (place, _), made in sorted(state.attempts.items()):
        of = state.points[place]
        peak, limit = _measured(made.results)
        if made.failure is None and peak and all(of[name] == point[name] for name in words):
            samples.append(Sample(_numbers(state, of), peak))
            limits += [limit] if limit is not None else []
    return memory_model.fit(samples), limits[-1] if limits else None


def _measured(results: Mapping[str, Any] | None) -> tuple[int | None, int | None]:
    """Return memory at the peak and the limit."""
    found = [(results or {}).get(name) for name in (PEAK, LIMIT)]
    peak, limit = (value if isinstance(value, int) else None for value in found)
    return peak, limit


def _numbers(state: State, point: Point) -> dict[str, float]:
    """Return the numbers of a point; where all parameters go together, the axis is enough."""
    along = axis(state.definition)
    items = [item for item in state.definition.parameters if item.is_numeric]
    if state.definition.are_zipped and along is not None:
        items = [along]
    return {item.name: float(number(point[item.name]) or 0) for item in items}


def _is_covered(model: MemoryModel, state: State, point: Point) -> bool:
    """Return whether the model knows every parameter in which a point differs from the others."""
    known = {name for term in model.terms for name, _ in term}
    measured = [
        _numbers(state, state.points[place])
        for (place, _), made in state.attempts.items()
        if made.failure is None and _measured(made.results)[0]
    ]
    return all(
        name in known or any(value == other[name] for other in measured)
        for name, value in _numbers(state, point).items()
    )
