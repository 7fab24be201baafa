"""Pack a trace and its diagnosis into a container for the page."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from warpline import __version__
from warpline.derived import forget_others
from warpline.derived.steps.times import steps
from warpline.result import Diagnosis, Result, Skipped, source_name
from warpline.schema.labels import SEVERITIES
from warpline.trace import Run, Trace
from warpline.units import format_bytes, plural
from warpline.viewer import focus
from warpline.viewer.attributes import EVENT_TABLES, write_attributes
from warpline.viewer.axes import axis_max, value_range
from warpline.viewer.clocks import with_clock_errors
from warpline.viewer.container import VERSION, Block, BlockWriter, Container, write_events
from warpline.viewer.device_rows import device_rows
from warpline.viewer.exact_sums import write_sums
from warpline.viewer.host_rows import host_rows
from warpline.viewer.names import CATEGORIES, Names, cut
from warpline.viewer.overview import Overview, bin_count
from warpline.viewer.rows import Events, Row
from warpline.viewer.sample_groups import within_limit
from warpline.viewer.sample_rows import SampleStacks
from warpline.viewer.sampled_rows import machine_rows
from warpline.viewer.step_rows import step_rows
from warpline.viewer.thinning import Thinned, Thinner, kept_windows

_MAX_RESULT_ROWS = 5_000
_MAX_LOSSES = 500
_LARGEST_TIME = 1 << 53  # smaller integers are exact in the page
_TRIES = 4
_SPARE = 0.04  # of the size limit: enough of it is used
_BASE64 = 4 / 3
LINKS = (
    {"name": "launch", "table": "api_call", "text": "launched by"},
    {"name": "blame", "table": "api_call", "text": "waiting for"},
    {"name": "forward", "table": "range", "text": "backward of"},
    {"name": "forward_op", "table": "op", "text": "backward of"},
)


class TableOfStats(NamedTuple):
    """A table of the page or the reason why it is missing, and the command that prints it."""

    result: Result | Skipped
    command: str


def pack(
    run: Run,
    diagnosis: Diagnosis,
    tables: Sequence[TableOfStats] = (),
    *,
    max_bytes: int | None = None,
) -> Container:
    """Return the container of a trace.

    Args:
        run: The trace to show, and the choice of its steps.
        diagnosis: Its diagnosis.
        tables: Tables to include.
        max_bytes: Size limit, as of `Packer.within`; None for all events.
    """
    packer = Packer(run, diagnosis, tables)
    return packer.whole if max_bytes is None else packer.within(max_bytes)


def report_bytes(container: Container) -> int:
    """Return the size of head and blocks in a report, with blocks in base64."""
    blocks = sum(math.ceil(len(block.data) / 3) * 4 for block in container.blocks)
    return blocks + len(container.head_json("inline"))


class Frame:
    """The content of a container except the events.

    Args:
        run: The trace to show, and the choice of its steps.
        names: Names of all rows.
        rows: Rows in display order.
    """

    def __init__(self, run: Run, names: Names, rows: Sequence[Row]) -> None:
        self._run, self._names, self._rows = run, names, rows
        self.span = span_of(run.trace, rows)
        is_exact = max(map(abs, self.span)) < _LARGEST_TIME
        self.offset_ns = 0 if is_exact else self.span[0]
        self._overview = Overview(len(rows), *self.span)
        self._stacks = SampleStacks(run.trace, names)
        self._described: list[dict[str, Any]] = []

    def loaded(self) -> Iterator[Events]:
        """Yield the loaded events of each row, and take the overview and the totals from them."""
        categories = self._names.categories()
        for place, row in enumerate(self._rows):
            events = row.events.loaded()
            self._overview.add(place, events, categories)
            self._described.append(_row(row, events))
            yield events

    @cached_property
    def step_lists(self) -> list[dict[str, Any]]:
        """The steps on each device, as in the head."""
        return focus.step_lists(self._run, self.offset_ns)

    @staticmethod
    def begin(writer: BlockWriter) -> None:
        """Reserve the first blocks, whose content is known last."""
        writer.add("overview", b"")
        writer.add("names", b"")

    def finish(
        self,
        writer: BlockWriter,
        diagnosis: Diagnosis | None,
        tables: Sequence[TableOfStats],
        more: Mapping[str, Any],
        parts: Sequence[list[dict[str, Any]]] | None = None,
        sums: Mapping[str, dict[str, Any]] | None = None,
    ) -> Container:
        """Return the container.

        Args:
            writer: Has all blocks of events and attributes.
            diagnosis: None while it is being computed.
            tables: Tables to include.
            more: Additional entries of the head.
            parts: Location of each row's events; None if they are not in the container.
            sums: Additional entries of rows that lack events, by row id: their exact sums.
        """
        if not self._described:
            deque(self.loaded(), maxlen=0)
        places = self._names.places_of()
        results = [
            _result(writer, table.result, table.command, places)
            for table in tables
            if isinstance(table.result, Result)
        ]
        absent = [table.result for table in tables if isinstance(table.result, Skipped)]
        stacks = self._stacks.write(writer)
        writer.replace(0, self._overview.content())
        writer.replace(1, _json(self._names.content()))
        blocks = writer.blocks()
        head = {
            **self._facts(diagnosis),
            "blocks": [
                {"kind": block.kind, "raw_bytes": block.raw_bytes, "bytes": len(block.data)}
                for block in blocks
            ],
            "rows": [
                {**row, "parts": parts[place] if parts else [], **(sums or {}).get(row["id"], {})}
                for place, row in enumerate(self._described)
            ],
            "stacks": stacks,
            "results": results,
            "absent": {table.name: table.reason for table in absent},
            **more,
        }
        return Container(head, blocks)

    def _facts(self, diagnosis: Diagnosis | None) -> dict[str, Any]:
        """Return the entries of the head about the whole recording."""
        trace, offset_ns = self._run.trace, self.offset_ns
        low, high = self.span
        origin = trace.meta.origin_utc_ns
        ids = [row.id for row in self._rows]
        views = [] if diagnosis is None else focus.focuses(trace, diagnosis, ids, offset_ns)
        return {
            "container_version": VERSION,
            "producer": f"warpline {__version__}",
            "title": source_name(trace.meta.paths) if diagnosis is None else diagnosis.title,
            "start_ns": low - offset_ns,
            "end_ns": high - offset_ns,
            "offset_ns": str(offset_ns),
            "origin_utc_ns": None if origin is None else str(origin + offset_ns),
            "overview_bins": bin_count(len(self._rows)),
            "tables": list(EVENT_TABLES),
            "categories": [category._asdict() for category in CATEGORIES],
            "links": list(LINKS),
            "steps": self.step_lists,
            "findings": views,
            "summary": {} if diagnosis is None else plain_json(diagnosis.to_dict()),
            "environment": [list(pair) for pair in environment(trace)],
            "losses": list(_losses(trace, offset_ns)),
        }


class Packer:
    """Packs a trace, with all of its events or fewer.

    Args:
        run: The trace to show, and the choice of its steps.
        diagnosis: Its diagnosis.
        tables: Tables to include.
    """

    def __init__(
        self,
        run: Run,
        diagnosis: Diagnosis,
        tables: Sequence[TableOfStats] = (),
    ) -> None:
        self._run, self._diagnosis, self._tables = run, diagnosis, tables
        self._names = Names(run.trace.strings)
        self._complete = kept_windows(run, diagnosis)
        rows = tuple(timeline_rows(run, self._names))
        self._rows = rows = within_limit(rows, self._complete)
        self._frame = Frame(run, self._names, rows)
        _ = self._frame.step_lists  # the last that needs what the rows were made of
        forget_others(run.trace, steps)

    @cached_property
    def whole(self) -> Container:
        """The container of all events."""
        return self._packed(self._frame.loaded(), None)

    def within(self, max_bytes: int) -> Container:
        """Return the container with as many events as fit into a size.

        Short events are omitted, those of the CPU before those of the GPU. The container marks
        where, and has the exact sums of their rows. It can still exceed the limit, because the rest
        of the content is not reduced.

        Args:
            max_bytes: Size limit for head and blocks in a report.
        """
        size = report_bytes(self.whole)
        if size <= max_bytes:
            return self.whole
        budget = float(max_bytes - size + sum(self._sizes.values()))
        thinner = self._thinner(max_bytes)
        best: tuple[int, Container] | None = None
        for _ in range(_TRIES):
            container = self._thinned(thinner.to(budget))
            spare = max_bytes - report_bytes(container)
            if spare >= 0 and (best is None or spare < best[0]):
                best = spare, container
            if 0 <= spare <= _SPARE * max_bytes:
                break
            budget += spare - _SPARE / 2 * max_bytes
        return self._thinned(thinner.to(0.0)) if best is None else best[1]

    def _thinner(self, limit: int) -> Thinner:
        categories = self._names.categories()
        return Thinner(self._rows, self._sizes, categories, self._frame.span, self._complete, limit)

    @cached_property
    def _sizes(self) -> dict[str, float]:
        return _sizes(self.whole)

    def _thinned(self, thinned: Thinned) -> Container:
        return self._packed((row.events for row in thinned.rows), thinned)

    def _packed(self, rows: Iterable[Events], thinned: Thinned | None) -> Container:
        """Return the container of some events of each row."""
        writer = BlockWriter()
        self._frame.begin(writer)
        offset_ns = self._frame.offset_ns
        parts = [write_events(writer, events, offset_ns) for events in rows]
        exact = {} if thinned is None else thinned.sums
        sums = {row: {"sums": write_sums(writer, own)} for row, own in exact.items()}
        blocks, described = self._attributes
        first = writer.extend(blocks)
        attributes = [{**item, "block": item["block"] + first} for item in described]
        more = {"attributes": attributes, "thinned": thinned and thinned.head(offset_ns)}
        return self._frame.finish(writer, self._diagnosis, self._tables, more, parts, sums)

    @cached_property
    def _attributes(self) -> tuple[tuple[Block, ...], list[dict[str, Any]]]:
        """Return the attribute blocks, numbered from 0, and their descriptions."""
        writer = BlockWriter()
        described = write_attributes(writer, self._run.trace, self._names)
        return writer.blocks(), described


def timeline_rows(run: Run, names: Names) -> Iterator[Row]:
    """Yield all rows of a timeline in display order; steps directly follow their group's header."""
    trace = run.trace
    rows = (*device_rows(trace, names), *host_rows(trace, names), *machine_rows(trace, names))
    steps_of = step_rows(run, names)
    for row in with_clock_errors(trace, rows):
        yield row
        yield from steps_of.get(row.id, ())


