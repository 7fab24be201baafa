"""Array types, and the input checks of all operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.errors import SchemaError

I64 = npt.NDArray[np.int64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.signedinteger[Any]]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_LOW_32 = np.uint64(2**32 - 1)


def as_i64(name: str, values: Integers) -> I64:
    """Return the values as int64, without a copy if they already are; see `require_integers`."""
    require_integers(name, values)
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


def is_sorted(values: I64) -> bool:
    """Return whether the values are sorted in ascending order; ties are allowed."""
    return bool(np.all(values[1:] >= values[:-1]))


def is_constant(values: npt.NDArray[Any]) -> bool:
    """Return whether an array is one value, broadcast: all rows share its memory."""
    return values.strides == (0,) and len(values) > 0


def take(values: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return ``values[rows]``; without memory for its rows if either array is constant.

    The result is then read-only, and not contiguous.
    """
    if is_constant(rows) or (is_constant(values) and len(rows)):
        return np.broadcast_to(values[rows[0]], rows.shape)
    taken: npt.NDArray[Any] = values[rows]
    return taken


def exact_sum(values: U64) -> int:
    """Return the sum as a Python int, exact for up to 2**32 values of any size."""
    low = int(np.sum(values & _LOW_32))
    return (int(np.sum(values >> np.uint64(32))) << 32) + low
