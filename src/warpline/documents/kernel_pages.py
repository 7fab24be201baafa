"""The profiled launches of a trace, chosen by the filters of ncu, for `warpline kernels`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from warpline.errors import MissingTableError, UsageError
from warpline.frozen import frozen
from warpline.result.kernel_pages import (
    Instruction,
    KernelMetric,
    LaunchGroup,
    Listing,
    MetricNumber,
    PageSection,
    PageTable,
    ProfiledLaunch,
    RuleMessage,
    Spread,
)
from warpline.schema import TABLES
from warpline.trace import Trace

_NAMES = {"function": "short_name", "demangled": "name", "mangled": "mangled_name"}
_PASSES = "profiler__replayer_passes"
_REGEX = "regex:"
# Nsight Compute shows integers among template arguments without their type.
_CAST = re.compile(r"(?<=[<\s])\(int\)(?=-?\d)")


@frozen
class Choice:
    """Which launches to show, as ncu's filters say it.

    Attributes:
        name: ``--kernel-name``: a name, or ``regex:`` and an expression; None takes all.
        name_base: ``--kernel-name-base``: what the name is compared with.
        ids: ``--kernel-id``: ``context:stream:name:invocation`` each; a launch must match one.
        skip: ``--launch-skip``: launches to skip, of those that the other filters take.
        count: ``--launch-count``: launches to take after them; None takes all.
        skip_before_match: ``--launch-skip-before-match``: launches to skip, whatever their name.
        sections: ``--section``: identifiers of sections to show; empty takes all.
        metrics: ``--metrics``: names of metrics to return; empty takes all.
    """

    name: str | None = None
    name_base: str = "function"
    ids: tuple[str, ...] = ()
    skip: int = 0
    count: int | None = None
    skip_before_match: int = 0
    sections: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


def launches(
    trace: Trace, choice: Choice, *, shown_name: str = "demangled", with_instances: bool = False
) -> list[ProfiledLaunch]:
    """Return the chosen launches, by report and ID.

    Args:
        trace: The trace.
        choice: Which launches.
        shown_name: The name to show: ``function``, ``demangled`` or ``mangled``.
        with_instances: Whether to return the values of instances, too.

    Raises:
        MissingTableError: The trace has no profiled launches.
        UsageError: A filter is malformed.
    """
    _require(trace)
    table = _Rows(trace, "profiled_kernel")
    rows = _chosen(trace, table, choice)
    metrics = _metrics(trace, rows, with_instances=with_instances)
    sections = _sections(trace, metrics, _any_of(choice.sections))
    is_taken = _any_of(choice.metrics)
    return [
        _launch(trace, table, row, shown_name, metrics[row], is_taken, sections.get(row, ()))
        for row in rows
    ]


class _Rows:
    """The rows of a table as Python values, with texts and labels."""

    def __init__(self, trace: Trace, table: str) -> None:
        spec = TABLES[table]
        self.columns: dict[str, list[Any]] = {}
        if not trace.has(table):
            self.columns = {column.name.removesuffix("_id"): [] for column in spec.columns}
            return
        loaded = trace.columns(table, *(column.name for column in spec.columns))
        for column in spec.columns:
            values = loaded[column.name].to_list()
            if column.ref == "string":
                texts = {row: trace.strings.text(row) for row in {*values} - {None}}
                self.columns[column.name.removesuffix("_id")] = [texts.get(row) for row in values]
            elif column.labels is not None:
                self.columns[column.name] = [column.labels.get(value) for value in values]
            else:
                self.columns[column.name] = values

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _chosen(trace: Trace, table: _Rows, choice: Choice) -> list[int]:
    """Return the rows of the chosen launches."""
    files = trace.meta.file_of_process
    processes = table["process_id"]
    order = sorted(
        range(len(table)),
        key=lambda row: (files[processes[row]] if files else 0, table["launch_number"][row]),
    )
    order = order[choice.skip_before_match :]
    names = [shown(name or "") for name in table[_NAMES[choice.name_base]]]
    matches = matcher(choice.name) if choice.name is not None else lambda name: True
    rows = [row for row in order if matches(names[row])]
    if choice.ids:
        rows = _with_ids(trace, table, rows, names, choice.ids)
    end = None if choice.count is None else choice.skip + choice.count
    return rows[choice.skip : end]


def _any_of(texts: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a name matches one of some; of none, every name does."""
    matchers = [matcher(text) for text in texts]
    return lambda name: not matchers or any(matches(name) for matches in matchers)


