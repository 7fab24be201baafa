"""Conditions on rows, such as ``count>=10``, and their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpline.errors import UsageError

_CONDITION = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(>=|<=|!=|>|<|=|~)\s*(.*)", re.DOTALL)
_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": lambda found, wanted: found >= wanted,
    "<=": lambda found, wanted: found <= wanted,
    ">": lambda found, wanted: found > wanted,
    "<": lambda found, wanted: found < wanted,
    "=": lambda found, wanted: found == wanted,
    "!=": lambda found, wanted: found != wanted,
}
_ORDERS = frozenset({">=", "<=", ">", "<"})

Row = Sequence[Any]


def chosen(columns: Sequence[str], rows: Sequence[Row], conditions: Sequence[str]) -> list[Row]:
    """Return the rows for which all conditions hold.

    Args:
        columns: Names of the values of a row.
        rows: The rows; None is a missing value, for which only ``!=`` holds.
        conditions: ``COLUMN OPERATOR VALUE``, with one of ``= != > >= < <=`` or ``~`` (contains, in
            any case).

    Raises:
        UsageError: A condition has another form, or names no column.
    """
    tests = [_test(columns, text) for text in conditions]
    return [row for row in rows if all(test(row) for test in tests)]


def ordered(columns: Sequence[str], rows: Sequence[Row], order: str) -> list[Row]:
    """Return the rows sorted by a column, the largest first, or the smallest for ``NAME:asc``.

    Rows without the value are last.

    Raises:
        UsageError: There is no such column.
    """
    name, _, direction = order.partition(":")
    if direction not in {"", "asc", "desc"}:
        raise UsageError(f"unknown direction {direction[:40]!r}", hint="use asc or desc")
    place = place_of(columns, name)
    known = [row for row in rows if row[place] is not None]
    missing = [row for row in rows if row[place] is None]
    return sorted(known, key=lambda row: row[place], reverse=direction != "asc") + missing


def picked(
    columns: Sequence[str], rows: Sequence[Row], names: Sequence[str]
) -> tuple[list[str], list[Row]]:
    """Return only some columns, in the order of their names; UsageError if there is none such."""
    places = [place_of(columns, name) for name in names]
    return [columns[place] for place in places], [[row[place] for place in places] for row in rows]


def place_of(columns: Sequence[str], name: str) -> int:
    """Return the place of a column; UsageError if there is none of that name."""
    if name not in columns:
        raise UsageError(f"no column {name[:80]!r}", hint=f"columns: {', '.join(columns)}")
    return list(columns).index(name)


def _test(columns: Sequence[str], text: str) -> Callable[[Row], bool]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"condition {text[:80]!r} is not COLUMN OPERATOR VALUE", hint="such as count>=10"
        )
    name, operator, wanted = found[1], found[2], found[3].strip()
    place = place_of(columns, name)
    if operator == "~":
        part = wanted.lower()
        return lambda row: row[place] is not None and part in str(row[place]).lower()
    number = _number(wanted)
    if operator in _ORDERS and number is None:
        raise UsageError(f"condition {text[:80]!r} compares with no number")

    def holds(row: Row) -> bool:
        value = row[place]
        if value is None:
            return operator == "!="
        if isinstance(value, int | float) and not isinstance(value, bool):
            if number is None:
                return operator == "!="
            return _TESTS[operator](value, number)
        if operator in _ORDERS:
            return False
        return _TESTS[operator](str(value).lower(), wanted.lower())

    return holds


def _number(text: str) -> int | float | None:
    try:
        return int(text) if len(text) < 40 else None
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
