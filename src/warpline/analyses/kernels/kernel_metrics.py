"""kernel_metrics: every metric of every profiled launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.derived.counters import launch_columns, text_column
from warpline.derived.counters.formulas import added_metrics
from warpline.ops.arrays import I64
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_metrics"
TITLE = "Metrics of profiled kernels"
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch in its report or process.", "ID"),
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
    missing_hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
)
def kernel_metrics(trace: Trace, arguments: Arguments) -> Result:
    """Every metric of every profiled launch.

    What it measures: The hardware counters, ratios and launch parameters that were collected for
        each profiled kernel launch.
    Why it matters: They show what limits a kernel: memory, issue slots, latency or occupancy.
    How it is computed: Values are those of the report, in base units: ns, bytes, percent. A
        recording of Warpline has counters only: the metrics that start with launch__,
        sm__maximum_warps_ and smsp__maximum_warps_ are computed from the shape of the launch and
        the GPU; inst_executed and those that start with derived__ and sass__ from its counters.
    Limits: Profiling serializes launches and may flush caches and lock clocks, so durations differ
        from those of a normal run. Metrics that only have values of instances are empty here: they
        are in the table metric_instance.
    Source: Warpline.
    """
    columns = trace.columns("kernel_metric", "profiled_kernel_id", "value")
    value = columns["value"]
    added = added_metrics(trace)
    rows = [np.flatnonzero(metric.is_known) for metric in added]
    counts = [len(of_metric) for of_metric in rows]
    numbers = [metric.values[of] for metric, of in zip(added, rows, strict=True)]
    launches = np.concatenate((columns["profiled_kernel_id"].values, *rows))
    order = np.argsort(launches, kind="stable")
    is_valid = np.concatenate((value.is_valid(), np.ones(sum(counts), np.bool_)))

    def texts(column: str, more: Sequence[str | None]) -> Texts:
        return _extended(text_column(trace, "kernel_metric", column), more, counts, order)

    values: dict[str, Values] = {
        **launch_columns(trace, launches[order]),
        "metric": texts("name_id", [metric.name for metric in added]),
        "unit": texts("unit_id", [metric.unit or None for metric in added]),
        "value": Numbers(np.concatenate((value.values, *numbers))[order], is_valid[order]),
        "text": texts("text_id", [None] * len(added)),
    }
    return Result(NAME, TITLE, FIELDS, values, ("launch", "kernel", "metric"))


def _extended(
    stored: Texts, added: Sequence[str | None], counts: Sequence[int], order: I64
) -> Texts:
    """Return a column with a text for each added metric, as often as it has values, in order."""
    first = len(stored.values)
    codes = [-1 if text is None else first + place for place, text in enumerate(added)]
    every = np.concatenate((stored.codes, np.repeat(np.array(codes, np.int32), counts)))
    return Texts(every[order], (*stored.values, *(text or "" for text in added)))
