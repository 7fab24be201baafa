"""Recordings as if Warpline had counted the launches of a report of Nsight Compute."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from capture.cuda_writer import CudaLog
from capture.finished import read

from warpline.trace import Trace

# What counters do not give: facts about the launch and the GPU, what follows from counters, values
# per instruction, and Nsight Compute's own.
WITHOUT_COUNTERS = (
    *("launch__", "device__", "derived_", "profiler__", "sm__maximum_warps_"),
    *("smsp__maximum_warps_", "smsp__pcsamp_", "sass__", "nvlink__", "numa__", "c2clink__"),
)
_ATTRIBUTES = Path(__file__).parents[2] / "native/agent/src/machine/device_attributes.cpp"


def driver_attributes() -> list[str]:
    """Return the names of the attributes that the agent asks the driver for."""
    return re.findall(r'^ +"(\w+)",$', _ATTRIBUTES.read_text(), re.MULTILINE)


def recorded(report: Trace, folder: Path) -> Trace:
    """Return a recording of the launches of a report and of the values of its counters."""
    log = CudaLog(100, executable="/usr/bin/target")
    attributes = report["device_attribute"]
    values = {
        name.removeprefix("device__attribute_"): value
        for name, value in attributes.select("name", "integer").iter_rows()
    }
    log.device(name=report["device"]["name"][0], memory=(values["total_memory"], 3 * 10**12))
    for name in driver_attributes():
        if name in values:
            log.device_attribute(name, values[name])
    log.context()
    log.push(1, "step")
    metrics = report["kernel_metric"].filter(
        pl.col("value").is_not_null()
        & pl.col("integer").is_null()
        & pl.col("name").str.contains("__")
        & ~pl.any_horizontal(pl.col("name").str.starts_with(s) for s in WITHOUT_COUNTERS)
    )
    units = dict(metrics.select("name", "unit").sort("name").iter_rows())
    numbers = {name: number for number, name in enumerate(units)}
    for name, number in numbers.items():
        log.counter_name(number, f"{name} {units[name] or ''}")
    streams = report["stream"]["native_id"].to_list()
    for launch, row in enumerate(report["profiled_kernel"].iter_rows(named=True)):
        log.counted(
            row["mangled_name"],
            launch,
            10 * launch + 2,
            10 * launch + 9,
            stream=streams[row["stream_id"]],
            grid=tuple(row[f"grid_{axis}"] for axis in "xyz"),
            block=tuple(row[f"block_{axis}"] for axis in "xyz"),
            registers=row["registers_per_thread"],
            shared=(row["static_shared_bytes"], row["dynamic_shared_bytes"]),
            passes=row["passes"],
        )
    for launch, name, value in metrics.select("profiled_kernel_id", "name", "value").iter_rows():
        log.counter_value(numbers[name], launch, value)
    log.pop(900)
    return read(folder, log, collected=["nvtx", "counters"])[0]
