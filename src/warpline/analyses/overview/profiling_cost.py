"""profiling_cost: the overhead of profiling."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from warpline.derived.texts import labelled
from warpline.frozen import frozen
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, format_ratio

NAME = "profiling_cost"
TITLE = "Profiling overhead"
FIELDS = (
    Field("kind", Unit.NONE, "Kind of record, or activity of CUPTI.", "Kind"),
    Field(
        "source",
        Unit.NONE,
        "Source of the time: Warpline (measured), CUPTI, or an estimate.",
        "Source",
    ),
    Field("records", Unit.COUNT, "Number of records.", "Records"),
    Field("mean_ns", Unit.NS, "Time per record.", "Each (ns)", digits=1),
    Field("total_ns", Unit.NS, "Total time, summed over threads.", "Total (ns)"),
    Field("span_ratio", Unit.RATIO, "Total as a share of the recorded time.", "Time (%)", 100.0, 2),
    Field("step_ns", Unit.NS, "Total per step, if ranges mark steps.", "Per Step (ns)"),
)

_KINDS = {"range": "NVTX ranges", "mark": "NVTX marks", "api_call": "CUDA API calls"}
_NODES = "CUDA graph nodes"
# Node-level tracing adds 0.3 to 1 us per node on an H100 with CUDA 13.0, most for short kernels
# (docs/benchmarks.md).
_NODE_NS = 500.0
_ESTIMATE = "estimate"
_NODES_ARE_DEAR = 0.05  # share of the recorded time
_CUPTI = "CUPTI"  # other rows of `overhead` are the program's own: compiling, loading
_STEP = lazy_pattern(
    r"(?:train|training|eval)?[\s_:#-]*(?:step|iteration|iter)[\s_:#-]*\d+", re.IGNORECASE
)
_CURES = {
    _NODES: "use --cuda-graph-trace=graph to trace CUDA graphs at graph level",
    "NVTX ranges": "use --nvtx-domain-exclude to exclude a domain, or -t cuda to exclude NVTX",
    "NVTX marks": "use --nvtx-domain-exclude to exclude a domain, or -t cuda to exclude NVTX",
    "Backtraces": "use --cudabacktrace=none, or KIND:NS to record only those of long calls",
    "CUDA API calls": "use -c to record a part of the run, or -t nvtx to exclude CUDA",
}
_CURE_OF_BUFFERS = "raise --cuda-flush-interval"
_CURE_OF_CUPTI = "use -t nvtx to exclude CUDA"
_WORTH_A_CURE = 0.001  # share of the recorded time; below it there is nothing to gain
_NOT_INCLUDED = "not included: CUPTI's overhead per call and kernel, often 1 us per launch"


@frozen
class _Steps:
    """The time from the first step's start to the last step's end; `count` 0 without steps."""

    count: int
    start_ns: int = 0
    end_ns: int = 0

    def holds(self, times_ns: I64) -> BoolArray:
        is_inside: BoolArray = (times_ns >= self.start_ns) & (times_ns < self.end_ns)
        return is_inside


@frozen
class _Line:
    kind: str
    source: str
    records: int
    total_ns: int
    in_steps_ns: float


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=())
def profiling_cost(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """The overhead of profiling.

    What it measures: For each kind of record, the time that the program's threads spend writing
        it. Also the overhead that CUPTI reports, and an estimate of the time that node-level
        tracing adds to CUDA graphs.
    Why it matters: Profiling slows the program down. If the overhead is high, exclude kinds of
        records, or record fewer steps.
    How it is computed: Number of records times the time per record, measured in a loop on the
        same machine after the program ends. CUPTI's times come from its own records in the table
        `overhead`. A graph node counts 0.5 us, an estimate. A step is a range with a name such
        as step_12 or iteration 3. The time per step is the total from the first step's start to
        the last step's end, divided by the number of steps.
    Limits: In a loop, the recorder's code is in the CPU cache. In a program, it can take longer.
        The time that CUPTI adds to each call and kernel is not recorded. Times of several threads
        are summed, so shares can exceed 100%. Extra work that other libraries do under a profiler
        is not detected. Backtraces count by their frames, separately from their calls.
    Source: Warpline; CUPTI's overhead records.
    """
    if not trace.meta.record_cost_ns:
        reason = "the overhead was not recorded"
        return Skipped(NAME, reason, "profile again: warpline profile measures its overhead")
    steps = _find_steps(trace)
    lines = [
        *_own_lines(trace, steps),
        *_chain_lines(trace, steps),
        *_node_lines(trace, steps),
        *_cupti_lines(trace, steps),
    ]
    lines.sort(key=lambda line: (-line.total_ns, line.source, line.kind))
    notes = _notes(lines, trace.recorded_ns())
    return Result(NAME, TITLE, FIELDS, _values(trace, steps, lines), ("kind",), notes)


def _values(trace: Trace, steps: _Steps, lines: list[_Line]) -> dict[str, Values]:
    recorded_ns = trace.recorded_ns()
    every = np.arange(len(lines))
    records = np.array([line.records for line in lines], np.int64)
    total_ns = np.array([line.total_ns for line in lines], np.int64)
    has_steps = np.full(len(lines), steps.count > 0)
    has_span = np.full(len(lines), recorded_ns > 0)
    in_steps_ns = np.array([line.in_steps_ns for line in lines], np.float64)
    return {
        "kind": labelled(every, [line.kind for line in lines]),
        "source": labelled(every, [line.source for line in lines]),
        "records": Numbers(records),
        "mean_ns": Numbers(total_ns / np.maximum(records, 1)),
        "total_ns": Numbers(total_ns),
        "span_ratio": Numbers(total_ns / max(recorded_ns, 1), has_span),
        "step_ns": Numbers(np.rint(in_steps_ns / max(steps.count, 1)).astype(np.int64), has_steps),
    }


def _notes(lines: list[_Line], recorded_ns: int) -> tuple[str, ...]:
    notes = []
    if lines and lines[0].kind != _NODES and lines[0].total_ns >= _WORTH_A_CURE * recorded_ns:
        worst = lines[0].kind
        is_buffer = worst.lower().startswith("cupti buffer")
        cure = _CURES.get(worst, _CURE_OF_BUFFERS if is_buffer else _CURE_OF_CUPTI)
        notes.append(f"highest overhead: {worst}; {cure}")
    notes += [
        f"node-level CUDA graph tracing may have taken {format_ratio(share)}; {_CURES[_NODES]}"
        for line in lines
        if line.kind == _NODES and (share := line.total_ns / max(recorded_ns, 1)) > _NODES_ARE_DEAR
    ]
    if any(line.kind == _KINDS["api_call"] or line.source == _CUPTI for line in lines):
        notes.append(_NOT_INCLUDED)
    return tuple(notes)


def _find_steps(trace: Trace) -> _Steps:
    if not trace.has("range"):
        return _Steps(0)
    columns = trace.columns("range", "start_ns", "end_ns", "name_id")
    groups = factorize(columns["name_id"].filled(-1))
    names = [trace.strings.text(row) if row >= 0 else "" for row in groups.uniques.tolist()]
    is_step = np.array([bool(_STEP.fullmatch(name)) for name in names], np.bool_)
    rows = np.flatnonzero(is_step[groups.codes])
    if not len(rows):
        return _Steps(0)
    starts, ends = columns["start_ns"].values[rows], columns["end_ns"].values[rows]
    return _Steps(len(rows), int(starts.min()), int(ends.max()))


def _own_lines(trace: Trace, steps: _Steps) -> Iterator[_Line]:
    for table, kind in _KINDS.items():
        cost_ns = trace.meta.record_cost_ns.get(table)
        if cost_ns is None or not trace.has(table) or not trace.row_count(table):
            continue
        time = "time_ns" if table == "mark" else "start_ns"
        starts = trace.columns(table, time, ordered=False)[time].values
        in_steps = int(np.count_nonzero(steps.holds(starts)))
        yield _Line(kind, "Warpline", len(starts), round(len(starts) * cost_ns), in_steps * cost_ns)


def _chain_lines(trace: Trace, steps: _Steps) -> Iterator[_Line]:
    """Yield the overhead of backtraces: every call's stack is walked; equal ones are kept once."""
    cost_ns = trace.meta.record_cost_ns.get("call_frame")
    if cost_ns is None or not trace.has("stack") or not trace.has("api_call"):
        return
    calls = trace.columns("api_call", "start_ns", "stack_id")
    has_stack = calls["stack_id"].is_valid()
    if not has_stack.any():
        return
    depth = trace.columns("stack", "depth")["depth"].values
    frames = depth[calls["stack_id"].values[has_stack]] + 1
    in_steps = steps.holds(calls["start_ns"].values[has_stack])
    in_steps_ns = int(frames[in_steps].sum()) * cost_ns
    yield _Line(
        "Backtraces", "Warpline", len(frames), round(int(frames.sum()) * cost_ns), in_steps_ns
    )


