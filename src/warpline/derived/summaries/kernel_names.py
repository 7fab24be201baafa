"""The names under which kernels are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32
from warpline.trace import Trace

KERNEL_NAME_ARGUMENTS: Mapping[str, str] = {
    "base": "use base kernel names, without template arguments and parameters",
    "mangled": "use mangled kernel names, if recorded",
}


def kernel_name_column(arguments: Sequence[str]) -> str:
    """Return the name column selected by the arguments ``base`` and ``mangled``."""
    if "base" in arguments:
        return "short_name_id"
    return "mangled_name_id" if "mangled" in arguments else "name_id"


@derived
def kernel_name_ids(trace: Trace, column: str, *, ordered: bool = False) -> I32:
    """Return each kernel's name as a row of the string pool, shape (n,), int32.

    Args:
        trace: The trace.
        column: From `kernel_name_column`; kernels without a mangled name keep the full name.
        ordered: Whether rows are in the total order of kernels or in that of unordered columns.
    """
    names = trace.columns("kernel", column, ordered=ordered)[column]
    if names.valid is None:
        return names.values
    full = trace.columns("kernel", "name_id", ordered=ordered)["name_id"]
    return np.where(names.valid, names.values, full.values)
