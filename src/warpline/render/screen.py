"""The summary as one screen of text: a few lines per section, numbers with readable units."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from warpline.frozen import frozen
from warpline.presentation.kernel_names import short_names
from warpline.render import Options
from warpline.render.escaping import display_width, pad, shorten, visible, wrap
from warpline.result import Document, Field, Result, Skipped, Texts
from warpline.units import Unit, format_ns, format_value

_WIDTH = 100  # without a terminal
_HEIGHT = 40
_GAP = "  "
_LEAST_LABEL = 24
_MOST_PATH = 32  # beside numbers, which say more
_FILES = 3  # in the suggested next command
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_SHARES = ("busy_ratio", "span_ratio", "time_ratio", "total_ratio")
_OF_MEMORY = ("memory_peak", "memory_segments")
_OF_KERNELS = ("profiled_kernels", "kernel_samples")  # what warpline kernels prints
_STATES = ("recorded", "empty", "never recorded", "not read", "damaged", "lost")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write the document of `warpline.summary`."""
    sections = {section.name.split(":")[0]: section for section in document.sections}
    processes, holdings = sections.pop("process_sum", None), sections.pop("recording")
    screen = _Screen(options)
    blocks = [
        list(screen.head(document, processes)),
        *screen.tables(list(sections.values())),
        [*screen.holdings(holdings), *screen.next_steps(document)],
    ]
    is_crowded = sum(len(lines) + 1 for lines in blocks) > _HEIGHT
    out.write(("\n" if is_crowded else "\n\n").join("\n".join(lines) for lines in blocks) + "\n")


@frozen
class _Table:
    """A section as texts: labels and columns, each with its heading first."""

    labels: list[str]
    columns: list[list[str]]
    notes: Sequence[str]

    def widths(self) -> list[int]:
        """Return the width of each column."""
        return [max(map(len, column)) for column in self.columns]

    def room(self, width: int) -> int:
        """Return the width left for the label, omitting columns if it is too small."""
        while True:
            left = width - sum(len(_GAP) + column for column in self.widths())
            if left >= _LEAST_LABEL or not self.columns:
                return left
            self.columns.pop()


