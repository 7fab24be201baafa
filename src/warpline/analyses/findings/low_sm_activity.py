"""low-sm-activity: kernels that keep few of the GPU's SMs active, by sampled metrics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.launch_shapes import launch_shapes
from warpline.derived.efficiency.small_grids import small_grids
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.metrics.kernel_samples import GroupMeans, means_of_groups
from warpline.derived.metrics.known import MOST, known_series
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64
from warpline.ops.group import factorize_rows
from warpline.result import Finding, rule
from warpline.result.changes import SetDurations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "low-sm-activity"
TITLE = "Kernels keep few SMs active"

_LEAST_SAMPLES = 10  # of a kernel with one grid
_FEW = 0.5  # of the SMs
_AT_PEAK = 0.6  # of the DRAM bandwidth: more SMs would wait for it
_LEAST_NS = 1_000  # of a kernel that does next to nothing
_UNEVEN = 0.8  # activity of the busiest SM


class _Kernels(NamedTuple):
    """Kernels with low activity.

    Attributes:
        kernel: Shape (n,), int64, places in `operations`.
        active: Shape (n,), float64, mean activity of the SMs in the samples of name and grid.
        busiest: Mean activity of the busiest SM; None if it was not sampled.
        samples: How many samples show them.
    """

    kernel: I64
    active: F64
    busiest: float | None
    samples: int


_NONE = _Kernels(np.zeros(0, np.int64), np.zeros(0), None, 0)


@rule(name=NAME, title=TITLE)
def low_sm_activity(run: Run) -> list[Finding]:
    """Kernels that keep less than half of the GPU's SMs active.

    What it finds: Kernels during which less than half of the SMs have a warp, on average over SMs
        and time, if they take at least 5% of the step.
    Why it matters: The GPU counts as busy, while most of it does nothing. Reasons are few blocks,
        blocks of very different lengths, and the last blocks of a grid, which run alone.
    How it is found: By sampled metrics (SM active), from samples during which only one kernel runs,
        at least 10 for each name and grid. The saving is an upper bound: of work that is spread
        over all SMs and takes as much less time.
    What to do: Give each kernel more blocks of equal work, batch the launches, or run independent
        kernels in several streams.
    Limits: Needs sampled metrics, and kernels longer than two samples: 0.3 ms at 10 kHz. Kernels of
        collectives use few SMs by design, and are left out, as those that use most of the DRAM
        bandwidth, and those of the rule small-grids. Whether the work can be divided is unknown, so
        the severity is at most medium.
    Source: CUDA C++ Best Practices Guide, "Thread and Block Heuristics". Synthetic recordings.
    """
    found = _kernels(run)
    if not len(found.kernel):
        return []
    scope, work = step_scope(run), operations(run.trace)
    places = np.zeros(len(work), np.bool_)
    places[found.kernel] = True
    weight = scope.weigh(places)
    if not weight.is_measurable:
        return []
    now = (work.end_ns - work.start_ns)[found.kernel]
    active = float(np.average(found.active, weights=now))
    many = plural(max(round(weight.number), 1), "kernel")
    at_best = np.minimum(np.maximum(np.rint(now * found.active).astype(np.int64), _LEAST_NS), now)
    uneven = ""
    if found.busiest is not None and found.busiest >= _UNEVEN:
        uneven = (
            f" The busiest SM is active {format_ratio(found.busiest)} of their time, so work is"
            " spread unevenly."
        )
    lost = severity_of(weight.share * (1 - active))
    return [
        Finding(
            NAME,
            "medium" if lost == "high" else lost,
            f"Kernels with {format_ratio(active)} of the SMs active take"
            f" {format_ratio(weight.share)} of the time",
            f"{many}{scope.each} with {format_ratio(active)} of the SMs active on average"
            f" ({plural(found.samples, 'sample')}) take {weight.time}.{uneven} The saving assumes"
            " that their work can be spread over all SMs.",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", places),),
            "Give these kernels more blocks of equal work (split-K for GEMMs and reductions, sorted"
            " or packed sequences, persistent kernels that take tiles from a queue), batch the"
            " operations, or run independent ones in several torch.cuda.Stream.",
            "Profile again with the same metrics: `warpline stats -r gpu_metric_kernels` shows more"
            " active SMs.",
            fix_cuda="Launch more blocks of equal work per kernel, batch the launches, or run"
            " independent kernels in several streams.",
            changes=(SetDurations(found.kernel, at_best, at_best, now),),
            on_devices=weight.on_devices,
            most_severe="medium",
            is_conditional=True,
        )
    ]


def _kernels(run: Run) -> _Kernels:
    """Return the kernels of included steps with low activity, of all GPUs."""
    trace, work = run.trace, operations(run.trace)
    devices = {device for device, meaning in known_series(trace) if meaning == "sm_active"}
    if not devices:
        return _NONE
    is_candidate = np.zeros(len(work), np.bool_)
    is_candidate[work.of_table("kernel")] = True
    is_candidate &= step_scope(run).operations
    is_candidate &= operation_categories(trace) != TimePart.COLLECTIVE
    is_candidate[small_grids(run).kernel] = False
    found = []
    for device in sorted(devices):
        rows = np.flatnonzero(is_candidate & (work.device == device))
        if len(rows):
            found.append(_of_device(run, device, rows))
    if not found:
        return _NONE
    busiest = [each.busiest for each in found if each.busiest is not None]
    return _Kernels(
        np.concatenate([each.kernel for each in found]),
        np.concatenate([each.active for each in found]),
        max(busiest, default=None),
        sum(each.samples for each in found),
    )


def _of_device(run: Run, device: int, rows: I64) -> _Kernels:
    """Return which kernels of a GPU have low activity, of some: places in `operations`."""
    trace = run.trace
    names = names_of_operations(trace).number[rows]
    groups = factorize_rows(names, launch_shapes(trace).blocks[rows])
    group = np.full(len(operations(trace)), -1, np.int64)
    group[rows] = groups.codes

    def means(meaning: str) -> GroupMeans | None:
        series = known_series(trace).get((device, meaning))
        return series and means_of_groups(trace, series.samples, group, groups.n_groups)

    active, dram, most = map(means, ("sm_active", "dram_active", f"sm_active{MOST}"))
    if active is None:
        return _NONE
    is_low = (active.samples >= _LEAST_SAMPLES) & (active.mean < _FEW)
    if dram is not None:
        is_low &= dram.mean < _AT_PEAK
    chosen = is_low[groups.codes]
    busiest = None
    if most is not None and is_low.any():
        busiest = min(float(np.average(most.mean[is_low], weights=active.samples[is_low])), 1.0)
    return _Kernels(
        rows[chosen],
        np.clip(active.mean[groups.codes[chosen]], 0.0, 1.0),
        busiest,
        int(active.samples[is_low].sum()),
    )