def shown(name: str) -> str:
    """Return the name of a kernel as Nsight Compute shows it."""
    return _CAST.sub("", name)


def matcher(text: str) -> Callable[[str], bool]:
    """Return whether names match a name, or ``regex:`` and an expression found in them.

    Raises:
        UsageError: The expression is invalid.
    """
    if not text.startswith(_REGEX):
        return lambda name: name == text
    try:
        pattern = re.compile(text.removeprefix(_REGEX))
    except re.error as error:
        raise UsageError(f"invalid expression {text!r}: {error}") from None
    return lambda name: pattern.search(name) is not None


def _with_ids(
    trace: Trace, table: _Rows, rows: list[int], names: list[str], ids: Sequence[str]
) -> list[int]:
    """Return the rows that match one of ``context:stream:name:invocation``; empty parts match."""
    contexts, streams = (
        [_native(trace, what, row) for row in table[f"{what}_id"]] for what in ("context", "stream")
    )
    taken = set()
    for text in ids:
        context, stream, name, invocation = _id_parts(text)
        matches = matcher(name) if name else lambda name: True
        calls: Counter[object] = Counter()
        for row in rows:
            if not (
                context in ("", str(contexts[row]))
                and stream in ("", str(streams[row]))
                and matches(names[row])
            ):
                continue
            calls[names[row]] += 1
            if not invocation or _is_invocation(invocation, calls[names[row]]):
                taken.add(row)
    return [row for row in rows if row in taken]


def _id_parts(text: str) -> tuple[str, str, str, str]:
    context, _, rest = text.partition(":")
    stream, _, rest = rest.partition(":")
    name, colon, invocation = rest.rpartition(":")
    if not colon:
        raise UsageError(
            f"invalid --kernel-id {text!r}",
            hint="use CONTEXT:STREAM:NAME:INVOCATION, such as ::vec_add:2; parts may be empty",
        )
    return context, stream, name, invocation


def _is_invocation(text: str, number: int) -> bool:
    if text.isascii() and text.isdecimal():
        return number == int(text)
    return matcher(text)(str(number))


def _native(trace: Trace, table: str, row: int | None) -> int | None:
    if row is None:
        return None
    return int(trace.columns(table, "native_id")["native_id"].values[row])


def _metrics(
    trace: Trace, rows: Sequence[int], *, with_instances: bool
) -> dict[int, dict[str, KernelMetric]]:
    """Return launch -> name -> metric."""
    found: dict[int, dict[str, KernelMetric]] = {row: {} for row in rows}
    table = _Rows(trace, "kernel_metric")
    instances = _instances(trace) if with_instances else {}
    named = zip(
        table["profiled_kernel_id"],
        table["name"],
        table["unit"],
        _values(table),
        table["instances"],
        strict=True,
    )
    for place, (row, name, unit, value, count) in enumerate(named):
        if row in found:
            found[row][name] = KernelMetric(
                name, unit or "", value, count, instances.get(place, ())
            )
    return found


def _instances(
    trace: Trace,
) -> dict[int, tuple[tuple[int | str | None, MetricNumber], ...]]:
    table = _Rows(trace, "metric_instance")
    owners = np.array(table["kernel_metric_id"], np.int64)
    keys = [
        number if text is None else text
        for number, text in zip(table["key"], table["key_text"], strict=True)
    ]
    pairs = list(zip(keys, _values(table), strict=True))
    starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
    return {
        int(owners[start]): tuple(pairs[start:end])
        for start, end in zip(starts, [*starts[1:], len(pairs)], strict=True)
    }


