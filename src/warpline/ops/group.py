"""Grouping of rows: dense group numbers, and statistics per group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.errors import InputError, SchemaError
from warpline.frozen import frozen
from warpline.ops.arrays import (
    F64,
    I32,
    I64,
    U64,
    Integers,
    as_i64,
    is_repeated,
    require_equal_length,
    require_integers,
)

_LOW_32 = np.uint64(2**32 - 1)
_BITS_32 = np.uint64(32)

# Above this number of distinct keys, sorting is as fast as hashing.
_MAX_HASHED_KEYS = 2**16

# A table of all numbers in a range, not only of those that occur, may have so many per value: it
# then takes about as much memory as these.
_TABLE_PER_VALUE = 4

_ROWS_PER_BLOCK = 2**16

_EXACT_FLOATS = 2**53

_COLLECTED = ("count", "min", "max", "sum", "mean", "median", "stddev")

Number = TypeVar("Number", np.int64, np.float64)
Whole = TypeVar("Whole", bound=np.signedinteger[Any])


@frozen
class Groups:
    """Rows grouped by one key.

    Attributes:
        codes: Shape (n,), int32, each row's group number.
        uniques: Shape (n_groups,), int64, each group's key, ascending.
    """

    codes: I32
    uniques: I64

    @property
    def n_groups(self) -> int:
        """Number of groups; none is empty."""
        return len(self.uniques)


@frozen
class RowGroups:
    """Rows grouped by the tuple of several columns.

    Attributes:
        codes: Shape (n,), int32, each row's group number; groups are in ascending tuple order.
        first: Shape (n_groups,), int64, each group's first row: ``column[first]`` gives keys.
    """

    codes: I32
    first: I64

    @property
    def n_groups(self) -> int:
        """Number of groups; none is empty."""
        return len(self.first)


def distinct_values(values: npt.NDArray[Whole]) -> npt.NDArray[Whole]:
    """Return the distinct values, ascending, of the same type.

    `numpy.unique` hashes all values first, which takes a second per million if most differ, and
    imports `numpy.ma`.

    Args:
        values: Shape (n,), integers.
    """
    if not len(values) or is_repeated(values):
        return values[:1].copy()
    low, high = int(values.min()), int(values.max())
    if high - low < _TABLE_PER_VALUE * len(values):
        is_present = np.zeros(high - low + 1, np.bool_)
        is_present[values - values.dtype.type(low)] = True
        return (np.flatnonzero(is_present) + low).astype(values.dtype)
    is_ascending = bool((values[1:] >= values[:-1]).all())
    ordered = values if is_ascending else np.sort(values)
    found: npt.NDArray[Whole] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def places(ascending: I64, values: I64) -> I32:
    """Return where each value is among distinct ones that include it, shape (n,), int32.

    Args:
        ascending: Shape (m,), ascending and distinct.
        values: Shape (n,), any of them.
    """
    if not len(values):
        return np.zeros(0, np.int32)
    low, high = int(ascending[0]), int(ascending[-1])
    if high - low >= _TABLE_PER_VALUE * len(values):
        return np.searchsorted(ascending, values).astype(np.int32)
    place = np.empty(high - low + 1, np.int32)
    place[ascending - low] = np.arange(len(ascending))
    return place[values - low]


def factorize(keys: Integers) -> Groups:
    """Number the distinct keys densely, in ascending order.

    Args:
        keys: Shape (n,), any values.
    """
    wanted = np.ascontiguousarray(as_i64("keys", keys))
    groups = _factorize_natively(wanted)
    if groups is None and (dense := _factorize_dense((wanted,))) is not None:
        groups = Groups(dense.codes, wanted[dense.first])
    if groups is None:
        uniques, codes = np.unique(wanted, return_inverse=True)
        groups = Groups(codes.reshape(-1).astype(np.int32), uniques)
    return groups


def factorize_rows(*columns: Integers) -> RowGroups:
    """Number the distinct rows of several columns densely, in lexicographic order.

    Args:
        columns: One or more arrays of shape (n,), any values.
    """
    dense = _factorize_dense(columns)
    if dense is not None:
        return dense
    packed = pack(*columns)
    if packed is None:
        codes = factorize(columns[0]).codes
        for column in columns[1:]:
            both = pack(codes, factorize(column).codes)
            assert both is not None, "two dense numbers always fit 63 bits"
            codes = factorize(both).codes
        packed = codes.astype(np.int64)
    groups = factorize(packed)
    return RowGroups(groups.codes, _first_rows(groups.codes, groups.n_groups))


def _factorize_dense(columns: Sequence[Integers]) -> RowGroups | None:
    """Return the groups of columns of small numbers, a block of rows at a time.

    A table of all tuples that are possible replaces the hash table, and no packed key is kept.
    Returns None if there are too many, and for arguments that `pack` must reject.
    """
    n = len(columns[0]) if columns else 0
    if not n or any(column.dtype.kind != "i" or column.shape != (n,) for column in columns):
        return None
    varying = [column for column in columns if not is_repeated(column)]
    lows = [int(column.min()) for column in varying]
    sizes = [int(column.max()) - low + 1 for column, low in zip(varying, lows, strict=True)]
    n_tuples = math.prod(sizes)
    if n_tuples > max(_MAX_HASHED_KEYS, n):
        return None
    if not varying:
        return RowGroups(np.zeros(n, np.int32), np.zeros(1, np.int64))
    codes, is_present = np.empty(n, np.int32), np.zeros(n_tuples, np.bool_)
    for begin in range(0, n, _ROWS_PER_BLOCK):
        block = slice(begin, begin + _ROWS_PER_BLOCK)
        place = np.zeros(min(_ROWS_PER_BLOCK, n - begin), np.int64)
        for column, low, size in zip(varying, lows, sizes, strict=True):
            place *= size
            place += np.subtract(column[block], low, dtype=np.int64)
        codes[block] = place
        is_present[place] = True
    numbers = np.cumsum(is_present, dtype=np.int32) - np.int32(1)
    for begin in range(0, n, _ROWS_PER_BLOCK):
        block = slice(begin, begin + _ROWS_PER_BLOCK)
        codes[block] = numbers[codes[block]]
    return RowGroups(codes, _first_rows(codes, int(numbers[-1]) + 1))


def _first_rows(codes: I32, n_groups: int) -> I64:
    first = np.empty(n_groups, np.int64)
    # Backwards, because the last write to a position wins; in blocks, to need little memory.
    for end in range(len(codes), 0, -_ROWS_PER_BLOCK):
        begin = max(end - _ROWS_PER_BLOCK, 0)
        first[codes[begin:end][::-1]] = np.arange(begin, end)[::-1]
    return first


def pack(*columns: Integers) -> I64 | None:
    """Return one int64 per row with the same order and equality as the row's tuple.

    Returns None if the columns' value ranges together exceed 63 bits. Raises SchemaError without
    columns, or if lengths differ.
    """
    if not columns:
        raise SchemaError("no key column")
    for number, column in enumerate(columns):
        require_integers(f"column {number}", column)
    require_equal_length(**{f"column {number}": key for number, key in enumerate(columns)})
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    lows = [int(key.min()) for key in columns]
    sizes = [int(key.max()) - low + 1 for key, low in zip(columns, lows, strict=True)]
    if math.prod(sizes) >= 2**63:
        return None
    packed: I64 | None = None
    for key, low, size in zip(columns, lows, sizes, strict=True):
        if size == 1:
            continue  # as of one process: the same in every row
        if packed is None:
            packed = np.subtract(key, low, dtype=np.int64)
        else:
            packed *= size
            packed += np.subtract(key, low, dtype=np.int64)
    return np.zeros(len(columns[0]), np.int64) if packed is None else packed


@frozen
class GroupStats:
    """Statistics of int64 values per group, each computed on first access.

    Every result has shape (n_groups,). An empty group has count 0 and 0 for everything else.

    Attributes:
        starts: Shape (n_groups + 1,), int64, start of each group in `ordered`.
        ordered: Shape (n,), int64, the values by group, ascending within each group.
    """

    starts: I64
    ordered: I64

    @cached_property
    def count(self) -> I64:
        """Number of values, int64."""
        return np.diff(self.starts)

    @cached_property
    def min(self) -> I64:
        """Smallest value, int64."""
        return self._spread(self.ordered[self._first])

    @cached_property
    def max(self) -> I64:
        """Largest value, int64."""
        return self._spread(self.ordered[self.starts[1:][self._used] - 1])

    @cached_property
    def sum(self) -> I64:
        """Exact sum, int64; raises InputError if a sum exceeds 64 bits."""
        self._check_sums_fit()
        return self._spread(np.add.reduceat(self.ordered, self._first))

    @cached_property
    def mean(self) -> F64:
        """Exact sum divided by count, float64."""
        return self.sum / np.maximum(self.count, 1)

    @cached_property
    def median(self) -> F64:
        """Median, float64: the middle value, or the mean of the two middle values."""
        count = self.count[self._used]
        low = self.ordered[self._first + (count - 1) // 2].astype(np.float64)
        return self._spread((low + self.ordered[self._first + count // 2]) / 2)

    @cached_property
    def stddev(self) -> F64:
        """Sample standard deviation (divisor count - 1), 0 for a single value, float64.

        With m the integer closest to the mean and d = value - m, the squares about the mean sum to
        sum(d**2) - sum(d)**2 / count. Both sums are exact integers, and the second term is at
        most half of the first, so there is no cancellation.
        """
        count, total = self.count[self._used], self.sum[self._used]
        below = total // count
        nearest = below + ((total - below * count) * 2 >= count)
        rest = (total - nearest * count).astype(np.float64)
        squares = self._squares_about(nearest) - rest * (rest / count)
        return self._spread(np.sqrt(squares / np.maximum(count - 1, 1)))

    def percentile(self, percent: float) -> F64:
        """Percentile with linear interpolation (numpy's default), float64.

        Args:
            percent: From 0 to 100; raises SchemaError outside.
        """
        if not 0 <= percent <= 100:
            raise SchemaError(f"percentile {percent} is not between 0 and 100")
        place = (self.count[self._used] - 1) * (percent / 100)
        below = np.floor(place).astype(np.int64)
        above = np.ceil(place).astype(np.int64)
        low = self.ordered[self._first + below].astype(np.float64)
        step = self.ordered[self._first + above] - low
        return self._spread(low + step * (place - below))

    @cached_property
    def _used(self) -> I64:
        """Groups that are not empty."""
        return np.flatnonzero(self.count)

    @cached_property
    def _first(self) -> I64:
        """Start of each nonempty group in `ordered`."""
        return self.starts[self._used]

    def _spread(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return one value per group from one value per nonempty group."""
        if len(values) == len(self.count):
            return values
        spread = np.zeros(len(self.count), values.dtype)
        spread[self._used] = values
        return spread

    def _check_sums_fit(self) -> None:
        largest = np.maximum(np.abs(self.min.astype(np.float64)), np.abs(self.max))
        if np.all(largest * self.count < 2.0**62):
            return
        low = np.add.reduceat(self.ordered.view(np.uint64) & _LOW_32, self._first)
        high = np.add.reduceat(self.ordered >> 32, self._first) + (low >> _BITS_32).astype(np.int64)
        too_big = (high < -(2**31)) | (high >= 2**31)
        if too_big.any():
            group = int(self._used[too_big.argmax()])
            raise InputError(
                f"the sum of the {self.count[group]} values of group {group}, from "
                f"{self.min[group]} to {self.max[group]}, does not fit 64 bits",
                hint="the file contains invalid values; it is probably damaged",
            )

    def _squares_about(self, centre: I64) -> F64:
        """Return each nonempty group's sum of squared distances from its center."""
        sums = self._squares_natively(centre)
        if sums is not None:
            parts: F64 = sums[::2].astype(np.float64) * 2.0**32 + sums[1::2].astype(np.float64)
            far: F64 = 2.0**33 * parts[1] + 2.0**64 * parts[2]
            near: F64 = parts[0]
            return near + far if parts[2].any() else near
        centres = np.repeat(centre, self.count[self._used])
        # The distance of any two int64 is exact in 64 unsigned bits; so are the products below.
        distance = self.ordered.view(np.uint64) - centres.view(np.uint64)
        np.negative(distance, out=distance, where=self.ordered < centres)
        low, high = distance & _LOW_32, distance >> _BITS_32
        squares = self._sums(low * low)
        if high.any():
            squares += 2.0**33 * self._sums(high * low) + 2.0**64 * self._sums(high * high)
        return squares

    def _squares_natively(self, centre: I64) -> U64 | None:
        """Return the sums of wl_group_squares_i64, shape (6, groups), or None without the core."""
        core = native.core()
        if core is None:
            return None
        starts = np.append(self._first, self.starts[-1])
        sums = np.empty((6, len(centre)), np.uint64)
        status = core.wl_group_squares_i64(
            np.ascontiguousarray(self.ordered).ctypes.data,
            starts.ctypes.data,
            len(centre),
            np.ascontiguousarray(centre).ctypes.data,
            sums.ctypes.data,
        )
        return sums if status == native.OK else None

    def _sums(self, values: U64) -> F64:
        """Return sums per nonempty group, of numbers of any size, rounded once at the end."""
        high = np.add.reduceat(values >> _BITS_32, self._first).astype(np.float64)
        return high * 2.0**32 + np.add.reduceat(values & _LOW_32, self._first)


@frozen
class CollectedStats:
    """The statistics of `GroupStats` without the values, in shape (n_groups,)."""

    count: I64
    min: I64
    max: I64
    sum: I64
    mean: F64
    median: F64
    stddev: F64
    percentiles: Mapping[float, F64]

    def percentile(self, percent: float) -> F64:
        """Return a percentile; SchemaError for one that was not collected."""
        if percent not in self.percentiles:
            raise SchemaError(f"percentile {percent} was not collected")
        return self.percentiles[percent]

    def take(self, groups: I64) -> CollectedStats:
        """Return the statistics of the given groups, in their order."""
        taken = {name: getattr(self, name)[groups] for name in _COLLECTED}
        percentiles = {percent: of[groups] for percent, of in self.percentiles.items()}
        return CollectedStats(**taken, percentiles=percentiles)

    @staticmethod
    def of(blocks: Iterable[GroupStats], percents: Sequence[float]) -> CollectedStats:
        """Collect the statistics of blocks of groups, of which only one is in memory at a time."""
        nothing = GroupStats(np.zeros(1, np.int64), np.zeros(0, np.int64))
        parts: list[list[npt.NDArray[Any]]] = []
        for block in chain((nothing,), blocks):
            of_block = [getattr(block, name) for name in _COLLECTED]
            parts.append(of_block + [block.percentile(percent) for percent in percents])
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        plain = dict(zip(_COLLECTED, columns, strict=False))
        return CollectedStats(
            **plain, percentiles=dict(zip(percents, columns[len(_COLLECTED) :], strict=True))
        )


def group_sums(codes: Integers, values: Integers, n_groups: int) -> I64:
    """Return the exact sum of the values of each group, int64, without sorting them.

    Takes the arguments of `group_stats`, and raises InputError if a sum exceeds 64 bits.
    """
    largest = max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
    if largest * len(values) >= 2**62:
        return group_stats(codes, values, n_groups).sum
    sums = np.zeros(n_groups, np.int64)
    rows = max(_ROWS_PER_BLOCK, n_groups)
    for begin in range(0, len(values), rows):
        owners, block = codes[begin : begin + rows], values[begin : begin + rows]
        if largest * rows < _EXACT_FLOATS:  # faster, and as exact
            sums += np.bincount(owners, block, n_groups).astype(np.int64)
        else:
            np.add.at(sums, owners, block)
    return sums


def group_stats(codes: Integers, values: Integers, n_groups: int) -> GroupStats:
    """Sort the values within their groups, which makes every statistic cheap.

    Args:
        codes: Shape (n,), group numbers in ``[0, n_groups)``; SchemaError outside.
        values: Shape (n,).
        n_groups: Number of groups; some may be empty.
    """
    numbers = np.ascontiguousarray(as_i64("values", values))
    require_integers("codes", codes)
    require_equal_length(codes=codes, values=numbers)
    if not 0 <= n_groups < 2**31:
        raise SchemaError(f"{n_groups} groups cannot be numbered in 32 bits")
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < n_groups:
        raise SchemaError(f"a group number outside [0, {n_groups})")
    owners = np.ascontiguousarray(codes, np.int32)
    stats = _order_natively(owners, numbers, n_groups)
    if stats is None:
        starts = np.zeros(n_groups + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=n_groups), out=starts[1:])
        stats = GroupStats(starts, numbers[np.lexsort((numbers, owners))])
    return stats


def _factorize_natively(keys: I64) -> Groups | None:
    """Return the groups; None without the native core, or if it does not support as many."""
    core = native.core()
    if core is None:
        return None
    codes = np.empty(len(keys), np.int32)
    uniques = np.empty(min(len(keys), _MAX_HASHED_KEYS), np.int64)
    n_groups = core.wl_factorize_i64(
        keys.ctypes.data, len(keys), codes.ctypes.data, uniques.ctypes.data, len(uniques)
    )
    return None if n_groups < 0 else Groups(codes, uniques[:n_groups].copy())


def _order_natively(codes: I32, values: I64, n_groups: int) -> GroupStats | None:
    """Return the ordered values, or None without the native core."""
    core = native.core()
    if core is None:
        return None
    starts, ordered = np.empty(n_groups + 1, np.int64), np.empty(len(values), np.int64)
    status = core.wl_group_order_i64(
        codes.ctypes.data,
        values.ctypes.data,
        len(values),
        n_groups,
        starts.ctypes.data,
        ordered.ctypes.data,
    )
    return GroupStats(starts, ordered) if status == native.OK else None
