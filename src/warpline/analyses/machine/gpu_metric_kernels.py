"""gpu_metric_kernels: the sampled metrics of each kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpline.derived.metrics.columns import MEMORY_FIELDS, SM_FIELDS, of_device, shown
from warpline.derived.metrics.kernel_samples import TIME_ERROR_NS, kernel_samples
from warpline.derived.metrics.known import KnownSeries, known_series
from warpline.derived.metrics.means import period_ns
from warpline.derived.texts import kernel_names
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
    Field("name", Unit.NONE, "Kernel.", "Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("counter", "counter_block"),
    missing_hint=HINT,
)
def gpu_metric_kernels(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """SM, Tensor Core and memory activity while each kernel runs alone, from sampled metrics.

    What it measures: For each GPU and kernel name, the mean of the sampled metrics over all samples
        during which this kernel runs and nothing else does.
    Why it matters: A kernel with few active SMs needs more blocks, one at the peak of DRAM needs
        fewer bytes, and one with neither waits for something. No kernel is delayed or repeated for
        it, as hardware counters per kernel do.
    How it is computed: A sample belongs to a kernel that begins at least 50 us before it and ends
        at least 50 us after it, because the times of samples are not more precise, if no other
        kernel, copy or memset runs meanwhile on the GPU.
    Limits: Kernels shorter than a sample and 100 us have none, such as those below 0.2 ms at 10
        kHz, and those that always overlap with others. They are left out and counted. Starts and
        ends of kernels are not in the means. warpline kernels counts short kernels exactly.
    Source: Warpline.
    """
    made: list[dict[str, Any]] = []
    notes: list[str] = []
    known, work, (name, texts) = known_series(trace), operations(trace), kernel_names_of(trace)
    for device in sorted({device for device, _ in known if device >= 0}):
        series = of_device(known, device, _METRICS)
        kernels = np.flatnonzero((work.device == device) & (name >= 0))
        if not series or not len(kernels):
            continue
        rows = _rows(trace, series, kernels, name)
        made += sorted(
            ({**row, "name": texts[row["name"]]} for row in rows), key=lambda row: -row["total_ns"]
        )
        notes.append(_left_out(trace, device, rows, kernels, series))
    if not made:
        return Skipped(NAME, "no sample shows one kernel alone", " ".join(notes) or HINT)
    values: dict[str, Values] = {
        field.name: column_of([row.get(field.name) for row in made]) for field in FIELDS
    }
    return Result(NAME, TITLE, FIELDS, values, ("gpu_index", "name"), tuple(notes))


def kernel_names_of(trace: Trace) -> tuple[I32, list[str]]:
    """Return the name of each operation, -1 for those that are no kernels, and the names."""
    work = operations(trace)
    numbers = np.full(len(work), -1, np.int32)
    if not trace.has("kernel") or not trace.row_count("kernel"):
        return numbers, []
    of_row, distinct = kernel_names(trace)
    kernels = work.of_table("kernel")
    numbers[kernels] = of_row[work.row[kernels]]
    return numbers, trace.strings.texts(distinct.tolist())


def _rows(
    trace: Trace, series: Mapping[str, KnownSeries], kernels: I64, name: I32
) -> list[dict[str, Any]]:
    """Return a row for each name with samples."""
    work = operations(trace)
    index = trace.columns("device", "gpu_index")["gpu_index"].values
    found = {field: _by_name(trace, each, name) for field, each in series.items()}
    rows = []
    for group in by_group(name[kernels]):
        own = kernels[group]
        number = int(name[own[0]])
        means = {field: of[number] for field, of in found.items() if number in of}
        if not means:
            continue
        units = {field: series[field].meaning.unit for field in means}
        cells = {field: shown(mean, units[field]) for field, (mean, *_) in means.items()}
        rows.append(
            {
                "gpu_index": int(index[work.device[own[0]]]),
                "total_ns": int((work.end_ns[own] - work.start_ns[own]).sum()),
                "instances": len(own),
                "sampled": max(launches for _, _, launches in means.values()),
                "samples": max(samples for _, samples, _ in means.values()),
                **cells,
                "name": number,
            }
        )
    return rows


def _by_name(trace: Trace, known: KnownSeries, name: I32) -> dict[int, tuple[float, int, int]]:
    """Return the mean of each kernel name with samples, their number, and that of the launches."""
    samples = known.samples
    of = kernel_samples(trace, samples)
    lengths = samples.end_ns - samples.start_ns
    found = {}
    for group in by_group(name[of.kernel]):
        rows, launches = of.sample[group], len(np.unique(of.kernel[group]))
        average = float(np.average(samples.value[rows], weights=lengths[rows]))
        found[int(name[of.kernel[group[0]]])] = average, len(rows), launches
    return found


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
    period = max(period_ns(each.samples) for each in series.values())
    index = int(trace.columns("device", "gpu_index")["gpu_index"].values[device])
    return (
        f"GPU {index}: samples of {format_ns(period)} show one kernel alone if it runs for"
        f" {format_ns(period + 2 * TIME_ERROR_NS)} to {format_ns(2 * (period + TIME_ERROR_NS))} or"
        f" more. Names without such samples are left out: {left:,} launches, {format_ratio(share)}"
        " of kernel time."
    )