def _node_lines(trace: Trace, steps: _Steps) -> Iterator[_Line]:
    """Yield the estimated overhead of node-level CUDA graph tracing."""
    if not trace.has("graph_launch"):
        return
    columns = trace.columns("graph_launch", "start_ns", "node_count")
    counts = columns["node_count"].values
    nodes = int(counts.sum())
    if nodes:
        in_steps_ns = int(counts[steps.holds(columns["start_ns"].values)].sum()) * _NODE_NS
        yield _Line(_NODES, _ESTIMATE, nodes, round(nodes * _NODE_NS), in_steps_ns)


def _cupti_lines(trace: Trace, steps: _Steps) -> Iterator[_Line]:
    if not trace.has("overhead"):
        return
    columns = trace.columns("overhead", "start_ns", "end_ns", "name_id")
    starts = columns["start_ns"].values
    lengths_ns = columns["end_ns"].values - starts
    in_steps = steps.holds(starts)
    groups = factorize(columns["name_id"].filled(0))
    for code, number in enumerate(groups.uniques.tolist()):
        kind = trace.strings.text(number)
        if kind.startswith(_CUPTI):
            rows = groups.codes == code
            total_ns = int(lengths_ns[rows].sum())
            part_ns = int(lengths_ns[rows & in_steps].sum())
            yield _Line(kind, _CUPTI, int(np.count_nonzero(rows)), total_ns, part_ns)
