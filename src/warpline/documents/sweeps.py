"""What the results of all kinds of sweeps have in common."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from warpline.result import Field, Numbers, Values, column_of
from warpline.sweep.points import Point, title
from warpline.sweep.state import Attempt, State
from warpline.units import Unit, plural

SCHEMA_VERSION = 1
_NUMBER = re.compile(r"\d+")
FAILURE = Field("failure", Unit.NONE, "Why it was not measured.", "Not Measured", is_optional=True)


def facts_of(
    state: State, gpus: Iterable[str], points: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what is known of a sweep, as its JSON.

    Args:
        state: Its runs.
        gpus: Models of the GPUs.
        points: What is known of each point, in the order in which they are shown.
    """
    definition = state.definition
    names = [item.name for item in definition.parameters]
    values = {
        name: list(dict.fromkeys(point["values"][name] for point in points)) for name in names
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "gpu": ", ".join(dict.fromkeys(gpus)) or None,
        "command": list(definition.command),
        "vary": values,
        "zip": definition.are_zipped,
        "repeat": definition.repeats,
        "points": list(points),
    }


def runs_of(made: Sequence[Attempt], values: Point) -> dict[str, Any]:
    """Return what is known of the runs of a point."""
    failure = next((one.failure for one in made if one.failure is not None), None)
    notes = [note for one in made for note in one.notes]
    return {
        "values": {name: value_of(text) for name, text in values.items()},
        "files": [name for one in made if one.failure is None for name in one.files],
        "runs": len(made),
        "seconds": round(sum(one.seconds for one in made), 3),
        "failure": failure if made else "not run yet",
        "notes": list(dict.fromkeys(notes)),
    }


def value_of(text: str) -> int | float | str:
    """Return a value as a number, if that is what it is."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number) or "_" in text:
        return text
    return int(text) if text.strip().lstrip("+-").isdecimal() else number


def axis_names(known: Mapping[str, Any], taken: Iterable[str]) -> dict[str, str]:
    """Return the columns of the parameters: their names, unless other columns have these."""
    others = {*taken}
    return {name: f"{name} (varied)" if name in others else name for name in known["vary"]}


def axis_fields(names: Mapping[str, str]) -> list[Field]:
    """Return the fields of the parameters."""
    return [Field(name, Unit.NONE, "Value of the parameter.", name) for name in names.values()]


def column(values: Sequence[Any], *, is_text: bool) -> Values:
    """Return a column; one of numbers stays one if all are missing."""
    if is_text or any(value is not None for value in values):
        return column_of(values)
    return Numbers(np.zeros(len(values)), np.zeros(len(values), np.bool_))


def heading(known: Mapping[str, Any]) -> str:
    """Return the title of a table: ``Sweep over N: 4 points on NVIDIA H100``."""
    axes = ", ".join(known["vary"])
    where = f" on {known['gpu']}" if known["gpu"] else ""
    return f"Sweep over {axes}: {plural(len(known['points']), 'point')}{where}"


def first_notes(points: Sequence[Mapping[str, Any]], missing: int) -> list[str]:
    """Return the note that says how many points have no numbers."""
    return [f"{missing} of {plural(len(points), 'point')} not measured."] if missing else []


def run_notes(points: Sequence[Mapping[str, Any]], measured: Sequence[bool]) -> list[str]:
    """Return notes about runs that failed after others, and about what was said of runs."""
    notes = [
        f"{title(point['values'])}: a later run failed: {point['failure']}"
        for point, is_measured in zip(points, measured, strict=True)
        if is_measured and point["failure"] is not None
    ]
    told: dict[str, list[str]] = {}
    for point in points:
        for note in point["notes"]:
            told.setdefault(_NUMBER.sub("#", note), []).append(note)  # pids differ
    for alike in told.values():
        such = "" if len({*alike}) == 1 else "such as "
        notes.append(f"{plural(len(alike), 'point')}: {such}{alike[0]}")
    return notes
