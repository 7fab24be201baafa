"""checklist: common performance checks, each with its value and target."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, step_overlaps
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranges.stacks import launched_inside
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import Steps, steps
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tree import enclosing
from warpline.result import (
    Arguments,
    CheckState,
    Field,
    Numbers,
    Result,
    analysis,
    column_of,
)
from warpline.trace import Run, Trace
from warpline.units import Unit, format_ns, format_ratio, plural

NAME = "checklist"
TITLE = "Checklist"
FIELDS = (
    Field("state", Unit.NONE, "pass, fail or unknown.", "State"),
    Field("name", Unit.NONE, "What is checked.", "Check"),
    Field("found", Unit.NONE, "The measured value, or what is missing.", "Found"),
    Field("wanted", Unit.NONE, "The target.", "Target"),
    Field("reason", Unit.NONE, "Why it matters.", "Reason", is_detail=True),
    Field("value", Unit.NONE, "The number compared with the target.", "Value", digits=4),
    Field("unit", Unit.NONE, "Unit of the number: ratio or count.", "Unit"),
)

_BUSY = 0.80
_EXPOSED_COPIES = 0.05
_COMMUNICATION = 0.30
_EXPOSED_COMMUNICATION = 0.10
_HOST_SYNC = 0.05
_SHORT_NS = 10_000
_SHORT_RATIO = 0.5
_STORM = 100
_OPTIMIZER_LAUNCHES = 20
_EPILOGUES = 0.05
_LAYOUT = 0.05
_CONCURRENT = 0.05
_SECOND_STREAM = 0.01
_ENOUGH_STEPS = 10
_OPTIMIZER = re.compile(r"optim", re.IGNORECASE)
_OPAQUE = 0.5  # of the busy time
_OF_KERNELS = (
    "little communication",
    "communication overlapped",
    "few short kernels",
    "few optimizer launches",
    "epilogues fused",
    "few layout conversions",
)
_NO_CALLS = "CUDA API calls not recorded"


class Line(NamedTuple):
    """One check; the fields of `Check`."""

    state: CheckState
    name: str
    found: str
    wanted: str
    reason: str
    value: float | None = None
    unit: str = "ratio"


@dataclass(frozen=True)
class _Measured:
    """The time range that the checks analyze: the included steps, or the whole recording.

    Attributes:
        run: The trace, and the choice of its steps.
    """

    run: Run

    @cached_property
    def steps(self) -> Steps:
        return steps(self.run)

    @cached_property
    def total_ns(self) -> I64:
        """Shape (lanes,), int64; without steps, from the first to the last operation."""
        tail = 0 if self.has_steps else self.part_ns(TimePart.TAIL)
        whole: I64 = self._sums.sum(axis=1) - tail
        return whole

    @property
    def has_steps(self) -> bool:
        windows = step_partition(self.run).windows
        return bool((windows.step >= 0).any())

    def part_ns(self, *parts: TimePart) -> I64:
        """Return the time of parts by lane."""
        sums: I64 = self._sums[:, list(parts)].sum(axis=1)
        return sums

    @cached_property
    def busy_ns(self) -> I64:
        return self.part_ns(*BUSY)

    def together_ns(self, kind: OverlapKind) -> I64:
        """Return the time of a kind of overlap by lane."""
        found = step_overlaps(self.run).ns[:, kind]
        lanes = step_partition(self.run).lanes
        return np.array([found[lane.windows].sum() for lane in lanes], np.int64)

    def worst(self, ns: I64, of_ns: I64 | None = None) -> float:
        """Return the largest share among lanes, of each lane's time or of `of_ns`."""
        whole = self.total_ns if of_ns is None else of_ns
        return float(np.max(ns / np.maximum(whole, 1), initial=0.0))

    @cached_property
    def _sums(self) -> I64:
        found = step_partition(self.run)
        sums = [found.total(lane) for lane in found.lanes]
        return np.array(sums, np.int64).reshape(len(sums), len(TimePart))

    @cached_property
    def work(self) -> Operations:
        return operations(self.run.trace)

    @cached_property
    def counted(self) -> BoolArray:
        """Shape (operations,), which operations began in the counted windows."""
        windows = step_partition(self.run).windows
        return enclosing(
            self.work.start_ns,
            windows.start_ns,
            windows.end_ns,
            point_group=self.work.device,
            group=windows.device,
        ).found

    def of_category(self, *categories: TimePart) -> BoolArray:
        """Return which of the counted operations belong to the categories."""
        return self.counted & np.isin(operation_categories(self.run.trace), categories)

    @cached_property
    def count(self) -> int:
        """Number of counted windows, the divisor of counts per step; at least 1."""
        return max(len(step_partition(self.run).windows.device), 1)

    @property
    def is_opaque(self) -> bool:
        """Whether most of the busy time is graphs without recorded kernels."""
        return int(self.part_ns(TimePart.GRAPH).sum()) > _OPAQUE * int(self.busy_ns.sum())

    @property
    def each(self) -> str:
        return " per step" if self.has_steps else ""


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments={"name": "name=PATTERN: the ranges that are steps."},
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def checklist(trace: Trace, arguments: Arguments) -> Result:
    """Common performance checks, each with its value, target and reason.

    What it measures: Whether the GPU is busy; whether copies, communication and streams overlap
        with compute; whether the program synchronizes unnecessarily, runs many short kernels,
        launches its optimizer in few kernels, fuses elementwise operations with GEMMs, and avoids
        layout conversions. Also whether the recording has enough steps after warm-up.
    Why it matters: These are the first things to check before any single kernel. A failed check
        is not a finding with an estimated saving. It shows where to look.
    How it is computed: Over the included steps or, without steps, from the first to the last
        operation. With several GPUs or processes, the worst one counts. Shares are those of the
        tables breakdown and overlap. A kernel is short below 10 us. Kernels of CUDA graphs are
        excluded, as they need no launches of their own. An elementwise kernel is an unfused
        epilogue if it directly follows a GEMM or convolution on its stream. Optimizer launches are
        kernels of that category, and all kernels launched in ranges with "optim" in their names.
    Limits: Targets are rules of thumb. A check whose data is missing from the recording is
        unknown: it neither passes nor fails.
    Source: Warpline.
    """
    name = next((text.partition("=")[2] for text in arguments if text.startswith("name=")), None)
    measured = _Measured(Run(trace, name))
    lines = [_if_recorded(measured, check(measured)) for check in CHECKS]
    return _result(lines, ":".join((NAME, *arguments)))