class _Screen:
    """Builds lines that fit the width of the screen."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._width = options.width or _WIDTH
        self._ellipsis = "…" if options.unicode else "..."

    def head(self, document: Document, processes: Result | Skipped | None) -> Iterator[str]:
        """Yield the facts: file, producer, time, command, processes."""
        meta = document.meta
        yield self._style(self._fit(document.title), _BOLD)
        if meta.get("ended"):
            yield from (self._style(line, _BOLD) for line in self._wrap(_GAP + meta["ended"]))
        version = f" {meta['format_version']}" if meta["format_version"] else ""
        facts = [f"{meta['producer'] or 'unknown producer'} ({meta['format']}{version})"]
        if meta["host"]:
            facts.append(f"host {meta['host']}")
        if meta["origin_utc_ns"] is not None:
            facts.append(_utc(meta["origin_utc_ns"]))
        span_ns, recorded_ns = meta["span_ns"], meta["recorded_ns"]
        part = "" if recorded_ns == span_ns else f"{format_ns(recorded_ns)} of "
        if span_ns or not _has_counters(document):
            facts.append(f"{part}{format_ns(span_ns)} recorded")
        yield from self._wrap(_GAP + ", ".join(facts))
        if meta["command"]:
            yield self._fit(f"{_GAP}command: {meta['command']}")
        if isinstance(processes, Result) and len(processes):
            yield self._list(_GAP + processes.title.lower(), _labels(processes))

    def tables(self, sections: Sequence[Result | Skipped]) -> Iterator[list[str]]:
        """Yield the lines of each section, with aligned labels."""
        tables = [
            self._table(section) if isinstance(section, Result) and len(section) else None
            for section in sections
        ]
        present = [table for table in tables if table is not None]
        room = min((table.room(self._width) for table in present), default=0)
        labels = (label for table in present for label in table.labels)
        label_width = min(room, max(map(display_width, labels), default=0))
        for section, table in zip(sections, tables, strict=True):
            if table is not None:
                yield list(self._lines(table, label_width))
            else:
                lines = (part for line in _absence(section) for part in self._wrap(line))
                yield [self._style(line, _DIM) for line in lines]

    def holdings(self, holdings: Result | Skipped) -> Iterator[str]:
        """Yield which tables are recorded, a line per state."""
        by_state: dict[str, list[str]] = {state: [] for state in _STATES}
        for state, table, rows in holdings.rows() if isinstance(holdings, Result) else ():
            count = f" {rows:,}" if rows else ""
            by_state.setdefault(state, []).append(f"{table}{count}")
        for state, items in by_state.items():
            if items:
                yield self._style(self._list(state, items), _DIM)

    def next_steps(self, document: Document) -> Iterator[str]:
        """Yield the suggested next commands."""
        paths = document.meta["paths"]
        files = [self._clean(shlex.quote(path)) for path in paths[:_FILES]]
        more = ["..."] if len(paths) > _FILES else []
        has_devices = any(
            isinstance(section, Result) and section.name == "device_sum" and len(section)
            for section in document.sections
        )
        command = "memory" if _is_memory_snapshot(document) else "stats"
        command = "kernels" if _has_counters(document) else command
        command = "analyze" if has_devices else command
        named = " ".join(files + more)
        yield f"next: warpline {command} {named}"
        for suggestion in document.suggestions:
            yield self._fit("      " + suggestion.replace("{files}", named))

    def _table(self, section: Result) -> _Table:
        labels = _labels(section)
        if section.name.startswith("kernel_sum"):
            labels = list(map(short_names(labels).__getitem__, labels))
        labels = [self._clean(label) for label in (section.title, *labels)]
        columns = []
        for field in section.fields:
            values = section.columns[field.name].to_list()
            is_shown = field.unit is not Unit.COUNT or any(values)
            if field.name not in section.key and is_shown:
                cells = [self._clean(_cell(field, value)) for value in values]
                if field.name == "file":
                    cells = list(map(self._end, cells))
                columns.append([_heading(field, section), *cells])
        return _Table(labels, columns, section.notes)

    def _lines(self, table: _Table, label_width: int) -> Iterator[str]:
        widths = table.widths()
        for place, (label, *cells) in enumerate(zip(table.labels, *table.columns, strict=True)):
            shown = pad(self._cut(label, label_width), label_width)
            numbers = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
            line = _GAP.join((shown, *numbers))
            yield line if place else self._style(line, _BOLD)
        for note in table.notes:
            yield from (self._style(line, _DIM) for line in self._wrap(_GAP + note))

    def _list(self, title: str, items: Sequence[str]) -> str:
        """Return ``title: a, b and 3 more``, with as many items as fit."""
        best, line = "", f"{title}: "
        for count, item in enumerate(items, 1):
            line += f", {self._clean(item)}" if count > 1 else self._clean(item)
            if display_width(line) > self._width:
                break
            rest = f" and {len(items) - count} more" if count < len(items) else ""
            if display_width(line + rest) <= self._width:
                best = line + rest
        return best or self._fit(line)

    def _clean(self, text: str) -> str:
        return visible(text, unicode=self._options.unicode)

    def _cut(self, label: str, width: int) -> str:
        """Shorten a label: a template at its end, because its first arguments matter most."""
        if "<" in label and label.isascii() and len(label) > width:
            return label[: width - len(self._ellipsis)] + self._ellipsis
        return shorten(label, width, self._ellipsis)

    def _end(self, path: str) -> str:
        """Return a path, or the end of a long one from a separator on."""
        if display_width(path) <= _MOST_PATH:
            return path
        rest = path[len(self._ellipsis) - _MOST_PATH :]
        return self._ellipsis + rest[max(rest.find("/"), 0) :]

    def _wrap(self, text: str) -> list[str]:
        """Return lines of prose; those after the first are indented."""
        return [self._fit(line) for line in wrap(self._clean(text), self._width, _GAP * 2)]

    def _fit(self, text: str) -> str:
        return shorten(self._clean(text), self._width, self._ellipsis)

    def _style(self, text: str, code: str) -> str:
        return f"{code}{text}{_RESET}" if self._options.color else text


def _is_memory_snapshot(document: Document) -> bool:
    return any(section.name in _OF_MEMORY for section in document.sections)


def _has_counters(document: Document) -> bool:
    sections = document.sections
    return any(isinstance(section, Result) and section.name in _OF_KERNELS for section in sections)


def _absence(section: Result | Skipped) -> Iterator[str]:
    """Yield why a section is empty, and how to record its data."""
    if isinstance(section, Result):
        yield f"{section.name}: no rows"
        return
    yield f"{section.name}: {section.reason}"
    if section.hint:
        yield f"{_GAP}{section.hint}"


def _labels(section: Result) -> list[str]:
    """Return the label of each row: its key, such as ``0 NVIDIA H200``."""
    columns = [section.columns[name] for name in section.key]
    gap = ", " if isinstance(columns[0], Texts) else " "
    rows = zip(*(column.to_list() for column in columns), strict=True)
    return [gap.join(str(part) for part in row if part is not None) for row in rows]


def _heading(field: Field, section: Result) -> str:
    """Return a heading without the unit, which every cell shows."""
    is_only = "self_ratio" not in section.columns  # of what a row does itself
    if field.unit is Unit.RATIO and field.name in _SHARES and is_only:
        return "share"
    return field.name.removesuffix(f"_{field.unit.value}")


def _cell(field: Field, value: Any) -> str:
    if value is None:
        return "-"
    return format_value(value, field.unit)


def _utc(origin_utc_ns: int) -> str:
    moment = _EPOCH + timedelta(microseconds=origin_utc_ns // 1000)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