def span_of(trace: Trace, rows: Sequence[Row]) -> tuple[int, int]:
    """Return start and end of the timeline: the trace's span, extended to include all events."""
    low, high = trace.span()
    spans = [row.events.span_ns for row in rows if len(row.events)]
    low = min([low, *(start for start, _ in spans)])
    high = max([high, *(end for _, end in spans)])
    return low, max(high, low + 1)


def _row(row: Row, events: Events) -> dict[str, Any]:
    """Return the description of a row in the head, without the places of its events."""
    lowest, highest = value_range(events)
    return {
        "id": row.id,
        "parent": row.parent,
        "label": cut(row.label),
        "kind": row.kind,
        "device": row.device,
        "process": row.process,
        "thread": row.thread,
        "stream": row.stream,
        "table": None if row.table is None else EVENT_TABLES.index(row.table),
        "count": len(events) if row.recorded is None else row.recorded,
        "busy_ns": 0 if row.kind == "counter" else _time_of(events),
        "depth": row.depth,
        "collapsed": row.is_collapsed,
        "hidden": highest == 0 and not row.is_sampled,
        "unit": row.unit,
        "title": None if row.title is None else cut(row.title),
        "min": lowest,
        "max": highest,
        "axis_max": axis_max(highest, row.axis_max, row.unit),
        "sampled": row.is_sampled,
        "clock_error_ns": row.clock_error_ns,
    }


