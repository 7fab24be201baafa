"""GPU work by range against a model that marks every nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpline import api
from warpline.derived.ranges.autograd import backward_work
from warpline.derived.ranges.coverage import Timeline
from warpline.derived.ranges.paths import range_paths
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.ranges.work import range_work
from warpline.ops.tree import Contents, Pairs
from warpline.result import Result, Skipped
from warpline.trace import MemorySource, Trace

Row = dict[str, Any]

START_END, WHOLE_GRAPH = 1, 0
PROCESS_OF = (0, 0, 1)  # by thread
NAMES = ("a", "b", "step_1", "step_2", "step_3", "layer 4", "layer 5", None)
AROUND = "autograd::engine::evaluate_function: "
AUTOGRAD_NAMES = (
    *("aten::a, seq = 1, op_id = 4", "aten::b, seq = 1", "aten::c, seq = 2", "layer"),
    *("ABackward0, seq = 1, op_id = 5", "CBackward, seq = 2", f"{AROUND}ABackward0, op_id = 6"),
)
OPERATIONS = ("kernel", "memcpy", "memset", "graph_launch")

times = st.integers(-3, 20)
threads = st.integers(0, 2)
operations = st.tuples(times, st.integers(0, 6), st.integers(0, 1), st.none() | st.integers(0, 9))


@st.composite
def nested(
    draw: st.DrawFn, *, properly: bool, names: Sequence[str | None]
) -> list[tuple[Any, ...]]:
    """Return ranges (start, end, thread, style, name)."""
    if not properly:
        any_range = st.tuples(times, st.integers(0, 9), threads, st.integers(0, 1))
        rows = draw(st.lists(any_range, max_size=9))
        return [(s, s + n, t, style, draw(st.sampled_from(names))) for s, n, t, style in rows]
    found = []
    for thread in range(3):
        moves = draw(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=12))
        now, open_ones = -3, []
        for is_push, pause in [*moves, *[(False, 1)] * 12]:
            now += pause
            if is_push:
                open_ones.append((now, draw(st.sampled_from(names))))
            elif open_ones:
                start, name = open_ones.pop()
                found.append((start, now, thread, 0, name))
    return found


@st.composite
def traces(
    draw: st.DrawFn, *, properly: bool = False, names: Sequence[str | None] = NAMES
) -> Trace:
    """Return a trace of two processes, three threads, two devices and up to 24 operations."""
    calls = draw(st.lists(st.tuples(times, st.integers(0, 4), threads), max_size=10))
    ranges = draw(nested(properly=properly, names=names))
    tables: dict[str, dict[str, list[Any]]] = {
        "process": {"pid": [11, 12]},
        "thread": {"process_id": [*PROCESS_OF], "tid": [1, 2, 3]},
        "device": {"gpu_index": [0, 1]},
        "api_call": {
            "start_ns": [start for start, _, _ in calls],
            "end_ns": [start + length for start, length, _ in calls],
            "thread_id": [thread for _, _, thread in calls],
            "process_id": [PROCESS_OF[thread] for _, _, thread in calls],
            "correlation_id": list(range(len(calls))),
        },
        "range": {
            "start_ns": [row[0] for row in ranges],
            "end_ns": [row[1] for row in ranges],
            "thread_id": [row[2] for row in ranges],
            "process_id": [PROCESS_OF[row[2]] for row in ranges],
            "style": [row[3] for row in ranges],
            "name": [row[4] for row in ranges],
            "source_id": list(range(len(ranges))),
        },
    }
    for table in OPERATIONS:
        rows = draw(st.lists(operations, max_size=6))
        tables[table] = {
            "start_ns": [start for start, _, _, _ in rows],
            "end_ns": [start + length for start, length, _, _ in rows],
            "device_id": [device for _, _, device, _ in rows],
            "process_id": [draw(st.integers(0, 1)) for _ in rows],
            "correlation_id": [correlation for *_, correlation in rows],
        }
    tables["graph_launch"]["level"] = [
        draw(st.integers(0, 1)) for _ in tables["graph_launch"]["start_ns"]
    ]
    return Trace(MemorySource(tables))


def rows_of(trace: Trace, table: str) -> list[Row]:
    """Return the rows of a table in its total order."""
    names = [column.name for column in trace.table(table).spec.columns]
    data = {name: column.to_list() for name, column in trace.columns(table, *names).items()}
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]


def launched(trace: Trace) -> list[Row]:
    """Return the counted operations, each with its call and its nanoseconds."""
    calls = rows_of(trace, "api_call")
    found = []
    for table in OPERATIONS:
        for item in rows_of(trace, table):
            if table == "graph_launch" and item["level"] != WHOLE_GRAPH:
                continue
            for call in calls:  # correlations are unique here
                keys = ("process_id", "correlation_id")
                if all(call[key] == item[key] for key in keys):
                    found.append({**item, "call": call, "table": table})
    return found


def is_open(one: Row, call: Row) -> bool:
    owner = "process_id" if one["style"] == START_END else "thread_id"
    return bool(one["start_ns"] <= call["start_ns"] < one["end_ns"] and one[owner] == call[owner])


def work_in(trace: Trace) -> list[list[Row]]:
    """Return the operations of each range."""
    work = launched(trace)
    return [
        [item for item in work if is_open(one, item["call"])] for one in rows_of(trace, "range")
    ]


def busy(items: list[Row]) -> int:
    return len({(i["device_id"], t) for i in items for t in range(i["start_ns"], i["end_ns"])})


def span(items: list[Row]) -> int:
    total = 0
    for device in {item["device_id"] for item in items}:
        there = [item for item in items if item["device_id"] == device]
        total += max(i["end_ns"] for i in there) - min(i["start_ns"] for i in there)
    return total


def own_work(trace: Trace) -> list[list[Row]]:
    """Return for each range the operations not launched in a later range."""
    ranges, own = rows_of(trace, "range"), [list[Row]() for _ in rows_of(trace, "range")]
    for item in launched(trace):
        candidates = [
            (one["start_ns"], -one["end_ns"], row)
            for row, one in enumerate(ranges)
            if one["style"] != START_END and is_open(one, item["call"])
        ]
        if candidates:
            own[max(candidates)[2]].append(item)
    return own


@given(traces())
def test_the_work_of_a_range(trace: Trace) -> None:
    work, expected, own = range_work(trace), work_in(trace), own_work(trace)
    assert work.operations.tolist() == [len(items) for items in expected]
    assert work.kernels.tolist() == [
        sum(item["table"] == "kernel" for item in items) for items in expected
    ]
    calls = [{(i["call"]["process_id"], i["call"]["correlation_id"]) for i in e} for e in expected]
    assert work.launches.tolist() == [len(distinct) for distinct in calls]
    assert work.took.busy_ns.tolist() == [busy(items) for items in expected]
    assert work.took.span_ns.tolist() == [span(items) for items in expected]
    starts = [min((i["start_ns"] for i in items), default=0) for items in expected]
    assert work.took.first_start_ns.tolist() == starts
    ends = [max((i["end_ns"] for i in items), default=0) for items in expected]
    assert work.took.last_end_ns.tolist() == ends
    assert work.self_operations.tolist() == [len(items) for items in own]
    pushed = [one["style"] != START_END for one in rows_of(trace, "range")]
    found = [ns for ns, ok in zip(work.self_busy_ns.tolist(), pushed, strict=True) if ok]
    assert found == [busy(items) for items, ok in zip(own, pushed, strict=True) if ok]


@given(traces(properly=True))
def test_nothing_is_lost_and_nothing_counts_twice(trace: Trace) -> None:
    work, nesting = range_work(trace), range_nesting(trace)
    ranges = rows_of(trace, "range")
    for thread in range(3):
        here = np.array([one["thread_id"] == thread for one in ranges], np.bool_)
        roots = here & ~nesting.has_parent
        in_some_range = [
            item
            for item in launched(trace)
            if item["call"]["thread_id"] == thread
            and any(is_open(one, item["call"]) for one in ranges)
        ]
        assert work.self_operations[here].sum() == len(in_some_range)
        assert work.operations[roots].sum() == len(in_some_range)
        assert work.self_busy_ns[here].sum() >= work.took.busy_ns[roots].sum()
    assert (work.took.busy_ns <= work.took.span_ns).all()
    children = np.flatnonzero(nesting.has_parent)
    around = nesting.parent[children]
    assert (work.took.busy_ns[children] <= work.took.busy_ns[around]).all()


@given(traces())
def test_the_trace_lists_ranges_in_order(trace: Trace) -> None:
    result = api.run(trace, "range_gpu_trace")
    if isinstance(result, Skipped):
        assert not launched(trace) or not rows_of(trace, "range")
        return
    values = {name: column.to_list() for name, column in result.columns.items()}
    ranges = rows_of(trace, "range")
    assert values["start_ns"] == [one["start_ns"] for one in ranges]
    assert values["host_ns"] == [one["end_ns"] - one["start_ns"] for one in ranges]
    for took, idle, whole in zip(
        values["device_busy_ns"], values["device_idle_ns"], values["device_span_ns"], strict=True
    ):
        assert took + idle == whole
    free = [item for item in launched(trace) if not any(is_open(r, item["call"]) for r in ranges)]
    counted = len(launched(trace)) - len(free)
    total = sum(len(rows_of(trace, table)) for table in OPERATIONS[:-1])
    total += sum(item["level"] == WHOLE_GRAPH for item in rows_of(trace, "graph_launch"))
    said = f"{total - counted:,} of {total:,} GPU operations"
    assert [note.startswith(said) for note in result.notes] == [True] * (counted < total)


def holds(outer: Row, outer_row: int, inner: Row, inner_row: int) -> bool:
    """Return whether a range is nested in another of the same name."""
    if outer_row == inner_row or outer["style"] != inner["style"]:
        return False
    owner = "process_id" if outer["style"] == START_END else "thread_id"
    if outer["name_id"] != inner["name_id"] or outer[owner] != inner[owner]:
        return False
    moments = set(range(inner["start_ns"], max(inner["end_ns"], inner["start_ns"] + 1)))
    same = (outer["start_ns"], outer["end_ns"]) == (inner["start_ns"], inner["end_ns"])
    within = moments <= set(range(outer["start_ns"], outer["end_ns"]))
    return within and (not same or outer_row < inner_row)


@given(traces())
def test_the_summary_adds_up_outermost_instances(trace: Trace) -> None:
    result = api.run(trace, "range_gpu_sum")
    if isinstance(result, Skipped):
        return
    ranges, work, own = rows_of(trace, "range"), work_in(trace), own_work(trace)
    for row in (dict(zip(result.columns, values, strict=True)) for values in result.rows()):
        style = START_END if row["style"] == "StartEnd" else 0
        texts = [None if r["name_id"] is None else trace.strings.text(r["name_id"]) for r in ranges]
        alike = [
            i for i, one in enumerate(ranges) if (one["style"], texts[i]) == (style, row["name"])
        ]
        outer = [i for i in alike if not any(holds(ranges[j], j, ranges[i], i) for j in alike)]
        assert row["instances"] == len(alike)
        assert row["operations"] == sum(len(work[i]) for i in outer)
        assert row["device_busy_ns"] == sum(busy(work[i]) for i in outer)
        assert row["device_busy_ns"] + row["device_idle_ns"] == row["device_span_ns"]
        assert row["device_span_ns"] == sum(span(work[i]) for i in outer)
        assert row["host_ns"] == sum(ranges[i]["end_ns"] - ranges[i]["start_ns"] for i in outer)
        each = [busy(work[i]) for i in alike]
        assert row["device_median_ns"] == np.median(each)
        assert row["device_p95_ns"] == pytest.approx(np.percentile(each, 95))
        if style == START_END:
            assert row["self_operations"] is None
        else:
            assert row["self_operations"] == sum(len(own[i]) for i in alike)
            assert row["self_busy_ns"] == sum(busy(own[i]) for i in alike)


def timeline_of(items: list[dict[str, int]]) -> Timeline:
    order = sorted(range(len(items)), key=lambda i: (items[i]["device_id"], items[i]["start_ns"]))
    start, end, device = (
        np.array([items[i][key] for i in order], np.int64)
        for key in ("start_ns", "end_ns", "device_id")
    )
    return Timeline(start, end, device, np.argsort(np.array(order, np.int64)))


@given(
    st.lists(st.tuples(times, st.integers(0, 6), st.integers(0, 2)), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11)), max_size=30, unique=True),
)
def test_coverage_of_any_sets(work: list[tuple[int, int, int]], pairs: list[Any]) -> None:
    items = [{"start_ns": s, "end_ns": s + n, "device_id": d} for s, n, d in work]
    timeline = timeline_of(items)
    kept = [(owner, member) for owner, member in pairs if member < len(items)]
    owners, members = (np.array([pair[k] for pair in kept], np.int64) for k in (0, 1))
    found = timeline.measure([Pairs(owners, members)], 5)
    for owner in range(5):
        chosen = [items[member] for number, member in kept if number == owner]
        assert found.busy_ns[owner] == busy(chosen)
        assert found.span_ns[owner] == span(chosen)


@given(
    st.lists(st.tuples(times, st.integers(0, 6), st.integers(0, 2)), max_size=20),
    st.lists(st.tuples(st.integers(0, 180), st.integers(0, 180), st.integers(0, 3)), max_size=12),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.booleans(),
)
def test_coverage_of_contents(
    work: list[tuple[int, int, int]],
    chosen: list[tuple[int, int, int]],
    random: Random,
    by_set: bool,
    is_native: bool,
) -> None:
    items = [{"start_ns": s, "end_ns": s + n, "device_id": d} for s, n, d in work * 9]
    order = random.sample(range(len(items)), len(items))
    intervals = [(*sorted((min(a, len(items)), min(b, len(items)))), own) for a, b, own in chosen]
    first, last, owner = (np.array([i[k] for i in intervals], np.int64) for k in range(3))
    sets = owner if by_set else np.arange(len(intervals))
    with pytest.MonkeyPatch.context() as patch:
        if not is_native:
            patch.setattr("warpline.native.core", lambda: None)
        found = timeline_of(items).measure_contents(
            Contents(np.array(order, np.int64), first, last),
            4 if by_set else len(intervals),
            sets if by_set else None,
        )
    for number in range(len(found.busy_ns)):
        rows = {
            order[place]
            for (low, high, _), own in zip(intervals, sets.tolist(), strict=True)
            if own == number
            for place in range(low, high)
        }
        members = [items[row] for row in rows]
        assert found.busy_ns[number] == busy(members)
        assert found.span_ns[number] == span(members)
        assert found.first_start_ns[number] == min((i["start_ns"] for i in members), default=0)
        assert found.last_end_ns[number] == max((i["end_ns"] for i in members), default=0)


@settings(max_examples=60)
@given(traces(properly=True), st.sampled_from(["", ":apart", ":merged", ":skip", ":skip=2:apart"]))
def test_layers_are_a_tree_in_order(trace: Trace, arguments: str) -> None:
    result = api.run(trace, f"layers{arguments}")
    if not isinstance(result, Result):
        return
    rows = [dict(zip(result.columns, values, strict=True)) for values in result.rows()]
    around: list[dict[str, Any]] = []
    for row in rows:
        del around[row["depth"] :]
        prefix = [*(f"{one['path']} > " for one in around[-1:]), ""][0]
        assert row["path"] == prefix + row["name"].strip()
        assert row["name"].startswith("  " * row["depth"])
        assert all((one["pid"], one["tid"]) == (row["pid"], row["tid"]) for one in around)
        if around:
            assert row["device_busy_ns"] <= around[-1]["device_busy_ns"]
        around.append(row)
    kept = range_paths(trace, "apart").rows if ":skip" not in arguments else None
    if kept is not None:
        assert sum(row["calls"] for row in rows) == len(kept) == trace.row_count("range")


@given(traces(properly=True))
def test_layers_kept_apart_are_chains_of_names(trace: Trace) -> None:
    paths, ranges, nesting = (
        range_paths(trace, "apart"),
        rows_of(trace, "range"),
        range_nesting(trace),
    )

    def chain(row: int) -> tuple[Any, ...]:
        one = ranges[row]
        text = "[unnamed]" if one["name_id"] is None else trace.strings.text(one["name_id"])
        around = int(nesting.parent[row])
        return (*(chain(around) if nesting.has_parent[row] else (one["thread_id"],)), text)

    chains = {row: chain(row) for row in range(len(ranges))}
    found = dict(zip(paths.rows.tolist(), paths.of_row.tolist(), strict=True))
    assert found.keys() == chains.keys()
    assert len(paths.texts) == len({*chains.values()})
    assert len({(found[row], chain) for row, chain in chains.items()}) == len(paths.texts)
    first = [min(row for row, path in found.items() if path == p) for p in range(len(paths.texts))]
    keys = [_model_key(path, first, paths, ranges) for path in range(len(first))]
    assert keys == sorted(keys)


def _model_key(path: int, first: list[int], paths: Any, ranges: list[Row]) -> tuple[int, ...]:
    """Return the first rows of process, thread, and every path, outermost first."""
    outermost = [ranges[row] for row in first]
    roots = [(row, one) for row, one in zip(first, outermost, strict=True)]
    roots = [pair for pair, inner in zip(roots, paths.tree.has_parent, strict=True) if not inner]
    owner = ranges[first[path]]
    process = min(row for row, one in roots if one["process_id"] == owner["process_id"])
    thread = min(row for row, one in roots if one["thread_id"] == owner["thread_id"])
    keys: list[int] = []
    while True:
        keys.insert(0, first[path])
        if not paths.tree.has_parent[path]:
            return (process, thread, *keys)
        path = int(paths.tree.parent[path])


@given(traces(properly=True))
def test_the_busy_time_of_a_layer_is_a_union(trace: Trace) -> None:
    result = api.run(trace, "layers:apart")
    if not isinstance(result, Result):
        return
    paths, work = range_paths(trace, "apart"), work_in(trace)
    taken = result.columns["device_busy_ns"].to_list()
    for path in range(len(paths.texts)):
        rows = paths.rows[paths.of_row == path].tolist()
        assert taken[path] == busy([item for row in rows for item in work[row]])


def creators(trace: Trace) -> dict[int, int]:
    """Return the forward range of each linked backward range."""
    ranges, found = rows_of(trace, "range"), dict[int, int]()
    texts = [trace.strings.text(one["name_id"]) for one in ranges]
    for row, one in enumerate(ranges):
        if "Backward" not in texts[row] or "seq" not in texts[row] or one["style"] == START_END:
            continue
        seq = texts[row].split("seq = ")[1][0]
        alike = [
            other
            for other, text in enumerate(texts)
            if text.startswith("aten") and f"seq = {seq}" in text
            if ranges[other]["process_id"] == one["process_id"]
            if ranges[other]["style"] != START_END
        ]
        is_sure = len({ranges[other]["thread_id"] for other in alike}) == 1
        if is_sure and ranges[max(alike)]["start_ns"] < one["start_ns"]:
            found[row] = max(alike)
    return found


@given(traces(names=AUTOGRAD_NAMES))
def test_backward_work_belongs_to_what_created_it(trace: Trace) -> None:
    ranges, nesting = rows_of(trace, "range"), range_nesting(trace)
    texts = [trace.strings.text(one["name_id"]) for one in ranges]
    found: list[list[Row]] = [[] for _ in ranges]
    for item in launched(trace):
        candidates = []
        for row, forward in creators(trace).items():
            around = int(nesting.parent[row]) if nesting.has_parent[row] else row
            is_engine = texts[around].startswith(AROUND) and texts[row].startswith("ABackward0")
            outer = around if is_engine else row
            if is_open(ranges[outer], item["call"]):
                one = ranges[outer]
                candidates.append((one["start_ns"], -one["end_ns"], row, forward))
        if not candidates:
            continue
        at, is_inside = max(candidates)[3], True
        while is_inside:
            found[at].append(item)
            at, is_inside = int(nesting.parent[at]), bool(nesting.has_parent[at])
    work = backward_work(trace)
    assert work.operations.tolist() == [len(items) for items in found]
    assert work.busy_ns.tolist() == [busy(items) for items in found]
