"""Operations chosen by the names of their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from warpline.derived import derived
from warpline.derived.texts import kernel_names
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64, BoolArray, taken
from warpline.trace import Trace

T = TypeVar("T", bound=np.generic)

_LONGEST_NAME = 4096  # the start of a name identifies it


class NamesOfOperations(NamedTuple):
    """The name of each operation that is a kernel.

    Attributes:
        number: Shape (operations,), int32, places in `distinct`; the one behind its last for
            operations that are no kernels.
        distinct: Shape (names,), int64, rows of the string pool.
    """

    number: I32
    distinct: I64

    def fact(self, of_names: npt.NDArray[T], otherwise: int) -> npt.NDArray[T]:
        """Return what is known of each operation by its name, shape (operations,).

        Args:
            of_names: Shape (names,).
            otherwise: The value for operations that are no kernels.
        """
        values = np.empty(len(of_names) + 1, of_names.dtype)
        values[:-1], values[-1] = of_names, otherwise
        return taken(values, self.number)


@derived
def names_of_operations(trace: Trace) -> NamesOfOperations:
    """Return the name of each operation that is a kernel."""
    work = operations(trace)
    if not trace.has("kernel"):
        return NamesOfOperations(np.zeros(len(work), np.int32), np.zeros(0, np.int64))
    of_kernels, distinct = kernel_names(trace)
    kernels = work.of_table("kernel")
    if len(kernels) == len(work):
        return NamesOfOperations(of_kernels[work.row], distinct)
    number = np.full(len(work), len(distinct), np.int32)
    number[kernels] = of_kernels[work.row[kernels]]
    return NamesOfOperations(number, distinct)


def kernels_named(trace: Trace, is_meant: Callable[[str], bool]) -> BoolArray:
    """Return which operations are kernels with a name that a function accepts.

    Args:
        trace: The trace.
        is_meant: Called once for each distinct name, of which it gets the first 4096 characters.
    """
    names = names_of_operations(trace)
    texts = trace.strings.texts(names.distinct.tolist())
    meant = np.fromiter((is_meant(text[:_LONGEST_NAME]) for text in texts), np.bool_)
    if not meant.any():
        return np.zeros(len(names.number), np.bool_)
    return names.fact(meant, otherwise=False)
