"""energy: joules per step, range and kernel class of each GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import measured_segments, step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.health.energy import Meter, meters
from warpline.derived.ranges.device_ranges import ranges_on_device
from warpline.derived.steps.ranges import run_of
from warpline.derived.steps.times import measure_windows, steps
from warpline.derived.time_parts import TimePart, is_busy
from warpline.ops.arrays import I64
from warpline.ops.interval import covered, union
from warpline.result import Arguments, Field, Result, Skipped, Values, analysis, column_of
from warpline.trace import Run, Trace
from warpline.units import Unit, format_ns, plural

NAME = "energy"
TITLE = "Energy per step, range and kernel class"
HINT = "profile with warpline profile, without --gpu-health=off"
STEPS, RANGES, CLASSES = "steps", "ranges", "classes"
FIELDS = (
    Field("gpu_index", Unit.NONE, "Index of the GPU, as recorded.", "GPU"),
    Field("of", Unit.NONE, "recording, step, range or kernel class.", "Of"),
    Field("name", Unit.NONE, "Name of the step, range or class.", "Name"),
    Field("instances", Unit.COUNT, "How many of them are covered by readings.", "Instances"),
    Field("mean_ns", Unit.NS, "Mean duration of one.", "Avg (ns)", digits=0),
    Field(
        "energy_j",
        Unit.JOULES,
        "Energy of one, on average; empty if the readings are too far apart.",
        "Energy (J)",
        digits=3,
    ),
    Field("low_j", Unit.JOULES, "Lower bound.", "Low (J)", digits=3),
    Field("high_j", Unit.JOULES, "Upper bound.", "High (J)", digits=3),
    Field("mean_w", Unit.WATTS, "Mean power meanwhile.", "Power Avg (W)", digits=1),
    Field("source", Unit.NONE, "energy counter, or power x time.", "Source"),
    Field("basis", Unit.NONE, "What the number rests on.", "Basis"),
)

_RESOLVED = 0.5  # of the energy: with bounds wider than plus or minus this, none is given
# NVML averages power over this time: readings of power divide energy among spans of twice that.
_POWER_NS = 1_000_000_000
_LONG = 2.0
_NEARLY_ALL = 0.9  # of the time of spans


class _Spans(NamedTuple):
    """Spans of one kind on a GPU that share a name.

    Attributes:
        of: What they are.
        name: Their name; None for the recording.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        instances: How many they are; of a class, how many steps they are in.
    """

    of: str
    name: str | None
    start_ns: I64
    end_ns: I64
    instances: int


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("gpu_health",),
    arguments={
        STEPS: "One row per step.",
        RANGES: "One row per range name, of ranges that launch GPU work.",
        CLASSES: "One row per category of busy time, in proportion to time, and one for idle time.",
        "name": "name=PATTERN: the ranges that are steps.",
    },
    missing_hint=HINT,
)
def energy(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Energy that each GPU used: of the recording and per step, range or kernel class.

    What it measures: For each GPU, the energy from the first to the last reading, and of a mean
        step. With :steps, :ranges or :classes, that of each step, range name or category.
    Why it matters: Energy per step is what a run costs, and what a change saves that makes the GPU
        wait less, or compute in a smaller type. Power alone does not show it.
    How it is computed: From differences of the GPU's energy counter, linear between readings. Time
        between two readings that a span covers whole counts whole; what it covers in part counts
        in proportion to time, or to power times time where power was read more often: Warpline
        reads the counter every 30 s, and power every second, because the counter takes 100 times as
        long to read. The bounds are those of all ways to spend the energy between two
        readings without exceeding twice the power limit, and of a counter that is up to 100 ms old
        when it is read (GPUs update it every 20 to 100 ms). So consecutive steps are known well
        together, and single short ones are not: where the bounds are wider than plus or minus half
        of the energy, none is given, unless power was read at least twice in each span, and each is
        2 s or longer. A GPU without a counter has power times time, without bounds.
    Limits: The energy is that of the whole GPU, with idle time, memory, and other programs. A range
        is the time from its first GPU operation to the end of the last. How energy divides among
        kernel classes is not measured: :classes assumes that power is the same for all of them
        between two readings, though GEMMs take more than copies. NVML's power is an average over
        about a second, and on A100 and H100 a quarter of the time is sampled.
    Source: NVML API reference; Yang, Adamek and Armour, "Part-time Power Measurements: nvidia-smi's
        Lack of Attention", SC 2024.
    """
    run = run_of(trace, arguments)
    made = [
        _row(trace, device, meter, spans)
        for device, meter in meters(trace).items()
        for spans in _every(run, device, meter, arguments)
    ]
    if not made:
        return Skipped(NAME, "fewer than two readings of energy or power", HINT)
    values: dict[str, Values] = {
        field.name: column_of([row[field.name] for row in made]) for field in FIELDS
    }
    key = ("gpu_index", "of", "name")
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, key)


def _every(run: Run, device: int, meter: Meter, arguments: Arguments) -> Iterator[_Spans]:
    """Yield the spans of a GPU that are asked for; those outside the readings are left out."""
    ends = meter.at_ns[[0, -1]]
    yield _Spans("recording", None, ends[:1], ends[1:], 1)
    yield from _steps(run, device, meter, one_by_one=STEPS in arguments)
    if RANGES in arguments:
        yield from _ranges(run.trace, device, meter)
    if CLASSES in arguments:
        yield from _classes(run, device, meter)


