"""Names of CUDA functions, and calls that are recorded twice."""

from __future__ import annotations

import numpy as np
from support.programs import Program

from warpline.derived.summaries.call_names import function_names, recorded_once
from warpline.trace import Trace


def recorded_twice() -> Trace:
    """Two launches, one of which Nsight Systems records twice, and a driver call in the other."""
    program = Program()
    for start in (0, 10_000):
        number = program.call("cudaLaunchKernel", start, start + 5_000)
        inner = {"start_ns": start + 100, "end_ns": start + 4_900, "correlation_id": number}
        row = program.rows["api_call"][-1]
        name = "cudaLaunchKernel_v7000" if start else "cuLaunchKernel"
        program.add("api_call", **{**row, **inner, "name": name})
    return program.trace()


def test_a_call_inside_its_own_record_is_left_out() -> None:
    trace = recorded_twice()
    every = np.arange(4)
    rows = recorded_once(trace, every)
    assert function_names(trace, rows).values == ["cuLaunchKernel", "cudaLaunchKernel"]
    start = trace.columns("api_call", "start_ns")["start_ns"].values
    assert start[rows].tolist() == [0, 100, 10_000]
