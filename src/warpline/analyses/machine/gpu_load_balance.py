"""gpu_load_balance: how evenly work is spread over GPUs, and over the SMs of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from warpline.derived.metrics.known import LEAST, MOST, RATE, KnownSeries, known_series
from warpline.derived.metrics.means import mean_of_spans
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.interval import covered_by_group
from warpline.result import Arguments, Field, Result, Values, analysis, column_of
from warpline.trace import Trace
from warpline.units import Unit

NAME = "gpu_load_balance"
TITLE = "Load of GPUs and SMs"
_SAMPLED: Mapping[str, str] = {
    "sm_active": "SM active (%)",
    "sm_issue": "SM issue (%)",
    "tensor_active": "Tensor active (%)",
    "dram_active": "DRAM active (%)",
    f"dram_read{RATE}": "DRAM read (MB/s)",
    f"dram_write{RATE}": "DRAM write (MB/s)",
    f"pcie_rx{RATE}": "PCIe receive (MB/s)",
    f"pcie_tx{RATE}": "PCIe send (MB/s)",
    f"nvlink_rx{RATE}": "NVLink receive (MB/s)",
    f"nvlink_tx{RATE}": "NVLink send (MB/s)",
}


def _value(name: str, doc: str, heading: str) -> Field:
    return Field(name, Unit.NONE, doc, heading, digits=2)


FIELDS = (
    Field("over", Unit.NONE, "GPUs, or SMs of one GPU.", "Over"),
    Field("measure", Unit.NONE, "What is compared, with its unit.", "Measure"),
    Field("count", Unit.COUNT, "Number of GPUs; empty for SMs.", "Count"),
    _value("mean", "Mean.", "Avg"),
    _value("min", "Lowest.", "Min"),
    _value("max", "Highest.", "Max"),
    Field("min_gpu", Unit.NONE, "The GPU with the lowest.", "GPU of Min"),
    Field("max_gpu", Unit.NONE, "The GPU with the highest.", "GPU of Max"),
    Field(
        "spread_ratio",
        Unit.RATIO,
        "How far the lowest is below the highest, as a share of it.",
        "Spread (%)",
        100.0,
        1,
    ),
)


@analysis(
    name=NAME, title=TITLE, fields=FIELDS, needs=DEVICE_TABLES, missing_hint="profile with -t cuda"
)
def gpu_load_balance(trace: Trace, arguments: Arguments) -> Result:
    """How evenly busy time, SM activity and traffic are spread over GPUs, and over SMs.

    What it measures: Over all GPUs with work: busy time, bytes copied, and, where they were
        sampled, SM, Tensor Core and memory activity and the traffic of links. Over the SMs of a
        GPU: their activity.
    Why it matters: The slowest GPU sets the pace of all, and the busiest SM that of a kernel.
    How it is computed: In the time from the first to the last operation of all GPUs. A copy between
        GPUs counts on the GPU that it was recorded on. Metrics are means over that time.
    Limits: A GPU is busy while it waits inside a collective, so the stragglers table shows who
        waits. SMs are compared only where a recording has the lowest and highest SM of each sample
        (sm__cycles_active.min and .max): their means say how uneven SMs are at each moment, not
        which SM it is. Most recordings have the mean over SMs only.
    Source: Warpline.
    """
    made = [*_measured(trace)] if len(operations(trace)) else []
    values: dict[str, Values] = {
        field.name: column_of([row.get(field.name) for row in made]) for field in FIELDS
    }
    return Result(NAME, TITLE, FIELDS, values, ("over", "measure"))


def _measured(trace: Trace) -> Iterator[dict[str, Any]]:
    work = operations(trace)
    devices = [int(work.device[low]) for low, _ in work.bounds_of_devices()]
    span = np.array([work.start_ns.min()]), np.array([work.end_ns.max()])
    known = known_series(trace)
    yield from _recorded(trace, devices, *span)
    yield from _sampled(trace, known, devices, *span)
    for device in devices:
        yield from _over_sms(trace, known, device, *span)


def _recorded(
    trace: Trace, devices: list[int], start_ns: I64, end_ns: I64
) -> Iterator[dict[str, Any]]:
    work, count = operations(trace), max(devices) + 1
    busy = covered_by_group(work.start_ns, work.end_ns, work.device, count)[devices]
    whole = max(int(end_ns[0] - start_ns[0]), 1)
    yield _over_gpus(trace, "GPU busy (%)", dict(zip(devices, busy / whole * 100, strict=True)))
    if trace.has("memcpy") and trace.row_count("memcpy"):
        size, device = trace.columns("memcpy", "bytes", "device_id").values()
        of_device = np.bincount(
            device.values.astype(np.int64), weights=size.values.astype(np.float64), minlength=count
        )[devices]
        yield _over_gpus(trace, "copied (MB)", dict(zip(devices, of_device / 1e6, strict=True)))


def _sampled(
    trace: Trace,
    known: Mapping[tuple[int, str], KnownSeries],
    devices: list[int],
    start_ns: I64,
    end_ns: I64,
) -> Iterator[dict[str, Any]]:
    for meaning, measure in _SAMPLED.items():
        means = {}
        for device in devices:
            series = known.get((device, meaning))
            average = series and mean_of_spans(series.samples, start_ns, end_ns)
            if average is not None:
                means[device] = average / 1e6 if meaning.endswith(RATE) else average * 100
        if means:
            yield _over_gpus(trace, measure, means)


def _over_gpus(trace: Trace, measure: str, of_device: Mapping[int, float]) -> dict[str, Any]:
    index = trace.columns("device", "gpu_index")["gpu_index"].values
    low, high = (int(pick(of_device, key=lambda each: of_device[each])) for pick in (min, max))
    return {
        "over": "GPUs",
        "measure": measure,
        "count": len(of_device),
        "mean": float(np.mean([*of_device.values()])),
        **_spread(float(of_device[low]), float(of_device[high])),
        "min_gpu": int(index[low]),
        "max_gpu": int(index[high]),
    }


def _over_sms(
    trace: Trace,
    known: Mapping[tuple[int, str], KnownSeries],
    device: int,
    start_ns: I64,
    end_ns: I64,
) -> Iterator[dict[str, Any]]:
    """Yield the activity of the SMs of a GPU, where the lowest and the highest were sampled."""
    found = (known.get((device, f"sm_active{end}")) for end in ("", LEAST, MOST))
    means = [each and mean_of_spans(each.samples, start_ns, end_ns) for each in found]
    average, low, high = means
    if average is None or low is None or high is None:
        return
    index = int(trace.columns("device", "gpu_index")["gpu_index"].values[device])
    yield {
        "over": f"SMs of GPU {index}",
        "measure": _SAMPLED["sm_active"],
        "mean": average * 100,
        **_spread(low * 100, high * 100),
    }


def _spread(low: float, high: float) -> dict[str, float | None]:
    spread = min(max(1 - low / high, 0.0), 1.0) if high > 0 else None
    return {"min": low, "max": high, "spread_ratio": spread}