def _if_recorded(measured: _Measured, line: Line) -> Line:
    """Return the check, or its unknown state if the recording lacks its data."""
    missing = None
    if line.name == "copies overlapped" and not measured.run.trace.has("memcpy"):
        missing = "copies not recorded"
    elif line.name in _OF_KERNELS and measured.is_opaque:
        missing = "CUDA graphs traced at graph level"
    elif line.name in _OF_KERNELS and not measured.run.trace.has("kernel"):
        missing = "kernels not recorded"
    return line if missing is None else line._replace(state="unknown", found=missing, value=None)


def _result(lines: list[Line], name: str) -> Result:
    states = [line.state for line in lines]
    notes = ", ".join(f"{states.count(s)} {s}" for s in ("pass", "fail", "unknown"))
    columns = {field.name: column_of([getattr(x, field.name) for x in lines]) for field in FIELDS}
    values = [line.value for line in lines]
    known = np.array([value is not None for value in values], np.bool_)
    numbers = np.array([value or 0.0 for value in values], np.float64)
    columns["value"] = Numbers(numbers, known)
    return Result(name, TITLE, FIELDS, columns, ("name",), (notes,))


def _at_most(value: float, limit: float) -> CheckState:
    return "pass" if value <= limit else "fail"


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.0f}%"


