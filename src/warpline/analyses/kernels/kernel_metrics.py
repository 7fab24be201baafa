"""kernel_metrics: every metric of every profiled launch."""

from __future__ import annotations

from warpline.derived.counters import launch_columns, text_column
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_metrics"
TITLE = "Metrics of profiled kernels"
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch in its report.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("metric", Unit.NONE, "Name of the metric.", "Metric"),
    Field("unit", Unit.NONE, "Unit of the value, not scaled.", "Unit"),
    Field("value", Unit.NONE, "Value; empty for texts.", "Value"),
    Field("text", Unit.NONE, "Value of metrics that are texts.", "Text"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel_metric",),
    missing_hint="pass a report of Nsight Compute (.ncu-rep)",
)
def kernel_metrics(trace: Trace, arguments: Arguments) -> Result:
    """Every metric of every profiled launch.

    What it measures: The hardware counters, ratios and launch parameters that were collected for
        each profiled kernel launch.
    Why it matters: They show what limits a kernel: memory, issue slots, latency or occupancy.
    How it is computed: Values are those of the report, in base units: ns, bytes, percent.
    Limits: Profiling serializes launches and may flush caches and lock clocks, so durations differ
        from those of a normal run. Metrics that only have values of instances are empty here: they
        are in the table metric_instance.
    Source: Warpline.
    """
    columns = trace.columns("kernel_metric", "profiled_kernel_id", "value")
    launches = launch_columns(trace, columns["profiled_kernel_id"].values)
    value = columns["value"]
    values: dict[str, Values] = {
        **launches,
        "metric": text_column(trace, "kernel_metric", "name_id"),
        "unit": text_column(trace, "kernel_metric", "unit_id"),
        "value": Numbers(value.values, value.valid),
        "text": text_column(trace, "kernel_metric", "text_id"),
    }
    return Result(NAME, TITLE, FIELDS, values, ("launch", "kernel", "metric"))
