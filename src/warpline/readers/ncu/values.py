"""Values of metrics: numbers and texts, alone and by instance."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from warpline.readers.ncu.wire import Message
from warpline.trace.column import ColumnData

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

Value = tuple[float | None, int | None, bytes | None]
"""Number, the same if it is an integer below 2^63, and text (of an integer above it, too)."""

_DOUBLE = struct.Struct("<d")
_DOUBLE_TAG, _DOUBLE_SIZE = 0x19, 9
_LARGEST = 1 << 63


def value_of(data: bytes) -> Value:
    """Return the value in a message of one value; three times None if it is empty.

    Raises:
        WireError: It is damaged.
    """
    if len(data) == _DOUBLE_SIZE and data[0] == _DOUBLE_TAG:  # most values, by far
        return _DOUBLE.unpack_from(data, 1)[0], None, None
    message = Message(data)
    for number in (4, 5):
        whole = message.integer(number)
        if whole is not None:
            is_small = whole < _LARGEST
            return float(whole), whole if is_small else None, None if is_small else b"%d" % whole
    for number in (3, 2):
        decimal = message.decimal(number)
        if decimal is not None:
            return decimal, None, None
    return None, None, message.raw(1)


class ValueColumns:
    """The columns ``value``, ``integer`` and ``text_id`` of a table, filled in any order.

    Args:
        size: Number of rows. Rows that are not filled have no value.
        intern: Returns the row of a text in the pool.
    """

    def __init__(self, size: int, intern: Callable[[bytes], int]) -> None:
        self._intern = intern
        self._numbers = np.zeros(size)
        self._wholes = np.zeros(size, np.int64)
        self._texts = np.zeros(size, np.int32)
        self._has_number, self._is_whole, self._has_text = np.zeros((3, size), np.bool_)

    def put(self, row: int, value: Value) -> None:
        """Set one value."""
        number, whole, text = value
        if number is not None:
            self._numbers[row], self._has_number[row] = number, True
        if whole is not None:
            self._wholes[row], self._is_whole[row] = whole, True
        if text is not None:
            self._texts[row], self._has_text[row] = self._intern(text), True

    def put_numbers(self, rows: I64, numbers: F64 | I64) -> None:
        """Set many numbers; integers stay exact."""
        self._numbers[rows], self._has_number[rows] = numbers, True
        if numbers.dtype.kind == "i":
            self._wholes[rows], self._is_whole[rows] = numbers, True

    def columns(self) -> dict[str, ColumnData]:
        """Return the columns."""
        return {
            "value": ColumnData(self._numbers, self._has_number),
            "integer": ColumnData(self._wholes, self._is_whole),
            "text_id": ColumnData(self._texts, self._has_text),
        }


def columns_of(values: Sequence[Value], intern: Callable[[bytes], int]) -> dict[str, ColumnData]:
    """Return the columns of a list of values."""
    columns = ValueColumns(len(values), intern)
    for row, value in enumerate(values):
        columns.put(row, value)
    return columns.columns()