def _steps(run: Run, device: int, meter: Meter, *, one_by_one: bool) -> Iterator[_Spans]:
    windows, labels = measure_windows(run), steps(run).label.to_list()
    start, end = windows.start_ns, windows.end_ns
    own = (windows.device == device) & (windows.step >= 0) & meter.covers(start, end)
    chosen = np.flatnonzero(own)
    if len(chosen) and one_by_one:
        for row in chosen.tolist():
            label = labels[int(windows.step[row])]
            yield _Spans("step", label, start[row : row + 1], end[row : row + 1], 1)
    elif len(chosen):
        yield _Spans("step", "mean", start[chosen], end[chosen], len(chosen))


def _ranges(trace: Trace, device: int, meter: Meter) -> Iterator[_Spans]:
    """Yield the ranges of each name that readings cover."""
    for name, start, end in ranges_on_device(trace, device):
        rows = np.flatnonzero(meter.covers(start, end))
        if len(rows):
            yield _Spans("range", name, start[rows], end[rows], len(rows))


def _classes(run: Run, device: int, meter: Meter) -> Iterator[_Spans]:
    """Yield the times of each category of busy time and of idle time in the measured windows."""
    windows, segments = step_partition(run).windows, device_segments(run.trace)
    own = (windows.device == device) & meter.covers(windows.start_ns, windows.end_ns)
    pieces = [
        (segments.part[cuts.row[rows]], cuts.start_ns[rows], cuts.end_ns[rows])
        for cuts in measured_segments(run)
        for rows in (np.flatnonzero(own[cuts.span]),)
    ]
    count = max(int(np.count_nonzero(own & (windows.step >= 0))), 1)
    if not pieces:
        return
    part, start, end = (np.concatenate(column) for column in zip(*pieces, strict=True))
    for each in TimePart:
        rows = np.flatnonzero(part == each)
        if each.is_busy and len(rows):
            yield _Spans("kernel class", each.label, start[rows], end[rows], count)
    rows = np.flatnonzero(~is_busy(part))
    if len(rows):
        yield _Spans("kernel class", "idle", start[rows], end[rows], count)


def _row(trace: Trace, device: int, meter: Meter, spans: _Spans) -> dict[str, Any]:
    used = meter.used(spans.start_ns, spans.end_ns)
    low, central, high = (joules / spans.instances for joules in used)
    is_assumed = spans.of == "kernel class"
    is_bounded = meter.is_counter and not is_assumed
    is_narrow = not is_bounded or high - low <= 2 * _RESOLVED * central
    is_resolved = is_narrow or _are_long(meter, spans)
    time_ns = covered(spans.start_ns, spans.end_ns)
    return {
        "gpu_index": int(trace.columns("device", "gpu_index")["gpu_index"].values[device]),
        "of": spans.of,
        "name": spans.name,
        "instances": spans.instances,
        "mean_ns": time_ns / spans.instances,
        "energy_j": central if is_resolved else None,
        "low_j": low if is_bounded else None,
        "high_j": high if is_bounded else None,
        "mean_w": used.central / (time_ns / 1e9) if is_resolved and time_ns else None,
        "source": "energy counter" if meter.is_counter else "power x time",
        "basis": _by_power(meter, spans)
        if is_resolved and not is_narrow
        else _basis(meter, spans, time_ns / spans.instances, is_resolved=is_resolved),
    }


def _are_long(meter: Meter, spans: _Spans) -> bool:
    """Return whether readings of power show how energy divides among spans and other times."""
    if meter.profile is None or meter.profile.period_ns <= 0:
        return False
    start, end = union(spans.start_ns, spans.end_ns)
    is_long = end - start >= _LONG * max(meter.profile.period_ns, _POWER_NS)
    return float((end - start)[is_long].sum()) >= _NEARLY_ALL * float((end - start).sum())


def _by_power(meter: Meter, spans: _Spans) -> str:
    """Return what energy rests on that is not resolved by the counter alone."""
    power_ns = meter.profile.period_ns if meter.profile is not None else 0
    return (
        f"{plural(spans.instances, spans.of)}, counter read every {format_ns(meter.period_ns)},"
        f" divided by power, read every {format_ns(power_ns)}; bounds are the counter's"
    )


def _basis(meter: Meter, spans: _Spans, each_ns: float, *, is_resolved: bool) -> str:
    """Return what the energy of some spans rests on."""
    apart = f"readings, {format_ns(meter.period_ns)} apart"
    if spans.of == "recording":
        return f"{plural(len(meter.at_ns), 'reading')}, {format_ns(meter.period_ns)} apart"
    if spans.of == "kernel class":
        return "assumed: in proportion to time between readings"
    many = plural(spans.instances, spans.of)
    if each_ns >= meter.period_ns:
        said = f"{many}, {apart}"
    else:
        said = f"{spans.of}s of {format_ns(each_ns)} are shorter than the {apart}"
        said += f": mean of {many}" if is_resolved and spans.instances > 1 else ""
    return said if is_resolved else f"not resolved: {said}"
