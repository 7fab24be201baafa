"""The pages raw and details that Nsight Compute prints as CSV, as tables.

Printed values are scaled and rounded. They are converted to base units, with the digits that were
printed.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from warpline.errors import CorruptTraceError, InputError
from warpline.schema.labels import MESSAGE_KINDS, SPEEDUP_KINDS
from warpline.trace import MemorySource, TraceMeta

FORMAT = "ncu-csv"
_HEADINGS = '"ID","Process ID","Process Name"'
_NO_DATA = "no data"
_SECTION, _LABEL, _RULE = "Section Name", "Metric Name", "Rule Name"
_FACTS = {
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
}
_MOST = 1 << 31
_MOST_BYTES = 1 << 30
_KINDS = {"INF": "info", "WRN": "warning", "ERR": "error", "OPT": "optimization"}
_SIZE = re.compile(r"\((\d+), (\d+), (\d+)\)")
_POWERS = {"": 0, "K": 3, "M": 6, "G": 9, "T": 12}
_TIMES = {"s": 9, "ms": 6, "us": 3, "ns": 0}
_FORMER = re.compile(r"\b([mun]?s)econd\b")  # versions before 2023 wrote usecond, cycle/nsecond
_PREFIXED = re.compile(r"(.*?)([KMGT])(byte|hz)(.*)")
_RATE = re.compile(r"(.+)/(s|ms|us|ns)")
_AGAIN = "print the page again: ncu --import REPORT --page raw --csv"


class Table:
    """The rows of one table, column by column."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}
        self.count = 0

    def add(self, **values: Any) -> int:
        """Add a row, with the same columns as all others, and return its number."""
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)
        self.count += 1
        return self.count - 1


class Pages:
    """Builds tables from the rows of a page."""

    def __init__(self) -> None:
        names = ("process", "device", "context", "stream", "profiled_kernel", "kernel_metric")
        more = ("kernel_section", "section_metric", "kernel_rule")
        self.tables = {name: Table() for name in (*names, *more)}
        self._rows: dict[tuple[Any, ...], int] = {}

    def _row(self, table: str, key: tuple[Any, ...], **values: Any) -> int:
        """Return the row of a table for a key, added if it is new."""
        place = (table, *key)
        if place not in self._rows:
            self._rows[place] = self.tables[table].add(**values)
        return self._rows[place]

    def launch(self, cells: Mapping[str, str]) -> int:
        """Return the row of the launch that cells name, added if it is new."""
        pid, number = _whole(cells, "Process ID") or 0, _whole(cells, "ID") or 0
        process = self._row(
            "process",
            (pid,),
            pid=pid,
            name=cells.get("Process Name", ""),
            host=cells.get("Host Name", ""),
        )
        major, _, minor = cells.get("CC", "").partition(".")
        index = _whole(cells, "Device") or 0
        device = self._row(
            "device",
            (index,),
            gpu_index=index,
            compute_major=int(major) if major.isdecimal() else None,
            compute_minor=int(minor) if minor.isdecimal() else None,
        )
        native = _whole(cells, "Context") or 0
        context = self._row(
            "context", (process, native), process_id=process, device_id=device, native_id=native
        )
        native = _whole(cells, "Stream") or 0
        stream = self._row(
            "stream", (context, native), process_id=process, context_id=context, native_id=native
        )
        name = cells.get("Kernel Name", "")
        sizes: dict[str, int] = {}
        for what in ("Block", "Grid"):
            size = _SIZE.fullmatch(cells.get(f"{what} Size", ""))
            for place, axis in enumerate("xyz"):
                sizes[f"{what.lower()}_{axis}"] = _below(size[place + 1], _MOST) if size else 0
            if math.prod(sizes.values()) >= 1 << 63:
                raise ValueError(f"{what} Size is too large")
        return self._row(
            "profiled_kernel",
            (process, number),
            launch_number=number,
            process_id=process,
            device_id=device,
            context_id=context,
            stream_id=stream,
            name=name,
            short_name=re.split(r"[<(]", name.removeprefix("void "))[0].rpartition("::")[2],
            **sizes,
        )

    def metric(self, launch: int, name: str, unit: str, text: str) -> int:
        """Add a metric, and return its row."""
        base, power = base_unit(unit)
        number, whole, rest = _value(text, power)
        return self.tables["kernel_metric"].add(
            profiled_kernel_id=launch,
            name=name,
            unit=base or None,
            value=number,
            integer=whole,
            text=rest,
            instances=int(not text),
        )

    def line(self, launch: int, cells: Mapping[str, str]) -> None:
        """Add a line of the page details: a metric or a message of a rule."""
        title = cells.get(_SECTION, "")
        label, rule = cells.get(_LABEL, ""), cells.get(_RULE, "")
        position = self.tables["kernel_section"].count
        if rule:  # which has the identifier of its section, where metrics have the title
            self._row(
                "kernel_section",
                (launch, "rules", title),
                profiled_kernel_id=launch,
                position=position,
                identifier=title,
                title=title,
            )
            kind = cells.get("Estimated Speedup Type", "")
            percent = _value(cells.get("Estimated Speedup", ""), 0)[0]
            self.tables["kernel_rule"].add(
                profiled_kernel_id=launch,
                position=position,
                section=title,
                rule=rule,
                kind=_number_of(MESSAGE_KINDS, _KINDS.get(cells.get("Rule Type", ""), "none")),
                text=cells.get("Rule Description", ""),
                speedup_kind=_number_of(SPEEDUP_KINDS, kind) if kind else None,
                speedup_percent=percent,
            )
            return
        section = self._row(
            "kernel_section",
            (launch, title),
            profiled_kernel_id=launch,
            position=position,
            identifier=None,
            title=title,
        )
        name = label if "__" in label else f"{title}: {label}"
        unit, value = cells.get("Metric Unit", ""), cells.get("Metric Value", "")
        metric = self.metric(launch, name, unit, value)
        self.tables["section_metric"].add(
            kernel_section_id=section, label=label, name=name, kernel_metric_id=metric
        )


