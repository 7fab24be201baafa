"""The pages of `warpline kernels`, laid out as Nsight Compute prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TextIO

import numpy as np

from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.render.metric_values import RawCells, metric_texts, speedup_text
from warpline.result.kernel_pages import (
    LaunchTable,
    Layout,
    ProfiledLaunch,
    RuleMessage,
    by_names,
)
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
_BLOCK_VALUES = 100_000
_UNLOCKED = (
    "Data collection happened without fixed GPU frequencies. Profiling results may be inconsistent."
)
_DRIFT = "Metrics of different passes may not fit together."
RULE_KINDS = {"none": "", "info": "INF", "warning": "WRN", "error": "ERR", "optimization": "OPT"}
# Lists of the metrics that belong to others. Nsight Compute shows them nowhere.
LISTS = ("breakdown:", "group:")

Bodies = Callable[[I64, Sequence[str]], Sequence[Sequence[str]]]
"""Returns the text of each section of launches, by their places and the sections' identifiers."""


def write_raw_csv(table: LaunchTable, out: TextIO, *, is_scaled: bool) -> None:
    """Write a row for each launch and a column for each metric; the second row has the units."""
    columns = {
        name: RawCells(table.columns[name], is_scaled=is_scaled) for name in shown_names(table)
    }
    units = (cells.unit for cells in columns.values())
    out.write(quoted([*_LAUNCH_HEADINGS, *columns]) + "\n")
    out.write(quoted([*("" for _ in _LAUNCH_HEADINGS), *units]) + "\n")
    for places in blocks(table):
        heads = zip(*map(launch_cells, table.launches[places]), strict=True)
        cells = (column.texts(places) for column in columns.values())
        rows = zip(*map(escaped, (*heads, *cells)), strict=True)
        out.write("".join('"' + '","'.join(row) + '"\n' for row in rows))


def write_details_csv(table: LaunchTable, out: TextIO, *, is_scaled: bool) -> None:
    """Write a row for each metric and each rule message of the sections of each launch."""
    out.write(quoted([*_LAUNCH_HEADINGS, *_DETAIL_HEADINGS]) + "\n")
    for places in blocks(table):
        heads = [quoted(launch_cells(launch)) for launch in table.launches[places]]
        texts = [""] * len(heads)
        for layout, at in layouts_in(table, places):
            of_launches = [heads[place - places.start] for place in at.tolist()]
            made = _detail_rows(table, layout, at, of_launches, is_scaled=is_scaled)
            for place, text in zip(at.tolist(), made, strict=True):
                texts[place - places.start] = text
        out.write("".join(texts))


def _detail_rows(
    table: LaunchTable, layout: Layout, at: I64, heads: Sequence[str], *, is_scaled: bool
) -> list[str]:
    """Return the rows of launches with a layout, each after what names its launch."""
    template, cells = [], []
    for section in layout:
        for label, name in section.lines:
            column = table.columns[name].among(at)
            texts = metric_texts(column, is_scaled=is_scaled)
            template.append(f'%s,{_fixed(quoted([section.title, label]))},"%s","%s",\n')
            cells += [heads, *map(escaped, texts)]
        for rule in section.rules:
            speedup = rule.speedup_kind or "", speedup_text(rule.speedup_percent)
            said = rule.rule, RULE_KINDS[rule.kind], rule.text, *speedup
            row = quoted([section.identifier, "", "", "", *said])
            template.append(f"%s,{_fixed(row)}\n")
            cells.append(heads)
    filled = "".join(template)
    return [filled % row for row in _rows(cells, len(heads))]


def _fixed(text: str) -> str:
    """Return what makes a text in a template."""
    return text.replace("%", "%%")


def escaped(cells: Sequence[str]) -> Sequence[str]:
    """Return cells as they are between quotes in CSV."""
    # Few have quotes, so one look at all is faster.
    has_quotes = '"' in "".join(cells)
    return [cell.replace('"', '""') for cell in cells] if has_quotes else cells


def quoted(cells: Sequence[str]) -> str:
    """Return a line of CSV whose cells are all in quotes."""
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def write_details(
    table: LaunchTable,
    out: TextIO,
    *,
    is_scaled: bool,
    has_header: bool = True,
    bodies: Bodies | None = None,
) -> None:
    """Write the sections of each launch as text.

    Args:
        table: The launches.
        out: Where to write.
        is_scaled: Whether values are in units that fit.
        has_header: Whether the metrics of sections are shown.
        bodies: Returns the charts and tables of launches; None to leave them out.
    """

    def texts_of(layout: Layout, at: I64) -> list[str]:
        parts: list[Sequence[str]] = []
        identifiers = [section.identifier for section in layout]
        drawn = bodies(at, identifiers) if bodies else [[""] * len(layout)] * len(at)
        for section, *of_section in zip(layout, *drawn, strict=True):
            lines = section.lines if has_header else ()
            if lines or section.rules:
                parts.append([f"    Section: {section.title}\n"] * len(at))
            else:
                parts.append([f"    Section: {section.title}\n" * bool(of) for of in of_section])
            if lines:
                labels, names = zip(*lines, strict=True)
                tables = _tables(table, labels, names, at, is_scaled=is_scaled)
                parts += [tables, ["\n"] * len(at)]
            parts.append(of_section)
            if section.rules:
                parts.append([_rules_text(section.rules)] * len(at))
        return list(map("".join, zip(*parts, strict=True))) if parts else [""] * len(at)

    process = None
    for places in blocks(table):
        texts = [""] * (places.stop - places.start)
        for layout, at in layouts_in(table, places):
            for place, text in zip(at.tolist(), texts_of(layout, at), strict=True):
                texts[place - places.start] = text
        process = _write_launches(table.launches[places], texts, out, process)


