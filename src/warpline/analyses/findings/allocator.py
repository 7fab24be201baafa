"""allocator: GPU memory is allocated and freed in every step."""

from __future__ import annotations

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.program import calls_hip, program_kind
from warpline.derived.recorder import calls_hint
from warpline.derived.severity import severity_of
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import DropCalls
from warpline.trace import Run, Trace
from warpline.units import format_ns, plural

NAME = "allocator"
TITLE = "GPU memory is allocated and freed in every step"

# Of the operations of a step. A caching allocator allocates a few large blocks, if any.
_UNCACHED_RATIO = 0.5
_LEAST_UNCACHED = 20  # calls per step
_FIX = (
    "Remove torch.cuda.empty_cache() from the loop. If memory is tight, set"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Keep shapes constant from step to step."
)


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
        return Skipped(NAME, "no CUDA API calls were recorded", calls_hint(trace))
    scope, calls = step_scope(run), working_calls(trace)
    rows = calls.row[calls.kind == CallKind.ALLOCATOR]
    count, each = scope.number_of_calls(rows), scope.call_ns_of(rows)
    if not scope.has_steps or count < 0.5 or scope.share(each) < 0.01:
        return []
    number = max(round(count), 1)
    many = plural(number, "call")
    s = "s" if number == 1 else ""
    uncached, fix = "", _FIX
    if count >= max(_UNCACHED_RATIO * scope.number_of(scope.operations), _LEAST_UNCACHED):
        uncached, fix = _without_cache(trace)
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(each, scope.idle_ns()))),
            f"GPU memory allocation blocks the CPU for {format_ns(each)}{scope.each}",
            f"The CPU spends {format_ns(each)}{scope.each} in {many} that allocate{s} or free{s}"
            f" memory.{uncached} cudaFree also synchronizes with the GPU.",
            (scope.show_calls(f"{many}{scope.each} take {format_ns(each)}", rows),),
            fix,
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


def _without_cache(trace: Trace) -> tuple[str, str]:
    """Return what a program without a caching allocator shows, a sentence, and PyTorch's fix."""
    if program_kind(trace) != "pytorch":
        return "", _FIX
    variables = "PYTORCH_NO_CUDA_MEMORY_CACHING"
    if calls_hip(trace):
        variables += " and PYTORCH_NO_HIP_MEMORY_CACHING"
    fix = (
        f"Unset {variables}, and use PyTorch's own allocator, so that freed memory is reused."
        " Preallocate buffers that a library allocates in each step."
    )
    return " Most operators allocate, so PyTorch's caching allocator seems to be off.", fix
