"""What a baseline keeps of one side of a comparison: a few kilobytes of numbers for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpline.result.diagnosis import SEVERITIES, Severity, severity_rank

F64 = npt.NDArray[np.float64]
# Step times of a run that a baseline keeps; more are replaced by means of successive steps.
MOST_STEPS = 48
MOST_KERNELS = 30
COMMAND = "command"  # the source of steps of runs that were only timed
CPU = "cpu:"  # before the source of steps without GPU work


@dataclass(frozen=True)
class Summary:
    """The runs of one side: their step times, and other numbers of which each run has one.

    Attributes:
        title: Short name.
        recorded_utc: When the first run was recorded, as in ``2026-05-04T17:03:12Z``; empty if
            unknown.
        source: What a step is: the source of steps of the recordings, such as ``range:step``, with
            ``cpu:`` before it if steps are timed on the CPU, for lack of GPU work; ``none`` if a
            recording has no steps and counts as one; ``command`` for the time of a whole command.
        recordings: The recording of each run; empty for commands that were only timed.
        step_ns: For each run, the times of its analyzed steps in their order.
        parts_ns: Time per step of each run, by part of the step: ``busy:gemm``,
            ``idle:host-sync``. A run's parts sum to its mean step.
        kernels_ns: Time per step of each run, by kernel.
        operations: GPU operations per step of each run; empty if unknown.
        has_all_kernels: Whether `kernels_ns` has every kernel, not only the longest of a baseline.
        memory_peak_bytes: Peak GPU memory of each run; empty if not recorded.
        findings: For each rule that reported a finding in most runs, the highest severity.
        environment: Facts about machine, software and settings, by name.
    """

    title: str
    recorded_utc: str
    source: str
    recordings: tuple[str, ...]
    step_ns: tuple[tuple[float, ...], ...]
    parts_ns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    kernels_ns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    memory_peak_bytes: tuple[float, ...] = ()
    findings: Mapping[str, Severity] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    operations: tuple[float, ...] = ()
    has_all_kernels: bool = True

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.step_ns)

    @property
    def mean_ns(self) -> float:
        """Mean over runs of the mean step."""
        return float(np.mean([np.mean(steps) for steps in self.step_ns]))

    @property
    def cpu_share(self) -> float:
        """Share of the steps in which the GPU is idle; 1 without GPU work."""
        all_ns = sum(map(sum, self.parts_ns.values()))
        idle = (sum(ns) for name, ns in self.parts_ns.items() if name.startswith("idle:"))
        return sum(idle) / all_ns if all_ns else 1.0


def joined(title: str, runs: Sequence[Summary]) -> Summary:
    """Return one summary of several runs, at least one; a missing part or kernel has no time."""
    first = runs[0]
    counted: dict[str, list[Severity]] = {}
    for run in runs:
        for rule, severity in run.findings.items():
            counted.setdefault(rule, []).append(severity)
    names = dict.fromkeys(name for run in runs for name in run.environment)
    memory = [run.memory_peak_bytes for run in runs]
    return (
        Summary(
            title=title,
            recorded_utc=min((run.recorded_utc for run in runs if run.recorded_utc), default=""),
            source=", ".join(dict.fromkeys(run.source for run in runs)),
            recordings=tuple(name for run in runs for name in run.recordings),
            step_ns=tuple(steps for run in runs for steps in run.step_ns),
            parts_ns=_columns([(run.parts_ns, run.runs) for run in runs]),
            kernels_ns=_columns([(run.kernels_ns, run.runs) for run in runs]),
            operations=tuple(count for run in runs for count in run.operations)
            if all(run.operations for run in runs)
            else (),
            has_all_kernels=all(run.has_all_kernels for run in runs),
            memory_peak_bytes=tuple(peak for own in memory for peak in own) if all(memory) else (),
            findings={
                rule: min(found, key=severity_rank)
                for rule, found in counted.items()
                if 2 * len(found) > len(runs)
            },
            environment={
                name: ", ".join(
                    dict.fromkeys(run.environment[name] for run in runs if name in run.environment)
                )
                for name in names
            },
        )
        if len(runs) > 1
        else Summary(**{**vars(first), "title": title})
    )


def timed(title: str, times_ns: Sequence[float]) -> Summary:
    """Return the summary of commands that were only timed, each of which counts as one step."""
    return Summary(title, "", COMMAND, (), tuple((ns,) for ns in times_ns))


def _columns(
    runs: Sequence[tuple[Mapping[str, tuple[float, ...]], int]],
) -> dict[str, tuple[float, ...]]:
    names = dict.fromkeys(name for values, _ in runs for name in values)
    return {
        name: tuple(value for values, count in runs for value in values.get(name, (0.0,) * count))
        for name in names
    }


def thinned(summary: Summary) -> Summary:
    """Return the summary as a baseline keeps it: fewer step times, and only the longest kernels."""
    longest = sorted(summary.kernels_ns, key=lambda name: -sum(summary.kernels_ns[name]))
    kept = set(longest[:MOST_KERNELS])
    return Summary(
        **{
            **vars(summary),
            "step_ns": tuple(_thinned(steps) for steps in summary.step_ns),
            "kernels_ns": {
                name: values for name, values in summary.kernels_ns.items() if name in kept
            },
            "has_all_kernels": summary.has_all_kernels and len(longest) < MOST_KERNELS,
        }
    )


def _thinned(steps: tuple[float, ...]) -> tuple[float, ...]:
    """Return means of equally many successive steps, scaled so that their mean is that of all."""
    size = -(-len(steps) // MOST_STEPS)
    if size < 2:
        return steps
    values = np.asarray(steps, np.float64)
    means: F64 = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
    return tuple((means * (values.mean() / means.mean())).tolist())


def at_least(severity: Severity) -> frozenset[Severity]:
    """Return a severity and those above it."""
    return frozenset(SEVERITIES[: severity_rank(severity) + 1])
