"""The points of a sweep of a program: step time, throughput, memory, and where memory runs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from warpline.documents import sweeps
from warpline.result import Document, Field, Result
from warpline.sweep import items, predicting
from warpline.sweep.axes import axis
from warpline.sweep.failures import OUT_OF_MEMORY
from warpline.sweep.points import Point, number, title
from warpline.sweep.state import Attempt, Prediction, State
from warpline.units import Unit, format_bytes

NAME = "program_sweep"
_GIB = 1.0 / 2**30


def _memory(name: str, doc: str, header: str) -> Field:
    return Field(name, Unit.BYTES, doc, header, _GIB, 2, is_optional=True)


_NUMBERS = (
    Field("step_ns", Unit.NS, "Median step time.", "Step (ms)", 1e-6, 3, is_optional=True),
    Field("step_min_ns", Unit.NS, "Least of the runs' medians.", "Min (ms)", 1e-6, 3),
    Field("step_max_ns", Unit.NS, "Largest of the runs' medians.", "Max (ms)", 1e-6, 3),
    Field("items_per_s", Unit.NONE, "Items per second.", "Items/s", 1.0, 1, is_optional=True),
    _memory("peak_memory_bytes", "GPU memory that the program needs at its peak.", "Peak (GiB)"),
    _memory("predicted_memory_bytes", "The peak predicted before the run.", "Predicted (GiB)"),
    _memory("predicted_error_bytes", "Error of the predicted peak.", "+/- (GiB)"),
    _memory("taken_memory_bytes", "Most GPU memory taken, caches included.", "Taken (GiB)"),
    _memory("allocated_bytes", "Allocated by the framework at its peak.", "Allocated (GiB)"),
    _memory("memory_limit_bytes", "GPU memory that was free for the program.", "Limit (GiB)"),
    Field("busy_ratio", Unit.RATIO, "GPU busy time.", "Busy (%)", 100.0, 1, is_optional=True),
    Field("steps", Unit.COUNT, "Steps that were measured.", "Steps", is_optional=True),
)
_FINDING = Field("finding", Unit.NONE, "The first finding.", "First Finding", is_optional=True)
_FIELDS = (*_NUMBERS, _FINDING, sweeps.FAILURE)
_HIDDEN_ON_SCREEN = frozenset({"memory_limit_bytes", "steps", "failure"})
_ONLY_OF_REPEATS = frozenset({"step_min_ns", "step_max_ns"})


def facts(state: State, product: str | None) -> dict[str, Any]:
    """Return what is known of a sweep, as its JSON: docs/sweep.schema.json.

    Args:
        state: Its runs.
        product: What a step processes, as a product of parameters; None if that was not said.
    """
    points = [
        _point(state.of_point(place), state.points[place], product, state.predicted.get(place))
        for place in state.shown_order()
    ]
    gpus = [
        made.results["gpu"]
        for made in state.attempts.values()
        if made.results is not None and made.results.get("gpu")
    ]
    known = {
        **sweeps.facts_of(state, gpus, points),
        "items": product,
        "borders": _borders(state),
    }
    return {**known, "notes": _notes(known)}


def _point(
    made: Sequence[Attempt], values: Point, product: str | None, predicted: Prediction | None
) -> dict[str, Any]:
    """Return what is known of a point: medians of its runs, and the largest peak."""
    results = [one.results for one in made if one.failure is None and one.results is not None]
    steps = _known(results, "step_ns")
    step = median(steps) if steps else None
    count = items.count(product, values) if product is not None else None
    first = next((of["finding"] for of in results if of.get("finding")), None)
    busy = _known(results, "busy_ratio")
    notes = [of["note"] for of in results if of.get("note")]
    found = sweeps.runs_of(made, values)
    return {
        **found,
        "notes": list(dict.fromkeys([*found["notes"], *notes])),
        "is_measured": bool(results),
        "step_ns": step,
        "step_min_ns": min(steps, default=None),
        "step_max_ns": max(steps, default=None),
        "steps": max(_known(results, "steps"), default=None),
        "items_per_s": count / step * 1e9 if count is not None and step else None,
        "busy_ratio": median(busy) if busy else None,
        "peak_memory_bytes": max(_known(results, predicting.PEAK), default=None),
        "memory_limit_bytes": min(_known(results, predicting.LIMIT), default=None),
        "memory_source": next((of["memory_source"] for of in results if of["memory_source"]), None)
        if all("memory_source" in of for of in results)
        else None,
        "taken_memory_bytes": max(_known(results, "taken_memory_bytes"), default=None),
        "allocated_bytes": max(_known(results, "allocated_bytes"), default=None),
        "predicted_memory_bytes": predicted.bytes if predicted else None,
        "predicted_error_bytes": predicted.error_bytes if predicted else None,
        "finding": first,
        "is_out_of_memory": any(one.failure == OUT_OF_MEMORY for one in made),
    }


def _known(results: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [of[name] for of in results if of.get(name) is not None]


def _borders(state: State) -> list[dict[str, Any]]:
    """Return where memory runs out: as predicted, and between which values it did."""
    along = axis(state.definition)
    found = []
    for border in predicting.borders(state):
        assert along is not None
        at, low, high = (sweeps.value_of(text) for text in predicting.rounded(border, along))
        fits, fails = _tried(state, border)
        found.append(
            {
                "parameter": border.name,
                "others": {name: sweeps.value_of(text) for name, text in border.others.items()},
                "predicted": at,
                "predicted_low": low,
                "predicted_high": high,
                "limit_bytes": border.limit_bytes,
                "largest_that_fits": fits,
                "smallest_that_does_not": fails,
            }
        )
    return found


def _tried(state: State, border: predicting.Border) -> tuple[Any, Any]:
    """Return the largest value that was run and fits, and the smallest that ran out of memory."""
    fits, fails = [], []
    for (place, _), made in state.attempts.items():
        point = state.points[place]
        value = point[border.name]
        if any(point[name] != of for name, of in border.others.items()):
            continue
        if made.failure is None:
            fits.append(value)
        elif made.failure == OUT_OF_MEMORY:
            fails.append(value)
    most = max(fits, key=lambda text: number(text) or 0, default=None)
    least = min(fails, key=lambda text: number(text) or 0, default=None)
    return tuple(None if of is None else sweeps.value_of(of) for of in (most, least))  # type: ignore[return-value] # two


def document(known: Mapping[str, Any], *, is_screen: bool) -> Document:
    """Return the document of `facts`, which are its ``meta``.

    Args:
        known: The facts.
        is_screen: Whether it is for a screen: only columns that have something to say.
    """
    names = sweeps.axis_names(known, (field.name for field in _FIELDS))
    rows = [_row(point, names, is_screen=is_screen) for point in known["points"]]
    shown = [field for field in _FIELDS if not is_screen or _is_shown(field, rows, known)]
    texts = {_FINDING.name, sweeps.FAILURE.name, *names.values()}
    columns = {
        field.name: sweeps.column([row[field.name] for row in rows], is_text=field.name in texts)
        for field in (*sweeps.axis_fields(names), *shown)
    }
    fields = (*sweeps.axis_fields(names), *shown)
    result = Result(
        NAME, sweeps.heading(known), fields, columns, tuple(names.values()), tuple(known["notes"])
    )
    return Document(known["gpu"] or "sweep", known, (result,))


def _row(point: Mapping[str, Any], names: Mapping[str, str], *, is_screen: bool) -> dict[str, Any]:
    finding = point["finding"]["title"] if point["finding"] else None
    if is_screen and not point["is_measured"]:
        finding = f"not measured: {point['failure']}"
    values = {names[name]: value for name, value in point["values"].items()}
    return {**point, **values, "finding": finding}


def _is_shown(field: Field, rows: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> bool:
    if field.name in _HIDDEN_ON_SCREEN or (field.name in _ONLY_OF_REPEATS and known["repeat"] == 1):
        return False
    if field.name == "taken_memory_bytes":  # where it differs from the peak
        return any(row[field.name] != row["peak_memory_bytes"] for row in rows)
    return field.name == "step_ns" or any(row[field.name] is not None for row in rows)


def _notes(known: Mapping[str, Any]) -> list[str]:
    points = known["points"]
    are_measured = [bool(point["is_measured"]) for point in points]
    notes = sweeps.first_notes(points, are_measured.count(False))
    notes += [_border_note(border) for border in known["borders"]]
    sources = dict.fromkeys(point["memory_source"] for point in points if point["memory_source"])
    notes += [f"Peak memory: {source}." for source in sources]
    return notes + sweeps.run_notes(points, are_measured)


def _border_note(border: Mapping[str, Any]) -> str:
    """Return in words where memory runs out."""
    name, at = border["parameter"], border["predicted"]
    low, high = border["predicted_low"], border["predicted_high"]
    bounds = f" ({low} to {high})" if low != high else ""
    others = f" with {title(border['others'])}" if border["others"] else ""
    text = (
        f"Predicted to fit in {format_bytes(border['limit_bytes'])}{others}:"
        f" {name} up to {at}{bounds}."
    )
    fits, fails = border["largest_that_fits"], border["smallest_that_does_not"]
    if fails is not None:
        text += f" Measured: {f'{fits} fits, ' if fits is not None else ''}{fails} does not."
    return text
