"""A kernel that Numba compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

if not hasattr(np, "row_stack"):  # which Numba of 2025 asks for, and NumPy 2.5 no longer has
    setattr(np, "row_stack", np.vstack)  # noqa: B010 - else it is taken for a use of it

from numba import cuda


@cuda.jit
def scale(data: Any, factor: Any) -> None:
    """Multiply and add the place."""
    i = cuda.grid(1)
    if i < data.size:
        data[i] = data[i] * factor + i
