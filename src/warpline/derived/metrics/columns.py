"""Known metrics as columns of tables: their mean over some spans of time, on each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpline.derived.metrics.known import RATE, KnownSeries
from warpline.result import Field
from warpline.units import Unit


def _share(meaning: str, doc: str, heading: str, *, is_detail: bool = False) -> Field:
    name, heading = f"{meaning}_ratio", f"{heading} (%)"
    return Field(name, Unit.RATIO, doc, heading, 100.0, 1, is_detail, is_optional=True)


def _rate(meaning: str, doc: str, heading: str) -> Field:
    name = f"{meaning}_bytes_per_s"
    heading = f"{heading} (MB/s)"
    return Field(name, Unit.BYTES_PER_S, f"{doc} per second.", heading, 1e-6, 0, is_optional=True)


SM_FIELDS = (
    _share("sm_active", "SMs with at least one warp, mean over SMs and time.", "SM Active"),
    _share("sm_issue", "Issue slots of the SMs in use.", "SM Issue"),
    _share("tensor_active", "Cycles in which Tensor Cores are active.", "Tensor Active"),
    _share("warps_active", "Warps in flight, of the most that fit (occupancy).", "Warps Active"),
    _share("fp64_active", "FP64 pipe in use.", "FP64"),
    _share("fp32_active", "FMA pipe in use, which does FP32.", "FMA"),
    _share("fp16_active", "FP16 instructions of the pipe that does them.", "FP16"),
)
MEMORY_FIELDS = (
    _share("dram_active", "DRAM bandwidth in use, of the peak.", "DRAM Active"),
    _share("dram_read", "The part of it for reads.", "DRAM Read"),
    _share("dram_write", "The part of it for writes.", "DRAM Write"),
    _rate("dram_read", "Bytes read from DRAM", "DRAM Read"),
    _rate("dram_write", "Bytes written to DRAM", "DRAM Write"),
    _share("l2_hit", "Hit rate of the L2 cache.", "L2 Hit"),
)
LINK_FIELDS = (
    _share("pcie_rx", "PCIe bandwidth to the GPU in use, of the peak.", "PCIe RX"),
    _share("pcie_tx", "PCIe bandwidth from the GPU in use, of the peak.", "PCIe TX"),
    _rate("pcie_rx", "Bytes received over PCIe", "PCIe RX"),
    _rate("pcie_tx", "Bytes sent over PCIe", "PCIe TX"),
    _share("nvlink_rx", "NVLink bandwidth to the GPU in use, of the peak.", "NVLink RX"),
    _share("nvlink_tx", "NVLink bandwidth from the GPU in use, of the peak.", "NVLink TX"),
    _rate("nvlink_rx", "Bytes received over NVLink", "NVLink RX"),
    _rate("nvlink_tx", "Bytes sent over NVLink", "NVLink TX"),
)
CLOCK_FIELDS = (
    Field(
        "gpu_clock_hz", Unit.HZ, "Clock of the SMs.", "GPU Clock (MHz)", 1e-6, 0, is_optional=True
    ),
)
MEANINGS: Mapping[str, str] = {
    field.name: field.name.removesuffix("_ratio").removesuffix("_hz").replace("_bytes_per_s", RATE)
    for field in (*SM_FIELDS, *MEMORY_FIELDS, *LINK_FIELDS, *CLOCK_FIELDS)
}  # the meaning that each column shows


def of_device(
    known: Mapping[tuple[int, str], KnownSeries], device: int, fields: Sequence[Field]
) -> dict[str, KnownSeries]:
    """Return the metric of each column that a GPU has, by the column's name."""
    found = {field.name: known.get((device, MEANINGS[field.name])) for field in fields}
    return {name: series for name, series in found.items() if series is not None}


def shown(value: float | None, unit: Unit) -> float | None:
    """Return a mean as a cell: shares between 0 and 1, whatever the counters say."""
    if value is None or unit is not Unit.RATIO:
        return value
    return min(max(value, 0.0), 1.0)