def read(path: Path) -> MemorySource:
    """Read a page. Raises InputError if it cannot be used."""
    rows = _rows(path)
    headings = next(rows, [])
    pages = Pages()
    is_details = _SECTION in headings
    metrics = [place for place, name in enumerate(headings) if name not in _FACTS]
    units: Sequence[str] = ()
    for number, row in enumerate(rows):
        if len(row) != len(headings) and not (is_details and len(row) > headings.index(_LABEL)):
            raise _damaged(path, number, f"it has {len(row)} of {len(headings)} cells")
        if not is_details and number == 0:
            units = row
            continue
        cells = dict(zip(headings, row, strict=False))
        try:
            launch = pages.launch(cells)
            if is_details:
                pages.line(launch, cells)
            else:
                for place in metrics:
                    pages.metric(launch, headings[place], units[place], row[place])
        except ValueError as error:
            raise _damaged(path, number, str(error)) from None
    tables = {name: table.columns for name, table in pages.tables.items()}
    page = "details" if is_details else "raw"
    warning = f"{path.name} is the page {page}: values have the digits that ncu printed"
    meta = TraceMeta((path,), FORMAT, "Nsight Compute", warnings=(warning,))
    return MemorySource(tables, meta)


def base_unit(unit: str) -> tuple[str, int]:
    """Return the base unit of a scaled one, and the power of ten of its scale."""
    unit = _FORMER.sub(r"\1", unit)
    if unit in _TIMES:
        return "ns", _TIMES[unit]
    prefixed = _PREFIXED.fullmatch(unit)
    if prefixed is not None:
        before, prefix, name, after = prefixed.groups()
        return f"{before}{name}{after}", _POWERS[prefix]
    rate = _RATE.fullmatch(unit)
    if rate is not None:
        base, power = f"{rate[1]}/s", 9 - _TIMES[rate[2]]
        return ("hz" if base == "cycle/s" else base), power
    return unit, 0


def _rows(path: Path) -> Iterator[list[str]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path} is too large", hint="read the report itself (.ncu-rep)")
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    start = text.find(_HEADINGS)
    try:
        for row in csv.reader(io.StringIO(text[start:], newline="")):
            if row and not (len(row) == 1 and row[0].startswith("==")):  # a message of ncu
                yield row
    except csv.Error as error:
        raise CorruptTraceError(f"{path} is damaged: {error}", hint=_AGAIN) from None


def _damaged(path: Path, number: int, why: str) -> CorruptTraceError:
    return CorruptTraceError(f"{path}: line {number + 2} is damaged: {why}", hint=_AGAIN)


def _whole(cells: Mapping[str, str], name: str) -> int | None:
    text = cells.get(name, "")
    return _below(text, 1 << 63) if text else None


def _below(text: str, limit: int) -> int:
    number = int(text)
    if not 0 <= number < limit:
        raise ValueError(f"{text[:40]} is too large")
    return number


def _value(text: str, power: int) -> tuple[float | None, int | None, str | None]:
    """Return a printed value as number, integer and text."""
    if text in ("", _NO_DATA):
        return None, None, None
    try:
        exact = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None, None, text
    if not exact.is_finite() or "E" in text.upper():
        return float(exact), None, None
    number = float(exact.scaleb(power))
    is_whole = not power and "." not in text and abs(exact) < 1 << 63
    return number if math.isfinite(number) else None, int(exact) if is_whole else None, None


def _number_of(labels: Mapping[int, str], label: str) -> int:
    return next((number for number, name in labels.items() if name == label), 0)
