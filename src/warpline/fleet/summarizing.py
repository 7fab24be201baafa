"""Makes the summaries of the ranks of one recording."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import partition
from warpline.derived.collectives.kinds import UNKNOWN
from warpline.derived.health.clock_limits import is_idle, limits_in_words
from warpline.derived.health.readings import gpu_readings
from warpline.derived.idle.data_waits import SHORTEST_SILENCE_NS
from warpline.derived.idle.host_calls import working_threads
from warpline.derived.idle.silences import silences
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.collective_launches import collective_of_kernel
from warpline.derived.kernels.collective_names import operation_name
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.places import path_texts
from warpline.derived.ranks.step_cpu import cpu_idle_of_steps
from warpline.derived.steps.times import (
    NO_STEP,
    Windows,
    measure_windows,
    step_of_operations,
    steps,
)
from warpline.derived.time_parts import BUSY
from warpline.derived.work.operations import operations
from warpline.derived.work.owners import owner_of
from warpline.fleet.collecting import communication
from warpline.fleet.inside import Rank, in_steps
from warpline.fleet.sending import peers_of_rank
from warpline.fleet.summary import (
    HostSteps,
    Identity,
    LastCall,
    NamedTime,
    RankSummary,
    RankWindows,
)
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.tree import enclosing
from warpline.trace import Run, Trace

_MOST_RANGES = 48
_MOST_OS_CALLS = 12
_LONGEST_TEXT = 200
_READ_AT_ONCE = {
    "range": (
        *("start_ns", "end_ns", "process_id", "thread_id", "domain_id", "name_id", "style"),
        "is_truncated",
    ),
    "api_call": ("start_ns", "end_ns", "process_id", "thread_id", "correlation_id", "name_id"),
    "kernel": (
        *("start_ns", "end_ns", "device_id", "stream_id", "process_id", "correlation_id"),
        *("name_id", "short_name_id", "graph_node_id", "grid_x"),
    ),
}


def summarize(run: Run) -> list[RankSummary]:
    """Return a summary of each rank of a recording: of each process on each GPU with work.

    Args:
        run: The recording, and the choice of its steps.
    """
    run.trace.foresee(_READ_AT_ONCE)
    windows = _all_windows(run)
    parts = partition(run.trace, windows).ns
    number, work_ns = _work_of_windows(run, windows)
    ranks = factorize_rows(windows.process, windows.device)
    communicated = communication(run.trace)
    found = []
    for code, first in enumerate(ranks.first.tolist()):
        rank = _rank_of(run.trace, int(windows.process[first]), int(windows.device[first]))
        rows = np.flatnonzero(ranks.codes == code)
        rows = rows[np.argsort(windows.start_ns[rows], kind="stable")]
        host, place = _host_steps(run, rank.process)
        own = communicated.of(rank)
        found.append(
            RankSummary(
                identity=_identity(run, rank, sends=len(own.exchanges.start_ns) > 0),
                steps=host,
                windows=RankWindows(
                    np.where(windows.step[rows] >= 0, place[windows.step[rows]], NO_STEP)
                    if len(place)
                    else windows.step[rows],
                    windows.start_ns[rows],
                    windows.end_ns[rows],
                    parts[rows],
                    number[rows],
                    work_ns[rows],
                ),
                kinds=own.kinds,
                collectives=own.collectives,
                ranges=_ranges(run, rank.process),
                cpu_gaps_ns=_cpu_gaps_ns(run, rank.process),
                os_calls=_os_calls(run, rank.process),
                calls=_last_calls(run.trace, rank.process),
                exchanges=own.exchanges,
                peers=peers_of_rank(run, rank.process),
                gemm_ns=own.gemm_ns,
                doing=_doing(run.trace, rank.process),
            )
        )
    return found


def _rank_of(trace: Trace, process: int, device: int) -> Rank:
    """Return a rank; the windows of a recording without steps belong to no process."""
    work = operations(trace)
    owners = distinct_values(work.process[work.device == device])
    return Rank(int(owners[0]) if process < 0 and len(owners) == 1 else process, device)


def _all_windows(run: Run) -> Windows:
    """Return the times of all steps on their devices; without steps, of the whole recording."""
    found = steps(run)
    everything = np.arange(len(found.window_step))
    return found.windows(everything) if len(everything) else measure_windows(run)


def _work_of_windows(run: Run, windows: Windows) -> tuple[I64, I64]:
    """Return the number and the time of operations by window and category.

    Shape (windows, busy parts) each, int64. An operation belongs to the step that launched it;
    without steps, to the window that it starts in.
    """
    work, category = operations(run.trace), operation_categories(run.trace).astype(np.int64)
    count, n_codes = len(windows.step), len(BUSY)
    if (windows.step >= 0).any():
        slots = {
            key: place
            for place, key in enumerate(
                zip(windows.step.tolist(), windows.device.tolist(), strict=True)
            )
        }
        step = step_of_operations(run).astype(np.int64)
        pairs = factorize_rows(step, work.device)
        keys = zip(step[pairs.first].tolist(), work.device[pairs.first].tolist(), strict=True)
        slot = np.array([slots.get(key, -1) for key in keys], np.int64)[pairs.codes]
    else:
        inside = enclosing(
            work.start_ns,
            windows.start_ns,
            windows.end_ns,
            point_group=work.device,
            group=windows.device,
        )
        slot = np.where(inside.found, inside.row, -1)
    chosen = np.flatnonzero(slot >= 0)
    code = slot[chosen] * n_codes + category[chosen]
    length = (work.end_ns - work.start_ns)[chosen]
    number = np.bincount(code, minlength=count * n_codes).reshape(count, n_codes)
    ns = np.zeros(count * n_codes, np.int64)
    np.add.at(ns, code, length)
    return number.astype(np.int64), ns.reshape(count, n_codes)


def _host_steps(run: Run, process: int) -> tuple[HostSteps, I64]:
    """Return the steps of a process, and the place among them of each step of the run."""
    found, idle = steps(run), cpu_idle_of_steps(run)
    facts = found.facts
    if facts is None:
        return HostSteps(*(np.zeros(0, np.int64) for _ in HostSteps._fields)), np.zeros(0, np.int64)
    rows = np.flatnonzero(found.process == process)
    place = np.full(len(found), NO_STEP, np.int64)
    place[rows] = np.arange(len(rows))
    columns = (
        *(facts.index, facts.loop, facts.period_ns, facts.setup_calls, facts.is_last),
        *(facts.has_work, facts.is_cut, found.host_period_ns),
        np.full(len(found), -1, np.int64) if idle is None else idle,
        found.included,
    )
    return HostSteps(*(column[rows].astype(np.int64) for column in columns)), place


def _identity(run: Run, rank: Rank, *, sends: bool) -> Identity:
    trace = run.trace
    owner, meta = owner_of(trace, rank.process, rank.device), trace.meta
    clock_hz, limits = _clock(trace, rank.device)
    return Identity(
        path=str(meta.paths[0]),
        format=meta.format,
        rank=owner.rank,
        pid=owner.pid,
        host=meta.host,
        gpu_index=owner.gpu_index,
        gpu_name=owner.device_name,
        origin_utc_ns=meta.origin_utc_ns,
        end_ns=int(trace.span()[1]),
        events=sum(trace.row_count(name) for name in trace.tables),
        lost=sum(count or 0 for count in meta.lost.values()),
        step_source=steps(run).source,
        sends=sends,
        sm_clock_hz=clock_hz,
        clock_limits=limits,
    )


def _clock(trace: Trace, device: int) -> tuple[int | None, str | None]:
    """Return the mean clock of a GPU's SMs while it is not idle, and what limits it."""
    for readings in gpu_readings(trace):
        if readings.of != device or "sm_clock_hz" not in readings.columns:
            continue
        known = readings.is_known("sm_clock_hz") & ~is_idle(readings)
        if known.any():
            values = readings.columns["sm_clock_hz"].values[known]
            return round(float(values.mean())), limits_in_words(readings)
    return None, None


