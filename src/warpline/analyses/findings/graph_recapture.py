"""graph-recapture: CUDA graphs are made anew in every step."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_calls import WorkingCalls, working_calls
from warpline.derived.idle.kinds import CALL_KINDS
from warpline.derived.severity import severity_of
from warpline.ops.arrays import I64
from warpline.ops.tiling import by_group
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import Change, LaunchAsGraph
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "graph-recapture"
TITLE = "CUDA graphs are made anew in every step"

_LEAST_SHARE = 0.05
_GRAPH, _BEGIN, _END, _LAUNCH = (
    CALL_KINDS.index(kind)
    for kind in ("graph-instantiation", "begin-capture", "end-capture", "launch")
)
# What frameworks do just before they capture: they wait, return memory, and fill the state of
# their random numbers, which is done for each launch of the graph too.
_FILLS = 2
_BEFORE = [CALL_KINDS.index(kind) for kind in ("", "host-sync", "allocator")]


@rule(name=NAME, title=TITLE)
def graph_recapture(trace: Trace, steps: str | None) -> list[Finding] | Skipped:
    """CUDA graphs that are captured, instantiated or destroyed in every step.

    What it finds: Calls that make or destroy graphs in at least every second step, and what the
        host does while a graph is captured, if they take at least 5% of it.
    Why it matters: To make a graph takes longer than to launch its work once. It pays only if the
        graph is launched many times.
    How it is found: By the functions' names, on threads that launch work. Waits and memory calls
        just before a capture belong to it: frameworks make them.
    What to do: Make the graph once, before the loop, and launch it in each step.
    Limits: A program whose shapes change needs a graph for each of them, or has to update one
        (cudaGraphExecUpdate); then less is saved. What the first launch of a graph costs more than
        later ones is taken to go too.
    Source: CUDA C++ Programming Guide, CUDA graphs; seen on a program that captured in each step.
    """
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA calls were recorded", "record with --trace=cuda")
    scope, calls = step_scope(trace, steps), working_calls(trace)
    made = calls.row[calls.kind == _GRAPH]
    count = int(np.count_nonzero(scope.calls[made])) / scope.count
    if not scope.has_steps or count < 0.5:
        return []
    rows = _making(calls)
    each = _making_ns(calls, rows[scope.calls[rows]]) / scope.count
    share = scope.share(each)
    if share < _LEAST_SHARE:
        return []
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"The host makes and destroys CUDA graphs in {plural(round(count), 'call')} per step;"
            f" with what it does meanwhile that takes {format_ns(each)} ({format_ratio(share)}).",
            (scope.show_calls(f"{plural(round(count), 'call')} per step", made),),
            "Capture once before the loop and call replay() in it: copy new inputs into the tensors"
            " that were captured; with torch.compile(mode='reduce-overhead') keep shapes equal, or"
            " mark what changes as dynamic",
            "record again: no cudaGraphInstantiate in the steps of"
            " `warpline stats -r cuda_api_sum`",
            fix_cuda="Keep the cudaGraphExec_t and launch it again; change arguments with"
            " cudaGraphExecKernelNodeSetParams or cudaGraphExecUpdate",
            changes=_changes(trace, calls, rows),
        )
    ]


def _making(calls: WorkingCalls) -> I64:
    """Return the calls that make and destroy graphs, and those that belong to a capture."""
    chosen = np.zeros(len(calls.row), np.bool_)
    for rows in by_group(calls.thread):
        kind = calls.kind[rows]
        opened = np.cumsum(kind == _BEGIN) - np.cumsum(kind == _END)
        own = (opened > 0) | np.isin(kind, [_END, _GRAPH])
        leads, fills = np.isin(kind, _BEFORE), kind == _LAUNCH
        for begin in np.flatnonzero(kind == _BEGIN).tolist():
            before = np.cumsum(fills[:begin][::-1]) <= _FILLS
            count = int(np.argmin(np.append(before & (leads | fills)[:begin][::-1], False)))
            own[begin - count : begin] |= leads[begin - count : begin]
        chosen[rows[own]] = True
    return np.sort(calls.row[chosen])


def _making_ns(calls: WorkingCalls, rows: I64) -> float:
    """Return how long the host takes for some calls, with the time from one of them to the next."""
    total = 0
    for places in by_group(calls.thread):
        own = np.isin(calls.row[places], rows)
        began, ended = calls.start_ns[places], np.maximum.accumulate(calls.end_ns[places])
        follows = np.append(False, own[1:] & own[:-1])
        since = np.where(follows, np.append(0, ended[:-1]), began)
        total += int(np.maximum(ended - since, 0)[own].sum())
    return float(total)


def _changes(trace: Trace, calls: WorkingCalls, rows: I64) -> tuple[Change, ...]:
    """Return what is different if each graph is only launched: with the time around the calls."""
    thread = trace.columns("api_call", "thread_id")["thread_id"].values
    launches = calls.row[calls.kind == CALL_KINDS.index("graph-launch")]
    groups: list[I64] = []
    for own in by_group(thread[rows]):
        making = rows[own]
        after = launches[thread[launches] == thread[making[0]]]
        # What makes a graph stands before its launch, what destroys it before the next one.
        parts = np.split(making, np.searchsorted(making, after))[: len(after)]
        groups += [
            np.append(part, launch)
            for part, launch in zip(parts, after.tolist(), strict=True)
            if len(part)
        ]
    return (LaunchAsGraph(tuple(groups)),)
