"""What the pages of `warpline kernels` show of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from typing import Literal, NamedTuple

import numpy as np

from warpline.counters.names import GPU_ATTRIBUTE
from warpline.derived.counters.gpu_attributes import gpu_attributes
from warpline.documents.kernel_filters import NAMES, Choice, any_of, chosen_rows, shown
from warpline.documents.launch_spreads import Spreads
from warpline.documents.launch_tables import layouts_of, metric_columns
from warpline.documents.sass import capabilities_of, sass
from warpline.documents.table_rows import Rows, values_of
from warpline.errors import MissingTableError
from warpline.result.kernel_pages import (
    GroupedBy,
    Instruction,
    LaunchGroup,
    LaunchTable,
    Listing,
    MetricColumn,
    MetricNumber,
    PageTable,
    Pairs,
    ProfiledLaunch,
)
from warpline.trace import Trace

ShownInstances = Literal["none", "values", "details"]
_PASSES = "profiler__replayer_passes"
# Shown of a GPU whose attributes are not recorded.
_IDENTITY = ("uuid", "bus")  # shown beside attributes
_OF_DEVICE = (
    *_IDENTITY,
    *("sm_count", "memory_bytes", "memory_bytes_per_s", "l2_bytes", "clock_hz"),
    *("compute_major", "compute_minor"),
)


NO_LAUNCHES = LaunchTable((), {}, (), (), np.zeros(0, np.int64))


def launches(
    trace: Trace,
    choice: Choice,
    *,
    shown_name: str = "demangled",
    shown_instances: ShownInstances = "none",
) -> LaunchTable:
    """Return the chosen launches, by report and ID.

    Args:
        trace: The trace.
        choice: Which launches.
        shown_name: The name to show: ``function``, ``demangled`` or ``mangled``.
        shown_instances: What to show of the instances of metrics: their values, also their keys.

    Raises:
        MissingTableError: The trace has no profiled launches.
        UsageError: A filter is malformed.
    """
    _require(trace)
    table = Rows(trace, "profiled_kernel")
    rows = chosen_rows(trace, table, choice)
    asked_for = any_of(choice.attributes) if choice.attributes else lambda _: False
    columns = metric_columns(trace, rows, asked_for)
    if shown_instances != "none":
        columns = _with_instances(trace, rows, columns, has_keys=shown_instances == "details")
    layouts, codes = layouts_of(trace, rows, columns, any_of(choice.sections))
    is_taken = any_of(choice.metrics)
    named, passes = _named(trace, table, shown_name), _passes(columns, len(rows))
    return LaunchTable(
        tuple(_launches(trace, table, rows, named, passes)),
        columns,
        tuple(name for name in columns if is_taken(name)),
        layouts,
        codes,
    )


def _with_instances(
    trace: Trace, rows: Sequence[int], columns: Mapping[str, MetricColumn], *, has_keys: bool
) -> dict[str, MetricColumn]:
    """Return metrics whose instances are shown with their values."""
    shown: dict[str, dict[int, Pairs]] = {name: {} for name in columns}
    instances = _instances(trace, columns)
    for place, row in enumerate(rows):
        for name, pairs in instances.get(row, {}).items():
            shown[name][place] = pairs if has_keys else [(None, value) for _, value in pairs]
    return {name: replace(column, pairs=shown[name]) for name, column in columns.items()}


def _passes(columns: Mapping[str, MetricColumn], count: int) -> list[MetricNumber]:
    """Return how many passes launches took by their metrics; None without that metric."""
    found: list[MetricNumber] = [None] * count
    column = columns.get(_PASSES)
    if column is not None:
        for place, value in zip(column.launches.tolist(), column.values.tolist(), strict=True):
            found[place] = value
    return found


class _Named(NamedTuple):
    """The shown name of a launch, and which launch of that name it is in its process, from 1."""

    name: str
    invocation: int


def _named(trace: Trace, table: Rows, shown_name: str) -> dict[int, _Named]:
    """Return row -> name and invocation of every launch."""
    calls: Counter[tuple[int, str]] = Counter()
    show = cache(shown)
    of_rows = zip(table["process_id"], table[NAMES[shown_name]], table["name"], strict=True)
    keys = [(process, show(name or full)) for process, name, full in of_rows]
    found = {}
    for row in chosen_rows(trace, table, Choice()):
        calls[keys[row]] += 1
        found[row] = _Named(keys[row][1], calls[keys[row]])
    return found


def with_metric_names(table: LaunchTable) -> LaunchTable:
    """Return launches whose sections have the names of metrics in place of their labels."""
    layouts = tuple(
        tuple(
            replace(section, lines=tuple((name, name) for _, name in section.lines))
            for section in layout
        )
        for layout in table.layouts
    )
    return replace(table, layouts=layouts)


def summaries(table: LaunchTable, *, by: GroupedBy, is_raw: bool) -> list[LaunchGroup]:
    """Return minimum, maximum and mean of the metrics of launches.

    Args:
        table: The launches.
        by: What the launches of a group have in common, beside process and GPU.
        is_raw: Whether to summarize all metrics; else those that sections list.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, launch in enumerate(table.launches):
        shared: tuple[object, ...] = ()
        if by == "kernel":
            shared = launch.name, launch.grid, launch.block
        elif by == "nvtx":
            shared = (launch.nvtx,)
        groups.setdefault((launch.pid, launch.device, *shared), []).append(place)
    spreads = Spreads(table, [*groups.values()], is_raw=is_raw)
    return [
        LaunchGroup(tuple(table.launches[place] for place in places), by, tuple(spreads.of(number)))
        for number, places in enumerate(groups.values())
    ]