def _ranges(run: Run, process: int) -> tuple[NamedTime, ...]:
    """Return the CPU time per step in ranges of launching threads, by path."""
    trace = run.trace
    if not trace.has("range") or not trace.row_count("range") or not trace.has("api_call"):
        return ()
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id")
    start, end, thread = (column.values for column in columns.values())
    texts = path_texts(trace)
    rows = np.flatnonzero(
        push_pop_ranges(trace) & working_threads(trace)[thread] & (texts.code >= 0)
    )
    inside, count = in_steps(run, process, start[rows], thread[rows])
    rows = rows[inside]
    sums = np.bincount(
        texts.code[rows], np.maximum(end - start, 0)[rows], minlength=len(texts.paths)
    )
    longest = np.argsort(-sums, kind="stable")[:_MOST_RANGES].tolist()
    return tuple(
        NamedTime(tuple(name[:_LONGEST_TEXT] for name in texts.paths[code]), sums[code] / count)
        for code in longest
        if sums[code] > 0
    )


def _cpu_gaps_ns(run: Run, process: int) -> float | None:
    """Return the CPU time per step in long gaps without CUDA API calls; None if unknown."""
    if not run.trace.has("api_call") or not run.trace.has("thread"):
        return None
    long = silences(run.trace).times.lasting(SHORTEST_SILENCE_NS)
    inside, count = in_steps(run, process, long.start_ns, long.thread)
    return float((long.end_ns - long.start_ns)[inside].sum()) / count


