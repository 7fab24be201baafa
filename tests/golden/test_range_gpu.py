"""GPU work by range: a trace small enough to count by hand, and captures against nsys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import api
from warpline.errors import UsageError
from warpline.result import Result, Skipped
from warpline.trace import MemorySource, Trace

PUSH_POP, START_END = 0, 1

# nsys 2024.2's nvtx_gpu_proj_trace: rows, then the sums of projected starts, projected durations,
# durations on the CPU, operations, levels and parent ids.
NSYS_PROJECTION = {
    "host_sync.bad": (90, 4541117671, 148119333, 185458050, 6156, 114, 2868),
    "pageable_h2d.fixed": (30, 557582870, 42540749, 18315460, 168, 24, 324),
    "ddp_serial.bad.rank0": (1014, 101192266647, 344236961, 334537557, 5670, 1956, 440850),
}
# And as nvtx_gpu_proj_sum: total projected time, instances, operations.
NSYS_SUMMARY = {
    "forward": (44487042, 6, 2676),
    "optimizer": (3137349, 6, 36),
    "layer_0": (2726184, 6, 72),
    "layer_1": (1827601, 6, 72),
    "layer_3": (1660401, 6, 72),
    "layer_2": (1658930, 6, 72),
    "layer_4": (1657682, 6, 72),
    "layer_5": (1645554, 6, 72),
    "layer_7": (1599538, 6, 72),
    "layer_6": (1587250, 6, 72),
    "CCCL:cub::DeviceRadixSort": (642714, 6, 120),
    "CCCL:cub::DeviceSelect::UniqueByKey": (62592, 6, 12),
    "CCCL:cub::DeviceScan::ExclusiveScan": (62303, 6, 12),
    "backward": (4512, 6, 6),
}


def trace_of(
    ranges: Sequence[tuple[Any, ...]], launches: Sequence[tuple[Any, ...]], **more: Any
) -> Trace:
    """Return a trace of one process with two threads.

    Args:
        ranges: Start, end, thread, style, name.
        launches: Time and thread of a kernel's launch, its start, end, and device.
        more: Further tables.
    """
    starts, ends, threads, styles, names = zip(*ranges, strict=True)
    numbers = range(len(launches))
    return Trace(
        MemorySource(
            {
                "process": {"pid": [7]},
                "thread": {"process_id": [0, 0], "tid": [70, 71]},
                "range": {
                    "start_ns": starts,
                    "end_ns": ends,
                    "thread_id": threads,
                    "style": styles,
                    "name": names,
                    "source_id": range(1, len(ranges) + 1),
                },
                "api_call": {
                    "start_ns": [one[0] for one in launches],
                    "end_ns": [one[0] + 1 for one in launches],
                    "thread_id": [one[1] for one in launches],
                    "correlation_id": numbers,
                },
                "kernel": {
                    "start_ns": [one[2] for one in launches],
                    "end_ns": [one[3] for one in launches],
                    "device_id": [one[4] for one in launches],
                    "correlation_id": numbers,
                },
                **more,
            }
        )
    )


def columns(result: Result, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(result.columns[name].to_list() for name in names), strict=True))


def one_step() -> Trace:
    """Return a step with two blocks; the second contains another of the same name."""
    return trace_of(
        [
            (0, 100, 0, PUSH_POP, "step"),
            (10, 30, 0, PUSH_POP, "block"),
            (40, 90, 0, PUSH_POP, "block"),
            (50, 60, 0, PUSH_POP, "block"),
            (5, 95, 1, START_END, "request"),
        ],
        [
            (5, 0, 100, 110, 0),  # in the step and the request
            (12, 0, 110, 130, 0),
            (45, 0, 150, 160, 0),
            (55, 0, 155, 175, 1),  # on another device while the one before runs
            (120, 0, 200, 210, 0),  # in no range
        ],
    )


def test_work_of_each_range() -> None:
    result = api.stats(one_step(), "range_gpu_trace")
    shown = ("name", "first_start_ns", "last_end_ns", "device_busy_ns", "device_span_ns")
    assert columns(result, *shown, "device_idle_ns") == [
        ("step", 100, 175, 60, 80, 20),  # device 0: 100 to 160; device 1: 155 to 175
        ("request", 100, 175, 60, 80, 20),
        ("block", 110, 130, 20, 20, 0),
        ("block", 150, 175, 30, 30, 0),
        ("block", 155, 175, 20, 20, 0),
    ]
    rest = ("operations", "launches", "self_busy_ns", "self_operations", "depth", "parent_id")
    assert columns(result, *rest) == [
        (4, 4, 10, 1, 0, None),
        (4, 4, None, None, None, None),
        (1, 1, 20, 1, 1, 1),
        (2, 2, 10, 1, 1, 1),
        (1, 1, 20, 1, 2, 3),
    ]
    assert [note.split(":")[0] for note in result.notes] == [
        "1 of 5 GPU operations belong to no range"
    ]


def test_a_range_inside_one_of_its_name_does_not_count_twice() -> None:
    result = api.stats(one_step(), "range_gpu_sum")
    shown = ("name", "style", "device_busy_ns", "host_ns", "instances", "operations", "launches")
    assert columns(result, *shown) == [
        ("request", "StartEnd", 60, 90, 1, 4, 4),
        ("step", "PushPop", 60, 100, 1, 4, 4),
        ("block", "PushPop", 50, 70, 3, 3, 3),
    ]
    assert columns(result, "name", "self_busy_ns", "device_median_ns", "host_median_ns") == [
        ("request", None, 60.0, 90.0),
        ("step", 10, 60.0, 100.0),
        ("block", 50, 20.0, 20.0),
    ]


def test_a_start_end_range_takes_in_the_launches_of_all_threads_wherever_it_ends() -> None:
    trace = trace_of([(0, 50, 0, START_END, "request")], [(10, 1, 60, 70, 0), (60, 1, 70, 80, 0)])
    found = columns(api.stats(trace, "range_gpu_trace"), "operations", "device_busy_ns")
    assert found == [(1, 10)]


@pytest.mark.parametrize(("level", "operations", "busy_ns"), [(0, 1, 30), (1, 2, 15)])
def test_a_graph_counts_as_a_whole_or_by_its_nodes(
    level: int, operations: int, busy_ns: int
) -> None:
    graph = {"start_ns": [10], "end_ns": [40], "correlation_id": [0], "level": [level]}
    nodes = {"start_ns": [10, 30], "end_ns": [20, 35], "correlation_id": [0, 0]}
    trace = trace_of(
        [(0, 9, 0, PUSH_POP, "step")],
        [(5, 0, 10, 20, 0)],
        graph_launch=graph,
        kernel=nodes if level else {"start_ns": []},
    )
    result = api.stats(trace, "range_gpu_trace")
    shown = ("operations", "launches", "device_busy_ns")
    assert columns(result, *shown) == [(operations, 1, busy_ns)]


def steps(count: int) -> Trace:
    """Return steps of two layers; the first step takes ten times as long."""
    ranges: list[tuple[Any, ...]] = []
    launches: list[tuple[Any, ...]] = []
    for number in range(count):
        begin = 1000 * number
        ranges.append((begin, begin + 100, 0, PUSH_POP, f"step_{number}"))
        for layer in range(2):
            at = begin + 10 + 40 * layer
            ranges.append((at, at + 30, 0, PUSH_POP, f"layer_{layer}"))
            took = (10 if number else 100) * (layer + 1)
            launches.append((at + 5, 0, at + 5, at + 5 + took, 0))
    ranges.append((5, 8, 1, PUSH_POP, "loader"))
    return trace_of(ranges, launches)


def test_layers_in_model_order() -> None:
    result = api.stats(steps(4), "layers")
    shown = ("name", "depth", "calls", "device_median_ns", "kernels_per_call", "tid")
    assert columns(result, *shown) == [
        ("step_*", 0, 4, 30.0, 2.0, 70),
        ("  layer_0", 1, 4, 10.0, 1.0, 70),
        ("  layer_1", 1, 4, 20.0, 1.0, 70),
        ("loader", 0, 1, 0.0, 0.0, 71),
    ]
    # In step 0 the layers overlap: 15 to 115 and 55 to 255.
    assert columns(result, "path", "device_busy_ns", "parent_ratio", "total_ratio") == [
        ("step_*", 330, None, 1.0),
        ("step_* > layer_0", 130, 130 / 330, 130 / 330),
        ("step_* > layer_1", 260, 260 / 330, 260 / 330),
        ("loader", 0, None, 0.0),
    ]


def test_warm_up_is_left_out_by_position() -> None:
    result = api.stats(steps(4), "layers:skip=1")
    assert columns(result, "name", "calls", "device_busy_ns", "device_p95_ns") == [
        *(("step_*", 3, 90, 30.0), ("  layer_0", 3, 30, 10.0), ("  layer_1", 3, 60, 20.0)),
    ]  # the loader ran while the first step did
    assert result.notes == ("warm-up skipped: the first 1 instance of step_*",)
    assert api.stats(steps(4), "layers:skip").rows() == result.rows()
    assert len(api.stats(steps(4), "layers:skip=4")) == 0


def test_numbers_that_count_are_merged_and_others_are_not() -> None:
    def names(count: int, table: str) -> list[Any]:
        return [name for (name,) in columns(api.stats(steps(count), table), "name")]

    layers = ["  layer_0", "  layer_1"]
    assert names(2, "layers") == ["step_0", *layers, "step_1", *layers, "loader"]
    assert names(3, "layers") == ["step_*", *layers, "loader"]
    assert names(3, "layers:apart").count("  layer_0") == 3
    three_layers = [(0, 90, 0, PUSH_POP, "forward")]
    three_layers += [(10 * n, 10 * n + 5, 0, PUSH_POP, f"layer_{n % 3}") for n in range(6)]
    trace = trace_of(three_layers, [(11, 0, 20, 30, 0)])
    by_default = columns(api.stats(trace, "layers"), "name", "calls")
    assert by_default == [
        *(("forward", 1), ("  layer_0", 2), ("  layer_1", 2), ("  layer_2", 2)),
    ]
    assert columns(api.stats(trace, "layers:merged"), "name", "calls") == [
        *(("forward", 1), ("  layer_*", 6)),
    ]


@pytest.mark.parametrize("wrong", ["layers:skip=two", "layers:skip=-1", "layers:apart=1"])
def test_wrong_arguments_are_told(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"two|-1|takes no value"):
        api.stats(steps(2), wrong)


def test_nothing_repeats_and_nothing_nests() -> None:
    once = trace_of([(0, 50, 0, PUSH_POP, "step")], [(10, 0, 60, 70, 0)])
    result = api.stats(once, "layers:skip")
    assert columns(result, "calls") == [(1,)]
    assert result.notes == ("no warm-up skipped: no range repeats",)
    free = trace_of([(0, 50, 0, START_END, "step")], [(10, 0, 60, 70, 0)])
    assert api.run(free, "layers") == Skipped("layers", "all recorded ranges are start/end ranges")


@pytest.mark.parametrize("table", ["range_gpu_sum", "range_gpu_trace", "layers"])
def test_without_launches_there_is_nothing_to_attribute(table: str) -> None:
    trace = trace_of([(0, 50, 0, PUSH_POP, "step")], [(10, 0, 60, 70, 0)])
    alone = trace.window(None, 5)  # the range is open, and nothing was launched yet
    outcome = api.run(alone, table)
    assert isinstance(outcome, Skipped)
    assert "--trace=cuda,nvtx" in (outcome.hint or "")


@pytest.mark.parametrize("name", NSYS_PROJECTION)
def test_spans_are_nsys_s_projections(capture: Callable[[str], Path], name: str) -> None:
    result = api.stats(warpline.open(capture(name)), "range_gpu_trace")
    shown = ("first_start_ns", "device_span_ns", "host_ns", "operations", "depth", "parent_id")
    worked = [row for row in columns(result, *shown) if row[3]]
    sums = tuple(sum(value or 0 for value in column) for column in zip(*worked, strict=True))
    assert (len(worked), *sums) == NSYS_PROJECTION[name]


def test_summary_against_nsys(capture: Callable[[str], Path]) -> None:
    result = api.stats(warpline.open(capture("host_sync.bad")), "range_gpu_sum")
    shown = ("name", "device_span_ns", "instances", "operations")
    found = {name: rest for name, *rest in columns(result, *shown) if "step" not in name}
    assert found.pop("data") == [0, 6, 0]
    assert found == {name: [*values] for name, values in NSYS_SUMMARY.items()}


def test_whole_graphs_are_attributed_to_ranges(capture: Callable[[str], Path]) -> None:
    result = api.stats(warpline.open(capture("cuda_graph_level")), "range_gpu_trace")
    assert set(columns(result, "operations", "launches")) == {(1, 1)}
    assert result.notes == ()


def backward_pass() -> Trace:
    """Return two layers and the backward function of the first, on another thread."""
    engine = "autograd::engine::evaluate_function: AddmmBackward0, op_id = 8"
    return trace_of(
        [
            (0, 90, 0, PUSH_POP, "step"),
            (10, 30, 0, PUSH_POP, "layer_0"),
            (12, 28, 0, PUSH_POP, "aten::linear, seq = 5, op_id = 1"),
            (13, 14, 0, PUSH_POP, "aten::detach, seq = 5, op_id = 2"),
            (15, 25, 0, PUSH_POP, "aten::addmm, seq = 5, op_id = 3"),
            (30, 40, 0, PUSH_POP, "layer_1"),
            (50, 70, 1, PUSH_POP, engine),
            (52, 60, 1, PUSH_POP, "AddmmBackward0, seq = 5, op_id = 9"),
            (72, 80, 1, PUSH_POP, "TBackward0, seq = 99, op_id = 10"),
        ],
        [
            (20, 0, 20, 25, 0),
            (55, 1, 60, 70, 0),
            (65, 1, 66, 80, 0),  # launched by the engine for the function
            (75, 1, 80, 90, 0),  # of a function that nothing here created
        ],
    )


def test_backward_work_by_sequence_number() -> None:
    result = api.stats(backward_pass(), "range_gpu_trace:autograd")
    shown = ("name", "operations", "backward_operations", "backward_busy_ns")
    found = {name.partition(",")[0]: rest for name, *rest in columns(result, *shown)}
    assert found == {
        "step": [1, 2, 20],
        "layer_0": [1, 2, 20],
        "aten::linear": [1, 2, 20],
        "aten::detach": [0, 0, 0],
        "aten::addmm": [1, 2, 20],
        "layer_1": [0, 0, 0],
        "autograd::engine::evaluate_function: AddmmBackward0": [2, 0, 0],
        "AddmmBackward0": [1, 0, 0],
        "TBackward0": [1, 0, 0],
    }
    assert result.notes == (
        "1 of 2 backward ranges could not be linked: sequence number missing or not unique",
    )
    summary = api.stats(backward_pass(), "range_gpu_sum:autograd")
    assert ("layer_0", 20, 2) in columns(summary, "name", *shown[:1:-1])
    layers = api.stats(backward_pass(), "layers:autograd")
    assert ("  layer_0", 20.0) in columns(layers, "name", "backward_median_ns")


def test_numbers_of_two_threads_are_not_mixed_up() -> None:
    ranges = [
        (0, 5, 0, PUSH_POP, "aten::a, seq = 1"),
        (0, 6, 1, PUSH_POP, "aten::b, seq = 1"),
        (10, 20, 1, PUSH_POP, "ABackward0, seq = 1"),
    ]
    trace = trace_of(ranges, [(12, 1, 12, 20, 0)])
    result = api.stats(trace, "range_gpu_trace:autograd")
    assert columns(result, "backward_operations") == [(0,), (0,), (0,)]
    assert result.notes == (
        "1 of 1 backward range could not be linked: sequence number missing or not unique",
    )


def test_without_autograd_ranges_a_note_says_so() -> None:
    for table in ("range_gpu_trace", "range_gpu_sum", "layers"):
        notes = api.stats(one_step(), f"{table}:autograd").notes
        assert "no backward work was linked" in "; ".join(notes)


def test_all_backward_work_of_a_capture_is_linked(capture: Callable[[str], Path]) -> None:
    trace = warpline.open(capture("rich_metrics_sampling"))
    result = api.stats(trace, "layers:autograd")
    layers = [row for row in columns(result, "name", "calls") if row[0].startswith("    layer_")]
    assert layers == [(f"    layer_{number}", 3) for number in range(8)]
    work = api.stats(trace, "range_gpu_trace:autograd")
    rows = columns(work, "name", "depth", "tid", "operations", "backward_operations")
    steps = [row for row in rows if row[0].startswith("step_")]
    engine = sum(row[3] for row in rows if row[1] == 0 and row[2] != steps[0][2])
    assert sum(row[4] for row in steps) == engine == 852


def test_a_forward_range_that_came_later_created_nothing() -> None:
    ranges = [
        (10, 20, 1, PUSH_POP, "ABackward0, seq = 1"),
        (30, 35, 0, PUSH_POP, "aten::a, seq = 1"),
    ]
    result = api.stats(trace_of(ranges, [(12, 1, 12, 20, 0)]), "range_gpu_trace:autograd")
    assert columns(result, "backward_operations") == [(0,), (0,)]


def test_warm_up_takes_along_what_is_nested_in_ranges_that_began_meanwhile() -> None:
    ranges = [(10 * n, 10 * n + 10, 0, PUSH_POP, "step") for n in range(3)]
    ranges += [(5, 25, 1, PUSH_POP, "worker"), (15, 20, 1, PUSH_POP, "batch")]
    result = api.stats(trace_of(ranges, [(12, 0, 12, 20, 0)]), "layers:skip")
    assert columns(result, "path", "calls") == [("step", 2)]


def test_one_long_instance_does_not_make_a_range_the_step() -> None:
    ranges = [(100 * n, 100 * n + 50, 0, PUSH_POP, "step") for n in range(3)]
    ranges += [(60, 61, 0, PUSH_POP, "lock"), (400, 900, 0, PUSH_POP, "lock")]
    result = api.stats(trace_of(ranges, [(12, 0, 12, 20, 0)]), "layers:skip")
    assert columns(result, "path", "calls") == [("step", 2), ("lock", 2)]
