"""Steps from ranges, on small traces worked out by hand. Times are in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from warpline import api
from warpline.derived.steps.times import NO_STEP, Steps, measure_windows, step_of_operations, steps
from warpline.errors import UsageError
from warpline.result import Result, Skipped
from warpline.trace import MemorySource, Run, Trace, TraceMeta

US = 1_000
# Threads 0 and 1 belong to the first process, thread 2 to the second.
PROCESS_OF = [0, 0, 1]
DIMENSIONS = {
    "process": {"pid": [1, 2]},
    "thread": {"process_id": PROCESS_OF, "tid": [10, 11, 20]},
    "device": {"gpu_index": [0, 1]},
    "stream": {"process_id": [0, 0, 1], "context_id": [0, 0, 0], "native_id": [7, 8, 7]},
    "context": {"process_id": [0], "device_id": [0], "native_id": [1]},
}


class Program:
    """Ranges, and kernels that are launched in them."""

    def __init__(self, **meta: Any) -> None:
        self.tables: dict[str, list[Mapping[str, Any]]] = {}
        self.meta = meta

    def add(self, table: str, start: float, end: float, **more: Any) -> None:
        """Add a row with its times."""
        row = {"start_ns": int(start * US), "end_ns": int(end * US), **more}
        self.tables.setdefault(table, []).append(row)

    def range(self, start: float, end: float, name: str, thread: int = 0, **more: Any) -> None:
        """Add a push/pop range."""
        whose = {"thread_id": thread, "process_id": PROCESS_OF[thread], "style": 0}
        row = {"is_truncated": False, "source_id": len(self.tables.get("range", []))}
        self.add("range", start, end, name=name, **(whose | row | more))

    def kernel(self, at: float, start: float, end: float, **more: Any) -> None:
        """Add a kernel and the call at a time that launched it; None is an unknown call."""
        thread = more.pop("thread", 0)
        process = PROCESS_OF[thread]
        number = len(self.tables.get("api_call", [])) + 1
        self.call(at, "cudaLaunchKernel", thread, correlation_id=number)
        whose = {"device_id": 0, "stream_id": 0, "process_id": process} | more
        self.add("kernel", start, end, correlation_id=number, name="k", short_name="k", **whose)

    def call(self, at: float, name: str, thread: int = 0, **more: Any) -> None:
        """Add a call of 1 us."""
        whose = {"thread_id": thread, "process_id": PROCESS_OF[thread]}
        self.add("api_call", at, at + 1, name=name, **whose, **more)

    def trace(self) -> Trace:
        """Return the trace."""
        columns = {
            name: {key: [row.get(key) for row in rows] for key in rows[0]}
            for name, rows in self.tables.items()
        }
        meta = TraceMeta((), "memory", **self.meta)
        return Trace(MemorySource({**DIMENSIONS, **columns}, meta))


def regular(count: int = 5, period: float = 100, name: str = "step_{}", **meta: Any) -> Program:
    """Return a program whose steps each launch two kernels, which begin 50 us later."""
    program = Program(**meta)
    for number in range(count):
        begin = number * period
        program.range(begin, begin + period - 10, name.format(number))
        program.kernel(begin + 1, begin + 51, begin + 70)
        program.kernel(begin + 5, begin + 70, begin + 90)
    return program


def windows_of(found: Steps) -> list[tuple[int, int, float, float]]:
    """Return step, device, start and end of each window."""
    columns = (
        found.window_step.tolist(),
        found.window_device.tolist(),
        (found.window_start_ns / US).tolist(),
        (found.window_end_ns / US).tolist(),
    )
    return list(zip(*columns, strict=True))


def labels(found: Steps) -> list[str | None]:
    return found.label.to_list()


def test_a_period_goes_from_first_operation_to_first_operation():
    found = steps(Run(regular(4).trace()))
    assert found.source == "range:step_*"
    assert found.index.tolist() == [0, 1, 2, 3]
    assert windows_of(found) == [(0, 0, 51, 151), (1, 0, 151, 251), (2, 0, 251, 351)]
    assert found.included.tolist() == [True, True, True, False]
    assert found.excluded == ((3, "last"),)
    times = found.times()
    assert (times.count, times.median_ns, times.host_median_ns) == (3, 100 * US, 100 * US)
    assert (times.p95_ns, times.jitter_ratio) == (100 * US, 0)


def test_work_that_any_thread_launches_belongs_to_the_step():
    program = Program()
    for number in range(3):
        program.range(number * 100, number * 100 + 90, f"step_{number}")
        program.kernel(number * 100 + 20, number * 100 + 40, number * 100 + 50)
        # Another thread is first, as when the data are copied ahead.
        program.kernel(number * 100 + 10, number * 100 + 30, number * 100 + 35, thread=1)
    found = steps(Run(program.trace()))
    assert windows_of(found) == [(0, 0, 30, 130), (1, 0, 130, 230)]


def test_work_launched_between_steps_is_in_no_step_but_in_a_period():
    program = regular(3)
    program.kernel(95, 95, 99)
    trace = program.trace()
    assert sorted(step_of_operations(Run(trace)).tolist()) == [NO_STEP, 0, 0, 1, 1, 2, 2]
    assert windows_of(steps(Run(trace))) == [(0, 0, 51, 151), (1, 0, 151, 251)]


def test_the_slowest_stream_sets_the_pace():
    program = regular(4)
    for number in range(4):  # copies for the next steps run ahead, one after 60 us
        program.kernel(number * 100 + 2, 20 + number * 60, 80 + number * 60, stream_id=1)
    found = steps(Run(program.trace()))
    assert found.period_ns.tolist() == [100 * US] * 3 + [0]
    assert windows_of(found)[0] == (0, 0, 51, 151)


def test_a_device_without_work_in_a_step_has_no_period_there():
    program = regular(4)
    for number in (0, 1, 3):
        program.kernel(number * 100 + 6, number * 100 + 60, number * 100 + 65, device_id=1)
    assert [(step, device) for step, device, _, _ in windows_of(steps(Run(program.trace())))] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (2, 0),
    ]


def test_two_processes_may_share_a_device():
    program = regular(3)
    for number in range(3):
        begin = number * 80
        program.range(begin, begin + 70, f"step_{number}", thread=2)
        program.kernel(begin + 1, begin + 10, begin + 20, thread=2, stream_id=2)
    found = steps(Run(program.trace()))
    assert found.process.tolist() == [0, 0, 0, 1, 1, 1]
    assert windows_of(found) == [
        (0, 0, 51, 151),
        (1, 0, 151, 251),
        (3, 0, 10, 90),
        (4, 0, 90, 170),
    ]
    assert found.times().slowest_process == 0
    measured = measure_windows(Run(program.trace()))
    assert measured.process.tolist() == [0, 0, 1, 1]


def test_threads_that_run_steps_at_a_time_have_their_own_work():
    program = regular(3)
    for number in range(3):
        begin = number * 90
        program.range(begin, begin + 80, f"step_{number}", thread=1)
        program.kernel(begin + 1, begin + 20, begin + 30, thread=1, device_id=1)
    found = steps(Run(program.trace()))
    assert found.loop.tolist() == [0, 0, 0, 1, 1, 1]
    assert windows_of(found) == [
        (0, 0, 51, 151),
        (1, 0, 151, 251),
        (3, 1, 20, 110),
        (4, 1, 110, 200),
    ]


def test_a_step_never_begins_before_the_one_in_front_of_it():
    program = Program()
    starts = [50, 40, 300]  # on another stream each, so that the second step overtakes the first
    for number, start in enumerate(starts):
        program.range(number * 10, number * 10 + 9, f"step_{number}")
        program.kernel(number * 10 + 1, start, start + 5, stream_id=number % 2)
    found = steps(Run(program.trace()))
    assert windows_of(found) == [(1, 0, 50, 300)]
    assert found.excluded == ((0, "incomplete"), (2, "last"))


def test_operations_without_a_call_follow_what_ran_before_on_their_stream():
    program = regular(3)
    program.add("kernel", 92, 95, correlation_id=None, device_id=0, stream_id=0, process_id=0)
    program.add("kernel", 130, 140, correlation_id=None, device_id=0, stream_id=0, process_id=0)
    trace = program.trace()
    assert step_of_operations(Run(trace)).tolist() == [0, 0, 0, 0, 1, 1, 2, 2]


def test_without_calls_work_belongs_to_the_step_in_which_it_ran():
    program = regular(3)
    del program.tables["api_call"]
    found = steps(Run(program.trace()))
    assert windows_of(found) == [(0, 0, 51, 151), (1, 0, 151, 251)]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("step_{}", "step_*"),
        ("step {}", "step *"),
        ("Step[{}]", "Step[*]"),
        ("ProfilerStep#{}", "ProfilerStep#*"),
        ("iteration {}", "iteration *"),
        ("iter_{}", "iter_*"),
        ("Iteration: {}", "Iteration: *"),
        ("batch {}", "batch *"),
        ("mini-batch {}", "mini-batch *"),
        ("train_step", "train_step"),
        ("trainStep", "trainStep"),
        ("step {}/100", "step */*"),
        ("epoch 0 step {}", "epoch * step *"),
        ("global_step={}", "global_step=*"),
        ("frame {}", "frame *"),
        ("token {}", "token *"),
        ("request {}", "request *"),
        ("query {}", "query *"),
        ("decode", "decode"),
        ("generate", "generate"),
        ("inference {}", "inference *"),
        ("predict {}", "predict *"),
    ],
)
def test_names_of_steps(name: str, pattern: str):
    found = steps(Run(regular(4, name=name).trace()))
    assert found.source == f"range:{pattern}"
    assert found.index.tolist() == [0, 1, 2, 3]
    assert labels(found) == [name.format(number) for number in range(4)]


@pytest.mark.parametrize(
    "name",
    [
        "layer_{}",
        "warmup",
        "warmup_step_{}",
        "Optimizer.step#AdamW.step",
        "lr_scheduler_step",
        "micro_batch_{}",
        "aten::batch_norm, op_id = {}",
        "steps_done",
        "epoch_{}",
    ],
)
def test_names_of_other_things(name: str):
    assert steps(Run(regular(4, name=name).trace())).source in ("none", "periodicity")


def test_details_in_brackets_are_no_numbers_of_steps():
    names = ("step[EXTEND bs=15 toks=360]", "step[DECODE bs=32]", "step[DECODE bs=16]")
    program = Program()
    for number, name in enumerate(names):
        program.range(number * 100, number * 100 + 90, name)
        program.kernel(number * 100 + 10, number * 100 + 20, number * 100 + 60)
    found = steps(Run(program.trace()))
    assert (found.source, labels(found)) == ("range:step[*]", list(names))
    assert found.index.tolist() == [0, 1, 2]


def test_the_outermost_family_that_repeats_is_the_steps():
    program = regular(3)
    for number in range(3):
        for part in range(2):
            begin = number * 100 + part * 4
            program.range(begin + 0.5, begin + 3.5, f"inner_step_{part}")
    assert steps(Run(program.trace())).source == "range:step_*"


def test_numbers_that_begin_anew_are_no_steps_but_in_epochs():
    program = Program()
    for epoch in range(2):
        for number in range(3):
            begin = epoch * 400 + number * 100
            program.range(begin, begin + 90, f"step_{number}")
            program.kernel(begin + 1, begin + 10, begin + 50)
            program.kernel(begin + 2, begin + 50, begin + 60 + number)
    assert not steps(Run(program.trace())).has_ranges
    for epoch in range(2):
        program.range(epoch * 400 - 1, epoch * 400 + 399, f"epoch_{epoch}")
    found = steps(Run(program.trace()))
    assert found.source == "range:step_*"
    assert labels(found) == ["step_0", "step_1", "step_2"] * 2


def test_a_range_that_holds_little_of_the_work_is_no_step():
    program = regular(4, name="part_{}")
    for number in range(4):
        begin = number * 100
        program.range(begin + 20, begin + 30, f"step_{number}")
        for place in range(5):
            program.kernel(begin + 40 + place, begin + 90, begin + 91)
        program.kernel(begin + 21, begin + 92, begin + 93)
    assert not steps(Run(program.trace())).has_ranges


def test_ranges_of_a_process_that_launches_nothing_are_no_steps():
    program = regular(4, name="part_{}")
    for number in range(4):
        program.range(number * 90, number * 90 + 80, f"batch {number}", thread=2)
    assert not steps(Run(program.trace())).has_ranges
    program = regular(4)
    for number in range(9):
        program.range(number * 40, number * 40 + 39, f"batch {number}", thread=2)
    found = steps(Run(program.trace()))
    assert found.source == "range:step_*"
    assert found.process.tolist() == [0] * 4


def test_ranges_that_the_user_names():
    program = regular(4, name="work item {}")
    trace = program.trace()
    assert steps(Run(trace, "work item *")).index.tolist() == [0, 1, 2, 3]
    assert steps(Run(trace, "work item")).index.tolist() == [0, 1, 2, 3]
    assert len(steps(Run(trace, "work item 2"))) == 1
    with pytest.raises(UsageError, match="'work'"):
        steps(Run(trace, "work"))
    with pytest.raises(UsageError, match="no ranges"):
        steps(Run(Trace(MemorySource({})), "step_*"))


def test_ranges_of_one_name_that_overlap_are_no_steps():
    program = regular(3)
    for number in range(3):
        program.range(number * 100, number * 100 + 150, f"request {number}", style=1)
    with pytest.raises(UsageError, match="overlap"):
        steps(Run(program.trace(), "request *"))
    assert steps(Run(program.trace())).source == "range:step_*"


def test_no_period_reaches_over_a_rest():
    program = regular(6, windows_ns=((0, 295 * US), (299 * US, 700 * US)), span_ns=(0, 700 * US))
    found = steps(Run(program.trace()))
    assert [step for step, *_ in windows_of(found)] == [0, 1, 3, 4]
    assert found.excluded == ((2, "last"), (5, "last"))
    assert windows_of(found)[1] == (1, 0, 151, 251)


def test_samples_of_one_step_each_have_no_periods():
    windows = tuple((number * 100 * US, number * 100 * US + 95 * US) for number in range(4))
    found = steps(Run(regular(4, windows_ns=windows, span_ns=(0, 400 * US)).trace()))
    assert len(found) == 4
    assert not windows_of(found)
    assert "--steps 2" in found.notes[0]


def test_where_no_device_worked_no_longer_samples_are_asked_for():
    windows = ((0, 195 * US), (200 * US, 395 * US))
    program = regular(4, windows_ns=windows, span_ns=(0, 400 * US))
    del program.tables["kernel"], program.tables["api_call"]
    assert steps(Run(program.trace())).notes == ()


def test_steps_of_a_program_without_a_device_have_host_times():
    program = regular(4)
    del program.tables["kernel"], program.tables["api_call"]
    found = steps(Run(program.trace()))
    assert found.source == "range:step_*"
    assert found.included.tolist() == [True, True, True, False]
    assert found.times().host_median_ns == 100 * US
    assert found.times().median_ns is None
    table = api.run(program.trace(), "steps")
    assert isinstance(table, Result)
    assert table.columns["host_ns"].to_list() == [100 * US] * 3 + [None]


def test_a_range_that_was_open_at_the_end_is_incomplete():
    program = regular(3)
    program.range(300, 350, "step_3", is_truncated=True)
    found = steps(Run(program.trace()))
    assert found.excluded == ((2, "incomplete"), (3, "incomplete"))


def test_a_step_without_device_work_is_left_out():
    program = regular(4)
    program.range(400, 490, "step_4")
    program.range(500, 590, "step_5")
    program.kernel(501, 551, 560)
    found = steps(Run(program.trace()))
    assert found.excluded == ((3, "incomplete"), (4, "no device work"), (5, "last"))


def test_what_is_measured_are_the_included_steps():
    trace = regular(4).trace()
    found = measure_windows(Run(trace))
    assert found.step.tolist() == [0, 1, 2]
    assert (found.start_ns // US).tolist() == [51, 151, 251]
    assert (found.end_ns // US).tolist() == [151, 251, 351]


def test_without_steps_each_device_is_measured_from_its_first_operation_to_its_last():
    program = Program(span_ns=(0, 1000 * US))
    program.kernel(1, 10, 20)
    program.kernel(2, 500, 520, device_id=1)
    found = measure_windows(Run(program.trace()))
    assert found.device.tolist() == [0, 1]
    assert found.start_ns.tolist() == [10 * US, 500 * US]
    assert found.end_ns.tolist() == [20 * US, 520 * US]
    assert found.step.tolist() == [NO_STEP] * 2
    found = measure_windows(Run(program.trace().window(5 * US, 600 * US)))
    assert list(zip(found.start_ns, found.end_ns, strict=True)) == [(5 * US, 600 * US)] * 2
    sampled = Program(span_ns=(0, 1000 * US), windows_ns=((0, 30 * US), (400 * US, 600 * US)))
    sampled.tables = program.tables
    found = measure_windows(Run(sampled.trace()))
    assert found.device.tolist() == [0, 0, 1, 1]
    assert found.start_ns.tolist() == [0, 400 * US] * 2
    assert found.end_ns.tolist() == [30 * US, 600 * US] * 2


def test_a_trace_of_nothing_has_no_steps():
    trace = Trace(MemorySource({}))
    found = steps(Run(trace))
    assert (found.source, len(found), found.excluded) == ("none", 0, ())
    assert found.times().count == 0
    assert len(measure_windows(Run(trace)).device) == 0
    assert found.has_next.tolist() == found.period_ns.tolist() == []


def test_the_table_lists_each_step_and_why_it_is_not_counted():
    table = api.run(regular(4).trace(), "steps")
    assert isinstance(table, Result)
    columns = {name: values.to_list() for name, values in table.columns.items()}
    assert columns["device_ns"] == [100 * US] * 3 + [None]
    assert columns["host_ns"] == [100 * US] * 3 + [None]
    assert columns["busy_ns"] == [39 * US] * 3 + [None]
    assert columns["busy_ratio"][:3] == [0.39] * 3
    assert columns["launches"] == columns["kernels"] == [2] * 4
    assert columns["state"] == ["yes", "yes", "yes", "last"]
    assert columns["step"] == ["step_0", "step_1", "step_2", "step_3"]
    assert table.notes[0].startswith("3 steps are analyzed, from range:step_*: median 100 us")


def test_what_differs_in_a_slow_step():
    program = Program()
    begin = 0.0
    for number in range(6):
        pause = 50 if number == 3 else 0
        program.range(begin, begin + 90 + pause, f"step_{number}")
        program.range(begin, begin + 8 + pause, "data")
        program.call(begin, "cudaMalloc", correlation_id=None) if pause else None
        program.kernel(begin + pause + 10, begin + pause + 20, begin + pause + 60)
        begin += 100 + pause
    table = api.run(program.trace(), "step_differences")
    assert isinstance(table, Result)
    columns = {name: values.to_list() for name, values in table.columns.items()}
    rows = list(
        zip(columns["step"], columns["place"], columns["kind"], columns["name"], strict=True)
    )
    # The pause delays the first operation of step_3, and so is in the period of step_2.
    assert ("step_2", "device", "idle") in {row[:3] for row in rows}
    extra = sum(
        ns
        for row, ns in zip(rows, columns["extra_ns"], strict=True)
        if row[:2] == ("step_2", "device")
    )
    assert extra == 50 * US
    assert {*columns["step_extra_ns"]} == {50 * US}
    assert {*columns["index"]} == {2}


def test_steps_that_are_all_alike_have_no_differences():
    table = api.run(regular(5).trace(), "step_differences")
    assert isinstance(table, Result)
    assert len(table) == 0
    assert table.notes == ("no step is more than 2% above the median of 100 us",)
    assert isinstance(api.run(regular(1).trace(), "step_differences"), Skipped)
    with pytest.raises(UsageError, match="'x'"):
        api.run(regular(5).trace(), "step_differences:top=x")