def write_raw(table: LaunchTable, out: TextIO, *, is_scaled: bool) -> None:
    """Write all metrics of each launch as text."""
    names = shown_names(table)
    columns = {name: table.columns[name] for name in names}
    process = None
    for places in blocks(table):
        texts = [""] * (places.stop - places.start)
        for of_launches, at in by_names(columns, places):
            made = _tables(table, of_launches, of_launches, at, is_scaled=is_scaled)
            for place, text in zip(at.tolist(), made, strict=True):
                texts[place - places.start] = text + "\n"
        process = _write_launches(table.launches[places], texts, out, process)


def _write_launches(
    launches: Sequence[ProfiledLaunch],
    texts: Sequence[str],
    out: TextIO,
    process: tuple[object, ...] | None,
) -> tuple[object, ...] | None:
    """Write launches with their headings, and return the process of the last one."""
    parts = []
    for launch, text in zip(launches, texts, strict=True):
        if process_of(launch) != process:
            process = process_of(launch)
            parts.append(f"[{launch.pid}] {launch.process}@{launch.host}\n")
        parts += [heading(launch), text]
    out.write("".join(parts))
    return process


def process_of(launch: ProfiledLaunch) -> tuple[object, ...]:
    """Return pid, executable and host of the process of a launch."""
    return launch.pid, launch.process, launch.host


def heading(launch: ProfiledLaunch) -> str:
    """Return the heading of a launch."""
    warning = f"    Warning: {_UNLOCKED}\n" if launch.is_unlocked else ""
    if launch.has_clock_drift:
        drift = format_ratio(launch.clock_drift_ratio or 0)
        warning += f"    Warning: SM clock changed by {drift} between passes. {_DRIFT}\n"
    return f"  {launch.name} {', '.join(_facts(launch))}\n{warning}"


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


def _tables(
    table: LaunchTable, labels: Sequence[str], names: Sequence[str], at: I64, *, is_scaled: bool
) -> list[str]:
    """Return a table of metrics for each of some launches, all of which have these."""
    texts = [metric_texts(table.columns[name].among(at), is_scaled=is_scaled) for name in names]
    units = _rows([unit for unit, _ in texts], len(at))
    values = _rows([value for _, value in texts], len(at))
    label_width = max(map(len, (*labels, _METRIC_HEADINGS[0])))
    templates: dict[tuple[int, int], str] = {}
    found = []
    for of_units, of_values in zip(units, values, strict=True):
        widths = (
            max(map(len, (*of_units, _METRIC_HEADINGS[1]))),
            max(map(len, (*of_values, _METRIC_HEADINGS[2]))),
        )
        template = templates.get(widths)
        if template is None:
            template = templates[widths] = _template(labels, (label_width, *widths))
        found.append(template % tuple(chain.from_iterable(zip(of_units, of_values, strict=True))))
    return found


def _rows(columns: Sequence[Sequence[str]], count: int) -> Iterable[tuple[str, ...]]:
    """Return the rows of columns, if there are any, else as many empty ones."""
    return zip(*columns, strict=True) if columns else [()] * count


def _template(labels: Sequence[str], widths: tuple[int, int, int]) -> str:
    """Return a table of metrics without units and values."""
    line = "    " + " ".join("-" * width for width in widths) + "\n"
    row = f" %{widths[1]}s %{widths[2]}s\n"
    rows = [f"    {_fixed(label.ljust(widths[0]))}{row}" for label in labels]
    return "".join([line, _aligned(_METRIC_HEADINGS, widths), line, *rows, line])


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


def _rules_text(rules: Sequence[RuleMessage]) -> str:
    """Return the messages of rules, separated by lines, and an empty line."""
    separator = f"    {'-' * _RULE_INDENT} {'-' * _RULE_WIDTH}\n"
    return separator.join(map(_rule_text, rules)) + "\n"


def _rule_text(rule: RuleMessage) -> str:
    lines = _wrapped(rule.text, _RULE_WIDTH)
    if rule.speedup_percent is not None:
        local = "Local " if rule.speedup_kind == "local" else ""
        lines.insert(0, f"Est. {local}Speedup: {speedup_text(rule.speedup_percent)}%")
    kinds = [RULE_KINDS[rule.kind], *("" for _ in lines[1:])]
    return "".join(
        f"    {kind:{_RULE_INDENT}} {line:{_RULE_WIDTH}}\n"
        for kind, line in zip(kinds, lines, strict=True)
    )


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


def shown_names(table: LaunchTable) -> list[str]:
    """Return the names of the metrics on pages of all metrics."""
    return [name for name in table.shown if not name.startswith(LISTS)]


def blocks(table: LaunchTable) -> Iterator[slice]:
    """Yield the places of launches, a number of them at a time that have some 100,000 values."""
    size = max(1, _BLOCK_VALUES // max(1, len(table.columns)))
    for start in range(0, len(table), size):
        yield slice(start, min(start + size, len(table)))


def layouts_in(table: LaunchTable, places: slice) -> Iterator[tuple[Layout, I64]]:
    """Yield the layouts of launches at some places, with the places of launches that have it."""
    codes = table.layout_codes[places]
    for code in distinct_values(codes).tolist():
        yield table.layouts[code], np.flatnonzero(codes == code) + places.start


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
