"""How well the event graph of a trace explains the recorded times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import operations
from warpline.ops.arrays import INT64_MAX
from warpline.ops.group import distinct_values
from warpline.ops.interval import union
from warpline.replay.edges import NEVER
from warpline.replay.graph import EventGraph, event_graph, timing
from warpline.replay.steps import recorded, step_times
from warpline.trace import Run, Trace

# An operation that starts later than expected by more than this has a cause outside the graph.
UNEXPLAINED_NS = 5_000


class Quality(NamedTuple):
    """How well the simulation explains a trace.

    Attributes:
        error_ratio: Relative error of the step, simulated unchanged with the trace's median
            latencies; of the whole trace if there are no steps.
        unexplained_ratio: Share of the simulated time in which an operation started more than
            `UNEXPLAINED_NS` after all its known dependencies; of the device with the largest share.
        steps: Number of simulated steps.
    """

    error_ratio: float
    unexplained_ratio: float
    steps: int


@derived
def replay_quality(run: Run) -> Quality:
    """Simulate a trace unchanged with median latencies, and compare."""
    graph = event_graph(run)
    again = timing(graph, graph.usual_weight_ns, graph.length_ns, graph.earliest_ns)
    measured = step_times(run, graph, recorded(graph))
    replayed = step_times(run, graph, again)
    error = abs(replayed.step_ns / measured.step_ns - 1) if measured.step_ns else 0.0
    return Quality(error, _unexplained(graph, run.trace), measured.n_steps)


def _unexplained(graph: EventGraph, trace: Trace) -> float:
    """Return the share of time in which operations started late for no known reason."""
    expected, start = graph.latencies.expected_ns, graph.item_start_ns
    late = np.flatnonzero((expected != NEVER) & (start - expected > UNEXPLAINED_NS))
    work = graph.queued.operation >= 0
    if not work.any():
        return 0.0
    begun = min(
        int(graph.item_start_ns[work].min()), int(graph.call_start_ns.min(initial=INT64_MAX))
    )
    span = int(graph.item_end_ns[work].max()) - begun
    device = operations(trace).device[graph.queued.operation[late]]
    worst = 0
    for each in distinct_values(device).tolist():
        own = late[device == each]
        lost = union(expected[own], start[own])
        worst = max(worst, int((lost.end - lost.start).sum()))
    return worst / max(span, 1)
