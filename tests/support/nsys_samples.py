"""Sampled metrics in small exports of nsys, and as Warpline reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.nsys_exports import Row, Rows

from warpline.trace import Trace

TYPE = (1 << 48) | (1 << 32)  # of metrics; the lowest bits are the GPU
CLOCK, BUSY = "GPC Clock Frequency [MHz]", "SMs Active [Throughput %]"
WARPS = "Compute Warps in Flight [Avg Warps per Cycle]"
COLUMNS = ("time_ns", "device_id", "metric_id", "value")


def gpu(index: int, **more: Any) -> Row:
    return {"id": index, "name": f"GPU {index}", "vmId": 0, **more}


def declared(*names: str, kind: int = TYPE) -> Rows:
    return [{"typeId": kind, "metricId": i, "metricName": n} for i, n in enumerate(names)]


def sample(time: int | None, metric: int, value: Any, kind: int = TYPE, **more: Any) -> Row:
    return {"timestamp": time, "typeId": kind, "metricId": metric, "value": value, **more}


def told(rows_of: Callable[..., list[Any]], trace: Trace) -> list[tuple[Any, ...]]:
    """Return the samples: time, index of the GPU, name of the metric, value."""
    names = [name for (name,) in rows_of(trace, "metric", "name_id")]
    gpus = [index for (index,) in rows_of(trace, "device", "gpu_index")]
    return [
        (time, None if device is None else gpus[device], names[metric], value)
        for time, device, metric, value in rows_of(trace, "counter", *COLUMNS)
    ]


def network(start: int, where: int, place: int, value: Any, **more: Any) -> Row:
    row = {"start": start, "end": start + 100, "globalId": where, "metricsListId": 0}
    return {**row, "metricsIdx": place, "value": value, **more}
