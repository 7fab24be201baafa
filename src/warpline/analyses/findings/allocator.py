"""allocator: GPU memory is allocated and freed again and again."""

from __future__ import annotations

from warpline.derived.breakdown.recurrence import recurs, while_working
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.program import calls_hip, program_kind
from warpline.derived.recorder import calls_hint
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import DropCalls
from warpline.trace import Run, Trace
from warpline.units import format_ns, plural

NAME = "allocator"
TITLE = "GPU memory is allocated and freed in every step"

_LEAST_PER_STEP = 0.5
_LEAST_SHARE = 0.01
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
        step, taking at least 1% of the step. Without steps: calls that recur throughout the time
        with GPU work, and leave the GPU idle for at least 1% of it.
    Why it matters: These calls are slow, and cudaFree waits until the GPU has finished all its
        work.
    How it is found: By function name, on threads that launch work. cudaMallocAsync does not
        count, as it allocates from a pool.
    What to do: Keep memory in a pool, and do not empty the pool.
    Limits: The first steps of a program fill the pool. These steps are excluded. Without steps,
        calls recur if at least 20 have new GPU work between them, and they are spread over nine of
        ten equal parts of the time.
    Source: CUDA Runtime API, memory management; measured on a program with and without the
        problem.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", calls_hint(trace))
    scope, calls = step_scope(run), working_calls(trace)
    rows = calls.row[calls.kind == CallKind.ALLOCATOR]
    if not scope.has_steps:
        rows = while_working(run, rows)
    count, each = scope.number_of_calls(rows), scope.call_ns_of(rows)
    idle_ns = scope.idle_ns(TimePart.ALLOCATOR)
    if scope.has_steps:
        is_repeated, spent = count >= _LEAST_PER_STEP, each
    else:
        is_repeated, spent = recurs(run, rows), idle_ns
    if not is_repeated or scope.share(spent) < _LEAST_SHARE:
        return []
    number = max(round(count), 1)
    many = plural(number, "call")
    cost = f", which leaves the GPU idle for {format_ns(idle_ns)}{scope.each}" if idle_ns else ""
    which = plural(number, "call that allocates or frees", "calls that allocate or free")
    uncached, fix = "", _FIX
    if count >= max(_UNCACHED_RATIO * scope.number_of(scope.operations), _LEAST_UNCACHED):
        uncached, fix = _without_cache(trace)
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(each, scope.idle_ns()))),
            f"GPU memory allocation blocks the CPU for {format_ns(each)}{scope.each}",
            f"The CPU spends {format_ns(each)}{scope.each} in {which} memory"
            f"{cost}.{uncached} cudaFree also synchronizes with the GPU.",
            (scope.show_calls(f"{many}{scope.each} take {format_ns(each)}", rows),),
            fix,
            "Profile again: `warpline stats -r cuda_api_sum` shows no cudaMalloc or cudaFree"
            " within steps.",
            fix_cuda="Allocate once before the loop, or use cudaMallocAsync and cudaFreeAsync"
            " with a pool that has a high cudaMemPoolAttrReleaseThreshold. In OpenACC and OpenMP,"
            " put a data region around the loop.",
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
