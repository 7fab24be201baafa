"""gpu_metric_sum: each sampled hardware metric of each GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.metrics.known import in_unit, known_metric
from warpline.derived.metrics.means import Integral
from warpline.derived.metrics.series import NO_DEVICE, MetricSeries, metric_series
from warpline.result import Arguments, Field, Result, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "gpu_metric_sum"
TITLE = "Sampled GPU metrics"
HINT = "profile with warpline profile --gpu-metrics-devices=cuda-visible"


def _value(name: str, doc: str, heading: str) -> Field:
    return Field(name, Unit.NONE, doc, heading, digits=2)


FIELDS = (
    Field("gpu_index", Unit.NONE, "Index of the GPU; empty if not of a GPU.", "GPU"),
    Field("metric", Unit.NONE, "Name of the metric, as recorded.", "Metric"),
    Field("samples", Unit.COUNT, "Number of samples.", "Samples"),
    Field("period_ns", Unit.NS, "Median length of a sample.", "Period (ns)", digits=0),
    _value("mean", "Mean of the samples, by time.", "Avg"),
    _value("median", "Median.", "Med"),
    _value("p99", "99th percentile.", "P99"),
    _value("min", "Lowest.", "Min"),
    _value("max", "Highest.", "Max"),
    Field(
        "total_bytes",
        Unit.BYTES,
        "Sum of a metric of bytes, over the time that was sampled.",
        "Total (MB)",
        1e-6,
        0,
    ),
    Field("meaning", Unit.NONE, "What it measures, if known.", "Meaning"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("counter", "counter_block"),
    aliases=("gpu_metric_util_sum",),
    missing_hint=HINT,
)
def gpu_metric_sum(trace: Trace, arguments: Arguments) -> Result:
    """Mean, median, extremes and totals of each hardware metric that was sampled.

    What it measures: For each GPU and metric, the samples: how many, how long, their mean, median,
        99th percentile and extremes, and the total of metrics that count bytes. Metrics of network
        adapters have no GPU.
    Why it matters: Whether SMs, Tensor Cores, memory and links were used, over the whole recording.
    How it is computed: In the units that were recorded: percent of the peak for most. The mean is
        weighted by the length of samples; the other numbers count each sample once. Gaps without
        samples do not count. A total is the sum of bytes, or of rates times their time.
    Limits: Idle times are part of the mean: gpu_time_util has steps and ranges, gpu_metric_kernels
        has kernels. A sample is a mean, so the highest value depends on the length of samples.
    Source: Warpline; Nsight Systems, recipe gpu_metric_util_sum.
    """
    index: list[Any] = []
    if trace.has("device"):
        index = trace.columns("device", "gpu_index")["gpu_index"].values.tolist()
    made = [
        {"gpu_index": None if each.device == NO_DEVICE else index[each.device], **_row(each)}
        for each in metric_series(trace)
    ]
    values: dict[str, Values] = {
        field.name: column_of([row[field.name] for row in made]) for field in FIELDS
    }
    return Result(NAME, TITLE, FIELDS, values, ("gpu_index", "metric"))


def _row(series: MetricSeries) -> dict[str, Any]:
    known = known_metric(series.name)
    low, median, p99, high = np.percentile(series.value, (0, 50, 99, 100)).tolist()
    integral = Integral(series)
    average = integral.mean()
    total: int | None = None
    if known is not None and known.meaning.unit is Unit.BYTES_PER_S:
        rate = in_unit(series, known.form)
        seconds = (series.end_ns - series.start_ns) / 1e9
        total = round(float((rate.value * seconds).sum()))
    return {
        "metric": series.name,
        "samples": len(series),
        "period_ns": integral.period_ns or None,
        "mean": float(series.value.mean()) if average is None else average,
        "median": median,
        "p99": p99,
        "min": low,
        "max": high,
        "total_bytes": total,
        "meaning": None if known is None else known.meaning.label,
    }
