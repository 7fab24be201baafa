"""The metrics of a launch and their instances.

A launch has some thousand metrics, and some metrics have thousands of instances, so both are read
without a `Message` for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from warpline.readers.ncu.values import I64, ValueColumns, value_of
from warpline.readers.ncu.wire import Message, WireError, skip, varint
from warpline.trace.column import ColumnData

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]

_NAME, _VALUE, _INSTANCES = 1, 2, 3
_NAME_TAG, _VALUE_TAG, _INSTANCE_TAG = 0x08, 0x12, 0x1A
_KEY_TAG, _DOUBLE_TAG = 0x0A, 0x19
_INTEGER_TAGS = (0x20, 0x28)
_MORE = 0x80  # of a byte of an integer: another one follows
_MOST_VARINT = 9  # bytes of an integer below 2^63
_DOUBLE_SIZE = 9
_LEAST, _WIDEST = 4, 32  # bytes of an instance with numbers only


def scan(data: bytes) -> tuple[int, bytes | None, array[int]]:
    """Return the name's number, the value's bytes and the ends of the instances of a metric.

    Instance i is ``data[ends[2 * i] : ends[2 * i + 1]]``.

    Raises:
        WireError: It is damaged.
    """
    name, value = 0, None
    spans = array("q")
    add = spans.append
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag == _INSTANCE_TAG:
            at += 1
            if at < end and data[at] < _MORE:
                size, at = data[at], at + 1
            else:
                size, at = varint(data, at, end)
            if size > end - at:
                raise WireError("an instance is longer than its metric")
            add(at)
            at += size
            add(at)
        elif tag == _NAME_TAG:
            name, at = varint(data, at + 1, end)
        elif tag == _VALUE_TAG:
            size, at = varint(data, at + 1, end)
            if size > end - at:
                raise WireError("a value is longer than its metric")
            value = data[at : at + size]
            at += size
        else:
            at = _skip(data, at, end)
    return name, value, spans


def _skip(data: bytes, at: int, end: int) -> int:
    """Return the place after a field that is not used; WireError if it should have been."""
    number, wire, after = skip(data, at, end)
    if number in (_NAME, _VALUE, _INSTANCES):
        raise WireError(f"field {number} of a metric has the wire type {wire}")
    return after


class InstanceColumns:
    """The columns of `metric_instance`, filled launch by launch.

    Args:
        metric_rows: Row of the metric of each instance, shape (n,).
        intern: Returns the row of a text in the pool.
    """

    def __init__(self, metric_rows: I32, intern: Callable[[bytes], int]) -> None:
        size = len(metric_rows)
        self._metric_rows = metric_rows
        self._intern = intern
        self._keys, self._key_texts = np.zeros(size, np.int64), np.zeros(size, np.int32)
        self._has_key, self._has_text = np.zeros((2, size), np.bool_)
        self._values = ValueColumns(size, intern)

    def fill(self, first: int, data: bytes, spans: I64) -> None:
        """Set the rows from `first` on.

        Args:
            first: A row.
            data: Bytes with instances.
            spans: Start and end of each, shape (m, 2).

        Raises:
            WireError: An instance is damaged.
        """
        every = np.frombuffer(data, np.uint8)
        sizes = spans[:, 1] - spans[:, 0]
        rest = []
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            if _LEAST <= size <= _WIDEST:
                cells = every[spans[rows, 0][:, None] + np.arange(size)]
                rows = rows[~self._fill_alike(first + rows, cells)]
            rest += rows.tolist()
        for row in rest:
            start, end = spans[row].tolist()
            self._fill_one(first + row, Message(data[start:end]))

    def _fill_alike(self, rows: I64, cells: U8) -> BoolArray:
        """Set rows with an integer key, or none, and a number; return which were set.

        An instance is the tag of the key, its size, the key, the tag of the value, its size, the
        value. `cells` has the bytes of instances of one size, shape (m, size).
        """
        done = np.zeros(len(rows), np.bool_)
        size = cells.shape[1]
        for key_size in np.unique(cells[:, 1]).tolist():
            value_at = 2 + key_size
            if value_at + _LEAST > size or key_size == 1 or key_size > 1 + _MOST_VARINT:
                continue
            fits = (cells[:, 0] == _KEY_TAG) & (cells[:, 1] == key_size)
            fits &= (cells[:, value_at] == _VALUE_TAG) & (
                cells[:, value_at + 1] == size - value_at - 2
            )
            keys, has_key = _integers(cells[:, 2:value_at])
            wholes, is_whole = _integers(cells[:, value_at + 2 :])
            is_double = np.zeros(len(rows), np.bool_)
            if size - value_at - 2 == _DOUBLE_SIZE:
                is_double = cells[:, value_at + 2] == _DOUBLE_TAG
            fits &= (has_key | (key_size == 0)) & (is_whole | is_double)
            if key_size:
                self._keys[rows[fits]], self._has_key[rows[fits]] = keys[fits], True
            with_whole, with_double = fits & is_whole & ~is_double, fits & is_double
            self._values.put_numbers(rows[with_whole], wholes[with_whole])
            if with_double.any():
                doubles = np.ascontiguousarray(cells[with_double, value_at + 3 : value_at + 11])
                self._values.put_numbers(rows[with_double], doubles.view("<f8").reshape(-1))
            done |= fits
        return done

    def _fill_one(self, row: int, instance: Message) -> None:
        number, whole, text = value_of(instance.raw(1) or b"")
        if whole is not None:
            self._keys[row], self._has_key[row] = whole, True
        elif text is not None or number is not None:
            shown = text if text is not None else repr(number).encode()
            self._key_texts[row], self._has_text[row] = self._intern(shown), True
        self._values.put(row, value_of(instance.raw(2) or b""))

    def columns(self) -> dict[str, ColumnData]:
        """Return the columns."""
        return {
            "kernel_metric_id": ColumnData(self._metric_rows),
            "key": ColumnData(self._keys, self._has_key),
            "key_text_id": ColumnData(self._key_texts, self._has_text),
            **self._values.columns(),
        }


def _integers(cells: U8) -> tuple[I64, BoolArray]:
    """Return the integers of messages with one integer each, and which are such messages."""
    count, size = cells.shape
    if not 1 < size <= 1 + _MOST_VARINT:
        return np.zeros(count, np.int64), np.zeros(count, np.bool_)
    fits = np.isin(cells[:, 0], _INTEGER_TAGS) & (cells[:, -1] < _MORE)
    fits &= (cells[:, 1:-1] >= _MORE).all(axis=1)
    shifts = np.arange(size - 1) * 7
    parts = (cells[:, 1:] & (_MORE - 1)).astype(np.int64) << shifts
    return parts.sum(axis=1, dtype=np.int64), fits
