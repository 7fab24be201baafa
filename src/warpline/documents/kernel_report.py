"""The content of the page of profiled kernels: their summary, findings, sections and code."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Literal

import numpy as np

from warpline import progress
from warpline.documents import kernel_pages
from warpline.documents.kernel_code import kernel_code
from warpline.documents.kernel_filters import Choice, chosen_rows
from warpline.documents.kernel_findings import kernel_findings
from warpline.documents.kernel_sections import SectionBodies
from warpline.documents.kernel_steps import own_steps
from warpline.documents.table_rows import Rows
from warpline.errors import UsageError
from warpline.hardware.measured import MeasuredCeilings
from warpline.ops.arrays import I64
from warpline.presentation.kernel_names import short_names
from warpline.render.kernel_code import code_json
from warpline.render.kernel_listings import write_json
from warpline.result import warnings_of
from warpline.result.kernel_code import CodeOfLaunches
from warpline.result.kernel_findings import KernelFinding
from warpline.result.kernel_pages import LaunchTable, MetricNumber, ProfiledLaunch
from warpline.trace import Trace
from warpline.units import plural
from warpline.viewer.kernel_report import KernelContent, Row

Shown = Literal["timeline", "kernels"]
"""The page of a report."""

Findings = Sequence[tuple[KernelFinding, ...]]
"""The findings of each launch."""

MOST_ROWS = 20_000
MOST_DETAILS = 1_000
MOST_CODE = 200
_KERNEL_TABLES = ("profiled_kernel", "pc_sample")
_TIMELINE_TABLES = ("kernel", "memcpy", "memset", "graph_launch")
_SEVERAL = 2  # recordings, of which each launch has the name
_MOST_NAMES = 3  # recordings in the title
_AT_ONCE = 50  # launches whose JSON is in memory

_DURATION = "gpu__time_duration.sum"
_REGISTERS = "launch__registers_per_thread"
_CYCLES = "sm__cycles_elapsed.max"
_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"


def shown(trace: Trace, page: Shown | None) -> Shown:
    """Return which page shows a trace: the one asked for, else the timeline if there is one.

    Raises:
        UsageError: The trace has no profiled kernels, but their page was asked for.
    """
    has_kernels = _has_rows(trace, _KERNEL_TABLES)
    if page == "kernels" and not has_kernels:
        raise UsageError(
            "the recording has no profiled kernels",
            hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
        )
    if page is not None:
        return page
    return "kernels" if has_kernels and not _has_rows(trace, _TIMELINE_TABLES) else "timeline"


def has_both(trace: Trace) -> bool:
    """Return whether a trace has a timeline and profiled kernels."""
    return _has_rows(trace, _KERNEL_TABLES) and _has_rows(trace, _TIMELINE_TABLES)


def _has_rows(trace: Trace, tables: Sequence[str]) -> bool:
    return any(trace.has(table) and trace.row_count(table) > 0 for table in tables)


def content(trace: Trace, *, measured: Sequence[MeasuredCeilings] = ()) -> KernelContent:
    """Return what the page shows of a trace.

    Of more launches than the page can have, it has the longest, and one of each kernel.

    Args:
        trace: A trace with profiled launches, or samples of code.
        measured: What `warpline bench` measured, for rooflines of these GPUs.
    """
    table, found = _launches(trace, measured)
    durations = [0 if value is None else int(value) for value in _values(table, _DURATION)]
    order = _by_importance(table.launches, durations)
    shown = sorted(order[:MOST_ROWS])
    place_of = {launch: place for place, launch in enumerate(shown)}
    detailed = order[:MOST_DETAILS]
    code = kernel_code(trace, Choice(), most=MOST_CODE)
    details = _details(trace, table, found, detailed, code, measured)
    return KernelContent(
        _title([path.name for path in trace.meta.paths]),
        _facts(trace),
        [
            *dict.fromkeys(_sentence(warning) for warning in warnings_of(trace)),
            *_notes(len(table), len(shown), len(detailed)),
            *_notes_of_code(code),
            *_notes_of_samples(trace),
        ],
        len(table),
        sum(durations),
        _by_kernel(table.launches, durations),
        _rows(trace, table, found, shown),
        table.shown,
        ((place_of[launch], kernel) for launch, kernel in details),
        [json.loads(code_json(one)) for one in code.codes],
    )


def _launches(trace: Trace, measured: Sequence[MeasuredCeilings]) -> tuple[LaunchTable, Findings]:
    """Return the launches and their findings, with what a step gains if there is a timeline."""
    if not _has_rows(trace, ["profiled_kernel"]):
        return LaunchTable((), {}, (), (), np.zeros(0, np.int64)), ()
    return (
        kernel_pages.launches(trace, Choice()),
        kernel_findings(trace, Choice(), timeline=own_steps(trace), measured=measured),
    )


def _by_kernel(
    launches: Sequence[ProfiledLaunch], durations: Sequence[int]
) -> list[dict[str, Any]]:
    """Return names, launches and total time of each kernel, the longest first."""
    times: dict[str, list[int]] = defaultdict(list)
    for launch, duration in zip(launches, durations, strict=True):
        times[launch.name].append(duration)
    totals = sorted(((sum(of), name) for name, of in times.items()), key=lambda one: -one[0])
    short = short_names(times)
    return [
        {
            "name": name,
            "short_name": short[name],
            "launches": len(times[name]),
            "total_ns": total,
        }
        for total, name in totals
    ]


def _title(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _by_importance(launches: Sequence[ProfiledLaunch], durations: Sequence[int]) -> list[int]:
    """Return places of launches: the longest of each kernel, then the others; longest first."""
    longest = sorted(range(len(launches)), key=lambda place: -durations[place])
    firsts: dict[str, int] = {}
    for place in longest:
        firsts.setdefault(launches[place].name, place)
    leading = set(firsts.values())
    return [*firsts.values(), *(place for place in longest if place not in leading)]


def _notes(launches: int, rows: int, details: int) -> list[str]:
    notes = []
    if rows < launches:
        notes.append(
            f"The table has {plural(rows, 'launch', 'launches')} of {launches:,}: the longest, and"
            " one of each kernel."
        )
    if details < rows:
        notes.append(
            f"Sections are in this report for {plural(details, 'launch', 'launches')}: the longest,"
            " and one of each kernel. warpline kernels --page details prints those of all."
        )
    return notes


def _notes_of_code(code: CodeOfLaunches) -> list[str]:
    if len(code.codes) == code.count:
        return []
    text = (
        f"The source is in this report for {plural(len(code.codes), 'kernel')} of {code.count:,}:"
        " those with the most samples. warpline kernels --page source prints others."
    )
    return [text]


def _notes_of_samples(trace: Trace) -> list[str]:
    """Return how many samples of whole runs were lost."""
    if not _has_rows(trace, ["pc_sampling"]):
        return []
    counts = trace.columns("pc_sampling", "total_samples", "dropped_samples")
    total, dropped = (int(column.filled(0).sum()) for column in counts.values())
    return [f"{dropped:,} of {total:,} samples were dropped."] if dropped else []


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _facts(trace: Trace) -> list[tuple[str, str]]:
    meta = trace.meta
    names = Rows(trace, "device")["name"]
    counts = {name: names.count(name) for name in dict.fromkeys(names) if name}
    gpus = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())
    facts = {"GPU": gpus, "Program": meta.command, "Host": meta.host, "Profiler": meta.producer}
    return [(label, str(value)) for label, value in facts.items() if value]


def _values(table: LaunchTable, name: str) -> list[MetricNumber]:
    """Return a metric of all launches; None where it was not collected."""
    values: list[MetricNumber] = [None] * len(table)
    column = table.columns.get(name)
    if column is not None:
        for place, value in zip(column.launches.tolist(), column.values.tolist(), strict=True):
            values[place] = value
    return values


def _rows(
    trace: Trace,
    table: LaunchTable,
    found: Findings,
    places: Sequence[int],
) -> list[Row]:
    recorded = Rows(trace, "profiled_kernel")
    rows = chosen_rows(trace, recorded, Choice())
    functions = recorded["short_name"]
    reports = _reports(trace, recorded["process_id"])
    duration, registers, cycles, compute, memory = (
        _values(table, name) for name in (_DURATION, _REGISTERS, _CYCLES, _COMPUTE, _MEMORY)
    )
    made = []
    for place in places:
        launch = table.launches[place]
        finding = _largest(found[place])
        made.append(
            {
                "id": launch.number,
                "report": reports[rows[place]],
                "function": functions[rows[place]] or launch.name,
                "name": launch.name,
                "grid": None if launch.is_range else launch.grid,
                "block": None if launch.is_range else launch.block,
                "duration_ns": duration[place],
                "cycles": cycles[place],
                "compute_ratio": _ratio(compute[place]),
                "memory_ratio": _ratio(memory[place]),
                "registers": registers[place],
                **_of_finding(finding),
            }
        )
    return made


def _reports(trace: Trace, processes: Sequence[int]) -> list[str | None]:
    """Return the name of the recording that each launch is from; None if there is only one."""
    paths, files = trace.meta.paths, trace.meta.file_of_process
    if len(paths) < _SEVERAL or not files:
        return [None] * len(processes)
    return [paths[files[process]].name for process in processes]


def _ratio(percent: MetricNumber) -> float | None:
    return percent / 100 if isinstance(percent, (int, float)) else None


def _largest(findings: Sequence[KernelFinding]) -> KernelFinding | None:
    """Return the finding that ranks first of those that save time; else the first; None if none."""
    saving = (finding for finding in findings if finding.outcome != "no-gain")
    return next(saving, findings[0] if findings else None)


def _of_finding(finding: KernelFinding | None) -> Row:
    """Return what the summary says of a finding: with a floor only, the most that it can save."""
    if finding is None:
        return dict.fromkeys(("saving_ns", "outcome", "severity", "title"))
    saving = finding.saving_high_ns if finding.saving_ns is None else finding.saving_ns
    return {
        "saving_ns": None if finding.outcome == "no-gain" else saving,
        "outcome": finding.outcome,
        "severity": finding.severity,
        "title": finding.title,
    }


def _details(
    trace: Trace,
    table: LaunchTable,
    found: Findings,
    places: Sequence[int],
    code: CodeOfLaunches,
    measured: Sequence[MeasuredCeilings],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield places of launches and their JSON, as `warpline kernels --json` prints it.

    The values of metrics are a list, in the order of `KernelContent.metrics`.
    """
    if not places:
        return
    rows = chosen_rows(trace, Rows(trace, "profiled_kernel"), Choice())
    bodies = SectionBodies(trace, measured)
    with progress.task("Writing sections of kernels", len(places)) as advance:
        for start in range(0, len(places), _AT_ONCE):
            chosen = sorted(places[start : start + _AT_ONCE])
            sections = bodies.of_rows([rows[place] for place in chosen])
            metrics = _metrics_of(table, np.array(chosen, np.int64))
            kernels = _without_metrics(table, found, chosen, code)
            for place, kernel, values, own in zip(chosen, kernels, metrics, sections, strict=True):
                yield place, {**kernel, "metrics": values, "sections": own}
            advance(len(chosen))


