"""Two tables of one analysis, compared by their declared key and units."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from warpline.errors import UsageError
from warpline.result.tables import Field, Numbers, Result, Skipped, Texts, Values, column_of
from warpline.units import Unit, plural

# Numbers of these units have a meaningful difference.
_COMPARED = {
    *(Unit.NS, Unit.BYTES, Unit.BYTES_PER_S, Unit.RATIO, Unit.COUNT),
    *(Unit.HZ, Unit.WATTS, Unit.JOULES, Unit.CELSIUS),
}
_CHANGE = Field("change", Unit.NONE, "same, changed, new, or gone.", "Change")

_Row = tuple[Any, ...]


def compare_sides(
    before: Sequence[Sequence[Result | Skipped]],
    after: Sequence[Sequence[Result | Skipped]],
    *,
    paired: bool,
) -> tuple[Result | Skipped, ...]:
    """Compare the tables of the first run of each side.

    Args:
        before: Tables of each run of one side.
        after: The same tables of each run of the other.
        paired: Whether runs of both sides belong together.

    Raises:
        UsageError: They are paired, but have different numbers of runs.
    """
    if paired and len(before) != len(after):
        raise UsageError(
            f"{plural(len(before), 'run')} before cannot be paired with {len(after)} after",
            hint="pass as many runs on both sides, in the order in which they were made",
        )
    return tuple(compare_tables(old, new) for old, new in zip(before[0], after[0], strict=True))


def compare_tables(before: Result | Skipped, after: Result | Skipped) -> Result | Skipped:
    """Return the rows of both tables side by side, with the differences of all numbers.

    Rows with the same key belong together. Ids that a system assigns, such as process ids, differ
    between runs: if no value of an id column is on both sides, its values are matched in order. So
    are times in a key, such as the starts of steps, among rows that are otherwise alike.
    Rows with equal keys are matched in order. The largest difference in the first compared column
    comes first.
    """
    for name, table in (("before", before), ("after", after)):
        if isinstance(table, Skipped):
            return Skipped(table.name, f"{name}: {table.reason}", table.hint, table.is_failure)
    assert isinstance(before, Result)
    assert isinstance(after, Result)
    if not before.key:
        return Skipped(before.name, "the table declares no key, so its rows cannot be compared")
    if before.key != after.key:
        reason = "both sides have different columns, as layers with and without PyTorch modules"
        return Skipped(before.name, reason, "compare layers:ranges, or other tables")
    numbers = [
        field
        for field in before.fields
        if field.unit in _COMPARED
        and field.name not in before.key
        and all(isinstance(table.columns[field.name], Numbers) for table in (before, after))
    ]
    rows = _matched(_keys(before, after), _keys(after, before))
    old, new = (np.array([pair[side] for pair in rows], np.int64) for side in (0, 1))
    columns = _columns(before, after, numbers, old, new)
    fields = _fields(before, numbers)
    result = Result(
        f"{before.name}:compared",
        f"{before.title}: before and after",
        fields,
        {field.name: columns[field.name] for field in fields},
        before.key,
        (*dict.fromkeys((*before.notes, *after.notes)), *_remarks(numbers)),
    )
    return _largest_first(result, numbers)


def _keys(table: Result, other: Result) -> list[Hashable]:
    """Return the key of each row."""
    columns: dict[str, Sequence[Any]] = {}
    times = []
    for name in table.key:
        values: Sequence[Any] = table.columns[name].to_list()
        field = next(item for item in table.fields if item.name == name)
        if field.unit in (Unit.ID, Unit.NS):
            theirs = set(other.columns[name].to_list())
            if not theirs & set(values):
                if field.unit is Unit.NS:
                    times.append(name)
                order = {value: place for place, value in enumerate(dict.fromkeys(values))}
                values = [("id", order[value]) for value in values]
        columns[name] = values
    others = list(zip(*(columns[name] for name in table.key if name not in times), strict=True))
    for name in times:
        columns[name] = _in_order(table.columns[name].to_list(), others)
    return list(zip(*columns.values(), strict=True))


def _in_order(times: Sequence[Any], groups: Sequence[Hashable]) -> list[tuple[str, int]]:
    """Return the place of each time among the different ones of its group; missing ones first."""
    of_group: dict[Hashable, set[Any]] = {}
    keys = groups or [()] * len(times)
    for group, time in zip(keys, times, strict=True):
        of_group.setdefault(group, set()).add(time)
    places = {
        group: {
            time: place
            for place, time in enumerate(sorted(found, key=lambda at: (at is not None, at or 0)))
        }
        for group, found in of_group.items()
    }
    return [("time", places[group][time]) for group, time in zip(keys, times, strict=True)]


def _matched(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the rows of both sides that belong together, -1 for none; the before side's first."""
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(after):
        places.setdefault(key, []).append(place)
    waiting = {key: iter(rows) for key, rows in places.items()}
    pairs = [(place, next(waiting.get(key, iter(())), -1)) for place, key in enumerate(before)]
    used = {new for _, new in pairs}
    return pairs + [(-1, place) for place in range(len(after)) if place not in used]


