"""Matrices of random numbers: of equal numbers, a GEMM draws less power, and clocks are higher."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.bench.refusals import RefusedError

_COUNT = 1_048_573  # a prime, so that the rows of a matrix differ
_FP8_UNIT = 16
_DTYPES = {"fp64": np.float64, "fp32": np.float32, "tf32": np.float32, "fp16": np.float16}


@cache
def numbers(dtype: str) -> npt.NDArray[Any]:
    """Return about a million normally distributed numbers, to be repeated in a matrix.

    Args:
        dtype: ``fp64``, ``fp32``, ``tf32``, ``fp16``, or ``bf16`` and ``fp8`` (E4M3), whose arrays
            have the bits.
    """
    random = np.random.default_rng(0)
    if dtype == "fp8":  # of either sign, from 1/8 to below 4: exponents 4 to 8 of 16, with bias 7
        sign, exponent, fraction = (
            random.integers(low, high, _COUNT, np.uint8) for low, high in ((0, 2), (4, 9), (0, 8))
        )
        bits: npt.NDArray[np.uint8] = sign << 7 | exponent << 3 | fraction
        return bits
    made = random.standard_normal(_COUNT, np.float32)
    if dtype == "bf16":
        return (made.view(np.uint32) >> 16).astype(np.uint16)
    return made.astype(_DTYPES[dtype])


def pieces(count: int) -> Iterator[tuple[int, int]]:
    """Yield place and length of each piece of a matrix with so many elements to fill."""
    for place in range(0, count, _COUNT):
        yield place, min(_COUNT, count - place)


def check_fp8_shape(shape: tuple[int, int, int]) -> None:
    """Raise RefusedError if Tensor Cores cannot multiply FP8 matrices of this shape."""
    if any(size % _FP8_UNIT for size in shape):
        raise RefusedError(f"FP8 requires multiples of {_FP8_UNIT}")
