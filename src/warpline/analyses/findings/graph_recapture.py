"""graph-recapture: CUDA graphs are re-created in every step."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import WorkingCalls, working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.recorder import calls_hint
from warpline.derived.severity import severity_of
from warpline.ops.arrays import I64
from warpline.ops.tiling import by_group
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import Change, LaunchAsGraph
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "graph-recapture"
TITLE = "CUDA graphs are re-created in every step"

_LEAST_SHARE = 0.05
# Frameworks synchronize, free memory, and set the state of their random number generator just
# before a capture. They set that state for each launch of the graph too.
_FILLS = 2
_BEFORE = [CallKind.OTHER, CallKind.HOST_SYNC, CallKind.ALLOCATOR]


@rule(name=NAME, title=TITLE)
def graph_recapture(run: Run) -> list[Finding] | Skipped:
    """CUDA graphs that are captured, instantiated, or destroyed in every step.

    What it finds: Calls that create or destroy graphs in at least every second step. Together
        with the CPU's work during capture, they take at least 5% of the step.
    Why it matters: Creating a graph takes longer than launching its work once. It pays off only
        if the graph is launched many times.
    How it is found: By function name, on threads that launch work. Synchronization and memory
        calls just before a capture count as part of it, because frameworks make them.
    What to do: Create the graph once, before the loop, and launch it in each step.
    Limits: A program with changing shapes needs one graph per shape or must update a graph
        (cudaGraphExecUpdate). Then the saving is smaller. The estimate assumes that the extra time
        of a graph's first launch is saved too.
    Source: CUDA C++ Programming Guide, CUDA graphs; measured on a program that captured in every
        step.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", calls_hint(trace))
    scope, calls = step_scope(run), working_calls(trace)
    made = calls.row[calls.kind == CallKind.GRAPH_INSTANTIATION]
    count = scope.number_of_calls(made)
    if not scope.has_steps or count < 0.5:
        return []
    rows = _making(calls)
    making = rows[scope.calls[rows]]
    spent = _making_ns(calls, making)
    each = scope.call_ns_of(making, spent)
    share = scope.share(each)
    if share < _LEAST_SHARE:
        return []
    many = plural(max(round(count), 1), "call")
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Re-creating CUDA graphs takes {format_ratio(share)} of each step",
            f"Creating and destroying CUDA graphs takes {format_ns(each)} per step"
            f" ({format_ratio(share)}): {many} and the CPU work during capture.",
            (scope.show_calls(f"{many} per step", made),),
            "Capture once. In the loop, copy inputs into the captured tensors and call replay()."
            " With torch.compile(mode='reduce-overhead'), keep shapes fixed or mark them dynamic.",
            "Profile again: `warpline stats -r cuda_api_sum` shows no cudaGraphInstantiate within"
            " steps.",
            fix_cuda="Keep the cudaGraphExec_t and launch it again. Change arguments with"
            " cudaGraphExecKernelNodeSetParams or cudaGraphExecUpdate.",
            fix_in={
                "jax": "Keep shapes, dtypes, and static arguments of functions under jax.jit"
                " constant, so that XLA compiles once and reuses its CUDA graphs."
            },
            changes=_changes(trace, calls, rows),
            on_devices=scope.calls_on_devices(making, spent, np.isin(making, made)),
        )
    ]


def _making(calls: WorkingCalls) -> I64:
    """Return the calls that create or destroy graphs, and those that belong to a capture."""
    chosen = np.zeros(len(calls.row), np.bool_)
    for rows in by_group(calls.thread):
        kind = calls.kind[rows]
        opened = np.cumsum(kind == CallKind.BEGIN_CAPTURE) - np.cumsum(kind == CallKind.END_CAPTURE)
        own = (opened > 0) | np.isin(kind, [CallKind.END_CAPTURE, CallKind.GRAPH_INSTANTIATION])
        leads, fills = np.isin(kind, _BEFORE), kind == CallKind.LAUNCH
        for begin in np.flatnonzero(kind == CallKind.BEGIN_CAPTURE).tolist():
            before = np.cumsum(fills[:begin][::-1]) <= _FILLS
            count = int(np.argmin(np.append(before & (leads | fills)[:begin][::-1], False)))
            own[begin - count : begin] |= leads[begin - count : begin]
        chosen[rows[own]] = True
    return np.sort(calls.row[chosen])


def _making_ns(calls: WorkingCalls, rows: I64) -> I64:
    """Return how long each call takes on the CPU, with the time since it follows another one."""
    spent = np.zeros(len(calls.row), np.int64)
    for places in by_group(calls.thread):
        own = np.isin(calls.row[places], rows)
        began, ended = calls.start_ns[places], np.maximum.accumulate(calls.end_ns[places])
        follows = np.append(False, own[1:] & own[:-1])
        since = np.where(follows, np.append(0, ended[:-1]), began)
        spent[places] = np.maximum(ended - since, 0)
    return spent[np.searchsorted(calls.row, rows)]


def _changes(trace: Trace, calls: WorkingCalls, rows: I64) -> tuple[Change, ...]:
    """Return the changes that leave only the launch of each graph, without the time around it."""
    thread = trace.columns("api_call", "thread_id")["thread_id"].values
    launches = calls.row[calls.kind == CallKind.GRAPH_LAUNCH]
    groups: list[I64] = []
    for own in by_group(thread[rows]):
        making = rows[own]
        after = launches[thread[launches] == thread[making[0]]]
        # Creation precedes a graph's launch, destruction precedes the next launch.
        parts = np.split(making, np.searchsorted(making, after))[: len(after)]
        groups += [
            np.append(part, launch)
            for part, launch in zip(parts, after.tolist(), strict=True)
            if len(part)
        ]
    return (LaunchAsGraph(tuple(groups)),)
