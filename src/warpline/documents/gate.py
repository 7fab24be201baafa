"""The content of a baseline: summaries of runs, from their recordings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from warpline.comparison.environment import operations_per_step
from warpline.comparison.summary import CPU, Summary
from warpline.derived.memory.allocations import ALLOCATORS, FRAMEWORK
from warpline.derived.steps.times import steps
from warpline.documents import comparison
from warpline.errors import UsageError
from warpline.result import source_name
from warpline.result.diagnosis import Severity, severity_rank
from warpline.result.profile import Profile
from warpline.trace import Run, Trace

_FRAMEWORK = ALLOCATORS[FRAMEWORK].lower()
# Not in baselines, which may be committed: commands and variables may have private words.
_PRIVATE = ("command", "variable ")


def summary(run: Run, *, keep_going: bool = True) -> Summary:
    """Return the summary of one run.

    Args:
        run: The trace, and the choice of its steps.
        keep_going: Whether a rule with a defect is left out; else its error is raised.

    Raises:
        UsageError: The recording has no GPU work, and no steps on the CPU.
    """
    trace = run.trace
    title = source_name(trace.meta.paths)
    profile = comparison.profile(run, keep_going=keep_going)
    source, step_ns = profile.source, np.asarray(profile.step_ns, np.float64)
    if not profile.mean_ns:
        source, step_ns = _on_cpu(run)
    if not len(step_ns):
        raise UsageError(
            f"{title} has no GPU work, and no steps on the CPU",
            hint="name the ranges that are steps with --steps-from NAME",
        )
    return Summary(
        title=title,
        recorded_utc=_utc(trace),
        source=source,
        recordings=(", ".join(path.name for path in trace.meta.paths),),
        step_ns=(tuple(step_ns.tolist()),),
        parts_ns={
            f"{part.kind}:{part.category}": (float(ns),) for part, ns in profile.parts.items() if ns
        },
        kernels_ns=_kernels(profile),
        operations=(operations_per_step([profile]),),
        memory_peak_bytes=_memory(profile),
        findings=_findings(profile),
        environment={
            name: value
            for name, value in profile.environment.items()
            if value is not None and not name.startswith(_PRIVATE)
        },
    )


def _on_cpu(run: Run) -> tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return the times of steps on the CPU: from the start of a step to that of the next."""
    found = steps(run)
    periods = found.host_period_ns[found.included & found.has_next]
    return f"{CPU}{found.source}", periods[periods > 0].astype(np.float64)


def _kernels(profile: Profile) -> Mapping[str, tuple[float, ...]]:
    sums: dict[str, float] = {}
    items = profile.items
    for name, ns in zip(items.names, items.ns.tolist(), strict=True):
        if name.kind in ("kernel", "collective"):
            sums[name.short_name] = sums.get(name.short_name, 0.0) + ns
    return {name: (ns,) for name, ns in sums.items() if ns > 0}


def _memory(profile: Profile) -> tuple[float, ...]:
    """Return the peak memory of the GPU and process that use most: the framework's, if known."""
    peaks = profile.memory_peak_bytes
    return (float(peaks.get(_FRAMEWORK, max(peaks.values()))),) if peaks else ()


def _findings(profile: Profile) -> Mapping[str, Severity]:
    found: dict[str, Severity] = {}
    for item in profile.findings:
        found[item.rule] = min(
            found.get(item.rule, item.severity), item.severity, key=severity_rank
        )
    return found


def _utc(trace: Trace) -> str:
    origin = trace.meta.origin_utc_ns
    if origin is None:
        return ""
    try:
        return datetime.fromtimestamp(origin // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
