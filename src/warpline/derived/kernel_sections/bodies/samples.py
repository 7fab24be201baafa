"""samples: metrics that were sampled while the kernel ran, of reports of Nsight Compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpline.derived.counters.stored import rows_of_metric
from warpline.derived.kernel_sections.columns import Item, Shared, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body
from warpline.derived.kernel_sections.words import label_of, unit_in_json
from warpline.ops.arrays import I64
from warpline.trace import Trace

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
    samples_of = _Samples(trace)
    items = [samples_of.metric(name) for name in sampled]
    return Item(any_of(items, len(metrics)), items)


class _Samples:
    """The samples of all metrics of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        columns = trace.columns("metric_instance", "kernel_metric_id", "key", "value")
        self._owners = columns["kernel_metric_id"].values
        self._times, self._values = columns["key"].values, columns["value"].values
        self._is_usable = columns["key"].is_valid() & (self._times > 0)
        self._is_usable &= columns["value"].is_valid() & np.isfinite(self._values)

    def metric(self, name: str) -> Item:
        """Return the samples of a metric in the launches where it was not 0 all the time."""
        count = self._trace.row_count("profiled_kernel")
        codes, has = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        rows = rows_of_metric(self._trace, name)
        owner = self._trace.columns("kernel_metric", "profiled_kernel_id")["profiled_kernel_id"]
        # Instances are in the order of their metrics.
        ends = rows.astype(self._owners.dtype)
        starts, ends = (np.searchsorted(self._owners, ends, side) for side in ("left", "right"))
        places: list[I64] = []
        for launch, start, end in zip(
            owner.values[rows].tolist(), starts.tolist(), ends.tolist(), strict=True
        ):
            chosen = start + np.flatnonzero(self._is_usable[start:end])
            if self._values[chosen].any():
                codes[launch], has[launch] = len(places), True
                places.append(chosen)
        return Item(has, Shared(codes, lambda code: self._series(name, places[code])))

    def _series(self, name: str, places: I64) -> dict[str, Any]:
        """Return the samples at some places as JSON."""
        times, values = self._times[places], self._values[places]
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


def _is_sampled(name: str) -> bool:
    return name.startswith(_PREFIX) or _TRIAGE in name


def _rounded(value: float) -> float:
    """Return a value of a plot with six digits: a report has thousands of them."""
    return float(f"{value:.6g}") if value else 0
