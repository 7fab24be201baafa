"""graph-opportunity: steps that launch the same work each time, more slowly than it runs."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import could_be_graphs, step_launches
from warpline.result import Finding, rule
from warpline.result.changes import LaunchAsGraph
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio

NAME = "graph-opportunity"
TITLE = "Each step launches the same work, slower than the device does it"

_LEAST_SHARE = 0.15


@rule(name=NAME, title=TITLE)
def graph_opportunity(trace: Trace, steps: str | None) -> list[Finding]:
    """Steps that launch the same work each time, while the device waits for launches.

    What it finds: Launch-bound idle time of at least 15% of a step (see breakdown), where the
        steps launch the same 20 or more operations in the same order. Long pauses of the host are
        left out (see launch-bound).
    Why it matters: A CUDA graph launches them all with one call, without the framework's work.
    How it is found: By the names of the kernels in the order of their launches; nine in ten steps
        must be equal, and at least three.
    What to do: Capture the step, or its forward and backward pass, as a CUDA graph.
    Limits: What is captured must not wait for the device, nor allocate, nor depend on values; what
        does has to be changed first. Shapes that change need a graph each. That arguments are
        equal does not show.
    Source: CUDA C++ Programming Guide, CUDA graphs; measured on a program with and without one.
    """
    scope = step_scope(trace, steps)
    idle_ns = scope.idle_ns("launch-bound") - scope.paused_ns
    share = scope.share(idle_ns)
    if share < _LEAST_SHARE or not could_be_graphs(trace, steps):
        return []
    groups = step_launches(trace, steps)
    count = int(np.median([len(group) for group in groups]))
    held = blocking(trace)
    columns = trace.columns("api_call", "start_ns")
    waits = int(np.isin(held.start_ns, columns["start_ns"].values[scope.calls]).sum())
    text = f"{count:,} launches{scope.each}, equal in order and names"
    hindrance = ""
    if waits >= scope.count:
        hindrance = f"; {waits / scope.count:,.0f} calls per step that wait or allocate must go"
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"The device is idle for {format_ns(idle_ns)}{scope.each} ({format_ratio(share)})"
            f" because the host launches {count:,} operations one by one, the same each time"
            f"{hindrance}.",
            (scope.show_calls(text, np.concatenate(groups)),),
            "Capture it as a CUDA graph: torch.compile(mode='reduce-overhead'),"
            " torch.cuda.make_graphed_callables, or torch.cuda.graph around the step",
            "record again with --cuda-graph-trace=graph: one graph launch per step, and little"
            " launch-bound time in `warpline stats -r breakdown`",
            fix_cuda="cudaStreamBeginCapture, the step, cudaStreamEndCapture,"
            " cudaGraphInstantiate once; cudaGraphLaunch in each step",
            is_generic=True,
            changes=(LaunchAsGraph(groups),),
        )
    ]