def _device_busy(measured: _Measured) -> Line:
    ratio = float(np.min(measured.busy_ns / np.maximum(measured.total_ns, 1), initial=1.0))
    return Line(
        "pass" if ratio > _BUSY else "fail",
        "GPU busy",
        f"{format_ratio(ratio)} of the time",
        f"more than {_percent(_BUSY)}",
        "an idle GPU gains more from a faster CPU side than from faster kernels",
        ratio,
    )


def _copies_overlapped(measured: _Measured) -> Line:
    copy_ns, exposed_ns = (
        measured.together_ns(OverlapKind.COPY),
        measured.together_ns(OverlapKind.EXPOSED_COPY),
    )
    ratio = measured.worst(exposed_ns)
    overlapped = 1 - int(exposed_ns.sum()) / max(int(copy_ns.sum()), 1)
    found = f"{format_ratio(ratio)} exposed, {format_ratio(overlapped)} of copy time overlapped"
    return Line(
        _at_most(ratio, _EXPOSED_COPIES),
        "copies overlapped",
        found if copy_ns.any() else "no copies",
        f"at most {_percent(_EXPOSED_COPIES)} exposed",
        "copies of pinned memory on a separate stream can overlap with compute",
        ratio,
    )


def _communication_small(measured: _Measured) -> Line:
    ratio = measured.worst(measured.together_ns(OverlapKind.COMMUNICATION))
    return Line(
        _at_most(ratio, _COMMUNICATION),
        "little communication",
        f"collectives take {format_ratio(ratio)} of the time" if ratio else "no collectives",
        f"at most {_percent(_COMMUNICATION)}, better 20%",
        "more indicates waiting for other ranks, or too much data for the links",
        ratio,
    )


def _communication_overlapped(measured: _Measured) -> Line:
    ratio = measured.worst(measured.together_ns(OverlapKind.EXPOSED_COMMUNICATION))
    has_any = measured.together_ns(OverlapKind.COMMUNICATION).any()
    return Line(
        _at_most(ratio, _EXPOSED_COMMUNICATION),
        "communication overlapped",
        f"{format_ratio(ratio)} exposed" if has_any else "no collectives",
        f"at most {_percent(_EXPOSED_COMMUNICATION)} exposed",
        "gradient communication can overlap with the backward pass",
        ratio,
    )


def _no_needless_waits(measured: _Measured) -> Line:
    wanted = f"at most {_percent(_HOST_SYNC)} idle"
    reason = "after a synchronization the GPU is idle until the CPU launches again"
    if not measured.run.trace.has("api_call") or not measured.run.trace.row_count("api_call"):
        return Line("unknown", "no unnecessary synchronization", _NO_CALLS, wanted, reason)
    ratio = measured.worst(measured.part_ns(TimePart.HOST_SYNC))
    waits = _count_waits(measured)
    each = ""
    if waits is not None:
        each = f", {plural(round(waits / measured.count), 'synchronization')}{measured.each}"
    return Line(
        _at_most(ratio, _HOST_SYNC),
        "no unnecessary synchronization",
        f"GPU idle {format_ratio(ratio)} due to synchronization{each}",
        wanted,
        reason,
        ratio,
    )


def _count_waits(measured: _Measured) -> int | None:
    """Return the number of CPU synchronizations that began in the counted windows."""
    if not measured.run.trace.has("host_wait") or not measured.run.trace.row_count("host_wait"):
        return None
    start = measured.run.trace.columns("host_wait", "start_ns")["start_ns"].values
    windows = step_partition(measured.run).windows
    return int(np.count_nonzero(enclosing(start, windows.start_ns, windows.end_ns).found))


