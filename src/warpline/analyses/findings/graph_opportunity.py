"""graph-opportunity: launch-bound steps that repeat the same launches."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.jax_advice import launch_less
from warpline.derived.breakdown.partition import RankWindows, step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.tiny_work import tiny_work
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.result_reads import result_reads
from warpline.derived.program import is_compiled, program_kind
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import could_be_graphs, step_launches
from warpline.derived.work.operations import operations
from warpline.result import Finding, rule
from warpline.result.changes import LaunchAsGraph
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "graph-opportunity"
TITLE = "Launch-bound: every step repeats the same launches"

_LEAST_SHARE = 0.15
_FIX = (
    "Capture the step as a CUDA graph with torch.compile(mode='reduce-overhead'),"
    " torch.cuda.make_graphed_callables, or torch.cuda.graph."
)
_FIX_COMPILED = (
    "Launch the compiled parts as CUDA graphs, with mode='reduce-overhead', and remove graph breaks"
    " (TORCH_LOGS=graph_breaks). Or capture the step with torch.cuda.graph."
)


@rule(name=NAME, title=TITLE)
def graph_opportunity(run: Run) -> list[Finding]:
    """Steps that repeat the same launches while the GPU waits for them.

    What it finds: Launch-bound idle time of at least 15% of the step (see breakdown), where every
        step launches the same 20 or more operations in the same order. Long CPU gaps are excluded
        (see launch-bound).
    Why it matters: A CUDA graph launches all of them with one call, without framework overhead.
    How it is found: By kernel names in launch order. At least three steps and 90% of all steps
        must be equal.
    What to do: Capture the step, or its forward and backward passes, as a CUDA graph. If at least
        80% of the kernels have blocks for less than half of the SMs, and take at most 10 us and no
        longer than a launch, the GPU has little to do: larger batches hardly take longer. `warpline
        bench gemm` shows from which size on a GEMM takes longer than its launch.
    Limits: Captured code must not synchronize, allocate with cudaMalloc, or branch on tensor
        values. Each set of shapes needs its own graph. A recording does not show whether kernel
        arguments are equal.
    Source: CUDA C++ Programming Guide, CUDA graphs; measured on a program with and without one.
    """
    scope = step_scope(run)
    idle_ns = scope.launch_bound_ns
    share = scope.share(idle_ns)
    if share < _LEAST_SHARE or not could_be_graphs(run):
        return []
    groups, rank = step_launches(run), _most_idle(run)
    process = run.trace.columns("api_call", "process_id")["process_id"].values
    own = [len(group) for group in groups if rank.process in (-1, process[group[0]])]
    count = int(np.median(own)) if own else 0
    many, idle = plural(count, "launch", "launches"), format_ratio(share)
    before, waits = "", _waits_per_step(run, rank)
    # XLA captures graphs itself, of what is compiled together.
    is_jax = program_kind(run.trace) == "jax"
    if waits >= 1 and not is_jax:
        calls = plural(round(waits), "synchronizing or allocating call")
        before = f" Before capture, remove {calls} per step."
    number = round(_reads_per_step(run, rank))
    if number:
        before += (
            f" The CPU reads back {plural(number, 'result')}{scope.each}: read results after the"
            f" {'step' if is_jax else 'graph'}, or every few steps."
        )
    tiny = tiny_work(run)
    to_do = "compile it as one function" if is_jax else "capture a CUDA graph"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Launch-bound: {many}{scope.each} leave the GPU idle {idle}; {to_do}",
            f"GPU idle {format_ns(idle_ns)}{scope.each} ({idle}): the CPU launches {count:,}"
            f" operations individually, the same in every step.{before}{tiny.claim}",
            (
                scope.show_calls(
                    f"{many}{scope.each} with the same kernel names and order",
                    np.concatenate(groups),
                ),
                *tiny.evidence,
            ),
            (_FIX_COMPILED if is_compiled(run.trace) else _FIX) + tiny.fix,
            "Profile again with --cuda-graph-trace=graph: one graph launch per step, and little"
            " launch-bound time in `warpline stats -r breakdown`.",
            fix_cuda="Capture the step once (cudaStreamBeginCapture, cudaStreamEndCapture,"
            f" cudaGraphInstantiate). Call cudaGraphLaunch in each step.{tiny.fix_cuda}",
            fix_in={"jax": launch_less(run, reads=number > 0) + tiny.fix_jax},
            is_generic=True,
            follows=("allocator", "host-sync"),
            changes=(LaunchAsGraph(groups),),
            on_devices=scope.launch_bound_on_devices(),
        )
    ]


def _most_idle(run: Run) -> RankWindows:
    """Return the rank that the numbers are about: the one with the most launch-bound idle time."""
    idle_ns = step_scope(run).launch_bound_windows_ns

    def per_step(rank: RankWindows) -> float:
        return float(idle_ns[rank.windows].mean())

    return max(step_partition(run).ranks, key=per_step)


def _waits_per_step(run: Run, rank: RankWindows) -> float:
    """Return in how many calls per step the rank's threads are blocked."""
    held, columns = blocking(run.trace), run.trace.columns("api_call", "start_ns", "process_id")
    start, process = columns["start_ns"].values, columns["process_id"].values
    if rank.process < 0:
        begun, times = held.start_ns, start[step_scope(run).calls]
    else:
        begun = held.start_ns[held.process == rank.process]
        times = start[step_scope(run).calls & (process == rank.process)]
    return float(np.isin(begun, times).sum()) / len(rank.windows)


def _reads_per_step(run: Run, rank: RankWindows) -> float:
    """Return how many results per step the rank's CPU reads back."""
    work, copies = operations(run.trace), result_reads(run.trace).copy
    is_own = rank.owns(work.process[copies], work.device[copies])
    return float(step_scope(run).operations[copies[is_own]].sum()) / len(rank.windows)
