"""Hardware counters of every launch, through the fake's range profiler.

Whatever the agent does wrong with CUPTI, the fake tells on standard error, where `run` expects
nothing.
"""

from __future__ import annotations

import pytest
from agent_cuda import counted
from agent_cuda import cuda_logs as logs

from warpline.capture.session.control import RangeMode, State

MODES = [
    pytest.param(counted.LIGHT, "auto", 1, id="one pass"),
    pytest.param(counted.LIGHT, "serial", 1, id="serial"),
    pytest.param(counted.LIGHT, "kernel", 1, id="kernel replay, one pass"),
    pytest.param(counted.HEAVY, "auto", counted.PASSES, id="nine passes"),
    pytest.param(counted.HEAVY, "kernel", counted.PASSES, id="kernel replay"),
]
BOTH = pytest.mark.parametrize("metrics", [counted.LIGHT, counted.HEAVY], ids=["serial", "kernel"])


@pytest.mark.parametrize(("metrics", "replay", "passes"), MODES)
def test_every_launch_is_counted_once(run, metrics, replay, passes):
    pattern = ("k7g2", "k1g1", "d3g5b64", "c2g9")
    folder = run(
        *("init", "stream", 3, "repeat", 3, ",".join(pattern), "memory"),
        **counted.keys(metrics, replay=replay),
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k7g2", "k1g1", "k3g5", "k2g9"] * 3
    counted.check_values(kernels, metrics)
    # Each pass runs the kernel, and memory is as if it had run once.
    assert counted.output(folder) == f"memory 12 of {12 * passes}, 0 failed\n"
    for seen, one in enumerate(kernels):
        record, number = one.record, one.number
        assert (record.device, record.context, record.stream) == (1, 2, 3)
        assert record.name == f"_Z7kernel{number}Pf"
        assert record.grid[1:] == (1, 1)
        assert record.block == (64 if number == 3 else 256, 1, 1)
        assert record.registers == 32 + number
        assert record.shared == (128 * number, 16 * number)
        assert record.local == 8 * number
        assert (record.passes, record.seen, record.kernels) == (passes, seen, None)
        assert record.correlation > 1000


def test_streams_without_a_handle_have_a_number(run):
    folder = run("init", "repeat", 1, "k1,p2", **counted.keys())
    assert [one.record.stream for one in counted.read(folder)] == [7, 21]


def test_one_pass_keeps_the_counters_programmed(run, tmp_path):
    told = tmp_path / "told"
    run(
        *("init", "repeat", 30, "k1,k2g3"),
        **counted.keys(),
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    assert counted.starts(told) == ["user"]


def test_kernel_replay_is_on_around_launches_only(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *("init", "repeat", 5, "k1"),
        **counted.keys(counted.HEAVY),
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    assert counted.starts(told) == ["kernel"] * 5
    assert len(counted.read(folder)) == 5


def test_names_and_units_of_metrics(run):
    folder = run("init", "repeat", 1, "k1", **counted.keys())
    names = [(one.metric, one.name, one.unit) for one in logs.found(folder, logs.COUNTER_NAME)]
    assert sorted(set(names)) == [
        (0, counted.TIME, "ns"),
        (1, counted.INSTRUCTIONS, "inst"),
        (2, counted.WARPS, ""),
    ]
    (how,) = [text for kind, text in logs.notes(folder) if kind == logs.NOTE_COUNTERS]
    assert "GH100" in how
    assert "1 pass" in how


def test_many_kernels_with_long_names(run):
    folder = run("init", "names", 300, **counted.keys())
    names = [one.record.name for one in counted.read(folder)]
    assert names == [f"_Z{number}" + "k" * 200 for number in range(300)]


def test_nothing_else_is_recorded(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *("init", "repeat", 5, "k1,m,s"),
        **counted.keys(),
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    assert "on 10\n" not in told.read_text()
    assert logs.found(folder, logs.KERNEL) == []
    assert logs.calls(folder) == {}


def test_places_are_described(run):
    folder = run("init", "stream", 3, "repeat", 2, "k1", **counted.keys())
    assert {one.id for one in logs.found(folder, logs.DEVICE)} >= {1}
    assert {one.id for one in logs.found(folder, logs.CONTEXT)} >= {2}


# ---- graphs and captures

CAPTURED = ("begin_capture", "repeat", 1, "k5,k6g4", "end_capture")


@BOTH
def test_graphs_run_and_are_not_counted(run, metrics):
    folder = run(
        *("init", "stream", 3, "repeat", 2, "k1", *CAPTURED),
        *("repeat", 2, "k1,k2", "launch_graph", 2, "repeat", 2, "k1,g1", "memory"),
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    # All but the captured ones, which count among those that were seen.
    assert [one.item for one in kernels] == ["k1g1"] * 3 + ["k2g1", "k1g1", "k2g1"] + ["k1g1"] * 2
    counted.check_values(kernels, metrics)
    ran = 8 * (1 if metrics is counted.LIGHT else counted.PASSES) + 8
    assert counted.output(folder) == f"memory 16 of {ran}, 0 failed\n"


@BOTH
def test_other_streams_may_launch_while_one_is_captured(run, metrics):
    folder = run(
        *("init", "stream", 3, "repeat", 1, "k1", "begin_capture", "repeat", 1, "k5"),
        *("stream", 4, "repeat", 2, "k2", "stream", 3, "end_capture", "repeat", 1, "k1"),
        *("launch_graph", 1, "memory"),
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    counted.check_values(kernels, metrics)
    # Whether those that run meanwhile are counted is not said: the capture is what matters.
    assert [one.item for one in kernels if one.number == 1] == ["k1g1"] * 2
    assert not [one for one in kernels if one.number == 5]
    assert counted.output(folder).startswith("memory 5 of ")
    assert counted.output(folder).endswith(", 0 failed\n")


@BOTH
def test_a_capture_that_ends_with_its_stream(run, metrics):
    folder = run(
        *("init", "stream", 3, "begin_capture", "repeat", 1, "k5", "end_stream"),
        *("stream", 4, "repeat", 3, "k1", "memory"),
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1"] * 3
    counted.check_values(kernels, metrics)
    assert counted.output(folder).startswith("memory 3 of ")


@BOTH
def test_a_launch_that_fails_is_not_counted(run, metrics):
    folder = run("init", "repeat", 3, "k1,k2g0,k3g7", "memory", **counted.keys(metrics))
    kernels = [one for one in counted.read(folder) if not one.record.is_failed]
    assert [one.item for one in kernels] == ["k1g1", "k3g7"] * 3
    counted.check_values(kernels, metrics)
    assert counted.output(folder).endswith(", 3 failed\n")


# ---- threads, contexts, images

THREADS, LAUNCHES = 4, 40


@BOTH
@pytest.mark.parametrize("contexts", [1, 2])
def test_threads(run, metrics, contexts):
    folder = run(
        *("init", "thread_kernels", THREADS, LAUNCHES, contexts, "memory"),
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    counted.check_values(kernels, metrics)
    grids = {(one.number, one.record.grid[0]) for one in kernels}
    launched = {(t, 1000 * t + i + 1) for t in range(THREADS) for i in range(LAUNCHES)}
    assert grids == launched
    assert len(kernels) == len(launched)
    for one in kernels:
        assert one.record.context == 2 + one.number % contexts
        assert one.record.device == (one.record.context + 1) % 2
    assert len({one.record.tid for one in kernels}) == THREADS
    assert counted.output(folder).startswith(f"memory {len(launched)} of ")


@BOTH
def test_threads_whose_kernels_are_not_wanted(run, metrics):
    # Theirs must not be taken for those that are, also if counting begins while one is launched.
    folder = run(
        *("init", "thread_kernels", THREADS, LAUNCHES, 1, "memory"),
        **counted.keys(metrics, name="kernel2"),
        environment={"FAKE_COUNTERS_LATE": "0"},
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == [f"k2g{2000 + i + 1}" for i in range(LAUNCHES)]
    counted.check_values(kernels, metrics)
    assert counted.output(folder).startswith(f"memory {THREADS * LAUNCHES} of ")


@BOTH
def test_kernels_that_wait_for_each_other_are_excluded(run, metrics):
    # Counting on one device must not keep another thread from launching on another.
    folder = run(
        *("init", "collectives", 20, "memory"),
        **counted.keys(metrics, exclude="kernel90"),
        environment={"FAKE_COUNTERS_COLLECTIVE": "90"},
    )
    kernels = counted.read(folder)
    counted.check_values(kernels, metrics)
    items = {one.item for one in kernels}
    assert items == {f"k{number}g{grid + 1}" for number in (1, 2) for grid in range(20)}
    assert counted.output(folder).startswith("memory 80 of ")


def test_no_launch_is_lost_when_an_image_is_full(run):
    # Four ranges of 8 MB in what the agent lets an image be.
    folder = run(
        *("init", "repeat", 11, "k1,k2g2,k3g3", "memory"),
        **counted.keys(),
        environment={"FAKE_COUNTERS_RANGE_BYTES": str(8 << 20)},
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1", "k2g2", "k3g3"] * 11
    counted.check_values(kernels)


def test_more_launches_than_an_image_has_ranges(run):
    folder = run("init", "repeat", 700, "k1,k2g2,d3g3", **counted.keys())
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1", "k2g2", "k3g3"] * 700
    counted.check_values(kernels)


@BOTH
def test_contexts_end(run, metrics):
    folder = run(
        *("init", "repeat", 3, "k1", "context", 4, "repeat", 2, "k2", "end_context", 4),
        *("context", 2, "repeat", 1, "k3", "reset_device", 1, "context", 3, "repeat", 2, "k4"),
        "memory",
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1"] * 3 + ["k2g1"] * 2 + ["k3g1"] + ["k4g1"] * 2
    assert [one.record.context for one in kernels] == [2, 2, 2, 4, 4, 2, 3, 3]
    assert [one.record.device for one in kernels] == [1, 1, 1, 1, 1, 1, 0, 0]
    counted.check_values(kernels, metrics)
    assert counted.output(folder).startswith("memory 8 of ")


# ---- when counting is on


@BOTH
def test_only_while_recording_is_on(run, metrics):
    folder = run(
        *("init", "repeat", 2, "k1", "start", "repeat", 3, "k2", "stop", "repeat", 2, "k3"),
        *("start", "repeat", 1, "k4", "stop", "repeat", 1, "k5", "memory"),
        mode=RangeMode.CUDA_PROFILER_API,
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k2g1"] * 3 + ["k4g1"]
    counted.check_values(kernels, metrics)
    assert counted.output(folder).startswith("memory 9 of ")


@BOTH
def test_another_thread_switches_recording(run, metrics):
    folder = run(
        *("init", "switch_while", 15, "memory"),
        mode=RangeMode.CUDA_PROFILER_API,
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    counted.check_values(kernels, metrics)
    grids = [one.record.grid[0] for one in kernels]
    assert grids == sorted(set(grids))
    assert grids


def test_nothing_is_counted_while_recording_is_off(run, tmp_path):
    told = tmp_path / "told"
    folder = run(
        *("init", "repeat", 5, "k1", "memory"),
        state=State.WAITING,
        **counted.keys(),
        environment={"FAKE_CUPTI_LOG": str(told)},
    )
    assert counted.read(folder) == []
    assert counted.starts(told) == []
    assert counted.output(folder) == "memory 5 of 5, 0 failed\n"


@BOTH
def test_it_ends_with_the_session(run, metrics):
    folder = run(
        *("init", "repeat", 3, "k1", "detach_cuda", "repeat", 2, "k1", "memory"),
        **counted.keys(metrics),
    )
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1"] * 3
    counted.check_values(kernels, metrics)
    assert counted.output(folder).startswith("memory 5 of ")


def test_a_budget(run):
    # How many are counted is the clock's matter: those that are have the values of their launch.
    folder = run("init", "repeat", 50, "k1,k2g2,k3g3", "memory", **counted.keys(budget_ppm=1))
    kernels = counted.read(folder)
    counted.check_values(kernels)
    assert {one.item for one in kernels} <= {"k1g1", "k2g2", "k3g3"}
    assert counted.output(folder) == "memory 150 of 150, 0 failed\n"


def test_samples_come_in_bursts(run):
    folder = run(
        *("init", "repeat", 50, "k1,k1,k2g2,k3g3", "memory"),
        **counted.keys(sample=5, burst=2),
    )
    kernels = counted.read(folder)
    counted.check_values(kernels)
    items = [one.item for one in kernels]
    # The first two of each, and of what runs after the first second no more than is wanted.
    assert items[:5] == ["k1g1", "k1g1", "k2g2", "k3g3", "k2g2"]
    assert all(2 <= items.count(item) <= 5 for item in ("k1g1", "k2g2", "k3g3"))
    assert counted.output(folder) == "memory 200 of 200, 0 failed\n"


# ---- ends of the program


@BOTH
@pytest.mark.parametrize(("end", "status"), [(("exit", 3), 3), (("quit", 4), 4), (("kill",), -9)])
def test_ends_of_the_program(run, metrics, end, status):
    folder = run("init", "repeat", 9, "k1,k2g2", *end, status=status, **counted.keys(metrics))
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1", "k2g2"] * 9
    if end[0] == "exit":
        counted.check_values(kernels, metrics)
    else:  # those that were decoded
        counted.check_values([one for one in kernels if one.values], metrics)


@BOTH
def test_other_threads_launch_when_the_program_ends(run, metrics):
    folder = run("init", "launch_on", 2, "exit", 5, status=5, **counted.keys(metrics))
    kernels = counted.read(folder)
    # One that runs when the process is gone may lack its values.
    valued = [one for one in kernels if one.values]
    assert len(valued) >= len(kernels) - 2
    counted.check_values(valued, metrics)


def test_a_forked_process_does_not_use_the_counters(run):
    folder = run("init", "repeat", 3, "k1", "fork", "repeat", 2, "k2", "memory", **counted.keys())
    kernels = counted.read(folder)
    assert [one.item for one in kernels] == ["k1g1"] * 3 + ["k2g1"] * 2
    assert len({one.pid for one in kernels}) == 1
    counted.check_values(kernels)
    assert counted.output(folder) == "child 0\nmemory 5 of 5, 0 failed\n"