def _os_calls(run: Run, process: int) -> tuple[NamedTime, ...]:
    """Return the time per step in OS functions of launching threads, by name."""
    trace = run.trace
    if not trace.has("os_call") or not trace.row_count("os_call") or not trace.has("api_call"):
        return ()
    columns = trace.columns("os_call", "start_ns", "end_ns", "thread_id", "name_id")
    start, end, thread, name = (column.values for column in columns.values())
    rows = np.flatnonzero(working_threads(trace)[thread])
    inside, count = in_steps(run, process, start[rows], thread[rows])
    rows = rows[inside]
    if not len(rows):
        return ()
    groups = factorize_rows(name[rows].astype(np.int64))
    sums = np.bincount(groups.codes, np.maximum(end - start, 0)[rows], groups.n_groups)
    longest = np.argsort(-sums, kind="stable")[:_MOST_OS_CALLS].tolist()
    texts = (trace.strings.text(int(name[rows[groups.first[code]]])) for code in longest)
    return tuple(
        NamedTime((text[:_LONGEST_TEXT],), sums[code] / count)
        for code, text in zip(longest, texts, strict=True)
    )


def _doing(trace: Trace, process: int) -> tuple[str, ...]:
    """Return the ranges that a process had open when it or its recording ended."""
    if not trace.has("process") or not trace.row_count("process"):
        return ()
    pids = trace.columns("process", "pid")["pid"].filled(UNKNOWN)
    own = {int(pids[process])} if process >= 0 else set(pids.tolist())
    found = next((end for end in trace.meta.ends if end.pid in own and end.path), None)
    return () if found is None else tuple(name[:_LONGEST_TEXT] for name in found.path)


def _last_calls(trace: Trace, process: int) -> tuple[LastCall, ...]:
    """Return the last call of each communicator of a process."""
    if not trace.has("collective") or not trace.row_count("collective"):
        return ()
    names = (
        *("process_id", "communicator_id", "ranks_id", "sequence", "operation_id", "start_ns"),
        "bytes",
    )
    columns = {
        name: column.filled(UNKNOWN).astype(np.int64)
        for name, column in trace.columns("collective", *names).items()
    }
    has_kernel = np.zeros(trace.row_count("collective"), np.bool_)
    kernels = collective_of_kernel(trace)
    has_kernel[kernels.row[kernels.found]] = True
    own = (columns["process_id"] == process) | (process < 0)
    rows = np.flatnonzero(own & (columns["communicator_id"] >= 0))
    if not len(rows):
        return ()
    groups = factorize_rows(columns["communicator_id"][rows], columns["ranks_id"][rows])
    every = (rows[groups.codes == code] for code in range(groups.n_groups))
    return tuple(_last_call(trace, columns, has_kernel, calls) for calls in every)


def _last_call(trace: Trace, columns: dict[str, I64], has_kernel: BoolArray, rows: I64) -> LastCall:
    rows = rows[np.argsort(columns["start_ns"][rows], kind="stable")]
    last = int(rows[-1])

    def text(column: str) -> str:
        place = int(columns[column][last])
        return trace.strings.text(place)[:_LONGEST_TEXT] if place >= 0 else ""

    def operation(row: int) -> str:
        place = int(columns["operation_id"][row])
        name = trace.strings.text(place)[:_LONGEST_TEXT] if place >= 0 else ""
        return operation_name(name) or name

    ended = np.flatnonzero(has_kernel[rows])
    # Without any kernel, calls and kernels are not joined: nothing is known about the last ones.
    pending = len(rows) - 1 - int(ended[-1]) if len(ended) else UNKNOWN
    opened = int(rows[-pending]) if pending > 0 else None
    return LastCall(
        text("communicator_id"),
        text("ranks_id"),
        len(rows),
        int(columns["sequence"][last]),
        operation(last),
        int(columns["start_ns"][last]),
        pending,
        "" if opened is None else operation(opened),
        UNKNOWN if opened is None else int(columns["bytes"][opened]),
    )
