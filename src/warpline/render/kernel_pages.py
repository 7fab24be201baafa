"""The pages of `warpline kernels`, laid out as Nsight Compute prints them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline.render.metric_values import column_texts, metric_text, speedup_text, spread_texts
from warpline.result.kernel_pages import (
    LaunchGroup,
    Listing,
    MetricNumber,
    PageTable,
    ProfiledLaunch,
    RuleMessage,
)

_LAUNCH_HEADINGS = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)
_DETAIL_HEADINGS = (
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
)
_METRIC_HEADINGS = ("Metric Name", "Metric Unit", "Metric Value")
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
_RULE_INDENT, _RULE_WIDTH = 5, 110
_UNLOCKED = (
    "Data collection happened without fixed GPU frequencies. Profiling results may be inconsistent."
)
RULE_KINDS = {"none": "", "info": "INF", "warning": "WRN", "error": "ERR", "optimization": "OPT"}
# Lists of the metrics that belong to others. Nsight Compute shows them nowhere.
_LISTS = ("breakdown:", "group:")


def write_raw_csv(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write a row for each launch and a column for each metric; the second row has the units."""
    columns = list(raw_columns(launches, is_scaled=is_scaled))
    rows = [
        [*_LAUNCH_HEADINGS, *(name for name, _, _ in columns)],
        [*("" for _ in _LAUNCH_HEADINGS), *(unit for _, unit, _ in columns)],
        *(
            [*launch_cells(launch), *(cells[row] for _, _, cells in columns)]
            for row, launch in enumerate(launches)
        ),
    ]
    out.writelines(_quoted(row) + "\n" for row in rows)


