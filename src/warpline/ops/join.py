"""Exact-match joins: for each key, the row of a table with that key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from warpline.errors import SchemaError
from warpline.ops.arrays import (
    I64,
    BoolArray,
    Integers,
    as_i64,
    is_sorted,
    require_equal_length,
)
from warpline.ops.group import factorize_rows, pack

Duplicates = Literal["first", "last"]

_NOTHING = -1

# A table indexed by key is faster than searching up to this multiple of the inputs' size.
_DENSE_SLOTS_PER_ROW = 4

_ROWS_PER_BLOCK = 2**16


class Lookup(NamedTuple):
    """The row found for each key.

    Attributes:
        row: Shape (n,), int64, row of the table; 0 if not found, so look up other columns as
            ``column[row[found]]``.
        found: Shape (n,), bool.
    """

    row: I64
    found: BoolArray


def lookup(keys: Integers, table_keys: Integers, *, duplicates: Duplicates = "first") -> Lookup:
    """Find each key's row in a table of keys.

    Args:
        keys: Shape (n,), the keys to look up, in any order.
        table_keys: Shape (m,), the table's keys, in any order.
        duplicates: Which row to use for a key that occurs more than once in the table.

    Takes O(n + m) if the table's keys are dense, otherwise O((n + m) log m).
    """
    wanted, table = as_i64("keys", keys), as_i64("table_keys", table_keys)
    if not len(wanted) or not len(table):
        return Lookup(np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_))
    low, high = int(table.min()), int(table.max())
    if high - low < _DENSE_SLOTS_PER_ROW * (len(wanted) + len(table)):
        return _lookup_dense(wanted, table, low, high, duplicates)
    return _lookup_sorted(wanted, table, duplicates)


def lookup_rows(
    keys: Sequence[Integers], table_keys: Sequence[Integers], *, duplicates: Duplicates = "first"
) -> Lookup:
    """Find each row of key columns, such as (process, correlation), in a table of such rows.

    Args:
        keys: Columns of shape (n,), one per part of the key.
        table_keys: Columns of shape (m,), the same number in the same order.
        duplicates: Which row to use for a key that occurs more than once in the table.

    Raises SchemaError if the two sides have different numbers of columns, or none.
    """
    if len(keys) != len(table_keys) or not keys:
        raise SchemaError(f"a join of {len(keys)} key columns with {len(table_keys)}")
    pairs = [
        (as_i64("keys", wanted), as_i64("table_keys", table))
        for wanted, table in zip(keys, table_keys, strict=True)
    ]
    for side in zip(*pairs, strict=True):
        require_equal_length(**{f"column {number}": key for number, key in enumerate(side)})
    telling = [pair for pair in pairs if not _is_one_value(*pair)] or pairs[:1]
    if len(telling) == 1:
        return lookup(*telling[0], duplicates=duplicates)
    columns = [np.concatenate(pair) for pair in telling]
    joint = pack(*columns)
    if joint is None:
        joint = factorize_rows(*columns).codes.astype(np.int64)
    n = len(keys[0])
    return lookup(joint[:n], joint[n:], duplicates=duplicates)


def _is_one_value(keys: I64, table: I64) -> bool:
    """Return whether all values of a key column are equal, as those of the only process."""
    if not len(keys) or not len(table):
        return False
    value = keys[0]
    return bool(table[0] == value and (table == value).all() and (keys == value).all())


def _lookup_dense(keys: I64, table: I64, low: int, high: int, duplicates: Duplicates) -> Lookup:
    slot = np.full(high - low + 1, _NOTHING, np.int32 if len(table) < 2**31 else np.int64)
    # The last write to a slot wins.
    step = 1 if duplicates == "last" else -1
    for block in list(_blocks(len(table)))[::step]:
        rows = np.arange(block.start, block.stop, dtype=slot.dtype)
        slot[(table[block] - low)[::step]] = rows[::step]
    row, found = np.empty(len(keys), np.int64), np.empty(len(keys), np.bool_)
    every = len(keys) > 0 and low <= int(keys.min()) and int(keys.max()) <= high
    for block in _blocks(len(keys)):
        wanted = keys[block]
        if every:
            row[block] = slot[wanted - low]
            found[block] = row[block] != _NOTHING
        else:
            inside = (wanted >= low) & (wanted <= high)
            row[block] = slot[np.where(inside, wanted, low) - low]
            found[block] = inside & (row[block] != _NOTHING)
        row[block][~found[block]] = 0
    return Lookup(row, found)


def _blocks(count: int) -> Iterator[slice]:
    """Yield slices that together cover `count` rows, small enough for the CPU's cache."""
    for begin in range(0, count, _ROWS_PER_BLOCK):
        yield slice(begin, min(begin + _ROWS_PER_BLOCK, count))


def _lookup_sorted(keys: I64, table: I64, duplicates: Duplicates) -> Lookup:
    order = None if is_sorted(table) else np.argsort(table, kind="stable")
    ascending = table if order is None else table[order]
    if duplicates == "first":
        place = np.minimum(np.searchsorted(ascending, keys, side="left"), len(table) - 1)
    else:
        place = np.maximum(np.searchsorted(ascending, keys, side="right") - 1, 0)
    found = ascending[place] == keys
    index = place if order is None else order[place]
    return Lookup(np.where(found, index, 0).astype(np.int64, copy=False), found)
