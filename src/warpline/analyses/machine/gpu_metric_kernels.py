"""gpu_metric_kernels: the sampled metrics of each kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.metrics.columns import MEMORY_FIELDS, SM_FIELDS, of_device, shown
from warpline.derived.metrics.kernel_samples import TIME_ERROR_NS, means_of_groups
from warpline.derived.metrics.known import KnownSeries, known_series
from warpline.derived.metrics.means import Integral
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64
from warpline.ops.tiling import by_group
from warpline.result import Arguments, Field, Result, Skipped, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit, format_ns, format_ratio

NAME = "gpu_metric_kernels"
TITLE = "Sampled GPU metrics of each kernel"
HINT = "profile with warpline profile --gpu-metrics-devices=cuda-visible"
_METRICS = (*SM_FIELDS, *MEMORY_FIELDS)
FIELDS = (
    Field("gpu_index", Unit.NONE, "Index of the GPU, as recorded.", "GPU"),
    Field("total_ns", Unit.NS, "Time of all its launches.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "Launches.", "Instances"),
    Field("sampled", Unit.COUNT, "Launches with a sample of their own.", "Sampled"),
    Field("samples", Unit.COUNT, "Samples during which only it runs.", "Samples"),
    *_METRICS,
    Field("name", Unit.NONE, "Kernel, or kernel class.", "Name"),
)
CLASS = "class"


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("counter", "counter_block"),
    arguments={CLASS: "One row per kernel class, see kernel_class_sum."},
    missing_hint=HINT,
)
def gpu_metric_kernels(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """SM, Tensor Core and memory activity while each kernel runs alone, from sampled metrics.

    What it measures: For each GPU and kernel name, the mean of the sampled metrics over all samples
        during which this kernel runs and nothing else does. With :class, of each kernel class.
    Why it matters: A kernel with few active SMs needs more blocks, one at the peak of DRAM needs
        fewer bytes, and one with neither waits for something. No kernel is delayed or repeated for
        it, as hardware counters per kernel do.
    How it is computed: A sample belongs to a kernel that begins at least 50 us before it and ends
        at least 50 us after it, because the times of samples are not more precise, if no other
        kernel, copy or memset runs meanwhile on the GPU.
    Limits: Kernels shorter than a sample and 100 us have none, such as those below 0.2 ms at 10
        kHz, and those that always overlap with others. They are left out and counted. Starts and
        ends of kernels are not in the means. Those of a class are of its long kernels. warpline
        kernels counts short kernels exactly.
    Source: Warpline.
    """
    made: list[dict[str, Any]] = []
    notes: list[str] = []
    known, work = known_series(trace), operations(trace)
    groups, texts = _groups(trace, by_class=CLASS in arguments)
    for device in sorted({device for device, _ in known if device >= 0}):
        series = of_device(known, device, _METRICS)
        kernels = np.flatnonzero((work.device == device) & (groups >= 0))
        if series and len(kernels):
            rows = _rows(trace, series, kernels, groups, texts)
            made += rows
            notes.append(_left_out(trace, device, rows, kernels, series))
    if not made:
        return Skipped(NAME, "no sample shows one kernel alone", " ".join(notes) or HINT)
    values: dict[str, Values] = {
        field.name: column_of([row.get(field.name) for row in made]) for field in FIELDS
    }
    called = ":".join((NAME, *arguments))
    return Result(called, TITLE, FIELDS, values, ("gpu_index", "name"), tuple(notes))


def _groups(trace: Trace, *, by_class: bool) -> tuple[I32, list[str]]:
    """Return the group of each operation, -1 of those that are no kernels, and the groups."""
    kernels = operations(trace).of_table("kernel")
    group = np.full(len(operations(trace)), -1, np.int32)
    if by_class:
        group[kernels] = operation_categories(trace)[kernels]
        return group, [part.label for part in TimePart]
    names = names_of_operations(trace)
    group[kernels] = names.number[kernels]
    return group, trace.strings.texts(names.distinct.tolist())


def _rows(
    trace: Trace,
    series: Mapping[str, KnownSeries],
    kernels: I64,
    groups: I32,
    texts: Sequence[str],
) -> list[dict[str, Any]]:
    """Return a row for each group with samples, those with most time first."""
    work = operations(trace)
    index = trace.columns("device", "gpu_index")["gpu_index"].values
    found = {
        field: means_of_groups(trace, each.samples, groups, len(texts))
        for field, each in series.items()
    }
    rows = []
    for rows_of_group in by_group(groups[kernels]):
        own = kernels[rows_of_group]
        number = int(groups[own[0]])
        means = {field: of for field, of in found.items() if of.samples[number]}
        if not means:
            continue
        rows.append(
            {
                "gpu_index": int(index[work.device[own[0]]]),
                "total_ns": int((work.end_ns[own] - work.start_ns[own]).sum()),
                "instances": len(own),
                "sampled": max(int(of.kernels[number]) for of in means.values()),
                "samples": max(int(of.samples[number]) for of in means.values()),
                **{
                    field: shown(float(of.mean[number]), series[field].meaning.unit)
                    for field, of in means.items()
                },
                "name": texts[number],
            }
        )
    return sorted(rows, key=lambda row: -row["total_ns"])


def _left_out(
    trace: Trace,
    device: int,
    rows: list[dict[str, Any]],
    kernels: I64,
    series: Mapping[str, KnownSeries],
) -> str:
    """Return a sentence about the kernels of a GPU that have no samples."""
    work = operations(trace)
    whole = int((work.end_ns[kernels] - work.start_ns[kernels]).sum())
    left = len(kernels) - sum(row["instances"] for row in rows)
    share = 1 - sum(row["total_ns"] for row in rows) / max(whole, 1)
    period = max(Integral(each.recorded[0][0]).period_ns for each in series.values())
    index = int(trace.columns("device", "gpu_index")["gpu_index"].values[device])
    return (
        f"GPU {index}: samples of {format_ns(period)} show one kernel alone if it runs for"
        f" {format_ns(period + 2 * TIME_ERROR_NS)} to {format_ns(2 * (period + TIME_ERROR_NS))} or"
        f" more. Those without such samples are left out: {left:,} launches, {format_ratio(share)}"
        " of kernel time."
    )
