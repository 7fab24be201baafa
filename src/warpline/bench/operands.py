"""Matrices of random numbers: of equal numbers, a GEMM draws less power, and clocks are higher."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_COUNT = 1_048_573  # a prime, so that the rows of a matrix differ
_DTYPES = {"fp64": np.float64, "fp32": np.float32, "tf32": np.float32, "fp16": np.float16}


def matrix(rows: int, columns: int, dtype: str) -> npt.NDArray[Any]:
    """Return normally distributed numbers, repeated after a million.

    Args:
        rows: Rows.
        columns: Columns.
        dtype: ``fp64``, ``fp32``, ``tf32``, ``fp16`` or ``bf16``, whose array has its bits.
    """
    return np.resize(_numbers(dtype), (rows, columns))


@cache
def _numbers(dtype: str) -> npt.NDArray[Any]:
    numbers = np.random.default_rng(0).standard_normal(_COUNT, np.float32)
    if dtype == "bf16":
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(_DTYPES[dtype])
