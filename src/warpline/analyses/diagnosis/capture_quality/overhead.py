"""Whether the profiler slowed the program down."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.analyses.diagnosis.capture_quality.problem import grade, problem
from warpline.analyses.diagnosis.capture_quality.shares import idle_of
from warpline.derived.recorder import hints
from warpline.derived.steps.times import Steps
from warpline.derived.time_parts import IDLE, NOT_OF_CPU, TimePart
from warpline.result import ANALYSES, Evidence, Finding, Result
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio

_COST_RATIO = {"medium": 0.10, "low": 0.03}


def overhead(run: Run, run_steps: Steps) -> Iterator[Finding]:
    """Report high profiling overhead."""
    # Overhead on a CPU that runs ahead of its GPU does not slow the program down.
    waiting_ratio, _ = idle_of(run, *(cause for cause in IDLE if cause not in NOT_OF_CPU))
    own_ratio, own_text = _own_cost(run.trace, run_steps)
    known_ratio, known_ns = idle_of(run, TimePart.PROFILER_OVERHEAD)
    known_text = f"GPUs were idle for {format_ns(known_ns)} in total during profiler overhead"
    cost = max((min(own_ratio, waiting_ratio), own_text), (known_ratio, known_text))
    severity = grade(cost[0], _COST_RATIO)
    if severity is not None:
        yield problem(
            severity,
            "High profiling overhead",
            f"The GPU waits about {format_ratio(cost[0])} of the time for profiling overhead on the"
            " CPU. The program is faster without the profiler.",
            Evidence(cost[1]),
            hints(run.trace).less,
            "warpline stats -r profiling_cost RECORDING",
        )


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
