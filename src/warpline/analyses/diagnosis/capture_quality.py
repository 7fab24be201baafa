"""capture-quality: what is wrong with the recording, before anything is read from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.segments import IDLE_CAUSES, PARTS
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import Steps
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.work.busy import DeviceWork, device_work
from warpline.derived.work.operations import operations
from warpline.result import (
    ANALYSES,
    SEVERITIES,
    Evidence,
    Finding,
    Result,
    Severity,
    cuda_unrecorded,
    rule,
)
from warpline.schema import TABLES
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "capture-quality"
TITLE = "Faults of the recording itself"

ENOUGH_STEPS = 10
_FEW_STEPS = 3
_ROWS_SHOWN = 5
# Shares from which a fault is worth a word, and from which it may turn the analysis wrong.
_LOST_RATIO = {"high": 0.01, "medium": 0.0001}
_UNLAUNCHED_RATIO = {"medium": 0.05, "low": 0.01}
_GRAPH_RATIO = {"low": 0.25, "info": 0.05}
_COST_RATIO = {"medium": 0.10, "low": 0.03}
_TRUNCATED_RATIO = 0.01
_NOT_THE_HOST = ("dependency", "communication-wait", "tail", "unknown")
_ESSENTIAL = ("kernel", "memcpy", "memset", "graph_launch", "api_call", "range")
_LAUNCH = re.compile(r"^(?:cuda|cu)Launch|^(?:cuda|cu)GraphLaunch")
_MATTERS = re.compile(
    r"UNIFIED_MEMORY|_UM_|PAGE_FAULT|MPI|UCX|NVSHMEM|OPENSHMEM|OPENACC|OPENMP", re.IGNORECASE
)
_STEP_HINT = (
    'mark each step: torch.cuda.nvtx.range_push(f"step_{i}") and range_pop(), or name what marks'
    " them with --steps NAME"
)


@rule(name=NAME, title=TITLE)
def capture_quality(trace: Trace, steps: str | None) -> list[Finding]:
    """What is wrong with the recording, before anything is read from it.

    What it finds: Records that were lost or could not be read; a recording without GPU work,
        without CUDA calls, or of graphs as wholes; a process in which another profiler held CUPTI;
        too few steps, or none but warm-up; ranges cut by the end; tables of the file that are not
        read and may matter; ranks that are missing; recording that took much of a step.
    Why it matters: Every other finding rests on the recording. A missing table looks like a
        program that does nothing, a recording of the first step like a slow program.
    How it is found: From what the producer says of losses, from the tables that are there, from
        the steps and how many count, and from what recording cost: idle time for which the
        profiler held the host, or our own measure of what records cost, but no more than the time
        for which the device waited for its host.
    What to do: Record again as the finding says.
    Limits: What a producer loses without saying so is not seen. What CUPTI adds to each call is in
        nobody's records, so the cost of recording is a lower bound.
    Source: Warpline.
    """
    chosen = find_steps(trace, steps)
    found = [
        *_lost(trace),
        *_damaged(trace),
        *_not_recorded(trace),
        *_device_work(trace),
        *_unlaunched(trace),
        *_whole_graphs(trace),
        *_steps(chosen),
        *_cost(trace, chosen, steps),
        *_truncated(trace),
        *_missing_ranks(trace),
        *_unread(trace),
    ]
    return sorted(found, key=lambda item: SEVERITIES.index(item.severity))


def _finding(
    severity: Severity, title: str, claim: str, seen: Evidence, fix: str, verify: str
) -> Finding:
    return Finding(NAME, severity, title, claim, (seen,), fix, verify)


def _grade(ratio: float, limits: Mapping[str, float]) -> Severity | None:
    """Return the first severity whose limit the ratio reaches."""
    return next((level for level in SEVERITIES if ratio >= limits.get(level, np.inf)), None)


def _lost(trace: Trace) -> Iterator[Finding]:
    if not trace.meta.lost:
        return
    recorded = sum(trace.row_count(name) for name in trace.tables if TABLES[name].order)
    for subject, count in trace.meta.lost.items():
        ratio = 0.0 if count is None else count / max(count + recorded, 1)
        severity = "medium" if count is None else _grade(ratio, _LOST_RATIO) or "low"
        said = subject if count is None else f"{count:,} {subject}"
        yield _finding(
            severity,
            "Records were lost",
            f"The recorder lost {said}: what is missing counts nowhere, and idle time may be work"
            " that is not seen.",
            Evidence(f"the producer says that {said} were lost", count=count or 0),
            "record a shorter part of the run, or fewer kinds of events",
            "record again: no losses are told",
        )


def _damaged(trace: Trace) -> Iterator[Finding]:
    for table, why in trace.meta.damaged.items():
        yield _finding(
            "high" if table in _ESSENTIAL else "low",
            f"The table {table} could not be read",
            f"The file's rows of {table} count nowhere: {why}.",
            Evidence(f"{table}: {why}"),
            "copy or export the file again; if that does not help, record again",
            "warpline summary RECORDING lists nothing as damaged",
        )


def _not_recorded(trace: Trace) -> Iterator[Finding]:
    """Another profiler held CUPTI, or there is none: the recorder says which, and what to do."""
    for told in cuda_unrecorded(trace):
        yield _finding(
            "medium" if len(device_work(trace)) else "high",
            "CUDA was not recorded",
            f"A process of this recording was recorded without CUDA: {told.why}.",
            Evidence(told.text),
            told.hint or "warpline doctor says what this machine lacks",
            "record again: the warning is gone",
        )


def _device_work(trace: Trace) -> Iterator[Finding]:
    if len(device_work(trace)) or cuda_unrecorded(trace):
        return
    launches = _count_launches(trace)
    if launches:
        yield _finding(
            "high",
            "The GPU's work was not recorded",
            f"There are {plural(launches, 'launch call')} and no kernel, copy or memory set: what"
            " the GPU did is not known.",
            Evidence(f"{plural(launches, 'launch call')}", "api_call", count=launches),
            "record with -t cuda, and no other profiler in the program: it may hold CUPTI",
            "warpline summary RECORDING shows kernels",
        )
    else:
        yield _finding(
            "medium",
            "No GPU work was recorded",
            "The recording holds no kernel, copy or memory set and no launch of one.",
            Evidence("no device operation and no launch call"),
            "record with -t cuda, and a part of the run in which the GPU is used",
            "warpline summary RECORDING shows kernels",
        )


def _count_launches(trace: Trace) -> int:
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return 0
    names = trace.columns("api_call", "name_id", ordered=False)["name_id"].filled(-1)
    known, counts = np.unique(names, return_counts=True)
    texts = ("" if row < 0 else trace.strings.text(row) for row in known.tolist())
    return sum(
        count for text, count in zip(texts, counts.tolist(), strict=True) if _LAUNCH.match(text)
    )


def _unlaunched(trace: Trace) -> Iterator[Finding]:
    work = operations(trace)
    if not len(work):
        return
    if not trace.has("api_call") or not trace.row_count("api_call"):
        yield _finding(
            "medium",
            "CUDA calls were not recorded",
            "Why the GPU was idle cannot be told, nor which range launched what.",
            Evidence("there are no rows of api_call"),
            "record with -t cuda,nvtx",
            "warpline summary RECORDING lists api_call as recorded",
        )
        return
    rows = np.flatnonzero(work.call < 0)
    severity = _grade(len(rows) / len(work), _UNLAUNCHED_RATIO)
    if severity is not None:
        first = rows[np.argsort(work.start_ns[rows], kind="stable")[:_ROWS_SHOWN]]
        times = zip(work.start_ns[first].tolist(), work.end_ns[first].tolist(), strict=True)
        yield _finding(
            severity,
            "The launches of some GPU work are missing",
            f"For {format_ratio(len(rows) / len(work))} of the GPU's operations the call that"
            " launched them is not in the recording: their range and the idle time before them"
            " cannot be explained.",
            Evidence(
                f"{len(rows):,} of {len(work):,} operations have no launch call",
                count=len(rows),
                windows_ns=tuple(times),
            ),
            "begin to record before the work is launched; record runtime and driver calls",
            "record again: this finding is gone",
        )


def _whole_graphs(trace: Trace) -> Iterator[Finding]:
    graphs, every = device_work(trace, "graph_launch"), device_work(trace)
    if not len(graphs):
        return
    graph_ns, busy_ns = _busy_ns(graphs), _busy_ns(every)
    ratio = graph_ns / max(busy_ns, 1)
    severity = _grade(ratio, _GRAPH_RATIO)
    if severity is not None:
        yield _finding(
            severity,
            "CUDA graphs were recorded as wholes",
            f"For {format_ratio(ratio)} of the GPU's busy time a graph ran of which no kernel"
            " is known: it counts as the category graph.",
            Evidence(
                f"{plural(len(graphs), 'execution')} of graphs took {format_ns(graph_ns)}",
                "graph_launch",
                count=len(graphs),
            ),
            "record a few steps with --cuda-graph-trace=node, which makes graphs slower",
            "warpline summary RECORDING shows kernels",
        )


def _busy_ns(work: DeviceWork) -> int:
    """Return the time for which devices were busy, added over devices."""
    n_devices = int(work.device_id.max(initial=-1)) + 1
    return int(work.busy_ns(work.device_id, n_devices).sum())


def _steps(found: Steps) -> Iterator[Finding]:
    verify = "warpline stats -r steps RECORDING shows the steps and which count"
    if not len(found):
        yield _finding(
            "low",
            "No steps were found",
            "The whole recording counts as one stretch, its start and end included.",
            Evidence("no ranges that number steps, and no period in the launches"),
            _STEP_HINT,
            verify,
        )
        return
    count = steps_counted(found)
    first = tuple(np.flatnonzero(found.included)[:_ROWS_SHOWN].tolist()) or (0,)
    windows = tuple((int(found.host_start_ns[row]), int(found.host_end_ns[row])) for row in first)
    if not count:
        reasons = ", ".join(dict.fromkeys(item.reason for item in found.excluded))
        yield _finding(
            "medium",
            "No step stands for the run",
            f"{plural(len(found), 'step')} found, and none counts ({reasons}): the whole recording"
            " is looked at instead, and steady steps may look different.",
            Evidence(f"0 of {plural(len(found), 'step')} count", windows_ns=windows),
            f"record at least {ENOUGH_STEPS} steps after the first ones",
            verify,
        )
    elif count < ENOUGH_STEPS:
        most = int(np.bincount(found.process).max())
        yield _finding(
            "low" if count < _FEW_STEPS else "info",
            "Few steps were recorded",
            f"{plural(count, 'step')} of {most} count; medians of fewer than {ENOUGH_STEPS} vary"
            " from run to run.",
            Evidence(f"{count} of {plural(most, 'step')} count", windows_ns=windows),
            f"record at least {ENOUGH_STEPS} steps after the first ones",
            verify,
        )


def _cost(trace: Trace, found: Steps, name: str | None) -> Iterator[Finding]:
    # A host that runs ahead of its device pays for recording from time that it has to spare.
    waiting_ratio, _ = _idle(trace, name, *(c for c in IDLE_CAUSES if c not in _NOT_THE_HOST))
    own_ratio, own_text = _own_cost(trace, found)
    told_ratio, told_ns = _idle(trace, name, "profiler-overhead")
    told_text = f"devices were idle for {format_ns(told_ns)} in all while the profiler worked"
    cost = max((min(own_ratio, waiting_ratio), own_text), (told_ratio, told_text))
    severity = _grade(cost[0], _COST_RATIO)
    if severity is not None:
        yield _finding(
            severity,
            "Recording took much of the time",
            f"For about {format_ratio(cost[0])} of the time the device waited while the host was"
            " recording: without the profiler the program is faster.",
            Evidence(cost[1]),
            "leave kinds of events out, such as NVTX domains, OS calls or call chains",
            "warpline stats -r profiling_cost RECORDING",
        )


def _idle(trace: Trace, name: str | None, *causes: str) -> tuple[float, int]:
    """Return the share of a device's time that it was idle for some causes, and the time.

    The share is that of the worst device, the time that of all. Without steps a device's time is
    from its first operation to its last.
    """
    found = step_partition(trace, name)
    parts = [PARTS.index(cause) for cause in causes]
    sums = [found.total(lane) for lane in found.lanes]
    if not (found.windows.step >= 0).any():
        for each in sums:
            each[PARTS.index("tail")] = 0
    idle_ns = [int(each[parts].sum()) for each in sums]
    ratios = [ns / max(int(each.sum()), 1) for ns, each in zip(idle_ns, sums, strict=True)]
    return max(ratios, default=0.0), sum(idle_ns)


def _own_cost(trace: Trace, found: Steps) -> tuple[float, str]:
    """Return what our recorder took of a step as it measured itself, and a sentence on it."""
    step_ns = found.times().host_median_ns
    cost = ANALYSES.get("profiling_cost").compute(trace, ())
    if not isinstance(cost, Result) or not step_ns:
        return 0.0, ""
    columns = {name: cost.columns[name].to_list() for name in ("kind", "step_ns")}
    by_kind = {kind: ns for kind, ns in zip(columns["kind"], columns["step_ns"], strict=True) if ns}
    if not by_kind:
        return 0.0, ""
    total_ns = sum(by_kind.values())
    worst = max(by_kind, key=lambda kind: by_kind[kind])
    text = f"{format_ns(total_ns)} of each {format_ns(step_ns)} step; most of it for {worst}"
    return total_ns / step_ns, text


def _truncated(trace: Trace) -> Iterator[Finding]:
    if not trace.has("range") or not trace.row_count("range"):
        return
    columns = trace.columns("range", "start_ns", "end_ns", "is_truncated")
    rows = np.flatnonzero(columns["is_truncated"].values)
    every = trace.row_count("range")
    if len(rows) and len(rows) >= _TRUNCATED_RATIO * every:
        first = rows[:_ROWS_SHOWN].tolist()
        windows = tuple(
            (int(columns["start_ns"].values[row]), int(columns["end_ns"].values[row]))
            for row in first
        )
        yield _finding(
            "info",
            "Ranges were open when recording ended",
            f"{plural(len(rows), 'range')} of {every:,} had no end: they end with their process, or"
            " with the recording.",
            Evidence(
                f"{len(rows):,} ranges are truncated", "range", tuple(first), len(rows), windows
            ),
            "close ranges that are never popped; else nothing",
            "warpline query RECORDING 'SELECT * FROM range WHERE is_truncated'",
        )


def _missing_ranks(trace: Trace) -> Iterator[Finding]:
    if not trace.has("collective") or not trace.row_count("collective"):
        return
    columns = trace.columns("collective", "communicator_id", "rank", "rank_count")
    known = columns["rank"].is_valid() & columns["rank_count"].is_valid()
    if not known.any():
        return
    communicator = columns["communicator_id"].filled(-1)[known].astype(np.int64)
    rank, size = columns["rank"].values[known], columns["rank_count"].values[known]
    widest = int(np.argmax(size))
    same = communicator == communicator[widest]
    present = len(np.unique(rank[same]))
    said = f"{present} of {int(size[widest])} ranks"
    if present < int(size[widest]):
        yield _finding(
            "info",
            "Not all ranks are here",
            f"{said} of a communicator are in this recording: whether a collective waited for"
            " another rank or moved data cannot be told.",
            Evidence(said, "collective", count=int(same.sum())),
            "give the recordings of all ranks together: warpline analyze RANK0 RANK1 ...",
            "this finding is gone when all ranks are given",
        )


def _unread(trace: Trace) -> Iterator[Finding]:
    tables = {name: rows for name, rows in trace.meta.unread.items() if _MATTERS.search(name)}
    if tables:
        said = ", ".join(f"{name} ({rows:,} rows)" for name, rows in sorted(tables.items()))
        yield _finding(
            "info",
            "Tables that may matter are not read",
            f"The file holds events that Warpline does not read: {said}.",
            Evidence(said, count=sum(tables.values())),
            "look at them in the profiler that wrote the file",
            "warpline summary RECORDING lists what is not read",
        )
