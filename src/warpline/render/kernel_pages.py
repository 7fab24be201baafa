"""The pages of `warpline kernels`, laid out as Nsight Compute prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline.render.metric_values import column_texts, metric_text, speedup_text
from warpline.result.kernel_pages import ProfiledLaunch, RuleMessage
from warpline.units import format_ratio, plural

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
_RULE_INDENT, _RULE_WIDTH = 5, 110
_UNLOCKED = (
    "Data collection happened without fixed GPU frequencies. Profiling results may be inconsistent."
)
_DRIFT = "Metrics of different passes may not fit together."
RULE_KINDS = {"none": "", "info": "INF", "warning": "WRN", "error": "ERR", "optimization": "OPT"}
# Lists of the metrics that belong to others. Nsight Compute shows them nowhere.
LISTS = ("breakdown:", "group:")


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
    out.writelines(quoted(row) + "\n" for row in rows)


def write_details_csv(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write a row for each metric and each rule message of the sections of each launch."""
    out.write(quoted([*_LAUNCH_HEADINGS, *_DETAIL_HEADINGS]) + "\n")
    for launch in launches:
        cells = launch_cells(launch)
        for section in launch.sections:
            for label, metric in section.metrics:
                unit, value = metric_text(metric, is_scaled=is_scaled)
                out.write(quoted([*cells, section.title, label, unit, value]) + ",\n")
            for rule in section.rules:
                kind = RULE_KINDS[rule.kind]
                speedup = rule.speedup_kind or "", speedup_text(rule.speedup_percent)
                said = rule.rule, kind, rule.text, *speedup
                out.write(quoted([*cells, section.identifier, "", "", "", *said]) + "\n")


def quoted(cells: Sequence[str]) -> str:
    """Return a line of CSV whose cells are all in quotes."""
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def write_details(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write the sections of each launch as text."""
    for launch in headed(launches, out):
        for section in launch.sections:
            if not (section.metrics or section.rules):
                continue
            out.write(f"    Section: {section.title}\n")
            if section.metrics:
                rows = [
                    (label, *metric_text(metric, is_scaled=is_scaled))
                    for label, metric in section.metrics
                ]
                write_table(_METRIC_HEADINGS, rows, out)
                out.write("\n")
            for place, rule in enumerate(section.rules):
                if place:
                    out.write(f"    {'-' * _RULE_INDENT} {'-' * _RULE_WIDTH}\n")
                _write_rule(rule, out)
            if section.rules:
                out.write("\n")


def write_raw(launches: Sequence[ProfiledLaunch], out: TextIO, *, is_scaled: bool) -> None:
    """Write all metrics of each launch as text."""
    for launch in headed(launches, out):
        rows = [
            (name, *metric_text(launch.metrics[name], is_scaled=is_scaled))
            for name in sorted(launch.metrics)
            if not name.startswith(LISTS)
        ]
        write_table(_METRIC_HEADINGS, rows, out)
        out.write("\n")


def headed(launches: Sequence[ProfiledLaunch], out: TextIO) -> Iterator[ProfiledLaunch]:
    """Yield the launches, each after its heading, and after that of its process if it is new."""
    process = None
    for launch in launches:
        if (launch.pid, launch.process, launch.host) != process:
            process = launch.pid, launch.process, launch.host
            out.write(f"[{launch.pid}] {launch.process}@{launch.host}\n")
        out.write(f"  {launch.name} {', '.join(_facts(launch))}\n")
        if launch.is_unlocked:
            out.write(f"    Warning: {_UNLOCKED}\n")
        if launch.has_clock_drift:
            drift = format_ratio(launch.clock_drift_ratio or 0)
            out.write(f"    Warning: SM clock changed by {drift} between passes. {_DRIFT}\n")
        yield launch


def _facts(launch: ProfiledLaunch) -> Iterator[str]:
    """Yield what the heading of a launch says beside its name."""
    if launch.is_range:
        yield f"({plural(launch.kernels or 0, 'kernel')})"
    else:
        yield f"{dimensions(launch.grid)}x{dimensions(launch.block)}"
    yield f"Context {launch.context}"
    if launch.stream is not None:
        yield f"Stream {launch.stream}"
    yield f"Device {launch.device}"
    yield f"CC {launch.capability}"


def write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
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
    names = {name for launch in launches for name in launch.metrics if not name.startswith(LISTS)}
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
        *("" if launch.is_range else dimensions(size) for size in (launch.block, launch.grid)),
        "" if launch.device is None else str(launch.device),
        launch.capability,
    ]


def dimensions(sizes: tuple[int, int, int]) -> str:
    """Return a grid or a block: ``(256, 1, 1)``."""
    return "({}, {}, {})".format(*sizes)