def _no_short_kernels(measured: _Measured) -> Line:
    name, wanted = "few short kernels", f"at most {_percent(_SHORT_RATIO)} below 10 us"
    reason = "a launch takes 3 to 5 us of CPU time, so the CPU cannot keep up with short kernels"
    rows = measured.work.of_table("kernel")
    rows = rows[measured.counted[rows]]
    if not len(rows):
        return Line("unknown", name, "no kernels recorded", wanted, reason)
    single = rows[~_of_graphs(measured, rows)]
    short = measured.work.end_ns[single] - measured.work.start_ns[single] < _SHORT_NS
    n_short = int(np.count_nonzero(short))
    ratio = n_short / max(len(single), 1)
    each = n_short / measured.count
    is_storm = each >= _STORM and ratio > _SHORT_RATIO
    of_all = f"{each:,.0f} of {len(single) / measured.count:,.0f} kernels{measured.each}"
    found = f"{format_ratio(ratio)} below 10 us: {of_all}"
    if not len(single):
        found = "all kernels are in CUDA graphs"
    return Line("fail" if is_storm else "pass", name, found, wanted, reason, ratio)


def _of_graphs(measured: _Measured, rows: I64) -> BoolArray:
    """Return which kernels belong to a CUDA graph: by node id, or by a launch call with several.

    Not every recording contains node ids.
    """
    nodes = measured.run.trace.columns("kernel", "graph_node_id")["graph_node_id"].is_valid()
    call = measured.work.call[rows]
    known = call >= 0
    together = np.bincount(measured.work.call[measured.work.call >= 0], minlength=1)
    of_graphs: BoolArray = nodes[measured.work.row[rows]] | (known & (together[call * known] > 1))
    return of_graphs


def _optimizer_launches(measured: _Measured) -> Line:
    name, wanted = "few optimizer launches", f"at most {_OPTIMIZER_LAUNCHES} launches"
    reason = "a fused optimizer updates all parameters in a few kernels"
    launched = measured.of_category(TimePart.OPTIMIZER)
    in_ranges = _in_optimizer_ranges(measured)
    if in_ranges is not None:
        launched |= in_ranges & measured.counted
    if not launched.any():
        why = "no optimizer kernels and no ranges named *optim*"
        return Line("unknown", name, why, wanted, reason)
    each = int(np.count_nonzero(launched)) / measured.count
    ns = int((measured.work.end_ns - measured.work.start_ns)[launched].sum()) / measured.count
    return Line(
        _at_most(each, _OPTIMIZER_LAUNCHES),
        name,
        f"{plural(round(each), 'operation')}{measured.each}, {format_ns(ns)}",
        wanted,
        reason,
        each,
        "count",
    )


def _in_optimizer_ranges(measured: _Measured) -> BoolArray | None:
    """Return which kernels were launched in optimizer ranges; None without such ranges."""
    trace = measured.run.trace
    needed = ("kernel", "range", "api_call")
    if not all(trace.has(table) and trace.row_count(table) for table in needed):
        return None
    ids = trace.columns("range", "name_id")["name_id"].filled(-1)
    known, place = np.unique(ids, return_inverse=True)
    texts = ("" if row < 0 else trace.strings.text(row) for row in known.tolist())
    is_optimizer = np.array([bool(_OPTIMIZER.search(text)) for text in texts], np.bool_)[place]
    if not is_optimizer.any():
        return None
    inside, n_kernels = launched_inside(trace, "kernel"), trace.row_count("kernel")
    n_open = np.bincount(inside.first[is_optimizer], minlength=n_kernels + 1)
    n_open -= np.bincount(inside.last[is_optimizer], minlength=n_kernels + 1)
    found = np.zeros(n_kernels, np.bool_)
    found[inside.order[np.cumsum(n_open)[: len(inside.order)] > 0]] = True
    mask = np.zeros(len(measured.work), np.bool_)
    kernels = measured.work.of_table("kernel")
    mask[kernels] = found[measured.work.row[kernels]]
    return mask


