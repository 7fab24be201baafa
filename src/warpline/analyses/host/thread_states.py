"""thread_states: how long each thread ran, waited for a CPU, and was blocked on what."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.blocking import REASON_TEXTS, Reason
from warpline.derived.host.page_faults import fault_shares
from warpline.derived.host.sample_rows import THREAD_FIELDS, thread_columns, thread_keys
from warpline.derived.host.states import State, state_blocks, thread_lives
from warpline.derived.texts import dimension_texts, labelled
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import group_sums
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "thread_states"
TITLE = "States of CPU threads"
_SOURCES = ("samples, calls", "context switches")
_REASONS = {
    Reason.GIL: ("gil", "GIL"),
    Reason.CUDA: ("cuda", "CUDA"),
    Reason.LOCK: ("lock", "Lock"),
    Reason.SLEEP: ("sleep", "Sleep"),
    Reason.IO: ("io", "I/O"),
    Reason.JOIN: ("join", "Join"),
    Reason.PAGE_FAULT: ("page_fault", "Page Fault"),
    Reason.OTHER_CALL: ("other_call", "Other Call"),
    Reason.UNKNOWN: ("unknown", "Unknown"),
}
FIELDS = (
    *THREAD_FIELDS,
    Field("process", Unit.NONE, "Name of the process.", "Process", is_detail=True),
    Field("recorded_ns", Unit.NS, "Time in which the thread was recorded.", "Recorded (ns)"),
    Field("running_ratio", Unit.RATIO, "Share of it on a CPU.", "Running (%)", 100.0, 1),
    Field("running_ns", Unit.NS, "Time on a CPU; empty if only calls are known.", "Running (ns)"),
    Field(
        "running_page_fault_ns",
        Unit.NS,
        "Part of it in page faults, by samples with functions of the kernel; empty without.",
        "In Page Faults (ns)",
        is_optional=True,
    ),
    Field(
        "runnable_ns",
        Unit.NS,
        "Time off the CPU although it could run.",
        "Runnable (ns)",
        is_optional=True,
    ),
    Field("blocked_ns", Unit.NS, "Time blocked.", "Blocked (ns)"),
    *(
        Field(
            f"{name}_ns",
            Unit.NS,
            f"Part of it blocked on: {REASON_TEXTS[reason]}.",
            f"{heading} (ns)",
            is_optional=True,
        )
        for reason, (name, heading) in _REASONS.items()
    ),
    Field(
        "not_recorded_ns", Unit.NS, "Time of unknown state.", "Not Recorded (ns)", is_optional=True
    ),
    Field("source", Unit.NONE, "What the states are from.", "Source"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("sched_event", "cpu_sample", "python_sample", "gil_span", "os_call"),
    missing_hint="profile with --cpuctxsw=process-tree --sample=process-tree",
)
def thread_states(trace: Trace, arguments: Arguments) -> Result:
    """How long each thread ran, could run, and was blocked on what.

    What it measures: The time of each thread on a CPU (running), off the CPU although it could run
        (runnable), and blocked, by what it was blocked on. The parts sum to its recorded time.
    Why it matters: A launching thread that is blocked leaves the GPU idle. Runnable time means
        that there are too few cores, or that other programs use them. Page faults while it runs
        mean that it touches fresh memory: reused buffers have none.
    How it is computed: From context switches, where the thread has any. Otherwise from CPU samples
        (blocked: more than five periods without a sample), Python samples, the GIL, and OS calls
        that wait. The share of running time in page faults is that of the CPU samples in which
        functions of the kernel handle one. A blocked thread is blocked on the GIL, else on the CUDA
        API call, else on the OS call that it is in, else on what the functions of its stack say. A
        thread is recorded from its first to its last event.
    Limits: Without context switches, times are as exact as samples are frequent, and runnable time
        counts as blocked. Page faults of running threads need the kernel's functions in samples
        (perf_event_paranoid 1 or less, or root). Exports of nsys may not say why a thread stopped:
        unknown then includes runnable time. A thread that spins on a lock or in a CUDA
        synchronization runs. See offcpu_sum:threads for the lines in which each thread was blocked.
    Source: Warpline; nsys shows the same states in its timeline.
    """
    lives = thread_lives(trace)
    by_state, by_reason = _times(trace, lives.thread_id)
    order = np.lexsort((*thread_keys(trace, lives.thread_id), -by_state[:, State.RUNNING]))
    thread, recorded = lives.thread_id[order], (lives.end_ns - lives.start_ns)[order]
    of_state, of_reason = by_state[order], by_reason[order]
    running = of_state[:, State.RUNNING]
    # Calls and the GIL say when a thread was blocked, and never that it ran.
    is_known = lives.is_switched[order] | (running > 0)
    processes = trace.columns("thread", "process_id")["process_id"].values
    names = trace.columns("process", "name_id")["name_id"]
    values: dict[str, Values] = {
        **thread_columns(trace, thread),
        "process": dimension_texts(trace.strings, names, processes[thread]),
        "recorded_ns": Numbers(recorded),
        "running_ratio": Numbers(running / np.maximum(recorded, 1), is_known & (recorded > 0)),
        "running_ns": Numbers(running, is_known),
        "running_page_fault_ns": _in_faults(running, fault_shares(trace)[thread], is_known),
        "runnable_ns": _if_any(of_state[:, State.RUNNABLE]),
        "blocked_ns": Numbers(of_state[:, State.BLOCKED]),
        **{f"{name}_ns": _if_any(of_reason[:, reason]) for reason, (name, _) in _REASONS.items()},
        "not_recorded_ns": _if_any(of_state[:, State.NOT_RECORDED]),
        "source": labelled(lives.is_switched[order].astype(np.int64), _SOURCES),
    }
    return Result(
        ":".join((NAME, *arguments)), TITLE, FIELDS, values, ("thread_name", "pid", "tid")
    )


def _in_faults(running: I64, share: F64, is_known: BoolArray) -> Numbers:
    """Return the time in page faults, omitted if all of it is 0 or unknown."""
    known = is_known & ~np.isnan(share)
    ns = np.rint(running * np.where(known, share, 0.0)).astype(np.int64)
    return Numbers(ns, known & bool(ns.any()))


def _times(trace: Trace, thread: I64) -> tuple[I64, I64]:
    """Return the time that threads were in each state, and blocked for each reason."""
    n_states, n_reasons = len(State), len(Reason)
    by_state = np.zeros(len(thread) * n_states, np.int64)
    by_reason = np.zeros(len(thread) * n_reasons, np.int64)
    for states in state_blocks(trace):
        length = states.end_ns - states.start_ns
        place = np.searchsorted(thread, states.thread_id)
        by_state += group_sums(place * n_states + states.state, length, len(by_state))
        by_reason += group_sums(place * n_reasons + states.reason, length, len(by_reason))
    return by_state.reshape(-1, n_states), by_reason.reshape(-1, n_reasons)


def _if_any(values: I64) -> Numbers:
    """Return a column that is omitted if all of it is 0."""
    return Numbers(values, np.full(len(values), bool(values.any())))
