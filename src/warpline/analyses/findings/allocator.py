"""allocator: device memory is taken and given back in every step."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CALL_KINDS
from warpline.derived.severity import severity_of
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import DropCalls
from warpline.trace import Trace
from warpline.units import format_ns, plural

NAME = "allocator"
TITLE = "Device memory is allocated and released in every step"


@rule(name=NAME, title=TITLE)
def allocator(trace: Trace, steps: str | None) -> list[Finding] | Skipped:
    """Calls of cudaMalloc, cudaFree and the like in every step.

    What it finds: Calls that take or give back memory or its mapping, at least one in every
        second step that counts, if they take at least 1% of it.
    Why it matters: They take long, and cudaFree waits until the device has done all its work.
    How it is found: By the functions' names, on threads that launch work. cudaMallocAsync, which
        takes memory from a pool, is none of them.
    What to do: Keep memory in a pool, and let nothing empty it.
    Limits: The first steps of a program fill its pool; such steps do not count.
    Source: CUDA Runtime API, memory management; measured on a program with and without it.
    """
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA calls were recorded", "record with --trace=cuda")
    scope, calls = step_scope(trace, steps), working_calls(trace)
    rows = calls.row[calls.kind == CALL_KINDS.index("allocator")]
    counted = rows[scope.calls[rows]]
    count = len(counted) / scope.count
    columns = trace.columns("api_call", "start_ns", "end_ns")
    length = columns["end_ns"].values[counted] - columns["start_ns"].values[counted]
    each = float(np.maximum(length, 0).sum()) / scope.count
    if not scope.has_steps or count < 0.5 or scope.share(each) < 0.01:
        return []
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(each, scope.idle_ns()))),
            TITLE,
            f"Memory is allocated or released {plural(round(count), 'time')}{scope.each}; the host"
            f" spends {format_ns(each)} in these calls, and cudaFree waits for the device.",
            (scope.show_calls(f"{plural(round(count), 'call')} in {format_ns(each)}", rows),),
            "Do not call torch.cuda.empty_cache() in the loop; if memory is short, set"
            " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True and keep shapes equal from step"
            " to step",
            "record again: no cudaMalloc and cudaFree in the steps of"
            " `warpline stats -r cuda_api_sum`",
            fix_cuda="Allocate once before the loop, or use cudaMallocAsync and cudaFreeAsync"
            " with a pool whose cudaMemPoolAttrReleaseThreshold is high",
            changes=(DropCalls(rows, keeps_gap=True),),
        )
    ]
