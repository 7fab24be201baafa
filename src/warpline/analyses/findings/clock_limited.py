"""clock-limited: compute-bound kernels run at a lower clock than the highest of their GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.health.clock_limits import ClockLimit, main_limits
from warpline.derived.health.kernel_clocks import KernelClocks, kernel_clocks
from warpline.derived.health.measured import measured_readings
from warpline.derived.health.readings import Readings, gpu_readings
from warpline.derived.health.shown import gpus_in_words, sentence, show_readings
from warpline.derived.health.slowed_kernels import (
    LEAST_READINGS,
    SlowedKernels,
    clock_ratio,
    slowed_kernels,
)
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.result import Evidence, Finding, Severity, Skipped, rule, severity_rank
from warpline.trace import Run, Trace
from warpline.units import format_mhz, format_ns, format_ratio, format_watts, plural

NAME = "clock-limited"
TITLE = "The GPU clock is limited"

_POWER_LOWER = 0.95  # below, a power limit that is normal is mentioned
_UNEXPLAINED_LOWER = 0.85  # below, a clock without a limit is; GPUs for games never reach theirs
_LEAST_SHARE = 0.01  # of the step
_OF_STEPS = 0.5
_OFTEN = 0.05  # of the readings: limits in fewer are not mentioned
_LOWERED = 0.99  # of the power limit that the GPU comes with
_NEARLY_ALL = 0.995  # of the kernels' time

_SEE = "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER"
_VERIFY = (
    "Profile again: `warpline stats -r gpu_health_sum` shows a higher clock and no such limit."
)
_COOL = (
    f"Cool the GPU better: check fans, airflow, and the temperature of the air ({_SEE})."
    " Until then, run on another GPU."
)


class _Advice(NamedTuple):
    """What to do about a limit, and how severe it is at most."""

    most_severe: Severity
    fix: str


_ADVICE: Mapping[ClockLimit, _Advice] = {
    ClockLimit.HW_THERMAL: _Advice("high", _COOL),
    ClockLimit.SW_THERMAL: _Advice("high", _COOL),
    ClockLimit.POWER_BRAKE: _Advice(
        "high",
        "Check the power supplies and the power budget of the server: they ask the GPU to use"
        f" less ({_SEE}). Until then, run on another machine.",
    ),
    ClockLimit.HW_SLOWDOWN: _Advice(
        "high",
        f"Check temperature, power supply, and power cables of the GPU ({_SEE}). Until then, run"
        " on another GPU.",
    ),
    ClockLimit.SYNC_BOOST: _Advice(
        "medium", "Turn off sync boost for this GPU (dcgmi config), unless all need one clock."
    ),
    ClockLimit.APPLICATION: _Advice(
        "medium",
        "Reset the clocks, as root: nvidia-smi -rac (applications clocks), nvidia-smi -rgc (locked"
        " clocks). Keep them where measurements need a fixed clock.",
    ),
    ClockLimit.DISPLAY: _Advice("low", "Use a GPU without a display."),
}
_HEAT = (ClockLimit.HW_THERMAL, ClockLimit.SW_THERMAL)
_DEFECTS = (*_HEAT, ClockLimit.POWER_BRAKE, ClockLimit.HW_SLOWDOWN)


class _Cause(NamedTuple):
    """Why clocks are lower, and what to do: parts of a finding."""

    title: str
    why: str
    advice: _Advice


@rule(name=NAME, title=TITLE)
def clock_limited(run: Run) -> list[Finding] | Skipped:
    """Compute-bound kernels that run at a lower clock than the highest of their GPU.

    What it finds: While GEMMs, convolutions and attention run, the SM clock is below 98% of the
        highest, because of heat, a hardware slowdown, the power supply, clocks or a power limit
        that are set low, or the power limit that the GPU comes with.
    Why it matters: The time of these kernels follows the clock. Heat, hardware slowdowns and
        settings can be removed. The power limit is normal: an H100 under heavy GEMMs runs at 1.4 of
        1.98 GHz at its 700 W, so that is information, not a defect.
    How it is found: Each kernel of 10 us or more has the clock of the nearest reading of its GPU,
        and the limit that the driver reports with it. Without the limit, it would run at the
        highest clock at best. Likely, it would run at the clock of kernels in the same recording
        that no removable limit affects, if there are any. At worst, half of its time follows the
        clock. Kernels that names or sizes show to be bound by memory do not gain.
    What to do: Cool the GPU, check its power, or reset its clocks and its power limit.
    Limits: Needs readings of the GPU's state, at least 3 of them while such kernels run. Readings
        are moments: at one per second, a clock that changes faster is known on average only.
        Whether the power limit follows once another limit is gone is unknown without such
        kernels: then the saving is an upper bound.
    Source: NVML API reference, clocks event reasons; nvidia-smi. Synthetic recordings.
    """
    trace = run.trace
    if not gpu_readings(trace):
        return []
    clocks = [each for each in kernel_clocks(run) if each.total_ns]
    judged = [each for each in clocks if each.n_readings >= LEAST_READINGS and each.highest_hz > 0]
    if clocks and not judged:
        if not any(each.highest_hz > 0 for each in clocks):
            return Skipped(NAME, "the highest clock of the GPU was not recorded")
        few = f"fewer than {LEAST_READINGS} readings of the clock while compute-bound kernels ran"
        return Skipped(NAME, few, "profile longer, or with --gpu-health=10")
    if not any(each.is_known("sm_clock_hz").any() for each in gpu_readings(trace)):
        return Skipped(NAME, "the driver reports no SM clock")
    found = {limit: _removable(run, judged, limit) for limit in _ADVICE}
    findings = [item for item in found.values() if item is not None]
    findings += _slowed_otherwise(run, [limit for limit, item in found.items() if item is None])
    findings += _heat_between_readings(run)
    return [*findings, *_power_limit(run, judged), *_unexplained(run, judged)]


def _removable(run: Run, clocks: Sequence[KernelClocks], limit: ClockLimit) -> Finding | None:
    """Return a finding about kernels whose clock a removable limit lowers, if they lose time."""
    slowed = slowed_kernels(clocks, limit)
    if not slowed:
        return None
    gpus = gpus_in_words(run.trace, (each.device for each in slowed))
    heat = _temperature(slowed) if limit in _DEFECTS else ""
    cause = _Cause(
        f"{sentence(limit.label)} lowers the clock of {gpus}",
        f"{limit.label}: {limit.meaning}{heat}",
        _ADVICE[limit],
    )
    return _priced(run, slowed, cause)


def _power_limit(run: Run, clocks: Sequence[KernelClocks]) -> list[Finding]:
    """Return findings about GPUs at a power limit that is set low, and at their own."""
    findings, normal = list[Finding | None](), list[SlowedKernels]()
    for each in slowed_kernels(clocks, ClockLimit.POWER_CAP, than=(ClockLimit.NONE,)):
        limit_w, default_w = _power_limits(run.trace, each.device)
        if not 0 < limit_w < _LOWERED * default_w:
            normal.append(each)
            continue
        cause = _Cause(
            f"The power limit of {gpus_in_words(run.trace, (each.device,))} is set low",
            f"a power limit of {format_watts(limit_w)} instead of {format_watts(default_w)}",
            _Advice("medium", f"Raise the power limit, as root: nvidia-smi -pl {default_w:.0f}."),
        )
        findings.append(_priced(run, [each], cause))
    normal = [each for each in normal if clock_ratio([each]) < _POWER_LOWER]
    if normal:
        findings.append(_at_power_limit(run, normal))
    return [item for item in findings if item is not None]


def _at_power_limit(run: Run, slowed: Sequence[SlowedKernels]) -> Finding:
    limit_w, _ = _power_limits(run.trace, slowed[0].device)
    limit = f" of {format_watts(limit_w)}" if limit_w else ""
    return Finding(
        NAME,
        "info",
        "Power-limited: normal for a GPU under full load",
        f"{_at_clock(run, slowed)}, because of the power limit{limit}. The highest clock is for"
        " lighter work.",
        (_shown_readings(slowed),),
        "None needed. When step times are compared, compare clocks, too.",
        "`warpline stats -r gpu_health_sum` shows clock, power, and limits.",
    )


def _unexplained(run: Run, clocks: Sequence[KernelClocks]) -> list[Finding]:
    """Return a finding about GPUs that are far from their highest clock for no reported reason."""
    every = slowed_kernels(clocks, ClockLimit.NONE, ClockLimit.UNKNOWN)
    slowed = [each for each in every if clock_ratio([each]) < _UNEXPLAINED_LOWER]
    if not slowed:
        return []
    return [
        Finding(
            NAME,
            "info",
            "The GPU clock is low for an unknown reason",
            f"{_at_clock(run, slowed)}. The driver gives no reason.",
            (_shown_readings(slowed),),
            "Check whether clocks are locked (nvidia-smi -q -d CLOCK): nvidia-smi -rgc, as root,"
            " unlocks them.",
            _VERIFY,
        )
    ]


def _slowed_otherwise(run: Run, limits: Sequence[ClockLimit]) -> list[Finding]:
    """Return findings about limits that no compute-bound kernel shows to take time."""
    findings = list[Finding]()
    for within in measured_readings(run):
        main = main_limits(within)
        for limit in limits:
            rows = np.flatnonzero(main == limit)
            if len(rows) and len(rows) >= _OFTEN * len(within) and len(within) >= LEAST_READINGS:
                findings.append(_takes_little(run.trace, within, rows, limit))
    return findings


def _heat_between_readings(run: Run) -> list[Finding]:
    """Return findings about heat that the driver counts and that no reading meets."""
    findings = []
    every = {each.of: each for each in gpu_readings(run.trace)}
    for within in measured_readings(run):
        # The counter is read rarely: short steps have no two readings of it.
        rate = within.rate("thermal_limited_ns")
        counted = within if rate is not None else every[within.of]
        share = (counted.rate("thermal_limited_ns") or 0.0) / 1e9
        if share < _OFTEN or np.isin(main_limits(within), _HEAT).any():
            continue
        name = gpus_in_words(run.trace, (within.of,))
        findings.append(
            Finding(
                NAME,
                "low",
                f"Heat limits the clock of {name}",
                f"Heat limits the clock of {name} {format_ratio(min(share, 1.0))} of the time, by a"
                " counter of the driver. No reading falls into these times, so that their cost is"
                " unknown.",
                (show_readings(counted, np.flatnonzero(counted.is_known("thermal_limited_ns"))),),
                _COOL,
                _VERIFY,
                is_of_machine=True,
            )
        )
    return findings


def _takes_little(trace: Trace, within: Readings, rows: I64, limit: ClockLimit) -> Finding:
    name, share = gpus_in_words(trace, (within.of,)), format_ratio(len(rows) / len(within))
    return Finding(
        NAME,
        "low",
        f"{sentence(limit.label)} is active on {name}",
        f"{name} has {limit.label} in {share} of its readings: {limit.meaning}. Compute-bound"
        f" kernels lose less than {format_ratio(_LEAST_SHARE)} of the time. What others lose is"
        " unknown.",
        (show_readings(within, rows),),
        _ADVICE[limit].fix,
        _VERIFY,
    )


def _priced(run: Run, slowed: Sequence[SlowedKernels], cause: _Cause) -> Finding | None:
    """Return a finding whose fix gives kernels a higher clock; None if they lose little."""
    scope = step_scope(run)
    kernels = np.concatenate([each.kernels.kernel for each in slowed])
    lost_ns = np.concatenate([each.kernels.ns * (1 - each.factor) for each in slowed])
    facts = scope.operations_on_devices(kernels, np.rint(lost_ns).astype(np.int64))
    most_ns = max((fact.ns / max(fact.steps, 1) for fact in facts), default=0.0)
    share = scope.share(most_ns)
    if share < _LEAST_SHARE:
        return None
    chosen = np.zeros(len(operations(run.trace)), np.bool_)
    chosen[kernels] = True
    number = plural(max(round(scope.number_of(chosen)), 1), "kernel")
    affected = len(distinct_values(scope.step[kernels]))
    is_rare = scope.has_steps and affected < _OF_STEPS * scope.count
    rarely = f" Affects {affected:,} of {plural(scope.count, 'step')}." if is_rare else ""
    is_assumed = not is_rare and any(not each.reachable_hz for each in slowed)
    unless = " The saving assumes that no other limit takes its place." if is_assumed else ""
    return Finding(
        NAME,
        max(severity_of(share), cause.advice.most_severe, key=severity_rank),
        cause.title,
        f"{_at_clock(run, slowed)}, because of {cause.why}. That takes {format_ns(most_ns)}"
        f"{scope.each} ({format_ratio(share)}).{rarely}{unless}",
        (
            scope.show_operations(f"{number}{scope.each} at a lower clock", chosen),
            _shown_readings(slowed),
        ),
        cause.advice.fix,
        _VERIFY,
        share=share,
        # What happens in few steps does not affect the median step, which savings are of.
        changes=() if is_rare else tuple(each for gpu in slowed for each in gpu.changes()),
        on_devices=facts,
        most_severe=cause.advice.most_severe,
        is_conditional=is_assumed,
        is_of_machine=True,
    )


def _at_clock(run: Run, slowed: Sequence[SlowedKernels]) -> str:
    """Return how fast which GPUs run compute-bound kernels."""
    ns = sum(each.kernels.total_ns for each in slowed)
    mean_hz = sum(each.kernels.mean_hz * each.kernels.total_ns for each in slowed) / ns
    highest = format_mhz(max(each.kernels.highest_hz for each in slowed))
    whole = ns / sum(each.whole_ns for each in slowed)
    gpus = gpus_in_words(run.trace, (each.device for each in slowed))
    runs = "runs" if len({each.device for each in slowed}) == 1 else "run"
    part = "" if whole > _NEARLY_ALL else f" in {format_ratio(whole)} of their time"
    return (
        f"{gpus} {runs} compute-bound kernels at {format_mhz(mean_hz)} of {highest}"
        f" ({format_ratio(clock_ratio(slowed))}){part}"
    )


def _temperature(slowed: Sequence[SlowedKernels]) -> str:
    """Return the highest temperature in brackets, empty if unknown."""
    values = [each.kernels.readings.known("temperature_c").values for each in slowed]
    hottest = max((float(each.max()) for each in values if len(each)), default=None)
    return "" if hottest is None else f" (up to {hottest:.0f} C)"


def _power_limits(trace: Trace, device: int) -> tuple[float, float]:
    """Return the power limit of a GPU and the one that it comes with, in W; 0 if unknown."""
    columns = trace.columns("device", "power_limit_w", "default_power_limit_w")
    now, default = (float(column.filled(0.0)[device]) for column in columns.values())
    return now, default


def _shown_readings(slowed: Sequence[SlowedKernels]) -> Evidence:
    """Return the readings near the kernels of the GPU with most of their time."""
    most = max(slowed, key=lambda each: each.kernels.total_ns).kernels
    return show_readings(most.readings, distinct_values(most.reading))
