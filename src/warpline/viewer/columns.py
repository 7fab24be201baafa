"""Columns of a container: unsigned integers, stored as byte planes.

The lowest bytes of all values come first, then the second bytes, and so on. Neighboring times
have similar high bytes, so gzip compresses planes better than whole integers, and a page decodes
them without branches. ``viewer/CONTAINER.md`` is the contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpline.ops.arrays import I64, U64, BoolArray

MAX_PLANES = 7
LIMIT = 1 << (8 * MAX_PLANES)


class Packed(NamedTuple):
    """One encoded column.

    Attributes:
        name: Name of the column.
        planes: Bytes per value.
        encoding: How to decode the stored integers.
        data: ``count * planes`` bytes.
    """

    name: str
    planes: int
    encoding: str
    data: bytes

    def by_plane(self) -> Iterator[memoryview]:
        """Yield the byte planes."""
        size = len(self.data) // self.planes
        for plane in range(self.planes):
            yield memoryview(self.data)[plane * size : (plane + 1) * size]

    def head(self) -> dict[str, Any]:
        """Return its description in the container's head."""
        described: dict[str, Any] = {"name": self.name, "planes": self.planes}
        return described if self.encoding == "plain" else {**described, "encoding": self.encoding}


def plain(name: str, values: npt.NDArray[Any]) -> Packed:
    """Pack nonnegative integers below 2**56."""
    return _packed(name, "plain", values.astype(np.uint64))


def delta(name: str, values: I64) -> Packed:
    """Pack integers as differences of neighbors, which may be negative."""
    return _packed(name, "delta", zigzag(np.diff(values, prepend=np.int64(0))))


def optional(name: str, values: I64, valid: BoolArray) -> Packed:
    """Pack nonnegative integers with missing values."""
    return _packed(name, "optional", np.where(valid, values + 1, 0).astype(np.uint64))


def optional_delta(name: str, values: I64, valid: BoolArray) -> Packed:
    """Pack nonnegative integers with missing values as differences of neighbors."""
    running = np.where(valid, values + 1, 0)
    return _packed(name, "optional-delta", zigzag(np.diff(running, prepend=np.int64(0))))


def float32(name: str, values: npt.NDArray[Any]) -> Packed:
    """Pack numbers in single precision; NaN is a missing value."""
    bits = values.astype("<f4").view(np.uint32).astype(np.uint64)
    return Packed(name, 4, "float32", _planes(bits, 4))


def float64(name: str, values: npt.NDArray[Any]) -> Packed:
    """Pack numbers in double precision; NaN is a missing value."""
    return Packed(name, 8, "float64", _planes(values.astype("<f8").view(np.uint64), 8))


def smallest(name: str, values: I64, valid: BoolArray | None) -> Packed:
    """Pack any integers in the encoding that is likely to be the smallest.

    Integers too large for the integer encodings become doubles, which are rounded from 2**53 on.
    """
    known = values if valid is None else np.where(valid, values, 0)
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if max(-low, high) >= LIMIT // 4 or (low < 0 and valid is not None):
        numbers = known.astype(np.float64)
        return float64(name, numbers if valid is None else np.where(valid, numbers, np.nan))
    running, before = (known, "") if valid is None else (np.where(valid, known + 1, 0), "optional")
    differences = zigzag(np.diff(running, prepend=np.int64(0)))
    itself = running.astype(np.uint64)
    if low >= 0 and _planes_of(itself) <= _planes_of(differences):
        return _packed(name, before or "plain", itself)
    return _packed(name, f"{before}-delta".lstrip("-"), differences)


def zigzag(values: I64) -> U64:
    """Return 0, -1, 1, -2, 2... as 0, 1, 2, 3, 4..."""
    coded: U64 = ((values << 1) ^ (values >> 63)).view(np.uint64)
    return coded


def _packed(name: str, encoding: str, coded: U64) -> Packed:
    planes = _planes_of(coded)
    if planes > MAX_PLANES:
        raise ValueError(f"column {name!r}: {int(coded.max())} needs more than 7 bytes")
    return Packed(name, planes, encoding, _planes(coded, planes))


def _planes_of(coded: U64) -> int:
    """Return the bytes that the largest number needs, at least 1."""
    largest = int(coded.max()) if len(coded) else 0
    return max((largest.bit_length() + 7) // 8, 1)


def _planes(coded: U64, planes: int) -> bytes:
    octets = np.ascontiguousarray(coded.astype("<u8", copy=False)).view(np.uint8)
    return np.ascontiguousarray(octets.reshape(len(coded), 8)[:, :planes].T).tobytes()