def _fields(table: Result, numbers: Sequence[Field]) -> tuple[Field, ...]:
    keys = [field for field in table.fields if field.name in table.key]
    compared = [
        _renamed(field, name, doc)
        for field in numbers
        for name, doc in (
            (f"before_{field.name}", f"Before: {field.doc}"),
            (f"after_{field.name}", f"After: {field.doc}"),
            (f"delta_{field.name}", f"After minus before: {field.doc}"),
        )
    ]
    return (_CHANGE, *compared, *keys)


def _renamed(field: Field, name: str, doc: str) -> Field:
    heading = f"{name.split('_', 1)[0].capitalize()} {field.heading}"
    return dataclasses.replace(field, name=name, doc=doc, header=heading)


def _columns(
    before: Result,
    after: Result,
    numbers: Sequence[Field],
    old: np.ndarray[Any, np.dtype[np.int64]],
    new: np.ndarray[Any, np.dtype[np.int64]],
) -> Mapping[str, Values]:
    values: dict[str, Values] = {}
    differs = np.zeros(len(old), np.bool_)
    for field in numbers:
        sides = [
            _taken(table.columns[field.name], rows) for table, rows in ((before, old), (after, new))
        ]
        is_float = any(side.values.dtype.kind == "f" for side in sides)
        both = [side.values.astype(np.float64 if is_float else np.int64) for side in sides]
        valid = [side.valid for side in sides]
        assert valid[0] is not None
        assert valid[1] is not None
        known = valid[0] & valid[1]
        delta = both[1] - both[0]
        # A row in one table only differs by all it has.
        delta = np.where(known, delta, np.where(valid[1], both[1], -both[0]))
        values[f"before_{field.name}"] = Numbers(both[0], valid[0])
        values[f"after_{field.name}"] = Numbers(both[1], valid[1])
        values[f"delta_{field.name}"] = Numbers(delta, valid[0] | valid[1])
        differs |= (delta != 0) & (valid[0] | valid[1])
    for name in before.key:
        left, right = (table.columns[name].to_list() for table in (before, after))
        values[name] = column_of(
            [
                left[a] if a >= 0 else right[b]
                for a, b in zip(old.tolist(), new.tolist(), strict=True)
            ]
        )
    change = np.where(old < 0, 2, np.where(new < 0, 3, np.where(differs, 1, 0)))
    values["change"] = Texts(change.astype(np.int32), ("same", "changed", "new", "gone"))
    return values


def _taken(values: Values, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Numbers:
    """Return some rows of a column of numbers; row -1 is missing."""
    assert isinstance(values, Numbers)
    if not len(values):
        return Numbers(np.zeros(len(rows), values.values.dtype), np.zeros(len(rows), np.bool_))
    valid = rows >= 0
    if values.valid is not None:
        valid = valid & values.valid[rows]
    return Numbers(np.where(valid, values.values[rows], 0), valid)


def _remarks(numbers: Sequence[Field]) -> tuple[str, ...]:
    if any("total" in field.name or field.name == "instances" for field in numbers):
        return ("Totals are of the whole recordings, which may have different lengths.",)
    return ()


def _largest_first(result: Result, numbers: Sequence[Field]) -> Result:
    if not numbers:
        return result
    column = result.columns[f"delta_{numbers[0].name}"]
    assert isinstance(column, Numbers)
    order = np.argsort(-np.abs(column.values), kind="stable")
    chosen: dict[str, Values] = {}
    for name, values in result.columns.items():
        if isinstance(values, Texts):
            chosen[name] = Texts(values.codes[order], values.values)
        else:
            valid = None if values.valid is None else values.valid[order]
            chosen[name] = Numbers(values.values[order], valid)
    return Result(result.name, result.title, result.fields, chosen, result.key, result.notes)