def _epilogues_fused(measured: _Measured) -> Line:
    name, wanted = "epilogues fused", f"at most {_percent(_EPILOGUES)} of the time"
    reason = "a GEMM kernel can apply the bias and activation that follow it"
    products = measured.of_category(TimePart.GEMM, TimePart.CONVOLUTION)
    if not products.any():
        return Line("pass", name, "no GEMMs or convolutions", wanted, reason, 0.0)
    order = np.lexsort((measured.work.start_ns, measured.work.stream))
    same = measured.work.stream[order][1:] == measured.work.stream[order][:-1]
    after = np.append(False, same & products[order][:-1])
    is_epilogue = np.zeros(len(order), np.bool_)
    is_epilogue[order] = after
    is_epilogue &= measured.of_category(TimePart.ELEMENTWISE)
    ns = (measured.work.end_ns - measured.work.start_ns)[is_epilogue]
    ratio = int(ns.sum()) / max(int(measured.total_ns.sum()), 1)
    each = len(ns) / measured.count
    return Line(
        _at_most(ratio, _EPILOGUES),
        name,
        f"{plural(round(each), 'elementwise kernel')} directly after GEMMs{measured.each},"
        f" {format_ratio(ratio)} of the time",
        wanted,
        reason,
        ratio,
    )


def _no_stray_transposes(measured: _Measured) -> Line:
    ratio = measured.worst(measured.part_ns(TimePart.LAYOUT_COPY))
    return Line(
        _at_most(ratio, _LAYOUT),
        "few layout conversions",
        f"layout conversions take {format_ratio(ratio)}",
        f"at most {_percent(_LAYOUT)}",
        "tensors in the layout that kernels expect need no conversion",
        ratio,
    )


def _streams_concurrent(measured: _Measured) -> Line:
    name, wanted = "streams concurrent", f"more than {_percent(_CONCURRENT)} concurrent"
    reason = "a second stream gains nothing if it only runs while the first one is idle"
    busy_ns = np.bincount(
        measured.work.stream[measured.counted],
        (measured.work.end_ns - measured.work.start_ns)[measured.counted].astype(np.float64),
    )
    used = int(np.count_nonzero(busy_ns > _SECOND_STREAM * busy_ns.sum()))
    devices = len(np.unique(measured.work.device[measured.counted]))
    ratio = measured.worst(measured.together_ns(OverlapKind.SEVERAL_STREAMS), measured.busy_ns)
    if used <= devices:
        return Line("pass", name, "one stream per GPU", wanted, reason, ratio)
    return Line(
        "pass" if ratio > _CONCURRENT else "fail",
        name,
        f"{used} streams, concurrent for {format_ratio(ratio)} of busy time",
        wanted,
        reason,
        ratio,
    )


def _warm_up_excluded(measured: _Measured) -> Line:
    name, wanted = "warm-up excluded", "steady steps only"
    reason = "the first steps load code, fill caches and allocate memory"
    if not len(measured.steps):
        return Line("unknown", name, "no steps found", wanted, reason, unit="count")
    excluded = len(measured.steps) - int(measured.steps.included.sum())
    reasons = ", ".join(dict.fromkeys(item.reason for item in measured.steps.excluded))
    why = f" ({reasons})" if reasons else ""
    return Line(
        "pass" if measured.has_steps else "fail",
        name,
        f"{excluded} of {plural(len(measured.steps), 'step')} excluded{why}",
        wanted,
        reason,
        float(excluded),
        "count",
    )


def _enough_steps(measured: _Measured) -> Line:
    count = steps_counted(measured.steps)
    name, wanted = "enough steps", f"at least {_ENOUGH_STEPS}"
    reason = "medians of fewer steps vary between runs"
    if not len(measured.steps):
        return Line("unknown", name, "no steps found", wanted, reason, unit="count")
    state: CheckState = "pass" if count >= _ENOUGH_STEPS else "fail"
    return Line(state, name, f"{count:,} analyzed", wanted, reason, count, "count")


CHECKS: tuple[Callable[[_Measured], Line], ...] = (
    _device_busy,
    _copies_overlapped,
    _communication_small,
    _communication_overlapped,
    _no_needless_waits,
    _no_short_kernels,
    _optimizer_launches,
    _epilogues_fused,
    _no_stray_transposes,
    _streams_concurrent,
    _warm_up_excluded,
    _enough_steps,
)
