"""checklist: what experienced people look at first, each with its number and threshold."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.overlaps import KINDS, step_overlaps
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.segments import PARTS
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.ranges.stacks import launched_inside
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import Steps, steps
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
from warpline.trace import Trace
from warpline.units import Unit, format_ns, format_ratio, plural

NAME = "checklist"
TITLE = "Checklist"
FIELDS = (
    Field("state", Unit.NONE, "pass, fail or can't tell.", "State"),
    Field("name", Unit.NONE, "What is checked.", "Check"),
    Field("found", Unit.NONE, "What was found, or what is missing.", "Found"),
    Field("wanted", Unit.NONE, "The threshold.", "Wanted"),
    Field("reason", Unit.NONE, "Why this threshold.", "Reason", is_detail=True),
    Field("value", Unit.NONE, "The number that was compared.", "Value", digits=4),
    Field("unit", Unit.NONE, "What the number counts: ratio or count.", "Unit"),
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
    "communication small",
    "communication overlapped",
    "no storm of short kernels",
    "optimizer in few launches",
    "epilogues fused",
    "no stray transposes",
)
_NO_CALLS = "no CUDA calls were recorded"


class Line(NamedTuple):
    """One line of the checklist; the fields of `Check`."""

    state: CheckState
    name: str
    found: str
    wanted: str
    reason: str
    value: float | None = None
    unit: str = "ratio"


@dataclass(frozen=True)
class _Run:
    """What the checks look at: the included steps, or all that was recorded.

    Attributes:
        trace: The trace.
        name: What the steps are called.
    """

    trace: Trace
    name: str | None

    @cached_property
    def steps(self) -> Steps:
        return steps(self.trace, self.name)

    @cached_property
    def total_ns(self) -> I64:
        """Shape (lanes,), int64; without steps only from the first operation to the last."""
        tail = 0 if self.has_steps else self.part_ns("tail")
        whole: I64 = self._sums.sum(axis=1) - tail
        return whole

    @property
    def has_steps(self) -> bool:
        windows = step_partition(self.trace, self.name).windows
        return bool((windows.step >= 0).any())

    def part_ns(self, *names: str) -> I64:
        """Return the time of parts by lane."""
        sums: I64 = self._sums[:, [PARTS.index(name) for name in names]].sum(axis=1)
        return sums

    @cached_property
    def busy_ns(self) -> I64:
        return self.part_ns(*BUSY_CATEGORIES)

    def together_ns(self, kind: str) -> I64:
        """Return the time of a kind of overlap by lane."""
        found = step_overlaps(self.trace, self.name).ns[:, KINDS.index(kind)]
        lanes = step_partition(self.trace, self.name).lanes
        return np.array([found[lane.windows].sum() for lane in lanes], np.int64)

    def worst(self, ns: I64, of_ns: I64 | None = None) -> float:
        """Return the largest share that a lane has; of the lane's time, or of other times."""
        whole = self.total_ns if of_ns is None else of_ns
        return float(np.max(ns / np.maximum(whole, 1), initial=0.0))

    @cached_property
    def _sums(self) -> I64:
        found = step_partition(self.trace, self.name)
        sums = [found.total(lane) for lane in found.lanes]
        return np.array(sums, np.int64).reshape(len(sums), len(PARTS))

    @cached_property
    def work(self) -> Operations:
        return operations(self.trace)

    @cached_property
    def counted(self) -> BoolArray:
        """Shape (operations,), which began in the windows that are counted."""
        windows = step_partition(self.trace, self.name).windows
        return enclosing(
            self.work.start_ns,
            windows.start_ns,
            windows.end_ns,
            point_group=self.work.device,
            group=windows.device,
        ).found

    def of_category(self, *names: str) -> BoolArray:
        """Return which operations are of a category and counted."""
        codes = [BUSY_CATEGORIES.index(name) for name in names]
        return self.counted & np.isin(operation_categories(self.trace), codes)

    @cached_property
    def count(self) -> int:
        """Windows that are counted, by which counts become counts per step; at least 1."""
        return max(len(step_partition(self.trace, self.name).windows.device), 1)

    @property
    def is_opaque(self) -> bool:
        """Whether most of the busy time is graphs of which no kernel is known."""
        return int(self.part_ns("graph").sum()) > _OPAQUE * int(self.busy_ns.sum())

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
    """The checklist of the practice, each line with its number, threshold and reason.

    What it measures: Whether the device is busy; copies and communication run beside computing;
        the host waits without need; kernels are long enough, the optimizer is in few launches,
        element-wise work is fused with products, tensors are not copied into other orders; streams
        run at the same time; and whether the recording is fit to judge: warm-up left out, enough
        steps.
    Why it matters: It is what experienced people look at before they look at any kernel. A line
        that fails is not a finding with a saving: it says where to look.
    How it is computed: Over the included steps, or without steps from the first operation to the
        last. Where several devices or processes worked, the worst of them counts. Shares are those
        of the tables breakdown and overlap. A kernel is short below 10 us; those of a CUDA graph
        are left out, as they need no launches. An element-wise kernel counts as an epilogue if it
        runs right after a matrix product or convolution on its stream. Optimizer launches are
        kernels of that category, or all that were launched in ranges with "optim" in their names.
    Limits: Thresholds are rules of thumb. What is missing in the recording cannot be told, and
        such a line neither passes nor fails.
    Source: Warpline.
    """
    name = next((text.partition("=")[2] for text in arguments if text.startswith("name=")), None)
    run = _Run(trace, name)
    lines = [_as_told(run, check(run)) for check in CHECKS]
    return _result(lines, ":".join((NAME, *arguments)))


