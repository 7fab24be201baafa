"""Array types, and the input checks of all operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpline.errors import SchemaError

I64 = npt.NDArray[np.int64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.signedinteger[Any]]

T = TypeVar("T", bound=np.generic)

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_LOW_32 = np.uint64(2**32 - 1)


def as_i64(name: str, values: Integers) -> I64:
    """Return the values as int64, without a copy if they already are; see `require_integers`.

    A repeated value stays repeated.
    """
    require_integers(name, values)
    if is_repeated(values):
        return repeated(values[:1].astype(np.int64), len(values))
    return values.astype(np.int64, copy=False)


def require_integers(name: str, values: npt.NDArray[Any]) -> None:
    """Raise SchemaError with the array's name unless it is a 1-D array of signed integers.

    Floats would lose digits of times and ids, and unsigned integers may exceed int64.
    """
    if values.ndim != 1 or values.dtype.kind != "i":
        raise SchemaError(
            f"{name}: expected a row of signed integers, got {values.ndim}-d {values.dtype}"
        )


def require_equal_length(**arrays: npt.NDArray[Any]) -> None:
    """Raise SchemaError unless all arrays, given by name, have the same length."""
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise SchemaError(f"arrays of different lengths: {sizes}")


def is_repeated(values: npt.NDArray[Any]) -> bool:
    """Return whether the array is one value for all rows, kept once, as `repeated` returns it."""
    return values.strides == (0,)


def repeated(value: npt.NDArray[T], count: int) -> npt.NDArray[T]:
    """Return the value of an array of shape (1,) `count` times, in the memory of one.

    The native core needs one address per row: pass `np.ascontiguousarray` of it.
    """
    return np.broadcast_to(value, (count,))


def taken(values: npt.NDArray[T], rows: npt.NDArray[Any]) -> npt.NDArray[T]:
    """Return ``values[rows]``; one value for all of them stays in the memory of one.

    Args:
        values: Shape (n,).
        rows: Shape (k,), integers.
    """
    if is_repeated(values):
        return repeated(values[:1], len(rows))
    return repeated(values[rows[:1]], len(rows)) if is_repeated(rows) else values[rows]


def joined(parts: Sequence[npt.NDArray[T]]) -> npt.NDArray[T]:
    """Return the parts as one array; one value for all of them stays in the memory of one.

    Args:
        parts: One array or more. Empty ones decide the type only if all are.
    """
    filled = [part for part in parts if len(part)] or parts[:1]
    values = {part[0].item() if len(part) and is_repeated(part) else None for part in filled}
    if len(values) == 1 and None not in values:
        return repeated(filled[0][:1], sum(map(len, filled)))
    return filled[0] if len(filled) == 1 else np.concatenate(filled)


def is_sorted(values: I64) -> bool:
    """Return whether the values are sorted in ascending order; ties are allowed."""
    return bool(np.all(values[1:] >= values[:-1]))


def exact_sum(values: U64) -> int:
    """Return the sum as a Python int, exact for up to 2**32 values of any size."""
    low = int(np.sum(values & _LOW_32))
    return (int(np.sum(values >> np.uint64(32))) << 32) + low