def session(trace: Trace) -> list[PageTable]:
    """Return the facts about the recorded program, its machine and its GPUs.

    Raises:
        MissingTableError: The trace has neither profiled launches nor samples.
    """
    if not trace.has("pc_sampling"):
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
    for row, of_gpu in enumerate(gpu_attributes(trace)):
        if row in named and not of_gpu:  # of a report
            continue
        values: list[tuple[str, MetricNumber]] = [
            (name, devices[name][row]) for name in (_IDENTITY if of_gpu else _OF_DEVICE)
        ]
        values += [(name.removeprefix(GPU_ATTRIBUTE), value) for name, value in of_gpu.items()]
        named[row] = [(name, value) for name, value in values if value is not None]
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
    chosen = launches(trace, choice, shown_name=shown_name)
    table = Rows(trace, "profiled_kernel")
    rows = chosen_rows(trace, table, choice)
    functions = _functions(trace, table, rows)
    instances = _instances(trace, {*chosen.shown})
    found = []
    for row, launch in zip(rows, chosen.launches, strict=True):
        instructions = functions.get(_function_of(table, row), [])
        addresses = {instruction.address for instruction in instructions}
        values: dict[str, dict[int | str | None, MetricNumber]] = {}
        for name, pairs in sorted(instances.get(row, {}).items()):
            at: dict[int | str | None, MetricNumber] = {
                place: value for place, value in pairs if place in addresses
            }
            if at:
                values[name] = at
        found.append(Listing(launch, tuple(instructions), values))
    return found


def _function_of(table: Rows, row: int) -> tuple[int, str]:
    """Return process and function of a launch."""
    return table["process_id"][row], table["mangled_name"][row] or table["short_name"][row]


def _functions(
    trace: Trace, table: Rows, launches: Sequence[int]
) -> dict[tuple[int, str], list[Instruction]]:
    """Return process and function -> its instructions, of the functions of launches."""
    code = Rows(trace, "kernel_instruction")
    devices = {_function_of(table, row): table["device_id"][row] for row in launches}
    rows: dict[tuple[int, str], list[int]] = {key: [] for key in devices}
    for row, key in enumerate(zip(code["process_id"], code["function"], strict=True)):
        if key in rows:
            rows[key].append(row)
    capabilities = capabilities_of(trace)
    codes = [(np.array(of, np.int64), capabilities(devices[key])) for key, of in rows.items()]
    addresses, encoded, files, lines = (
        code[name] for name in ("address", "encoding", "file", "line")
    )
    return {
        key: [
            Instruction(addresses[row], encoded[row], files[row], lines[row], text)
            for row, text in zip(of, texts or [None] * len(of), strict=True)
        ]
        for (key, of), (texts, _) in zip(rows.items(), sass(trace, codes), strict=True)
    }


