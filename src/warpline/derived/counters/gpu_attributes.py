"""Attributes of GPUs, with Nsight Compute's names: recorded ones, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from warpline.counters.names import GPU_ATTRIBUTE
from warpline.derived import derived
from warpline.derived.counters.launch_metrics import LaunchMetric
from warpline.derived.counters.stored import is_own
from warpline.hardware.sm_limits import MOST_REGISTERS, PARTITIONS, sm_limits
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

_OF_REPORTS = f"{GPU_ATTRIBUTE}display_name"  # Nsight Compute's own attributes are complete

AttributeValue = int | str


@derived
def gpu_attributes(trace: Trace) -> tuple[Mapping[str, AttributeValue], ...]:
    """Return name -> value of the attributes that Warpline recorded of each GPU, a row of `device`.

    GPUs of reports have none: the launches of a report have all attributes among their metrics.
    """
    count = trace.row_count("device") if trace.has("device") else 0
    found: list[dict[str, AttributeValue]] = [{} for _ in range(count)]
    if count and trace.has("device_attribute"):
        columns = trace.columns("device_attribute", "device_id", "name_id", "integer")
        for device, name, value in zip(
            *(column.to_list() for column in columns.values()), strict=True
        ):
            found[device][trace.strings.text(name)] = value
    is_recorded = [bool(of) and _OF_REPORTS not in of for of in found]
    return tuple(
        dict(sorted((of | dict(_following(trace, device, of))).items())) if recorded else {}
        for device, (of, recorded) in enumerate(zip(found, is_recorded, strict=True))
    )


def _following(
    trace: Trace, device: int, recorded: Mapping[str, AttributeValue]
) -> Iterator[tuple[str, AttributeValue]]:
    """Yield what Nsight Compute calls attributes, too, where it follows from what is known."""
    names = ("name_id", "memory_bytes", "compute_major", "compute_minor")
    columns = trace.columns("device", *names).values()
    name, memory, major, minor = (column.take(slice(device, device + 1)) for column in columns)
    if name.is_valid()[0]:
        yield _OF_REPORTS, trace.strings.text(int(name.values[0]))
    if memory.is_valid()[0]:
        yield f"{GPU_ATTRIBUTE}total_memory", int(memory.values[0])

    def known(attribute: str) -> int:
        return int(recorded.get(GPU_ATTRIBUTE + attribute, 0))

    follows = {
        "fb_bus_width": known("global_memory_bus_width"),
        "gpu_pci_ext_device_id": known("gpu_pci_device_id") >> 16,
        "limits_max_cta_per_sm": known("max_blocks_per_multiprocessor"),
    }
    limits = sm_limits(int(major.values[0]), int(minor.values[0]))
    if limits is not None:
        follows |= {
            "max_ipc_per_multiprocessor": PARTITIONS,
            "max_ipc_per_scheduler": 1,
            "max_registers_per_thread": MOST_REGISTERS,
            "max_warps_per_multiprocessor": limits.warps,
            "max_warps_per_scheduler": limits.warps // PARTITIONS,
            "num_schedulers_per_multiprocessor": PARTITIONS,
        }
    yield from ((GPU_ATTRIBUTE + name, value) for name, value in follows.items() if value)


def attribute_metrics(trace: Trace) -> Iterator[LaunchMetric]:
    """Yield the attributes of their GPUs as metrics of the launches that Warpline counted."""
    attributes = gpu_attributes(trace)
    devices = trace.columns("profiled_kernel", "device_id")["device_id"]
    rows = devices.filled(len(attributes))
    is_counted = is_own(trace) & devices.is_valid()
    for name in sorted({name for of in attributes for name in of}):
        values = [of.get(name) for of in attributes]
        is_known: BoolArray = np.array([value is not None for value in values] + [False])
        is_text = any(isinstance(value, str) for value in values)
        every = np.array([value or 0 for value in [*values, 0]], object if is_text else np.int64)
        yield LaunchMetric(name, "", every[rows], is_counted & is_known[rows])
