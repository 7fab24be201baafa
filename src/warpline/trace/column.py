"""The values of a column, with an optional validity mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.frozen import frozen
from warpline.ops.arrays import is_repeated, repeated, taken
from warpline.schema import Column
from warpline.trace.strings import StringPool

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
Rows = slice | npt.NDArray[np.int64] | npt.NDArray[np.int32]


@frozen
class ColumnData:
    """The values of a column.

    Attributes:
        values: Shape (n,), read-only, of the column's dtype. Null values are 0.
        valid: Shape (n,), read-only bool, False for nulls; None if there are no nulls.
    """

    values: Array
    valid: BoolArray | None = None

    def __post_init__(self) -> None:
        self.values.flags.writeable = False
        if self.valid is not None:
            self.valid.flags.writeable = False

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Rows) -> ColumnData:
        """Return the given rows. A slice shares memory with this column."""
        if isinstance(rows, slice):
            return ColumnData(self.values[rows], None if self.valid is None else self.valid[rows])
        valid = None if self.valid is None else taken(self.valid, rows)
        return ColumnData(taken(self.values, rows), valid)

    def is_valid(self) -> BoolArray:
        """Return the validity mask, all True if there are no nulls."""
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid

    def filled(self, fill: int | float) -> Array:
        """Return the values with nulls replaced by `fill`."""
        if self.valid is None:
            return self.values
        return np.where(self.valid, self.values, np.asarray(fill, self.values.dtype))

    def to_list(self) -> list[Any]:
        """Return Python values; None for nulls."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]


def make_column(spec: Column, values: npt.ArrayLike, valid: BoolArray | None = None) -> ColumnData:
    """Return a column of the dtype that `spec` declares, with nulls set to 0.

    A mask that is all True is dropped. `values` is copied only if its dtype differs or a null is
    not 0.
    """
    given = np.asarray(values)
    array = given.astype(spec.dtype.value, copy=False)
    if is_repeated(given) and not is_repeated(array):
        array = repeated(array[:1], len(given))
    if valid is None or bool(valid.all()):
        return ColumnData(array)
    if not valid.any():
        return null_column(spec, len(array))
    if np.any(array, where=~valid):
        array = np.where(valid, array, np.zeros(1, array.dtype))
    return ColumnData(array, valid)


def null_column(spec: Column, row_count: int) -> ColumnData:
    """Return a column of `row_count` nulls."""
    valid = repeated(np.zeros(1, np.bool_), row_count) if row_count else None
    return ColumnData(repeated(np.zeros(1, spec.dtype.value), row_count), valid)


def concatenate(parts: list[ColumnData]) -> ColumnData:
    """Return the parts as one column."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    if all(part.valid is None for part in parts):
        return ColumnData(values)
    return ColumnData(values, np.concatenate([part.is_valid() for part in parts]))


def translated(data: ColumnData, source: StringPool, target: StringPool) -> ColumnData:
    """Return a column of texts of one pool as one of another, to which missing texts are added."""
    if source is target or not len(data):
        return data
    distinct, codes = np.unique(data.values, return_inverse=True)
    is_valid = data.is_valid()
    rows = [target.intern(source.raw(row)) if is_valid.any() else 0 for row in distinct.tolist()]
    values = np.array(rows, np.int32)[codes]
    return ColumnData(np.where(is_valid, values, np.int32(0)), data.valid)
