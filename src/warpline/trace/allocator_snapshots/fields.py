"""Fields of plain data from a file, with the types that they must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from warpline.errors import CorruptTraceError
from warpline.ops.arrays import I64, BoolArray

MOST = 1 << 62  # addresses, handles and counts are less
_SHOWN = 40


def items_of(value: Any, place: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of dicts; raises CorruptTraceError with its place for anything else."""
    if not isinstance(value, (list, tuple)) or not {*map(type, value)} <= {dict}:
        raise CorruptTraceError(f"{place} is not a list of dicts")
    return value


def numbers(
    items: Sequence[Mapping[str, Any]], key: str, place: str, *, below: int = MOST
) -> tuple[I64, BoolArray]:
    """Return an integer of each item.

    Args:
        items: Shape (n,).
        key: Its key.
        place: Where the items are, for errors.
        below: What it must be less than; it must not be negative.

    Returns:
        Shape (n,), int64, 0 where there is none; and shape (n,), where there is one.

    Raises:
        CorruptTraceError: One is not an integer, or out of range.
    """
    values = [item.get(key) for item in items]
    valid = np.array([value is not None for value in values], np.bool_)
    known: list[Any] = [0 if value is None else value for value in values]
    if not {*map(type, known)} <= {int}:
        raise _unfit(known, key, place, "an integer", lambda value: type(value) is int)
    if known and (min(known) < 0 or max(known) >= below):
        raise _unfit(known, key, place, "in range", lambda value: 0 <= value < below)
    return np.array(known, np.int64), valid


def texts(items: Sequence[Mapping[str, Any]], key: str, place: str) -> list[str | None]:
    """Return a text of each item, None without one; raises CorruptTraceError for others."""
    values = [item.get(key) for item in items]
    if not {*map(type, values)} <= {str, type(None)}:
        raise _unfit(values, key, place, "a text", lambda value: type(value) in (str, type(None)))
    return values


def flags(items: Sequence[Mapping[str, Any]], key: str, place: str) -> tuple[BoolArray, BoolArray]:
    """Return a truth value of each item, and where there is one.

    Raises CorruptTraceError for anything else.
    """
    values = [item.get(key) for item in items]
    if not {*map(type, values)} <= {bool, type(None)}:
        raise _unfit(values, key, place, "a flag", lambda value: type(value) in (bool, type(None)))
    return (
        np.array([value is True for value in values], np.bool_),
        np.array([value is not None for value in values], np.bool_),
    )


def _unfit(
    values: list[Any], key: str, place: str, what: str, fits: Callable[[Any], bool]
) -> CorruptTraceError:
    number, value = next((n, value) for n, value in enumerate(values) if not fits(value))
    shown = repr(value)[:_SHOWN] if type(value) in (int, float, str) else type(value).__name__
    return CorruptTraceError(f"{place}[{number}]: {key} is not {what}: {shown}")
