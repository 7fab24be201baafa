"""A report of Nsight Compute as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from warpline.readers.ncu import modules
from warpline.readers.ncu.launches import Launches
from warpline.readers.ncu.meta import meta_of
from warpline.readers.ncu.metrics import InstanceColumns, scan
from warpline.readers.ncu.report import Entry, Report
from warpline.readers.ncu.rules import messages_of
from warpline.readers.ncu.sections import Section, section_of
from warpline.readers.ncu.values import columns_of, value_of
from warpline.readers.ncu.wire import Message
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool

Columns = dict[str, ColumnData]


class NcuSource:
    """A TableSource over one report. Opening finds its blocks; tables are read on request.

    Args:
        report: The report.

    Raises:
        CorruptTraceError: A table is damaged, when it is requested.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self.strings = StringPool()
        self._made: dict[str, Columns] = {}
        # Most launches have the same sections, byte by byte.
        self._sections: dict[tuple[bytes, int], Section] = {}
        self._makers: dict[str, Callable[[], Columns]] = {
            **{name: self._of_launches(name) for name in Launches.TABLES},
            "metric_instance": self._instances,
            "kernel_section": self._kernel_sections,
            "section_metric": self._section_metrics,
            "kernel_rule": self._rules,
            "kernel_instruction": self._instructions,
            "source_line": self._source_lines,
            "device_attribute": self._device_attributes,
        }

    @cached_property
    def meta(self) -> TraceMeta:
        """Facts about the report."""
        return meta_of(self._report)

    def tables(self) -> Sequence[str]:
        """Return the tables of a report."""
        return [*self._makers]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        if table == "metric_instance":
            return int(self._columns("kernel_metric")["instances"].values.sum())
        columns = self._columns(table)
        return len(next(iter(columns.values())))

    def load(self, table: str, columns: Sequence[str]) -> Columns:
        """Return columns; see TableSource."""
        made = self._columns(table)
        return {name: made[name] for name in columns if name in made}

    def _columns(self, table: str) -> Columns:
        if table not in self._made:
            self._made[table] = self._makers[table]()
        return self._made[table]

    @cached_property
    def _launches(self) -> Launches:
        return Launches(self._report, self.strings)

    def _of_launches(self, table: str) -> Callable[[], Columns]:
        return lambda: self._launches.columns(table)

    def _results(self) -> Iterator[tuple[int, Entry, Message]]:
        """Yield the launches with their rows in `profiled_kernel`."""
        for row, entry in enumerate(self._launches.entries):
            yield row, entry, self._report.message(entry)

    def _instances(self) -> Columns:
        counts = self._columns("kernel_metric")["instances"].values
        rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        columns = InstanceColumns(rows, self.strings.intern)
        first = 0
        for _, entry, result in self._results():
            with self._report.damage(f"the metrics of the kernel at byte {entry.start:,}"):
                parts, spans, size = [], [], 0
                for data in result.all_raw(13):
                    found = np.array(scan(data)[2], np.int64)
                    if len(found):
                        spans.append(found + size)
                        parts.append(data)
                        size += len(data)
                if spans:
                    places = np.concatenate(spans).reshape(-1, 2)
                    columns.fill(first, b"".join(parts), places)
                    first += len(places)
        return columns.columns()

    def _sections_of(self, row: int, entry: Entry, result: Message) -> list[Section]:
        """Return the sections of a launch in the order in which they are shown."""
        chip = self._launches.chips[row]
        with self._report.damage(f"the sections of the kernel at byte {entry.start:,}"):
            keys = [(data, chip) for data in result.all_raw(17)]
            for key in keys:
                if key not in self._sections:
                    self._sections[key] = section_of(*key)
            sections = [self._sections[key] for key in keys]
        return sorted(sections, key=lambda section: (section.order, section.title))

    @cached_property
    def _all_sections(self) -> list[list[Section]]:
        return [self._sections_of(*found) for found in self._results()]

    def _kernel_sections(self) -> Columns:
        rows = [
            (launch, position, section.identifier, section.title)
            for launch, sections in enumerate(self._all_sections)
            for position, section in enumerate(sections)
        ]
        return self._table("kernel_section", rows)

    def _section_metrics(self) -> Columns:
        places = self._launches.metric_rows
        intern = self.strings.intern
        rows, row = [], 0
        for launch, sections in enumerate(self._all_sections):
            for section in sections:
                rows += [
                    (row, line.label, line.name, places.get((launch, intern(line.name))))
                    for line in section.lines
                ]
                row += 1
        return self._table("section_metric", rows)

    def _rules(self) -> Columns:
        rows = []
        for row, entry, result in self._results():
            sections = self._all_sections[row]
            position = {section.identifier: i for i, section in enumerate(sections)}
            with self._report.damage(f"the rules of the kernel at byte {entry.start:,}"):
                said = [m for rule in result.messages(19) for m in messages_of(rule)]
            rows += [
                (
                    row,
                    position.get(message.section or b"", len(sections)),
                    message.section,
                    message.rule,
                    message.kind,
                    message.title,
                    message.text,
                    message.speedup_kind,
                    message.speedup_percent,
                )
                for message in said
            ]
        return self._table("kernel_rule", rows)

    def _instructions(self) -> Columns:
        rows = [
            (process, None, name, offset, address, bits.hex().encode(), *places)
            for process, name, offset, address, bits, *places in modules.instructions(
                self._report, self._sources
            )
        ]
        return self._table("kernel_instruction", rows)

    @cached_property
    def _sources(self) -> list[modules.SourceLine]:
        return list(modules.source_lines(self._report))

    def _source_lines(self) -> Columns:
        return self._table("source_line", self._sources)

    def _device_attributes(self) -> Columns:
        found = []
        with self._report.damage("the session"):
            for session in self._report.sessions:
                for device in session.messages(6):
                    row = self._launches.device_row(device.number(1))
                    found += [
                        (row, of.raw(1) or b"", value_of(of.raw(2) or b""))
                        for of in device.messages(3)
                        if row is not None
                    ]
        table = self._table("device_attribute", [(row, name) for row, name, _ in found])
        return {**table, **columns_of([value for *_, value in found], self.strings.intern)}

    def _table(self, table: str, rows: Sequence[tuple[object, ...]]) -> Columns:
        """Return the first columns of a table, from tuples with texts as bytes."""
        specs = TABLES[table].columns
        count = len(rows[0]) if rows else len(specs)
        made = {}
        for place, spec in enumerate(specs[:count]):
            values = [row[place] for row in rows]
            valid = np.array([value is not None for value in values], np.bool_)
            intern = self.strings.intern
            numbers = [
                intern(value) if isinstance(value, bytes) else 0 if value is None else value
                for value in values
            ]
            made[spec.name] = make_column(spec, np.array(numbers, spec.dtype.value), valid)
        return made
