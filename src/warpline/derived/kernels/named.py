"""Operations chosen by the names of their kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpline.derived.texts import kernel_names
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

_LONGEST_NAME = 4096  # the start of a name identifies it


def kernels_named(trace: Trace, is_meant: Callable[[str], bool]) -> BoolArray:
    """Return which operations are kernels with a name that a function accepts.

    Args:
        trace: The trace.
        is_meant: Called once for each distinct name, of which it gets the first 4096 characters.
    """
    work = operations(trace)
    kernels, found = work.of_table("kernel"), np.zeros(len(work), np.bool_)
    if len(kernels):
        number, distinct = kernel_names(trace)
        texts = trace.strings.texts(distinct.tolist())
        meant = np.fromiter((is_meant(text[:_LONGEST_NAME]) for text in texts), np.bool_)
        found[kernels] = meant[number[work.row[kernels]]]
    return found