def _as_told(run: _Run, line: Line) -> Line:
    """Return the line, or that it cannot be told from what was recorded."""
    missing = None
    if line.name == "copies overlapped" and not run.trace.has("memcpy"):
        missing = "copies were not recorded"
    elif line.name in _OF_KERNELS and run.is_opaque:
        missing = "CUDA graphs were recorded as wholes"
    elif line.name in _OF_KERNELS and not run.trace.has("kernel"):
        missing = "kernels were not recorded"
    return line if missing is None else line._replace(state="can't tell", found=missing, value=None)


def _result(lines: list[Line], name: str) -> Result:
    states = [line.state for line in lines]
    notes = ", ".join(f"{states.count(s)} {s}" for s in ("pass", "fail", "can't tell"))
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


def _device_busy(run: _Run) -> Line:
    ratio = float(np.min(run.busy_ns / np.maximum(run.total_ns, 1), initial=1.0))
    return Line(
        "pass" if ratio > _BUSY else "fail",
        "device busy",
        f"busy {format_ratio(ratio)} of the time",
        f"more than {_percent(_BUSY)}",
        "an idle device gains more from its host or its input than from faster kernels",
        ratio,
    )


def _copies_overlapped(run: _Run) -> Line:
    copy_ns, exposed_ns = run.together_ns("copy"), run.together_ns("exposed-copy")
    ratio = run.worst(exposed_ns)
    beside = 1 - int(exposed_ns.sum()) / max(int(copy_ns.sum()), 1)
    found = f"copies alone take {format_ratio(ratio)}; {format_ratio(beside)} run beside work"
    return Line(
        _at_most(ratio, _EXPOSED_COPIES),
        "copies overlapped",
        found if copy_ns.any() else "no copies",
        f"at most {_percent(_EXPOSED_COPIES)} alone",
        "from pinned memory, on a stream of their own, copies cost a step nothing",
        ratio,
    )


def _communication_small(run: _Run) -> Line:
    ratio = run.worst(run.together_ns("communication"))
    return Line(
        _at_most(ratio, _COMMUNICATION),
        "communication small",
        f"collectives run {format_ratio(ratio)} of the time" if ratio else "no collectives",
        f"at most {_percent(_COMMUNICATION)}; 20% is good",
        "more is waiting for other ranks, or more data than the links take beside the computing",
        ratio,
    )


