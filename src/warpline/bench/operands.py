"""Matrices of random numbers: of equal numbers, a GEMM draws less power, and clocks are higher."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_COUNT = 1_048_573  # a prime, so that the rows of a matrix differ
_DTYPES = {"fp64": np.float64, "fp32": np.float32, "tf32": np.float32, "fp16": np.float16}


@cache
def numbers(dtype: str) -> npt.NDArray[Any]:
    """Return about a million normally distributed numbers, to be repeated in a matrix.

    Args:
        dtype: ``fp64``, ``fp32``, ``tf32``, ``fp16`` or ``bf16``, whose array has its bits.
    """
    made = np.random.default_rng(0).standard_normal(_COUNT, np.float32)
    if dtype == "bf16":
        return (made.view(np.uint32) >> 16).astype(np.uint16)
    return made.astype(_DTYPES[dtype])


def pieces(count: int) -> Iterator[tuple[int, int]]:
    """Yield place and length of each piece of a matrix with so many elements to fill."""
    for place in range(0, count, _COUNT):
        yield place, min(_COUNT, count - place)
