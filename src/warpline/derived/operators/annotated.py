"""The trace in which operators are rows of `op`, however they were recorded."""

from __future__ import annotations

from warpline.derived import derived
from warpline.trace import Trace
from warpline.trace.annotated_operators import with_annotated_operators

OPERATOR_TABLES = ("op", "range")
"""The tables that have operators, for analyses of operators."""


@derived
def operator_trace(trace: Trace) -> Trace:
    """Return the trace itself, or one with operators instead of PyTorch's NVTX ranges of them.

    Whatever is about operators and refers to rows of `op` or `range` is derived from this trace.
    """
    if trace.has("op") and trace.row_count("op"):
        return trace
    return with_annotated_operators(trace)


def has_operators(trace: Trace) -> bool:
    """Return whether a trace has operators, in either form."""
    operators = operator_trace(trace)
    return operators.has("op") and operators.row_count("op") > 0
