"""allocator: GPU memory is allocated and freed in every step."""

from __future__ import annotations

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.severity import severity_of
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import DropCalls
from warpline.trace import Run
from warpline.units import format_ns, plural

NAME = "allocator"
TITLE = "GPU memory is allocated and freed in every step"


@rule(name=NAME, title=TITLE)
def allocator(run: Run) -> list[Finding] | Skipped:
    """Calls to cudaMalloc, cudaFree and similar functions in every step.

    What it finds: Calls that allocate, free, or map memory: at least one in every second analyzed
        step, taking at least 1% of the step.
    Why it matters: These calls are slow, and cudaFree waits until the GPU has finished all its
        work.
    How it is found: By function name, on threads that launch work. cudaMallocAsync does not
        count, as it allocates from a pool.
    What to do: Keep memory in a pool, and do not empty the pool.
    Limits: The first steps of a program fill the pool. These steps are excluded.
    Source: CUDA Runtime API, memory management; measured on a program with and without the
        problem.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", "profile with --trace=cuda")
    scope, calls = step_scope(run), working_calls(trace)
    rows = calls.row[calls.kind == CallKind.ALLOCATOR]
    count, each = scope.number_of_calls(rows), scope.call_ns_of(rows)
    if not scope.has_steps or count < 0.5 or scope.share(each) < 0.01:
        return []
    many = plural(max(round(count), 1), "call")
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(each, scope.idle_ns()))),
            f"GPU memory allocation blocks the CPU for {format_ns(each)}{scope.each}",
            f"The CPU spends {format_ns(each)}{scope.each} in {many} that allocate or free memory."
            " cudaFree also synchronizes with the GPU.",
            (scope.show_calls(f"{many}{scope.each} take {format_ns(each)}", rows),),
            "Remove torch.cuda.empty_cache() from the loop. If memory is tight, set"
            " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Keep shapes constant from step to"
            " step.",
            "Profile again: `warpline stats -r cuda_api_sum` shows no cudaMalloc or cudaFree"
            " within steps.",
            fix_cuda="Allocate once before the loop, or use cudaMallocAsync and cudaFreeAsync"
            " with a pool that has a high cudaMemPoolAttrReleaseThreshold.",
            fix_in={
                "jax": "Leave XLA's preallocation on: unset XLA_PYTHON_CLIENT_PREALLOCATE=false"
                " and XLA_PYTHON_CLIENT_ALLOCATOR=platform. If memory is tight, lower"
                " XLA_PYTHON_CLIENT_MEM_FRACTION."
            },
            changes=(DropCalls(rows, keeps_gap=True),),
            on_devices=scope.calls_on_devices(rows),
        )
    ]
