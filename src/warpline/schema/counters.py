"""Sampled hardware metrics, in two forms: values with times of their own, and regular samples."""

from __future__ import annotations

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.declaring import SPAN, number, ref, time
from warpline.units import Unit

# The most samples of one block.
BLOCK_SAMPLES = 4096

_DEVICE_ID = ref("device_id", "device", "GPU.", nullable=True)
_METRIC_ID = ref("metric_id", "metric", "Metric.")

COUNTER = TableSpec(
    "counter",
    "One sampled value of a hardware metric.",
    (
        time("time_ns", "Time."),
        _DEVICE_ID,
        _METRIC_ID,
        Column("value", DType.FLOAT64, Unit.NONE, "Value, in the metric's unit."),
    ),
    ("time_ns", "device_id", "metric_id"),
)

COUNTER_BLOCK = TableSpec(
    "counter_block",
    "Consecutive samples of a hardware metric, all of the same length. Their values are in "
    "counter_code, in 16 bits each.",
    (
        *SPAN,
        _DEVICE_ID,
        _METRIC_ID,
        number("samples", f"Number of samples, at most {BLOCK_SAMPLES:,}."),
        Column(
            "scale",
            DType.FLOAT64,
            Unit.NONE,
            "A value is a code times this; without codes, this is the value of each sample.",
        ),
        ref(
            "first_code_id",
            "counter_code",
            "Code of the first sample; the others follow. Null if all values are equal.",
            nullable=True,
        ),
    ),
    ("start_ns", "end_ns", "device_id", "metric_id"),
)

COUNTER_CODE = TableSpec(
    "counter_code",
    "The value of one sample of a counter_block.",
    (Column("code", DType.UINT16, Unit.NONE, "Value in units of the block's scale."),),
)

TABLES = (COUNTER, COUNTER_BLOCK, COUNTER_CODE)