def write_details_csv(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write a row for each metric and each rule message of the sections of each launch."""
    out.write(_quoted([*_LAUNCH_HEADINGS, *_DETAIL_HEADINGS]) + "\n")
    for launch in launches:
        cells = launch_cells(launch)
        for section in launch.sections:
            for label, metric in section.metrics:
                unit, value = metric_text(metric, is_scaled=is_scaled)
                out.write(_quoted([*cells, section.title, label, unit, value]) + ",\n")
            for rule in section.rules:
                kind = RULE_KINDS[rule.kind]
                speedup = rule.speedup_kind or "", speedup_text(rule.speedup_percent)
                said = rule.rule, kind, rule.text, *speedup
                out.write(_quoted([*cells, section.identifier, "", "", "", *said]) + "\n")


def _quoted(cells: Sequence[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def write_details(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write the sections of each launch as text."""
    for launch in _headed(launches, out):
        for section in launch.sections:
            if not (section.metrics or section.rules):
                continue
            out.write(f"    Section: {section.title}\n")
            if section.metrics:
                rows = [
                    (label, *metric_text(metric, is_scaled=is_scaled))
                    for label, metric in section.metrics
                ]
                _write_table(_METRIC_HEADINGS, rows, out)
                out.write("\n")
            for place, rule in enumerate(section.rules):
                if place:
                    out.write(f"    {'-' * _RULE_INDENT} {'-' * _RULE_WIDTH}\n")
                _write_rule(rule, out)
            if section.rules:
                out.write("\n")


def write_raw(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write all metrics of each launch as text."""
    for launch in _headed(launches, out):
        rows = [
            (name, *metric_text(launch.metrics[name], is_scaled=is_scaled))
            for name in sorted(launch.metrics)
            if not name.startswith(_LISTS)
        ]
        _write_table(_METRIC_HEADINGS, rows, out)
        out.write("\n")


def write_summaries(
    groups: Sequence[LaunchGroup], out: TextIO, *, is_scaled: bool, as_csv: bool
) -> None:
    """Write minimum, maximum and mean of the metrics of groups of launches."""
    if as_csv:
        out.write(_quoted([*_GROUP_HEADINGS, "Section Name", *_SPREAD_HEADINGS]) + "\n")
    for group in groups:
        cells = _group_cells(group)
        rows = [(spread, spread_texts(spread, is_scaled=is_scaled)) for spread in group.spreads]
        if as_csv:
            out.writelines(
                _quoted([*cells, spread.section, spread.label, *texts]) + "\n"
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
            _write_table(_SPREAD_HEADINGS, of_section, out)
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
        out.write(_quoted(["Group", "Name", "Value"]) + "\n")
    for table in tables:
        rows = [[_cell(value) for value in row] for row in table.rows]
        if as_csv:
            out.writelines(_quoted([table.title, *row]) + "\n" for row in rows)
        else:
            out.write(f"{table.title}\n")
            _write_table(table.headings, rows, out)
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
            out.write(_quoted(["Kernel Name", listing.launch.name]) + "\n")
            out.writelines(
                _quoted(row) + "\n" for row in ([*headings, *listing.values], *rows)
            )
        else:
            list(_headed([listing.launch], out))
            _write_table([*headings, *listing.values], rows, out)
        out.write("\n")


def write_json(launches: Sequence[ProfiledLaunch], out: TextIO) -> None:
    """Write launches and their metrics as JSON, in base units. What is not recorded is null."""
    calls: Counter[str] = Counter()
    kernels = []
    for launch in launches:
        calls[launch.name] += 1
        metrics = {
            name: _json_number(metric.value)
            for name, metric in sorted(launch.metrics.items())
            if metric.value is not None and not name.startswith(_LISTS)
        }
        kernels.append(
            {
                "id": launch.number,
                "name": launch.name,
                "grid": launch.grid,
                "block": launch.block,
                "invocation": calls[launch.name],
                "context": launch.context,
                "stream": launch.stream,
                "device": launch.device,
                "nvtx": None,
                "metrics": metrics,
                "passes": launch.passes,
                "clock_drift_ratio": None,
                "concurrent": None,
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


def _headed(launches: Sequence[ProfiledLaunch], out: TextIO) -> Iterator[ProfiledLaunch]:
    """Yield the launches, each after its heading, and after that of its process if it is new."""
    process = None
    for launch in launches:
        if (launch.pid, launch.process, launch.host) != process:
            process = launch.pid, launch.process, launch.host
            out.write(f"[{launch.pid}] {launch.process}@{launch.host}\n")
        shape = f"{dimensions(launch.grid)}x{dimensions(launch.block)}"
        place = f"Context {launch.context}, Stream {launch.stream}, Device {launch.device}"
        out.write(f"  {launch.name} {shape}, {place}, CC {launch.capability}\n")
        if launch.is_unlocked:
            out.write(f"    Warning: {_UNLOCKED}\n")
        yield launch


def _write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
    """Write a table whose columns after the first are aligned to the right."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    line = "    " + " ".join("-" * width for width in widths) + "\n"
    texts = [_aligned(row, widths) for row in (headings, *rows)]
    out.writelines([line, texts[0], line, *texts[1:], line])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "    " + " ".join([first, *rest]) + "\n"


def _write_rule(rule: RuleMessage, out: TextIO) -> None:
    lines = _wrapped(rule.text, _RULE_WIDTH)
    if rule.speedup_percent is not None:
        local = "Local " if rule.speedup_kind == "local" else ""
        lines.insert(0, f"Est. {local}Speedup: {speedup_text(rule.speedup_percent)}%")
    for place, line in enumerate(lines):
        kind = "" if place else RULE_KINDS[rule.kind]
        out.write(f"    {kind:{_RULE_INDENT}} {line:{_RULE_WIDTH}}\n")


def _wrapped(text: str, width: int) -> list[str]:
    """Return lines of words; a word that is too long is cut.

    As in Nsight Compute, a word keeps the space before it, which counts although it is not shown
    at the start of a line.
    """
    lines, line = [], ""
    for place, word in enumerate(text.split(" ")):
        spaced = f" {word}" if place else word
        if line and len(line) + len(spaced) >= width:
            lines.append(line.removeprefix(" "))
            line = ""
        line += spaced
        while len(line) >= width:
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line.removeprefix(" ")]


def raw_columns(
    launches: Sequence[ProfiledLaunch], *, is_scaled: bool
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield name, unit and cells of each metric, by name."""
    names = {name for launch in launches for name in launch.metrics if not name.startswith(_LISTS)}
    for name in sorted(names):
        metrics = [launch.metrics.get(name) for launch in launches]
        unit = next(metric.unit for metric in metrics if metric is not None)
        yield name, *column_texts(unit, metrics, is_scaled=is_scaled)


def launch_cells(launch: ProfiledLaunch) -> list[str]:
    """Return the cells that name a launch."""
    numbers = launch.context, launch.stream
    return [
        str(launch.number),
        str(launch.pid),
        launch.process,
        launch.host,
        launch.name,
        *("" if number is None else str(number) for number in numbers),
        dimensions(launch.block),
        dimensions(launch.grid),
        "" if launch.device is None else str(launch.device),
        launch.capability,
    ]


def dimensions(sizes: tuple[int, int, int]) -> str:
    """Return a grid or a block: ``(256, 1, 1)``."""
    return "({}, {}, {})".format(*sizes)
