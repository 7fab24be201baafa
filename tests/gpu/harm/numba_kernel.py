"""A kernel that Numba compiles."""

from __future__ import annotations

from typing import Any

from numba import cuda


@cuda.jit
def scale(data: Any, factor: Any) -> None:
    """Multiply and add the place."""
    i = cuda.grid(1)
    if i < data.size:
        data[i] = data[i] * factor + i
