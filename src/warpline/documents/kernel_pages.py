"""What the pages of `warpline kernels` show of a trace."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from warpline.derived.counters.launch_metrics import launch_metrics
from warpline.derived.counters.sections import sections_of
from warpline.documents.kernel_filters import NAMES, Choice, any_of, chosen_rows, shown
from warpline.documents.table_rows import Rows, values_of
from warpline.errors import MissingTableError
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
from warpline.trace import Trace

_PASSES = "profiler__replayer_passes"
# Shown of a GPU whose attributes are not recorded.
_OF_DEVICE = (
    *("uuid", "bus", "sm_count", "memory_bytes", "memory_bytes_per_s", "l2_bytes", "clock_hz"),
    *("compute_major", "compute_minor"),
)


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
    table = Rows(trace, "profiled_kernel")
    rows = chosen_rows(trace, table, choice)
    metrics = _metrics(trace, rows, with_instances=with_instances)
    sections = _sections(trace, metrics, any_of(choice.sections))
    is_taken = any_of(choice.metrics)
    named, facts = _named(trace, table, shown_name), _Facts(trace, table)
    return [
        facts.launch(
            row,
            named[row],
            metrics[row],
            {name: metric for name, metric in metrics[row].items() if is_taken(name)},
            sections.get(row, ()),
        )
        for row in rows
    ]


class _Named(NamedTuple):
    """The shown name of a launch, and which launch of that name it is in its process, from 1."""

    name: str
    invocation: int


def _named(trace: Trace, table: Rows, shown_name: str) -> dict[int, _Named]:
    """Return row -> name and invocation of every launch."""
    calls: Counter[tuple[int, str]] = Counter()
    found = {}
    for row in chosen_rows(trace, table, Choice()):
        name = shown(table[NAMES[shown_name]][row] or table["name"][row])
        key = table["process_id"][row], name
        calls[key] += 1
        found[row] = _Named(name, calls[key])
    return found


def _metrics(
    trace: Trace, rows: Sequence[int], *, with_instances: bool
) -> dict[int, dict[str, KernelMetric]]:
    """Return launch -> name -> metric."""
    found: dict[int, dict[str, KernelMetric]] = {row: {} for row in rows}
    table = Rows(trace, "kernel_metric")
    instances = _instances(trace) if with_instances else {}
    named = zip(
        table["profiled_kernel_id"],
        table["name"],
        table["unit"],
        values_of(table),
        table["instances"],
        strict=True,
    )
    for place, (row, name, unit, value, count) in enumerate(named):
        if row in found:
            found[row][name] = KernelMetric(
                name, unit or "", value, count, instances.get(place, ())
            )
    for metric in launch_metrics(trace):
        name, numbers = metric.name, metric.values.tolist()
        is_known = metric.is_known.tolist()
        for row in rows:
            if is_known[row] and name not in found[row]:
                found[row][name] = KernelMetric(name, metric.unit, numbers[row], 0)
    return found


def _instances(
    trace: Trace,
) -> dict[int, tuple[tuple[int | str | None, MetricNumber], ...]]:
    table = Rows(trace, "metric_instance")
    owners = np.array(table["kernel_metric_id"], np.int64)
    keys = [
        number if text is None else text
        for number, text in zip(table["key"], table["key_text"], strict=True)
    ]
    pairs = list(zip(keys, values_of(table), strict=True))
    starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
    ends = [*starts[1:], len(pairs)] if starts else []
    return {
        int(owners[start]): tuple(pairs[start:end]) for start, end in zip(starts, ends, strict=True)
    }


def _sections(
    trace: Trace, metrics: dict[int, dict[str, KernelMetric]], is_taken: Callable[[str], bool]
) -> dict[int, list[PageSection]]:
    """Return launch -> the sections that are taken, in their order, also those of rules only."""
    sections, lines, rules = (
        Rows(trace, name) for name in ("kernel_section", "section_metric", "kernel_rule")
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
    for launch, of_launch in metrics.items():
        if launch not in found:
            found[launch] = _derived_sections(of_launch)
    return {
        launch: [section for section in of_launch if is_taken(section.identifier)]
        for launch, of_launch in found.items()
    }


def _derived_sections(metrics: Mapping[str, KernelMetric]) -> list[PageSection]:
    """Return the sections of a launch whose recording has none."""
    found = []
    for section in sections_of(frozenset(metrics)):
        labels, names = zip(*section.lines, strict=True)
        lines = zip(labels, map(metrics.__getitem__, names), strict=True)
        found.append(PageSection(section.identifier, section.title, tuple(lines), ()))
    return found


def with_metric_names(launch: ProfiledLaunch) -> ProfiledLaunch:
    """Return a launch whose sections have the names of metrics in place of their labels."""
    sections = [
        replace(section, metrics=tuple((metric.name, metric) for _, metric in section.metrics))
        for section in launch.sections
    ]
    return replace(launch, sections=tuple(sections))


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
            yield Spread(section_title, label, metrics[0].unit, min(numbers), max(numbers), mean)


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
    processes = Rows(trace, "process")
    devices, attributes = Rows(trace, "device"), Rows(trace, "device_attribute")
    named: dict[int, list[tuple[str, MetricNumber]]] = {}
    for device, name, value in zip(
        attributes["device_id"], attributes["name"], values_of(attributes), strict=True
    ):
        named.setdefault(device, []).append((name.removeprefix("device__attribute_"), value))
    for row in range(len(devices)):
        values = [(name, devices[name][row]) for name in _OF_DEVICE]
        named.setdefault(row, [(name, value) for name, value in values if value is not None])
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
    table = Rows(trace, "profiled_kernel")
    functions: dict[tuple[int, str], list[Instruction]] = {}
    code = Rows(trace, "kernel_instruction")
    for row in range(len(code)):
        key = code["process_id"][row], code["function"][row]
        functions.setdefault(key, []).append(
            Instruction(
                code["address"][row], code["encoding"][row], code["file"][row], code["line"][row]
            )
        )
    found = []
    for row, launch in zip(chosen_rows(trace, table, choice), chosen, strict=True):
        key = table["process_id"][row], table["mangled_name"][row] or table["short_name"][row]
        instructions = functions.get(key, [])
        addresses = {instruction.address for instruction in instructions}
        values: dict[str, dict[int | str | None, MetricNumber]] = {}
        for name, metric in sorted(launch.metrics.items()):
            at: dict[int | str | None, MetricNumber] = {
                place: value for place, value in metric.values if place in addresses
            }
            if at:
                values[name] = at
        found.append(Listing(launch, tuple(instructions), values))
    return found


def _require(trace: Trace) -> None:
    if not trace.has("profiled_kernel"):
        raise MissingTableError(
            "the recording has no profiled kernels",
            hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
        )


class _Facts:
    """The rows that a launch refers to."""

    def __init__(self, trace: Trace, table: Rows) -> None:
        self._table = table
        self._processes, self._devices = Rows(trace, "process"), Rows(trace, "device")
        self._contexts, self._streams = Rows(trace, "context"), Rows(trace, "stream")

    def launch(
        self,
        row: int,
        named: _Named,
        metrics: Mapping[str, KernelMetric],
        shown_metrics: Mapping[str, KernelMetric],
        sections: Sequence[PageSection],
    ) -> ProfiledLaunch:
        """Return the launch in a row."""
        table, owner, gpu = self._table, self._processes, self._devices
        process, device = table["process_id"][row], table["device_id"][row]
        capability = ""
        if device is not None and gpu["compute_major"][device] is not None:
            capability = f"{gpu['compute_major'][device]}.{gpu['compute_minor'][device] or 0}"
        return ProfiledLaunch(
            table["launch_number"][row],
            owner["pid"][process],
            PurePath(owner["name"][process] or "").name,
            owner["host"][process] or "",
            *named,
            _native_id(self._contexts, table["context_id"][row]),
            _native_id(self._streams, table["stream_id"][row]),
            (table["grid_x"][row], table["grid_y"][row], table["grid_z"][row]),
            (table["block_x"][row], table["block_y"][row], table["block_z"][row]),
            None if device is None else gpu["gpu_index"][device],
            capability,
            table["has_fixed_clocks"][row] is False,
            table["is_range"][row],
            table["kernels"][row],
            self._passes(row, metrics),
            table["clock_drift_ratio"][row],
            table["nvtx"][row],
            shown_metrics,
            tuple(sections),
        )

    def _passes(self, row: int, metrics: Mapping[str, KernelMetric]) -> MetricNumber:
        passes = self._table["passes"][row]
        is_metric = passes is None and _PASSES in metrics
        return metrics[_PASSES].value if is_metric else passes


def _native_id(table: Rows, row: int | None) -> int | None:
    """Return CUDA's id of a context or a stream; None without a row."""
    return None if row is None else table["native_id"][row]
