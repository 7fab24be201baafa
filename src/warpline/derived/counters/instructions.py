"""Metrics with a value per instruction, by the source line of the instruction."""

from __future__ import annotations

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import F64, I32, I64
from warpline.ops.join import lookup_rows
from warpline.trace import Trace

STALL = "smsp__pcsamp_warps_issue_stalled_"
EXECUTED = "inst_executed"
_NOT_ISSUED = "_not_issued"
NO_FILE = -1
_OTHER = -2


@frozen
class LineValues:
    """Samples and executions of instructions, one row for each metric and instruction.

    Attributes:
        launch: Row of `profiled_kernel`, shape (n,).
        reason: Number of the stall reason in `reasons`, or -1 for executions, shape (n,).
        file: Text row of the source file, or `NO_FILE`, shape (n,).
        line: Line, or 0, shape (n,).
        value: Samples or executions, shape (n,).
        reasons: Names of stall reasons.
    """

    launch: I64
    reason: I64
    file: I64
    line: I64
    value: F64
    reasons: tuple[str, ...]


def line_values(trace: Trace) -> LineValues:
    """Return the samples and executions of all instructions that a report has values for."""
    metrics = trace.columns("kernel_metric", "profiled_kernel_id", "name_id")
    reason_of_text, reasons = _reasons(trace, metrics["name_id"].values)
    instances = trace.columns("metric_instance", "kernel_metric_id", "key", "value")
    owner, value = instances["kernel_metric_id"].values, instances["value"].values
    reason = reason_of_text[metrics["name_id"].values[owner]]
    chosen = (reason != _OTHER) & instances["key"].is_valid() & np.isfinite(value)
    launch = metrics["profiled_kernel_id"].values[owner[chosen]].astype(np.int64)
    process = trace.columns("profiled_kernel", "process_id")["process_id"].values[launch]
    code = trace.columns("kernel_instruction", "process_id", "address", "file_id", "line")
    place, found = lookup_rows(
        (process.astype(np.int64), instances["key"].values[chosen]),
        (code["process_id"].values.astype(np.int64), code["address"].values),
    )
    place = place[found]
    return LineValues(
        launch[found],
        reason[chosen][found],
        code["file_id"].filled(NO_FILE)[place].astype(np.int64),
        code["line"].filled(0)[place],
        value[chosen][found],
        reasons,
    )


def _reasons(trace: Trace, names: I32) -> tuple[I64, tuple[str, ...]]:
    """Return the number of the reason of each text, by its row, and the names of reasons.

    The number is -1 for the metric of executions, and `_OTHER` for texts that are neither.
    """
    numbers = np.full(len(trace.strings), _OTHER, np.int64)
    reasons: list[str] = []
    for row in np.unique(names).tolist():
        name = trace.strings.text(row)
        if name.startswith(STALL) and not name.endswith(_NOT_ISSUED):
            numbers[row] = len(reasons)
            reasons.append(name.removeprefix(STALL))
        elif name == EXECUTED:
            numbers[row] = -1
    return numbers, tuple(reasons)
