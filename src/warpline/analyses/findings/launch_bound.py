"""launch-bound: the GPU waits for launches."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.fault_time import FaultTime, fault_time
from warpline.derived.breakdown.host_idle import of_longest
from warpline.derived.breakdown.host_lines import has_lines, line_hint, lines_at
from warpline.derived.breakdown.host_pauses import HostPauses, host_pauses
from warpline.derived.breakdown.input_waits import LEAST_REPEATS, effective_number
from warpline.derived.breakdown.jax_advice import launch_less
from warpline.derived.breakdown.lost_time import MOST_STEPS, longest_first, without
from warpline.derived.breakdown.recurrence import recurs
from warpline.derived.breakdown.slow_lines import are_slow, slow_lines
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.efficiency.tiny_work import tiny_work
from warpline.derived.idle.result_reads import result_reads
from warpline.derived.program import is_compiled, is_training
from warpline.derived.recorder import hints
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import could_be_graphs
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.group import distinct_values
from warpline.replay import overhead_ratio
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "launch-bound"
TITLE = "Launch-bound: the CPU cannot keep the GPU busy"

_LEAST_SHARE = 0.15
_MOST = 0.5  # of CPU gaps
# Of a gap: work that moves to another thread or is dropped takes no time; part of it may stay.
_REMAINING = Estimate(0.0, 0.0, 0.25)
# Of other operations: a CUDA graph ends at each read, and below 20 launches it is not worthwhile.
_LEAST_READS = 0.05
_FIX = "Use torch.compile, larger batches, or fused operators."
_FIX_COMPILED = (
    "Launch compiled parts as CUDA graphs: torch.compile(mode='reduce-overhead'). Remove graph"
    " breaks (TORCH_LOGS=graph_breaks). Use larger batches."
)
_ASIDE_TRAINING = "Move logging, metrics, and data preparation off the training thread."
_ASIDE = "Move logging, preprocessing, and postprocessing off the thread that launches."
_ASIDE_JAX = "Move logging, metrics, and data preparation off the main thread."
_FIX_CUDA = (
    "Merge small kernels. Launch repeated parts as CUDA graphs. Launch from a dedicated thread."
)
_FIX_CUDA_READS = (
    "Keep results that decide what is launched next on the GPU, or read them every few iterations."
    " Then merge small kernels, and launch repeated parts as CUDA graphs."
)
_TOLD = 0.02  # of the step: less overhead is not mentioned


@rule(name=NAME, title=TITLE)
def launch_bound(run: Run) -> list[Finding]:
    """Idle time of the GPU while it waits for the next launch.

    What it finds: Launch-bound idle time of at least 15% of the step (see breakdown), where steps
        differ or launch few operations, so a CUDA graph does not help (see graph-opportunity).
        Also CPU gaps of half a millisecond or more without CUDA API calls while the GPU is
        launch-bound, if they add up to 15%.
    Why it matters: The GPU waits for the program's own code, the framework, and the driver. Faster
        kernels do not help.
    How it is found: Idle time without a synchronization, copy, allocation, wait for data, or wait
        in the operating system as its cause, before the launch call of the next operation has
        returned.
    What to do: Launch fewer and larger operations, or reduce CPU work. Where nearly all kernels are
        too small for the GPU (see graph-opportunity), raise the batch size.
    Limits: Profiling overhead adds CPU time: the severity is for the estimated share without
        profiling. The saving from fewer launches is not estimated, as it depends on how much CPU
        work can be removed.
        Only ranges and samples show what the CPU does in a gap; where samples show one function
        of the program, the rule is slow-host-function. Without OS calls or context switches in the
        recording (nsys: --trace=osrt, --cpuctxsw), it may also sleep. The bounds of the saving
        assume that up to 25% of a gap stays.
    Source: Warpline.
    """
    scope = step_scope(run)
    idle_ns = max(scope.launch_bound_ns - max(_slow_ns(run) - scope.paused_ns, 0.0), 0.0)
    findings = []
    if scope.paused_ns and _slow_ns(run) <= _MOST * scope.paused_ns:
        findings.append(_pauses(scope, host_pauses(run)))
    if scope.share(idle_ns) >= _LEAST_SHARE and not could_be_graphs(run):
        findings.append(_launches(scope, idle_ns, overhead_ratio(run)))
    return findings


def _slow_ns(run: Run) -> float:
    """Return the time per step of the functions that slow-host-function reports."""
    found = slow_lines(run)
    return sum(line.ns for line in are_slow(run)) / found.steps if found else 0.0


def _launches(scope: StepScope, idle_ns: float, overhead: float) -> Finding:
    share, trace = scope.share(idle_ns), scope.run.trace
    without = max(share - overhead, 0) / (1 - overhead) if overhead < 1 else 0.0
    profiled = f" Without profiling, about {format_ratio(without)}." if overhead > _TOLD else ""
    tiny, faults = tiny_work(scope.run), _faults(scope)
    aside = _ASIDE_TRAINING if is_training(trace) else _ASIDE
    reads = _reads(scope)
    obstacle = (
        f" The CPU reads back {plural(reads, 'result')}{scope.each}, so a CUDA graph can only hold"
        " the launches between two reads."
    )
    return Finding(
        NAME,
        severity_of(without),
        f"Launch-bound: the GPU waits for launches {format_ratio(share)} of the time",
        f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}), waiting for the next"
        f" launch.{_where(scope)}{faults.claim}{profiled}{obstacle if reads else ''}{tiny.claim}",
        (Evidence(f"{format_ns(idle_ns)}{scope.each} launch-bound"), *tiny.evidence),
        f"{_FIX_COMPILED if is_compiled(trace) else _FIX}{tiny.fix} {aside}{faults.fix}",
        "Profile again: `warpline stats -r breakdown` shows less launch-bound time.",
        fix_cuda=(_FIX_CUDA_READS if reads else _FIX_CUDA) + tiny.fix_cuda + faults.fix,
        fix_in={"jax": f"{launch_less(scope.run, reads=reads > 0)}{tiny.fix_jax} {_ASIDE_JAX}"},
        is_generic=True,
        follows=("host-sync",),
        # What launches wait for comes first: reads of results, or what happens once at start-up.
        share=without if not reads and _repeat(scope) else None,
        on_devices=scope.launch_bound_on_devices(),
    )


def _where(scope: StepScope) -> str:
    """Return a sentence about the lines in which the CPU is meanwhile; empty if unknown."""
    trace = scope.run.trace
    if not has_lines(trace):
        return ""
    idle, _ = of_longest(scope.run, TimePart.LAUNCH_BOUND)
    return lines_at(trace, idle.by_thread()).shared("that")


def _faults(scope: StepScope) -> FaultTime:
    idle, _ = of_longest(scope.run, TimePart.LAUNCH_BOUND)
    return fault_time(scope.run.trace, idle.by_thread())


def _in_gaps(run: Run) -> str:
    found = slow_lines(run)
    return found.lines.shared("that") if found else ""


def _repeat(scope: StepScope) -> bool:
    """Return whether launches recur: in steps, or during the whole recording."""
    call = operations(scope.run.trace).call
    calls = distinct_values(call[call >= 0])
    return scope.has_steps or (len(calls) > 0 and recurs(scope.run, calls))


def _reads(scope: StepScope) -> int:
    """Return the results per step that the CPU reads back; 0 if they are few for the launches."""
    places = np.zeros(len(scope.operations), np.bool_)
    places[result_reads(scope.run.trace).copy] = True
    reads = scope.number_of(places)
    is_obstacle = reads >= _LEAST_READS * (scope.number_of(scope.operations) - reads)
    is_repeated = scope.has_steps or reads >= LEAST_REPEATS
    return round(reads) if is_obstacle and is_repeated else 0


def _pauses(scope: StepScope, pauses: HostPauses) -> Finding:
    times, idle_ns = pauses.times, scope.paused_ns
    share = scope.share_of_all(idle_ns)
    faults = _faults(scope)
    if scope.has_steps:
        affected, count = scope.affected(pauses.is_much)
        often = affected > MOST_STEPS * count
        where = "" if often else f" Affects only {affected:,} of {plural(count, 'step')}."
    else:
        often = effective_number(times.end_ns - times.start_ns) >= LEAST_REPEATS
        where = "" if often else " They do not repeat."
    return Finding(
        NAME,
        severity_of(share),
        f"Long CPU gaps leave the GPU idle {format_ratio(share)} of the time",
        f"GPU idle {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}) during CPU gaps without"
        f" CUDA API calls.{_in_gaps(scope.run)}{faults.claim}{where}",
        (longest_first(plural(len(times.thread), "CPU gap"), times),),
        _fix_gaps(scope, often=often) + faults.fix,
        "Profile again: `warpline stats -r breakdown` shows less launch-bound time.",
        fix_in={"jax": _fix_gaps(scope, often=often, is_jax=True)},
        changes=without(times, _REMAINING) if often else (),
        share=share,
        on_devices=scope.windows_on_devices(pauses.idle_ns),
    )


def _fix_gaps(scope: StepScope, *, often: bool, is_jax: bool = False) -> str:
    told = hints(scope.run.trace)
    lines = line_hint(scope.run.trace)
    if not often and not scope.has_steps:
        return told.gap + lines
    # Between two compiled functions, JAX itself is on the CPU: arguments, tracing, dispatch.
    compiled = f"{launch_less(scope.run, reads=_reads(scope) > 0)} " if is_jax and often else ""
    return compiled + (
        f"Locate the gaps with {told.ranges}. Move logging, checkpoints, metrics, and data"
        " preparation to another thread or process, run them less often, or launch the next step's"
        f" work first.{lines}"
    )