def _values(table: _Rows) -> list[MetricNumber]:
    """Return the values of a table: its texts, then its integers, then its numbers."""
    return [
        text if text is not None else whole if whole is not None else number
        for text, whole, number in zip(
            table["text"], table["integer"], table["value"], strict=True
        )
    ]


def _sections(
    trace: Trace, metrics: dict[int, dict[str, KernelMetric]], is_taken: Callable[[str], bool]
) -> dict[int, list[PageSection]]:
    """Return launch -> the sections that are taken, in their order, also those of rules only."""
    sections, lines, rules = (
        _Rows(trace, name) for name in ("kernel_section", "section_metric", "kernel_rule")
    )
    of_section: dict[int, list[tuple[str, KernelMetric]]] = {}
    for section, label, name in zip(
        lines["kernel_section_id"], lines["label"], lines["name"], strict=True
    ):
        metric = metrics.get(sections["profiled_kernel_id"][section], {}).get(name)
        if metric is not None:
            of_section.setdefault(section, []).append((label, metric))
    said: dict[tuple[int, str], list[RuleMessage]] = {}
    for row in range(len(rules)):
        key = rules["profiled_kernel_id"][row], rules["section"][row] or ""
        said.setdefault(key, []).append(
            RuleMessage(
                rules["rule"][row],
                rules["kind"][row],
                rules["text"][row],
                rules["speedup_kind"][row],
                rules["speedup_percent"][row],
            )
        )
    found: dict[int, list[PageSection]] = {}
    for row, (launch, identifier, title) in enumerate(
        zip(
            sections["profiled_kernel_id"],
            sections["identifier"],
            sections["title"],
            strict=True,
        )
    ):
        found.setdefault(launch, []).append(
            PageSection(
                identifier or "",
                title or "",
                tuple(of_section.get(row, ())),
                tuple(said.pop((launch, identifier or ""), ())),
            )
        )
    for (launch, identifier), messages in said.items():
        found.setdefault(launch, []).append(
            PageSection(identifier, identifier, (), tuple(messages))
        )
    return {
        launch: [section for section in of_launch if is_taken(section.identifier)]
        for launch, of_launch in found.items()
    }


def summaries(
    launches: Sequence[ProfiledLaunch], *, by_kernel: bool, is_raw: bool
) -> list[LaunchGroup]:
    """Return minimum, maximum and mean of the metrics of launches.

    Args:
        launches: The launches.
        by_kernel: Whether launches of one kernel and shape are a group; else those on one GPU.
        is_raw: Whether to summarize all metrics; else those that sections list.
    """
    groups: dict[tuple[object, ...], list[ProfiledLaunch]] = {}
    for launch in launches:
        shape = (launch.name, launch.grid, launch.block) if by_kernel else ()
        groups.setdefault((launch.pid, launch.device, *shape), []).append(launch)
    return [
        LaunchGroup(tuple(group), by_kernel, tuple(_spreads(group, is_raw=is_raw)))
        for group in groups.values()
    ]


def _spreads(launches: Sequence[ProfiledLaunch], *, is_raw: bool) -> Iterator[Spread]:
    listed: dict[tuple[str, str], list[KernelMetric]] = {}
    for launch in launches:
        if is_raw:
            for name, metric in sorted(launch.metrics.items()):
                listed.setdefault(("", name), []).append(metric)
        else:
            for section in launch.sections:
                for label, metric in section.metrics:
                    listed.setdefault((section.title, label), []).append(metric)
    for (section_title, label), metrics in listed.items():
        numbers = [m.value for m in metrics if isinstance(m.value, int | float)]
        if numbers:
            mean = math.fsum(numbers) / len(numbers)
            yield Spread(
                section_title, label, metrics[0].unit, min(numbers), max(numbers), mean
            )


