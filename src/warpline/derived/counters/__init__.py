"""Counters per kernel launch, as columns of results."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters.formulas import added_metrics
from warpline.derived.counters.stored import stored_numbers
from warpline.derived.texts import dimension_texts, labelled
from warpline.ops.arrays import F64, BoolArray, Integers
from warpline.result import Field, Numbers, Texts, Values
from warpline.schema import TABLES
from warpline.trace import Trace
from warpline.units import Unit

_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_PERCENTAGES = {
    "sm_ratio": f"sm__throughput.{_OF_PEAK}",
    "memory_ratio": f"gpu__compute_memory_throughput.{_OF_PEAK}",
    "dram_ratio": f"gpu__dram_throughput.{_OF_PEAK}",
    "occupancy_ratio": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
PEAK_FIELDS = (
    Field("sm_ratio", Unit.RATIO, "Throughput of the SMs, of their peak.", "SM (%)", 100.0, 1),
    Field("memory_ratio", Unit.RATIO, "Throughput of memory.", "Memory (%)", 100.0, 1),
    Field("dram_ratio", Unit.RATIO, "Throughput of DRAM.", "DRAM (%)", 100.0, 1),
    Field("occupancy_ratio", Unit.RATIO, "Achieved occupancy.", "Occupancy (%)", 100.0, 1),
)


def launch_columns(trace: Trace, rows: Integers) -> dict[str, Values]:
    """Return the columns ``launch`` and ``kernel`` of rows of `profiled_kernel`, shape (n,)."""
    launches = trace.columns("profiled_kernel", "launch_number", "name_id")
    return {
        "launch": Numbers(launches["launch_number"].values[rows]),
        "kernel": dimension_texts(trace.strings, launches["name_id"], rows),
    }


def text_column(trace: Trace, table: str, column: str) -> Texts:
    """Return a column of texts of a table."""
    data = trace.columns(table, column)[column]
    distinct, codes = np.unique(data.values, return_inverse=True)
    has_texts = bool(data.is_valid().any())
    texts = trace.strings.texts(distinct.tolist()) if has_texts else [""] * len(distinct)
    return labelled(codes, texts, data.valid)


def label_column(trace: Trace, table: str, column: str) -> Texts:
    """Return a column of an enumeration of a table, as texts."""
    data = trace.columns(table, column)[column]
    labels = TABLES[table].column(column).labels or {}
    distinct, codes = np.unique(data.values, return_inverse=True)
    texts = [labels.get(value, str(value)) for value in distinct.tolist()]
    return labelled(codes, texts, data.valid)


def peak_columns(trace: Trace) -> dict[str, Values]:
    """Return the columns `PEAK_FIELDS` of all profiled launches."""
    found: dict[str, Values] = {}
    for field, name in _PERCENTAGES.items():
        percent, is_known = metric_numbers(trace, name)
        found[field] = Numbers(percent / 100, is_known)
    return found


def metric_numbers(trace: Trace, name: str) -> tuple[F64, BoolArray]:
    """Return the value of a metric of each profiled launch, and which launches have one.

    As `stored_numbers`; metrics that follow from the launch and its counters are among them.
    """
    values, is_known = stored_numbers(trace, name)
    for metric in added_metrics(trace):
        if metric.name == name:
            values = np.where(is_known, values, metric.values)
            is_known |= metric.is_known
    return values, is_known
