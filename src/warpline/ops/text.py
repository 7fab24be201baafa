"""Grouping of texts: equal texts get the same dense number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.ops.arrays import I32, I64, BoolArray


class TextGroups(NamedTuple):
    """Texts grouped by their bytes.

    Attributes:
        codes: Shape (n,), int32, each text's number in order of first appearance; -1 for null.
        first: Shape (n_groups,), int64, the row where each distinct text appeared first.
    """

    codes: I32
    first: I64


def factorize_texts(
    blob: npt.NDArray[np.uint8], offsets: I64, valid: BoolArray | None = None
) -> TextGroups:
    """Number the distinct texts ``blob[offsets[i]:offsets[i + 1]]``.

    Args:
        blob: The bytes of all texts, one after another.
        offsets: Shape (n + 1,), ascending, from 0 to ``len(blob)``.
        valid: Shape (n,), False for null; None if there are no nulls.
    """
    count = len(offsets) - 1
    groups = _natively(blob, offsets, valid, count)
    if groups is not None:
        return groups
    raw = blob.tobytes()
    rows = np.arange(count) if valid is None else np.flatnonzero(valid)
    bounds = zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
    numbers: dict[bytes, int] = {}
    of_row = np.array(
        [numbers.setdefault(raw[begin:end], len(numbers)) for begin, end in bounds], np.int32
    )
    codes, first = np.full(count, -1, np.int32), np.empty(len(numbers), np.int64)
    codes[rows] = of_row
    first[of_row[::-1]] = rows[::-1]  # the last write to a position wins: here the first row
    return TextGroups(codes, first)


def _natively(
    blob: npt.NDArray[np.uint8], offsets: I64, valid: BoolArray | None, count: int
) -> TextGroups | None:
    core = native.core()
    if core is None or not count:
        return None
    codes, first = np.empty(count, np.int32), np.empty(count, np.int64)
    mask = None if valid is None else np.ascontiguousarray(valid, np.uint8)
    n_groups = core.wl_factorize_text(
        np.ascontiguousarray(blob).ctypes.data,
        np.ascontiguousarray(offsets).ctypes.data,
        0 if mask is None else mask.ctypes.data,
        count,
        codes.ctypes.data,
        first.ctypes.data,
        count,
    )
    return TextGroups(codes, first[:n_groups].copy()) if n_groups >= 0 else None