def _time_of(events: Events) -> int:
    return int((events.end_ns - events.start_ns).sum())


def _sizes(container: Container) -> dict[str, float]:
    """Return the size of each row's events in a report, by row id."""
    sizes = {}
    blocks = container.blocks
    for row in container.head["rows"]:
        taken = 0.0
        for part in row["parts"]:
            block = blocks[part["block"]]
            raw = part["count"] * sum(column["planes"] for column in part["columns"])
            taken += raw / max(block.raw_bytes, 1) * len(block.data)
        sizes[row["id"]] = taken * _BASE64
    return sizes


def _result(
    writer: BlockWriter, table: Result, command: str, places: dict[str, list[int]]
) -> dict[str, Any]:
    result = table.head(_MAX_RESULT_ROWS)
    content: dict[str, Any] = {
        "columns": [
            {"name": item.name, "title": item.heading, "unit": item.unit.value or "none"}
            for item in result.fields
        ],
        "rows": list(result.rows()),
        "doc": {item.name: item.doc for item in result.fields},
        "notes": list(result.notes),
    }
    if "name" in result.columns:
        texts = result.columns["name"].to_list()
        content["names"] = [places.get(text, []) if isinstance(text, str) else [] for text in texts]
    title = table.title
    if len(table) > _MAX_RESULT_ROWS:
        content["row_count"] = len(table)
        title += f" (first {_MAX_RESULT_ROWS:,} of {plural(len(table), 'row')})"
    block = writer.add("results", _json(content))
    return {"name": result.name, "title": title, "command": command, "block": block}