def _communication_overlapped(run: _Run) -> Line:
    ratio = run.worst(run.together_ns("exposed-communication"))
    has_any = run.together_ns("communication").any()
    return Line(
        _at_most(ratio, _EXPOSED_COMMUNICATION),
        "communication overlapped",
        f"collectives alone take {format_ratio(ratio)}" if has_any else "no collectives",
        f"at most {_percent(_EXPOSED_COMMUNICATION)} alone",
        "gradients can be sent while the backward pass goes on",
        ratio,
    )


def _no_needless_waits(run: _Run) -> Line:
    wanted = f"at most {_percent(_HOST_SYNC)} idle for it"
    reason = "a wait lets the device run dry, and the host starts late with what comes next"
    if not run.trace.has("api_call") or not run.trace.row_count("api_call"):
        return Line("can't tell", "no needless waits", _NO_CALLS, wanted, reason)
    ratio = run.worst(run.part_ns("host-sync"))
    waits = _count_waits(run)
    said = "" if waits is None else f"; {plural(round(waits / run.count), 'wait')}{run.each}"
    return Line(
        _at_most(ratio, _HOST_SYNC),
        "no needless waits",
        f"idle {format_ratio(ratio)} because the host waited{said}",
        wanted,
        reason,
        ratio,
    )


def _count_waits(run: _Run) -> int | None:
    """Return how many waits of the host began in the windows that are counted."""
    if not run.trace.has("host_wait") or not run.trace.row_count("host_wait"):
        return None
    start = run.trace.columns("host_wait", "start_ns")["start_ns"].values
    windows = step_partition(run.trace, run.name).windows
    return int(np.count_nonzero(enclosing(start, windows.start_ns, windows.end_ns).found))


def _no_short_kernels(run: _Run) -> Line:
    name, wanted = "no storm of short kernels", f"at most {_percent(_SHORT_RATIO)} below 10 us"
    reason = "a launch takes the host 3 to 5 us: it cannot keep up with kernels that are as short"
    rows = run.work.of_table("kernel")
    rows = rows[run.counted[rows]]
    if not len(rows):
        return Line("can't tell", name, "no kernels were recorded", wanted, reason)
    single = rows[~_of_graphs(run, rows)]
    short = run.work.end_ns[single] - run.work.start_ns[single] < _SHORT_NS
    n_short = int(np.count_nonzero(short))
    ratio = n_short / max(len(single), 1)
    each = n_short / run.count
    is_storm = each >= _STORM and ratio > _SHORT_RATIO
    found = f"{format_ratio(ratio)} are below 10 us: {each:,.0f} of {len(single) / run.count:,.0f}"
    if not len(single):
        found = "all kernels are in graphs"
    return Line("fail" if is_storm else "pass", name, f"{found}{run.each}", wanted, reason, ratio)


def _of_graphs(run: _Run, rows: I64) -> BoolArray:
    """Return which kernels a graph launched: those with a node, or with others of the same call.

    Not every recording tells the nodes.
    """
    nodes = run.trace.columns("kernel", "graph_node_id")["graph_node_id"].is_valid()
    call = run.work.call[rows]
    known = call >= 0
    together = np.bincount(run.work.call[run.work.call >= 0], minlength=1)
    of_graphs: BoolArray = nodes[run.work.row[rows]] | (known & (together[call * known] > 1))
    return of_graphs


def _optimizer_launches(run: _Run) -> Line:
    name, wanted = "optimizer in few launches", f"at most {_OPTIMIZER_LAUNCHES} launches"
    reason = "a fused optimizer updates all parameters in one or a few launches"
    launched = run.of_category("optimizer")
    in_ranges = _in_optimizer_ranges(run)
    if in_ranges is not None:
        launched |= in_ranges & run.counted
    if not launched.any():
        why = "no optimizer kernels, and no ranges with optim in their names"
        return Line("can't tell", name, why, wanted, reason)
    each = int(np.count_nonzero(launched)) / run.count
    ns = int((run.work.end_ns - run.work.start_ns)[launched].sum()) / run.count
    return Line(
        _at_most(each, _OPTIMIZER_LAUNCHES),
        name,
        f"{each:,.0f} operations{run.each} take {format_ns(ns)}",
        wanted,
        reason,
        each,
        "count",
    )


