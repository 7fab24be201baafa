"""Summaries, sessions, instructions and JSON of `warpline kernels`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TextIO

from warpline.render.kernel_pages import LISTS, dimensions, headed, quoted, write_table
from warpline.render.metric_values import spread_texts
from warpline.result.kernel_pages import (
    LaunchGroup,
    Listing,
    MetricNumber,
    PageTable,
    ProfiledLaunch,
)

_SPREAD_HEADINGS = ("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
_GROUP_HEADINGS = (
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Invocations",
)


def write_summaries(
    groups: Sequence[LaunchGroup], out: TextIO, *, is_scaled: bool, as_csv: bool
) -> None:
    """Write minimum, maximum and mean of the metrics of groups of launches."""
    if as_csv:
        out.write(quoted([*_GROUP_HEADINGS, "Section Name", *_SPREAD_HEADINGS]) + "\n")
    for group in groups:
        cells = _group_cells(group)
        rows = [(spread, spread_texts(spread, is_scaled=is_scaled)) for spread in group.spreads]
        if as_csv:
            out.writelines(
                quoted([*cells, spread.section, spread.label, *texts]) + "\n"
                for spread, texts in rows
            )
            continue
        pid, process, host, name, block, grid, device, capability, count = cells
        shape = f"{name} {grid}x{block}, " if group.is_kernel else ""
        out.write(f"[{pid}] {process}@{host}\n")
        out.write(f"  {shape}Device {device}, CC {capability}, Invocations {count}\n")
        for section in dict.fromkeys(spread.section for spread, _ in rows):
            if section:
                out.write(f"    Section: {section}\n")
            of_section = [
                (spread.label, *texts) for spread, texts in rows if spread.section == section
            ]
            write_table(_SPREAD_HEADINGS, of_section, out)
            out.write("\n")


def _group_cells(group: LaunchGroup) -> list[str]:
    first = group.launches[0]
    is_kernel = group.is_kernel
    return [
        str(first.pid),
        first.process,
        first.host,
        first.name if is_kernel else "",
        dimensions(first.block) if is_kernel else "",
        dimensions(first.grid) if is_kernel else "",
        "" if first.device is None else str(first.device),
        first.capability,
        str(len(group.launches)),
    ]


def write_session(tables: Sequence[PageTable], out: TextIO, *, as_csv: bool) -> None:
    """Write facts about the program, its machine and its GPUs."""
    if as_csv:
        out.write(quoted(["Group", "Name", "Value"]) + "\n")
    for table in tables:
        rows = [[_cell(value) for value in row] for row in table.rows]
        if as_csv:
            out.writelines(quoted([table.title, *row]) + "\n" for row in rows)
        else:
            out.write(f"{table.title}\n")
            write_table(table.headings, rows, out)
            out.write("\n")


def write_source(listings: Sequence[Listing], out: TextIO, *, as_csv: bool) -> None:
    """Write the instructions of each launch, with a column for each metric that has values."""
    headings = ["#", "Address", "Encoding", "File", "Line"]
    for listing in listings:
        rows = [
            [
                str(number),
                f"{instruction.address:#x}",
                instruction.encoding or "",
                instruction.file or "",
                "" if instruction.line is None else str(instruction.line),
                *(_cell(of.get(instruction.address)) for of in listing.values.values()),
            ]
            for number, instruction in enumerate(listing.instructions)
        ]
        if as_csv:
            out.write(quoted(["Kernel Name", listing.launch.name]) + "\n")
            out.writelines(quoted(row) + "\n" for row in ([*headings, *listing.values], *rows))
        else:
            list(headed([listing.launch], out))
            write_table([*headings, *listing.values], rows, out)
        out.write("\n")


def write_json(launches: Sequence[ProfiledLaunch], out: TextIO) -> None:
    """Write launches and their metrics as JSON, in base units. What is not recorded is null."""
    kernels = []
    for launch in launches:
        metrics = {
            name: _json_number(metric.value)
            for name, metric in sorted(launch.metrics.items())
            if metric.value is not None and not name.startswith(LISTS)
        }
        kernels.append(
            {
                "id": launch.number,
                "name": launch.name,
                "grid": None if launch.is_range else launch.grid,
                "block": None if launch.is_range else launch.block,
                "invocation": launch.invocation,
                "context": launch.context,
                "stream": launch.stream,
                "device": launch.device,
                "nvtx": launch.nvtx,
                "metrics": metrics,
                "passes": launch.passes,
                "clock_drift_ratio": launch.clock_drift_ratio,
                "concurrent": launch.is_range,
            }
        )
    devices = sorted({launch.device for launch in launches if launch.device is not None})
    document = {
        "schema_version": 1,
        "device": devices[0] if len(devices) == 1 else None,
        "kernels": kernels,
    }
    json.dump(document, out, indent=1)


def _json_number(value: MetricNumber) -> MetricNumber:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: MetricNumber) -> str:
    """Return a value without separators, with all digits."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