def environment(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yield the facts about the recording and the machine as names and values."""
    meta = trace.meta
    yield "Recording", ", ".join(path.name for path in meta.paths)
    yield "Recorded by", meta.producer or "unknown"
    yield "Format", f"{meta.format} {meta.format_version or ''}".strip()
    if meta.command:
        yield "Command", meta.command
    if meta.host:
        yield "Host", meta.host
    if trace.has("device"):
        yield from _devices(trace)
    yield from meta.environment.items()
    for subject, count in meta.lost.items():
        yield "Dropped", subject if count is None else f"{subject}: {count:,}"
    for table, count in meta.unread.items():
        yield "Not read", f"{table}: {plural(count, 'row')}"
    for table, reason in meta.damaged.items():
        yield "Damaged", f"{table}: {reason}"
    for table, cost in meta.record_cost_ns.items():
        yield "Profiling overhead", f"{cost:.0f} ns per row of {table}"


def _devices(trace: Trace) -> Iterator[tuple[str, str]]:
    keys = ("gpu_index", "name_id", "uuid_id", "memory_bytes", "sm_count")
    columns = [trace.columns("device", key)[key].to_list() for key in keys]
    for index, name, uuid, memory, multiprocessors in zip(*columns, strict=True):
        facts = [] if name is None else [trace.strings.text(name)]
        facts += [] if memory is None else [format_bytes(memory)]
        facts += [] if multiprocessors is None else [f"{multiprocessors} SMs"]
        facts += [] if uuid is None else [trace.strings.text(uuid)]
        yield f"GPU {index}", ", ".join(facts)


def _losses(trace: Trace, offset_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the producer's warnings and errors with their times."""
    if not trace.has("diagnostic"):
        return
    columns = trace.columns("diagnostic", "time_ns", "severity", "text_id")
    severity = columns["severity"].values
    grave = [key for key, label in SEVERITIES.items() if label in {"Warning", "Error"}]
    for row in np.flatnonzero(np.isin(severity, grave))[:_MAX_LOSSES].tolist():
        text = trace.strings.text(int(columns["text_id"].values[row]))
        yield {"time_ns": int(columns["time_ns"].values[row]) - offset_ns, "text": text}


def plain_json(value: Any) -> Any:
    """Return the value with plain Python numbers, and None for non-finite numbers."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, np.generic):
        return plain_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _json(value: Any) -> bytes:
    try:
        return _encoded(value)
    except ValueError:  # a number that is not finite, as few results have
        return _encoded(plain_json(value))


def _encoded(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=plain_json)
    return text.encode()