def _in_optimizer_ranges(run: _Run) -> BoolArray | None:
    """Return which kernels were launched in ranges of an optimizer, None without such ranges."""
    trace = run.trace
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
    mask = np.zeros(len(run.work), np.bool_)
    kernels = run.work.of_table("kernel")
    mask[kernels] = found[run.work.row[kernels]]
    return mask


def _epilogues_fused(run: _Run) -> Line:
    name, wanted = "epilogues fused", f"at most {_percent(_EPILOGUES)} of the time"
    reason = "an addition or activation right after a product can be done by the product's kernel"
    products = run.of_category("gemm", "convolution")
    if not products.any():
        return Line("pass", name, "no matrix products or convolutions", wanted, reason, 0.0)
    order = np.lexsort((run.work.start_ns, run.work.stream))
    same = run.work.stream[order][1:] == run.work.stream[order][:-1]
    after = np.append(False, same & products[order][:-1])
    is_epilogue = np.zeros(len(order), np.bool_)
    is_epilogue[order] = after
    is_epilogue &= run.of_category("elementwise")
    ns = (run.work.end_ns - run.work.start_ns)[is_epilogue]
    ratio = int(ns.sum()) / max(int(run.total_ns.sum()), 1)
    each = len(ns) / run.count
    return Line(
        _at_most(ratio, _EPILOGUES),
        name,
        f"{each:,.0f} element-wise kernels right after products{run.each}: {format_ratio(ratio)}",
        wanted,
        reason,
        ratio,
    )


def _no_stray_transposes(run: _Run) -> Line:
    ratio = run.worst(run.part_ns("layout-copy"))
    return Line(
        _at_most(ratio, _LAYOUT),
        "no stray transposes",
        f"copies into other layouts take {format_ratio(ratio)}",
        f"at most {_percent(_LAYOUT)}",
        "tensors kept in the layout that the kernels want need no such copies",
        ratio,
    )


def _streams_concurrent(run: _Run) -> Line:
    name, wanted = "streams concurrent", f"several at work for more than {_percent(_CONCURRENT)}"
    reason = "work on a second stream gains nothing if it only runs when the first one rests"
    busy_ns = np.bincount(
        run.work.stream[run.counted],
        (run.work.end_ns - run.work.start_ns)[run.counted].astype(np.float64),
    )
    used = int(np.count_nonzero(busy_ns > _SECOND_STREAM * busy_ns.sum()))
    devices = len(np.unique(run.work.device[run.counted]))
    ratio = run.worst(run.together_ns("several-streams"), run.busy_ns)
    if used <= devices:
        return Line("pass", name, "all work is on one stream per device", wanted, reason, ratio)
    return Line(
        "pass" if ratio > _CONCURRENT else "fail",
        name,
        f"{used} streams; two or more at work for {format_ratio(ratio)} of the busy time",
        wanted,
        reason,
        ratio,
    )


def _warm_up_excluded(run: _Run) -> Line:
    name, wanted = "warm-up excluded", "steady steps only"
    reason = "the first steps load code, fill caches and allocate"
    if not len(run.steps):
        return Line("can't tell", name, "no steps were found", wanted, reason, unit="count")
    left_out = len(run.steps) - int(run.steps.included.sum())
    reasons = ", ".join(dict.fromkeys(item.reason for item in run.steps.excluded))
    why = f" ({reasons})" if reasons else ""
    return Line(
        "pass" if run.has_steps else "fail",
        name,
        f"{left_out} of {plural(len(run.steps), 'step')} left out{why}",
        wanted,
        reason,
        float(left_out),
        "count",
    )


def _enough_steps(run: _Run) -> Line:
    count = steps_counted(run.steps)
    name, wanted = "enough steps", f"at least {_ENOUGH_STEPS}"
    reason = "medians of fewer steps vary from run to run"
    if not len(run.steps):
        return Line("can't tell", name, "no steps were found", wanted, reason, unit="count")
    state: CheckState = "pass" if count >= _ENOUGH_STEPS else "fail"
    return Line(state, name, f"{plural(count, 'step')} counted", wanted, reason, count, "count")


CHECKS: tuple[Callable[[_Run], Line], ...] = (
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
