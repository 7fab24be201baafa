"""Summaries, sessions, instructions and JSON of `warpline kernels`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, TextIO

from warpline.render.kernel_code import code_json
from warpline.render.kernel_pages import (
    blocks,
    dimensions,
    quoted,
    shown_names,
    write_table,
)
from warpline.render.metric_values import spread_texts
from warpline.result.kernel_code import CodeOfLaunches
from warpline.result.kernel_findings import KernelFinding
from warpline.result.kernel_pages import (
    LaunchGroup,
    LaunchTable,
    Listing,
    MetricColumn,
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
        by_nvtx = any(group.by == "nvtx" for group in groups)
        headings = [*_GROUP_HEADINGS, *(["NVTX"] if by_nvtx else []), "Section Name"]
        out.write(quoted([*headings, *_SPREAD_HEADINGS]) + "\n")
    for group in groups:
        cells = _group_cells(group)
        nvtx = group.launches[0].nvtx
        rows = [(spread, spread_texts(spread, is_scaled=is_scaled)) for spread in group.spreads]
        if as_csv:
            of_nvtx = [nvtx or ""] if group.by == "nvtx" else []
            out.writelines(
                quoted([*cells, *of_nvtx, spread.section, spread.label, *texts]) + "\n"
                for spread, texts in rows
            )
            continue
        pid, process, host, name, block, grid, device, capability, count = cells
        shared = f"{name} {grid}x{block}, " if group.by == "kernel" else ""
        if group.by == "nvtx":
            shared = f"{nvtx or 'no NVTX range'}, "
        out.write(f"[{pid}] {process}@{host}\n")
        out.write(f"  {shared}Device {device}, CC {capability}, Invocations {count}\n")
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
    is_kernel = group.by == "kernel"
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


def write_source_csv(listings: Sequence[Listing], out: TextIO) -> None:
    """Write the instructions of each launch, with a column for each metric that has values."""
    headings = ["#", "Address", "Encoding", "File", "Line", "SASS"]
    for listing in listings:
        rows = [
            [
                str(number),
                "" if instruction.address is None else f"{instruction.address:#x}",
                instruction.encoding or "",
                instruction.file or "",
                "" if instruction.line is None else str(instruction.line),
                instruction.sass or "",
                *(_cell(of.get(instruction.address)) for of in listing.values.values()),
            ]
            for number, instruction in enumerate(listing.instructions)
        ]
        out.write(quoted(["Kernel Name", listing.launch.name]) + "\n")
        out.writelines(quoted(row) + "\n" for row in ([*headings, *listing.values], *rows))
        out.write("\n")


def write_json(
    table: LaunchTable,
    out: TextIO,
    *,
    findings: Sequence[tuple[KernelFinding, ...]] = (),
    sections: Callable[[slice], Sequence[Mapping[str, Any]]] | None = None,
    code: CodeOfLaunches | None = None,
    ceilings: Sequence[str] = (),
) -> None:
    """Write launches, their metrics and findings as JSON, in base units.

    What is not recorded is null.

    Args:
        table: The launches.
        out: Where to write.
        findings: Those of each launch; empty without any.
        sections: Returns charts and tables, as JSON, of launches at some places; None to leave
            them out.
        code: Their code; None to leave it out.
        ceilings: Files of measured ceilings, which findings and rooflines rest on.
    """
    findings = findings or [()] * len(table)
    devices = {launch.device for launch in table.launches} - {None}
    device = devices.pop() if len(devices) == 1 else None
    measured = f'\n "ceilings": {json.dumps(ceilings)},' if ceilings else ""
    head = f'"schema_version": 1,\n "device": {json.dumps(device)},{measured}'
    out.write(f'{{\n {head}\n "kernels": [')
    columns = {name: table.columns[name] for name in shown_names(table)}
    for places in blocks(table):
        cells = [_json_cells(column, places) for column in columns.values()]
        rows: Iterable[tuple[str, ...]] = zip(*cells, strict=True)
        if not cells:
            rows = [()] * (places.stop - places.start)
        more: list[dict[str, str]] = [{} for _ in table.launches[places]]
        for members, of in zip(more, sections(places) if sections else (), strict=False):
            members["sections"] = json.dumps(of, separators=(",", ":"))
        for members, place in zip(more, code.places[places] if code else (), strict=False):
            members["code"] = json.dumps(place)
        launches = zip(table.launches[places], rows, findings[places], more, strict=True)
        kernels = ",".join(
            _json_launch(launch, [cell for cell in row if cell], found, members)
            for launch, row, found, members in launches
        )
        out.write(f",{kernels}" if places.start else kernels)
    out.write("\n ]" if table.launches else "]")
    if code is not None:
        out.write(',\n "code": [')
        out.writelines(
            f"{',' if number else ''}\n  {code_json(one)}" for number, one in enumerate(code.codes)
        )
        out.write("\n ]")
    out.write("\n}")


def _json_cells(column: MetricColumn, places: slice) -> list[str]:
    """Return the members that a metric adds to launches; empty for those that have no value."""
    part = column.part(places)
    key = f"\n    {json.dumps(column.name)}: "
    cells = [""] * (places.stop - places.start)
    at = (part.launches - places.start).tolist()
    for place, value in zip(at, part.values.tolist(), strict=True):
        if value is not None:
            cells[place] = key + _json(value)
    return cells


def _json(value: MetricNumber) -> str:
    """Return a value as JSON; numbers that JSON lacks are null."""
    if isinstance(value, float):
        return repr(value) if isfinite(value) else "null"
    return str(value) if type(value) is int else json.dumps(value)


def _json_launch(
    launch: ProfiledLaunch,
    metrics: Sequence[str],
    findings: Iterable[KernelFinding],
    more: Mapping[str, str],
) -> str:
    """Return a launch as the standard library writes it with an indent of one.

    What `more` has is JSON already, on one line: sections have as many numbers as all metrics.
    """

    def sizes(of: tuple[int, int, int]) -> str:
        return "null" if launch.is_range else "[\n    {},\n    {},\n    {}\n   ]".format(*of)

    members = {
        "id": _json(launch.number),
        "name": _json(launch.name),
        "grid": sizes(launch.grid),
        "block": sizes(launch.block),
        "invocation": _json(launch.invocation),
        "context": _json(launch.context),
        "stream": _json(launch.stream),
        "device": _json(launch.device),
        "nvtx": _json(launch.nvtx),
        "metrics": "{" + ",".join(metrics) + ("\n   }" if metrics else "}"),
        "passes": _json(launch.passes),
        "clock_drift_ratio": _json(launch.clock_drift_ratio),
        "concurrent": _json(launch.is_range),
        "findings": _json_findings(findings),
        **more,
    }
    return "\n  {" + ",".join(f'\n   "{key}": {text}' for key, text in members.items()) + "\n  }"


def _json_findings(findings: Iterable[KernelFinding]) -> str:
    """Return findings as the standard library writes them, as a member of a launch."""
    members = [
        {
            "rule": finding.rule,
            "title": finding.title,
            "severity": finding.severity,
            "saving_ns": finding.saving_ns,
            "saving_low_ns": finding.saving_low_ns,
            "saving_high_ns": finding.saving_high_ns,
            **_step_saving(finding),
            "outcome": finding.outcome,
            "before_ns": finding.before_ns,
            "predicted_ns": finding.likely_ns,
            "predicted_low_ns": finding.low_ns,
            "predicted_high_ns": finding.high_ns,
            "next_limiter": finding.limiter,
            "claim": finding.claim,
            "evidence": [
                {"metric": item.metric, "value": item.value, "unit": item.unit}
                for item in finding.evidence
            ],
            "lines": [
                {
                    "file": line.file,
                    "line": line.line,
                    "text": line.text,
                    "metric": line.metric,
                    "value": line.value,
                    "ratio": line.ratio,
                }
                for line in finding.lines
            ],
            "fix": finding.fix,
        }
        for finding in findings
    ]
    return json.dumps(members, indent=1).replace("\n", "\n   ")


def _step_saving(finding: KernelFinding) -> dict[str, int | None]:
    """Return what a finding gives a step of the timeline; nothing without one."""
    step = finding.step
    if step is None:
        return {}
    return {
        "step_saving_ns": step.saving_ns,
        "step_saving_low_ns": step.low_ns,
        "step_saving_high_ns": step.high_ns,
        "step_ns": step.step_ns,
    }


def _cell(value: MetricNumber) -> str:
    """Return a value without separators, with all digits."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
