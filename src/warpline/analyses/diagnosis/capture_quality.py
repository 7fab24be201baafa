"""capture-quality: problems of the recording itself, to resolve before trusting its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import Steps
from warpline.derived.steps.times import steps as find_steps
from warpline.derived.time_parts import IDLE, TimePart
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
    severity_rank,
)
from warpline.schema import TABLES
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "capture-quality"
TITLE = "Recording problems"

ENOUGH_STEPS = 10
_FEW_STEPS = 3
_ROWS_SHOWN = 5
# Shares from which a problem has a severity: worth mentioning, or enough to mislead the analysis.
_DROPPED_RATIO = {"high": 0.01, "medium": 0.0001}
_UNLAUNCHED_RATIO = {"medium": 0.05, "low": 0.01}
_GRAPH_RATIO = {"low": 0.25, "info": 0.05}
_COST_RATIO = {"medium": 0.10, "low": 0.03}
_TRUNCATED_RATIO = 0.01
_NOT_THE_HOST = (TimePart.DEPENDENCY, TimePart.COMMUNICATION_WAIT, TimePart.TAIL, TimePart.UNKNOWN)
_ESSENTIAL = ("kernel", "memcpy", "memset", "graph_launch", "api_call", "range")
_LAUNCH = re.compile(r"^(?:cuda|cu)Launch|^(?:cuda|cu)GraphLaunch")
_MATTERS = re.compile(
    r"UNIFIED_MEMORY|_UM_|PAGE_FAULT|MPI|UCX|NVSHMEM|OPENSHMEM|OPENACC|OPENMP", re.IGNORECASE
)
_STEP_HINT = (
    'Mark each step with torch.cuda.nvtx.range_push(f"step_{i}") and range_pop(), or name existing'
    " ranges with --steps-from NAME."
)


@rule(name=NAME, title=TITLE)
def capture_quality(run: Run) -> list[Finding]:
    """Problems of the recording itself, to resolve before trusting its numbers.

    What it finds: Dropped or unreadable records; no GPU work or no CUDA API calls; CUDA graphs
        traced at graph level; a process in which another profiler used CUPTI; too few steps, or
        only warm-up; ranges cut off by the end; tables that may matter but are not read; missing
        ranks; high profiling overhead.
    Why it matters: Every other finding depends on the recording. A missing table looks like a
        program that does nothing. A recording of the first step looks like a slow program.
    How it is found: From the dropped records that the producer reports, the tables present, the
        steps analyzed, and the overhead: idle time during which the profiler blocked the CPU, or
        the overhead that Warpline measures itself, at most the time the GPU waited for the CPU.
    What to do: Profile again as the finding advises.
    Limits: Drops that a producer does not report go unnoticed. The time that CUPTI adds to each
        call is not recorded, so the overhead is a lower bound.
    Source: Warpline.
    """
    trace = run.trace
    chosen = find_steps(run)
    findings = [
        *_dropped(trace),
        *_damaged(trace),
        *_not_recorded(trace),
        *_device_work(trace),
        *_unlaunched(trace),
        *_whole_graphs(trace),
        *_steps(chosen),
        *_cost(run, chosen),
        *_truncated(trace),
        *_missing_ranks(trace),
        *_unread(trace),
    ]
    return sorted(findings, key=lambda item: severity_rank(item.severity))


def _finding(
    severity: Severity, title: str, claim: str, seen: Evidence, fix: str, verify: str
) -> Finding:
    return Finding(NAME, severity, title, claim, (seen,), fix, verify)


def _grade(ratio: float, limits: Mapping[str, float]) -> Severity | None:
    """Return the highest severity whose limit the ratio reaches."""
    return next((level for level in SEVERITIES if ratio >= limits.get(level, np.inf)), None)


def _dropped(trace: Trace) -> Iterator[Finding]:
    if not trace.meta.lost:
        return
    recorded = sum(trace.row_count(name) for name in trace.tables if TABLES[name].order)
    for subject, count in trace.meta.lost.items():
        ratio = 0.0 if count is None else count / max(count + recorded, 1)
        severity = "medium" if count is None else _grade(ratio, _DROPPED_RATIO) or "low"
        what = f"An unknown number of {subject}" if count is None else f"{count:,} {subject}"
        verb = "was" if count == 1 else "were"
        yield _finding(
            severity,
            "Records were dropped",
            f"{what} {verb} dropped. Idle time may include unrecorded work.",
            Evidence(f"Reported by the producer: {subject} dropped", count=count or 0),
            "Record a shorter part of the run, or fewer kinds of events.",
            "Profile again: no dropped records are reported.",
        )


def _damaged(trace: Trace) -> Iterator[Finding]:
    for table, why in trace.meta.damaged.items():
        yield _finding(
            "high" if table in _ESSENTIAL else "low",
            f"Table {table} is unreadable",
            f"The rows of table {table} are missing from the analysis: {why}.",
            Evidence(f"{table}: {why}"),
            "Copy or export the file again. If that does not help, profile again.",
            "warpline summary RECORDING lists no damaged tables.",
        )


def _not_recorded(trace: Trace) -> Iterator[Finding]:
    """Report processes without CUDA events: another profiler used CUPTI, or CUPTI is missing."""
    for process in cuda_unrecorded(trace):
        yield _finding(
            "medium" if len(device_work(trace)) else "high",
            "CUDA was not recorded",
            f"A process was recorded without CUDA events: {process.why}.",
            Evidence(process.text),
            process.hint or "Run warpline doctor to find out what is missing.",
            "Profile again: the warning is gone.",
        )


def _device_work(trace: Trace) -> Iterator[Finding]:
    if len(device_work(trace)) or cuda_unrecorded(trace):
        return
    launches = _count_launches(trace)
    if launches:
        yield _finding(
            "high",
            "GPU work was not recorded",
            f"The recording has {plural(launches, 'launch call')}, but no kernels, copies or"
            " memsets.",
            Evidence(f"{plural(launches, 'launch call')}", "api_call", count=launches),
            "Record with -t cuda, without another profiler in the program: only one can use CUPTI.",
            "warpline summary RECORDING lists kernels.",
        )
    else:
        yield _finding(
            "medium",
            "No GPU work was recorded",
            "The recording has no kernels, copies or memsets, and no launch calls.",
            Evidence("no GPU operations and no launch calls"),
            "Record with -t cuda a part of the run that uses the GPU.",
            "warpline summary RECORDING lists kernels.",
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
            "CUDA API calls were not recorded",
            "Causes of idle time and the ranges of GPU work are unknown.",
            Evidence("table api_call is empty"),
            "Record with -t cuda,nvtx.",
            "warpline summary RECORDING lists api_call.",
        )
        return
    rows = np.flatnonzero(work.call < 0)
    severity = _grade(len(rows) / len(work), _UNLAUNCHED_RATIO)
    if severity is not None:
        first = rows[np.argsort(work.start_ns[rows], kind="stable")[:_ROWS_SHOWN]]
        times = zip(work.start_ns[first].tolist(), work.end_ns[first].tolist(), strict=True)
        yield _finding(
            severity,
            "Launch calls of some GPU work are missing",
            f"{format_ratio(len(rows) / len(work))} of GPU operations have no recorded launch"
            " call. Their range and the cause of idle time before them are unknown.",
            Evidence(
                f"{len(rows):,} of {len(work):,} operations have no launch call",
                count=len(rows),
                windows_ns=tuple(times),
            ),
            "Start recording before the work is launched. Record runtime and driver API calls.",
            "Profile again: this finding is gone.",
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
            "CUDA graphs were traced at graph level",
            f"{format_ratio(ratio)} of GPU busy time is CUDA graphs without recorded kernels"
            " (category graph).",
            Evidence(
                f"{plural(len(graphs), 'graph execution')} took {format_ns(graph_ns)}",
                "graph_launch",
                count=len(graphs),
            ),
            "Record a few steps with --cuda-graph-trace=node, which adds overhead to graphs.",
            "warpline summary RECORDING lists kernels.",
        )


def _busy_ns(work: DeviceWork) -> int:
    """Return the busy time, summed over devices."""
    n_devices = int(work.device_id.max(initial=-1)) + 1
    return int(work.busy_ns(work.device_id, n_devices).sum())


def _steps(run_steps: Steps) -> Iterator[Finding]:
    verify = "warpline stats -r steps RECORDING lists all steps and which are analyzed."
    if not len(run_steps):
        yield _finding(
            "low",
            "No steps were found",
            "The whole recording is analyzed as one interval, including startup and shutdown.",
            Evidence(
                next(iter(run_steps.notes), "no ranges named like steps, no repeating launches")
            ),
            _STEP_HINT,
            verify,
        )
        return
    count = steps_counted(run_steps)
    first = tuple(np.flatnonzero(run_steps.included)[:_ROWS_SHOWN].tolist()) or (0,)
    windows = tuple(
        (int(run_steps.host_start_ns[row]), int(run_steps.host_end_ns[row])) for row in first
    )
    if not count:
        reasons = ", ".join(dict.fromkeys(item.reason for item in run_steps.excluded))
        yield _finding(
            "medium",
            "No representative step",
            f"All {len(run_steps):,} steps are excluded ({reasons}). The whole recording is"
            " analyzed instead. Steady steps may look different.",
            Evidence(f"0 of {plural(len(run_steps), 'step')} analyzed", windows_ns=windows),
            f"Record at least {ENOUGH_STEPS} steps after warm-up.",
            verify,
        )
    elif count < ENOUGH_STEPS:
        most = int(np.bincount(run_steps.process).max())
        yield _finding(
            "low" if count < _FEW_STEPS else "info",
            "Too few steps",
            f"{count} of {plural(most, 'step')} {'was' if count == 1 else 'were'} analyzed. Medians"
            f" of fewer than {ENOUGH_STEPS} steps vary between runs.",
            Evidence(f"{count} of {plural(most, 'step')} analyzed", windows_ns=windows),
            f"Record at least {ENOUGH_STEPS} steps after warm-up.",
            verify,
        )


def _cost(run: Run, run_steps: Steps) -> Iterator[Finding]:
    # Overhead on a CPU that runs ahead of its GPU does not slow the program down.
    waiting_ratio, _ = _idle(run, *(cause for cause in IDLE if cause not in _NOT_THE_HOST))
    own_ratio, own_text = _own_cost(run.trace, run_steps)
    known_ratio, known_ns = _idle(run, TimePart.PROFILER_OVERHEAD)
    known_text = f"GPUs were idle for {format_ns(known_ns)} in total during profiler overhead"
    cost = max((min(own_ratio, waiting_ratio), own_text), (known_ratio, known_text))
    severity = _grade(cost[0], _COST_RATIO)
    if severity is not None:
        yield _finding(
            severity,
            "High profiling overhead",
            f"The GPU waits about {format_ratio(cost[0])} of the time for profiling overhead on the"
            " CPU. The program is faster without the profiler.",
            Evidence(cost[1]),
            "Record fewer kinds of events, such as NVTX domains, OS calls or backtraces.",
            "warpline stats -r profiling_cost RECORDING",
        )


def _idle(run: Run, *causes: TimePart) -> tuple[float, int]:
    """Return the idle time of some causes: as the share on the worst device, and in total.

    Without steps, shares are of the time from a device's first to its last operation.
    """
    parts = step_partition(run)
    sums = [parts.total(rank) for rank in parts.ranks]
    if not (parts.windows.step >= 0).any():
        for each in sums:
            each[TimePart.TAIL] = 0
    idle_ns = [int(each[list(causes)].sum()) for each in sums]
    ratios = [ns / max(int(each.sum()), 1) for ns, each in zip(idle_ns, sums, strict=True)]
    return max(ratios, default=0.0), sum(idle_ns)


def _own_cost(trace: Trace, run_steps: Steps) -> tuple[float, str]:
    """Return the overhead that Warpline measured itself, as a share of a step and as text."""
    step_ns = run_steps.times().host_median_ns
    cost = ANALYSES.get("profiling_cost").compute(trace, ())
    if not isinstance(cost, Result) or not step_ns:
        return 0.0, ""
    columns = {name: cost.columns[name].to_list() for name in ("kind", "step_ns")}
    by_kind = {kind: ns for kind, ns in zip(columns["kind"], columns["step_ns"], strict=True) if ns}
    if not by_kind:
        return 0.0, ""
    total_ns = sum(by_kind.values())
    worst = max(by_kind, key=lambda kind: by_kind[kind])
    text = f"{format_ns(total_ns)} of each {format_ns(step_ns)} step, mostly for {worst}"
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
            "Ranges still open at the end",
            f"{len(rows):,} of {plural(every, 'range')} have no recorded end. They are cut off at"
            " the end of their process or of the recording.",
            Evidence(
                f"{plural(len(rows), 'range')} cut off", "range", tuple(first), len(rows), windows
            ),
            "Pop or end ranges that are never closed. Otherwise no action is needed.",
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
    ranks = f"{present} of {int(size[widest])} ranks"
    if present < int(size[widest]):
        yield _finding(
            "info",
            "Some ranks are missing",
            f"{ranks} of a communicator are recorded. Waiting for other ranks cannot be separated"
            " from data transfer.",
            Evidence(ranks, "collective", count=int(same.sum())),
            "Analyze the recordings of all ranks together: warpline analyze RANK0 RANK1 ...",
            "This finding is gone with all ranks.",
        )


def _unread(trace: Trace) -> Iterator[Finding]:
    tables = {name: rows for name, rows in trace.meta.unread.items() if _MATTERS.search(name)}
    if tables:
        listed = ", ".join(f"{name} ({rows:,} rows)" for name, rows in sorted(tables.items()))
        yield _finding(
            "info",
            "Possibly relevant tables are not read",
            f"Warpline does not read these tables of the file: {listed}.",
            Evidence(listed, count=sum(tables.values())),
            "View them in the profiler that wrote the file.",
            "warpline summary RECORDING lists the tables that are not read.",
        )
