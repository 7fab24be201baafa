"""Sampled hardware metrics."""

from __future__ import annotations

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.declaring import ref, time
from warpline.units import Unit

COUNTER = TableSpec(
    "counter",
    "One sampled value of a hardware metric.",
    (
        time("time_ns", "Time."),
        ref("device_id", "device", "GPU.", nullable=True),
        ref("metric_id", "metric", "Metric."),
        Column("value", DType.FLOAT64, Unit.NONE, "Value, in the metric's unit."),
    ),
    ("time_ns", "device_id", "metric_id"),
)

TABLES = (COUNTER,)