def _instances(trace: Trace, names: Container[str]) -> dict[int, dict[str, Pairs]]:
    """Return row of the launch -> name of the metric -> keys and values of its instances."""
    table, metrics = Rows(trace, "metric_instance"), Rows(trace, "kernel_metric")
    owners = np.array(table["kernel_metric_id"], np.int64)
    keys = [
        number if text is None else text
        for number, text in zip(table["key"], table["key_text"], strict=True)
    ]
    pairs = list(zip(keys, values_of(table), strict=True))
    starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
    ends = [*starts[1:], len(pairs)] if starts else []
    found: dict[int, dict[str, Pairs]] = {}
    for start, end in zip(starts, ends, strict=True):
        metric = int(owners[start])
        name = metrics["name"][metric]
        if name in names:
            found.setdefault(metrics["profiled_kernel_id"][metric], {})[name] = pairs[start:end]
    return found


def _require(trace: Trace) -> None:
    if not trace.has("profiled_kernel"):
        raise MissingTableError(
            "the recording has no profiled kernels",
            hint="profile with warpline kernels, or pass a report of Nsight Compute (.ncu-rep)",
        )


def _launches(
    trace: Trace,
    table: Rows,
    rows: Sequence[int],
    named: Mapping[int, _Named],
    passes: Sequence[MetricNumber],
) -> Iterator[ProfiledLaunch]:
    """Yield the launches in some rows, whose passes are known by their metrics if at all."""
    processes, contexts, streams = (Rows(trace, name) for name in ("process", "context", "stream"))
    owners = [
        (pid, PurePath(name or "").name, host or "")
        for pid, name, host in zip(
            processes["pid"], processes["name"], processes["host"], strict=True
        )
    ]
    gpus = _gpus(trace)
    columns = [table[name] for name in _OF_LAUNCH]
    sizes = [
        list(zip(*(table[f"{of}_{axis}"] for axis in "xyz"), strict=True))
        for of in ("grid", "block")
    ]
    for place, row in enumerate(rows):
        number, process, context, stream, device, has_fixed_clocks, *more = (
            column[row] for column in columns
        )
        is_range, kernels, stored_passes, drift, nvtx = more
        grid, block = (of[row] for of in sizes)
        pid, executable, host = owners[process]
        name, invocation = named[row]
        index, capability = gpus[device]
        yield ProfiledLaunch(
            number,
            pid,
            executable,
            host,
            name,
            invocation,
            None if context is None else contexts["native_id"][context],
            None if stream is None else streams["native_id"][stream],
            grid,
            block,
            index,
            capability,
            has_fixed_clocks is False,
            is_range,
            kernels,
            passes[place] if stored_passes is None else stored_passes,
            drift,
            nvtx,
        )


_OF_LAUNCH = (
    *("launch_number", "process_id", "context_id", "stream_id", "device_id", "has_fixed_clocks"),
    *("is_range", "kernels", "passes", "clock_drift_ratio", "nvtx"),
)


def _gpus(trace: Trace) -> dict[int | None, tuple[int | None, str]]:
    """Return row of the device -> its index and compute capability; None has neither."""
    devices = Rows(trace, "device")
    facts = zip(
        *(devices[name] for name in ("gpu_index", "compute_major", "compute_minor")), strict=True
    )
    found: dict[int | None, tuple[int | None, str]] = {None: (None, "")}
    for row, (index, major, minor) in enumerate(facts):
        found[row] = index, "" if major is None else f"{major}.{minor or 0}"
    return found
