"""How long the launching threads of each process do nothing, by step."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.data_waits import SHORTEST_SILENCE_NS
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.silences import silences
from warpline.derived.steps.times import steps
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.ops.tree import enclosing
from warpline.trace import Run


@derived
def cpu_idle_of_steps(run: Run) -> I64 | None:
    """Return how long launching threads are blocked or make no calls, by step of their process.

    Shape (steps,), int64; an interval counts in the step that it begins in. None without recorded
    calls.
    """
    trace, found = run.trace, steps(run)
    if not trace.has("api_call") or not trace.has("thread") or not len(found):
        return None
    held, silent = blocking(trace), silences(trace).times.lasting(SHORTEST_SILENCE_NS)
    owner = trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)
    idle = np.zeros(len(found), np.int64)
    for process in distinct_values(found.process).tolist():
        of_held, of_silent = held.process == process, owner[silent.thread] == process
        times = union(
            np.concatenate((held.start_ns[of_held], silent.start_ns[of_silent])),
            np.concatenate((held.end_ns[of_held], silent.end_ns[of_silent])),
        )
        rows = np.flatnonzero(found.process == process)
        inside = enclosing(times.start, found.host_start_ns[rows], found.host_end_ns[rows])
        lengths = (times.end - times.start)[inside.found]
        np.add.at(idle, rows[inside.row[inside.found]], lengths)
    return idle