def session(trace: Trace) -> list[PageTable]:
    """Return the facts about the recorded program, its machine and its GPUs.

    Raises:
        MissingTableError: The trace has no profiled launches.
    """
    _require(trace)
    meta = trace.meta
    facts: dict[str, object] = {
        "Report": ", ".join(path.name for path in meta.paths),
        "Profiler": meta.producer,
        "Command line": meta.command,
        "Host": meta.host,
        **meta.software,
    }
    processes = _Rows(trace, "process")
    devices, attributes = _Rows(trace, "device"), _Rows(trace, "device_attribute")
    named: dict[int, list[tuple[str, MetricNumber]]] = {}
    for device, name, value in zip(
        attributes["device_id"], attributes["name"], _values(attributes), strict=True
    ):
        named.setdefault(device, []).append((name.removeprefix("device__attribute_"), value))
    known = [(name, str(value)) for name, value in facts.items() if value]
    started = list(zip(processes["pid"], processes["name"], strict=True))
    return [
        PageTable("Session", ("Fact", "Value"), tuple(known)),
        PageTable("Processes", ("Process ID", "Executable"), tuple(started)),
        *(
            PageTable(
                f"Device {index}: {name or 'unknown'}",
                ("Attribute", "Value"),
                tuple(named.get(row, ())),
            )
            for row, (index, name) in enumerate(
                zip(devices["gpu_index"], devices["name"], strict=True)
            )
        ),
    ]


def listings(trace: Trace, choice: Choice, *, shown_name: str = "demangled") -> list[Listing]:
    """Return the instructions of each chosen launch, with the values of metrics that have some.

    Raises:
        MissingTableError: The trace has no profiled launches.
        UsageError: A filter is malformed.
    """
    chosen = launches(trace, choice, shown_name=shown_name, with_instances=True)
    table = _Rows(trace, "profiled_kernel")
    functions: dict[tuple[int, str], list[Instruction]] = {}
    code = _Rows(trace, "kernel_instruction")
    for row in range(len(code)):
        key = code["process_id"][row], code["function"][row]
        functions.setdefault(key, []).append(
            Instruction(
                code["address"][row], code["encoding"][row], code["file"][row], code["line"][row]
            )
        )
    found = []
    for row, launch in zip(_chosen(trace, table, choice), chosen, strict=True):
        key = table["process_id"][row], table["mangled_name"][row] or table["short_name"][row]
        instructions = functions.get(key, [])
        addresses = {instruction.address for instruction in instructions}
        values = {
            name: at
            for name, metric in sorted(launch.metrics.items())
            for at in ({key: value for key, value in metric.values if key in addresses},)
            if at
        }
        found.append(Listing(launch, tuple(instructions), values))
    return found


def _require(trace: Trace) -> None:
    if not trace.has("profiled_kernel"):
        raise MissingTableError(
            "the recording has no profiled kernels",
            hint="pass a report of Nsight Compute: warpline kernels run.ncu-rep",
        )


def _launch(
    trace: Trace,
    table: _Rows,
    row: int,
    shown_name: str,
    metrics: dict[str, KernelMetric],
    is_taken: Callable[[str], bool],
    sections: Sequence[PageSection],
) -> ProfiledLaunch:
    process, device = table["process_id"][row], table["device_id"][row]
    owner = _Rows(trace, "process")
    gpu = _Rows(trace, "device")
    capability = ""
    if device is not None and gpu["compute_major"][device] is not None:
        capability = f"{gpu['compute_major'][device]}.{gpu['compute_minor'][device] or 0}"
    return ProfiledLaunch(
        table["launch_number"][row],
        owner["pid"][process],
        PurePath(owner["name"][process] or "").name,
        owner["host"][process] or "",
        shown(table[_NAMES[shown_name]][row] or table["name"][row]),
        _native(trace, "context", table["context_id"][row]),
        _native(trace, "stream", table["stream_id"][row]),
        (table["grid_x"][row], table["grid_y"][row], table["grid_z"][row]),
        (table["block_x"][row], table["block_y"][row], table["block_z"][row]),
        None if device is None else gpu["gpu_index"][device],
        capability,
        table["has_fixed_clocks"][row] is False,
        metrics[_PASSES].value if _PASSES in metrics else None,
        {name: metric for name, metric in metrics.items() if is_taken(name)},
        tuple(sections),
    )
