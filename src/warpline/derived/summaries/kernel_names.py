"""Which of its names a kernel is listed under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32
from warpline.trace import Trace

KERNEL_NAME_ARGUMENTS: Mapping[str, str] = {
    "base": "Name kernels without template arguments and parameters.",
    "mangled": "Name kernels as the compiler wrote them, where that was recorded.",
}


def kernel_name_column(arguments: Sequence[str]) -> str:
    """Return the column that names kernels under the arguments ``base`` and ``mangled``."""
    if "base" in arguments:
        return "short_name_id"
    return "mangled_name_id" if "mangled" in arguments else "name_id"


@derived
def kernel_name_ids(trace: Trace, column: str, *, ordered: bool = False) -> I32:
    """Return the text of each kernel's name, shape (n,), int32.

    Args:
        trace: The trace.
        column: From `kernel_name_column`; a kernel without a mangled name has its full name.
        ordered: Rows in the total order of kernels; else in the order of unordered columns.
    """
    names = trace.columns("kernel", column, ordered=ordered)[column]
    if names.valid is None:
        return names.values
    full = trace.columns("kernel", "name_id", ordered=ordered)["name_id"]
    return np.where(names.valid, names.values, full.values)
