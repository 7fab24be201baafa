"""samples: metrics that were sampled while the kernel ran, of reports of Nsight Compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.counters.stored import rows_of_metric
from warpline.derived.kernel_sections.columns import Item, Shared, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body
from warpline.derived.kernel_sections.words import label_of, unit_in_json
from warpline.ops.arrays import F64, I64

_PREFIX = "pmsampling:"
_TRIAGE = ".Triage"  # in newer reports: the unit and the group of the pass precede the name


@section_body("samples")
def samples(metrics: Metrics) -> Item:
    """Return the samples of each metric, from the first one on.

    Metrics that were 0 all the time are left out.
    """
    trace = metrics.trace
    items: list[Item] = []
    if not (trace.has("metric_instance") and trace.has("kernel_metric")):
        return Item(~metrics.every(), items)
    names = np.unique(trace.columns("kernel_metric", "name_id")["name_id"].values)
    sampled = [name for name in trace.strings.texts(names) if _is_sampled(name)]
    if not sampled:
        return Item(~metrics.every(), items)
    columns = trace.columns("metric_instance", "kernel_metric_id", "key", "value")
    owners = columns["kernel_metric_id"].values
    is_usable = columns["key"].is_valid() & (columns["key"].values > 0)
    is_usable &= columns["value"].is_valid() & np.isfinite(columns["value"].values)
    launch_of = trace.columns("kernel_metric", "profiled_kernel_id")["profiled_kernel_id"].values
    for name in sampled:
        found: dict[int, dict[str, Any]] = {}
        rows = rows_of_metric(trace, name)
        # Instances are in the order of their metrics.
        starts, ends = (
            np.searchsorted(owners, rows.astype(owners.dtype), side) for side in ("left", "right")
        )
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
            chosen = start + np.flatnonzero(is_usable[start:end])
            times, values = (columns[of].values[chosen] for of in ("key", "value"))
            if values.any():
                found[int(launch_of[row])] = _series(name, times, values)
        items.append(_item(found, len(metrics)))
    return Item(any_of(items, len(metrics)), items)


def _is_sampled(name: str) -> bool:
    return name.startswith(_PREFIX) or _TRIAGE in name


def _series(name: str, times: I64, values: F64) -> dict[str, Any]:
    order = np.argsort(times, kind="stable")
    metric = name.removeprefix(_PREFIX)
    if _TRIAGE in metric:
        metric = metric.split(".", 2)[-1]
    unit = unit_in_json(metric)
    scale = 0.01 if unit == "ratio" else 1.0
    return {
        "metric": name,
        "label": label_of(metric),
        "unit": unit,
        "times_ns": (times[order] - times[order[0]]).tolist(),
        "values": [_rounded(value) for value in (values[order] * scale).tolist()],
    }


def _rounded(value: float) -> float:
    """Return a value of a plot with six digits: a report has thousands of them."""
    return float(f"{value:.6g}") if value else 0


def _item(found: dict[int, dict[str, Any]], count: int) -> Item:
    codes, has = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    for code, launch in enumerate(found):
        codes[launch], has[launch] = code, True
    return Item(has, Shared.among(codes, [*found.values()]))