def _without_metrics(
    table: LaunchTable,
    found: Findings,
    places: Sequence[int],
    code: CodeOfLaunches,
) -> list[dict[str, Any]]:
    """Return the JSON of launches without their metrics."""
    out = io.StringIO()
    part = replace(
        table,
        launches=tuple(table.launches[place] for place in places),
        columns={},
        shown=(),
        layout_codes=table.layout_codes[list(places)],
    )
    own = CodeOfLaunches((), 0, tuple(code.places[place] for place in places))
    write_json(part, out, findings=[found[place] for place in places], code=own)
    kernels: list[dict[str, Any]] = json.loads(out.getvalue())["kernels"]
    return kernels


def _metrics_of(table: LaunchTable, places: I64) -> list[list[MetricNumber]]:
    """Return the metrics of each of some launches, in the order of `table.shown`.

    Args:
        table: The launches.
        places: Some of them, ascending, shape (n,).
    """
    values = np.full((len(places), len(table.shown)), None, object)
    for number, name in enumerate(table.shown):
        part = table.columns[name].among(places)
        values[np.searchsorted(places, part.launches), number] = _finite(part.values.tolist())
    rows: list[list[MetricNumber]] = values.tolist()
    return rows


def _finite(values: list[MetricNumber]) -> list[MetricNumber]:
    """Return values with None for those that JSON lacks."""
    return [None if isinstance(value, float) and not isfinite(value) else value for value in values]
