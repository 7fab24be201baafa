"""The devices' time by range, on traces worked out by hand and on any trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from support.any_trace import any_traces

from warpline import api
from warpline.derived.breakdown.phases import phases
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart
from warpline.result import Skipped
from warpline.trace import MemorySource, Run, Trace

MAIN, AUTOGRAD = 0, 1
OWNERS: dict[str, dict[str, list[Any]]] = {
    "process": {"pid": [1]},
    "thread": {"process_id": [0, 0], "tid": [10, 11]},
    "device": {"gpu_index": [0]},
    "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [0]},
    "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
}


def made(launches, ranges):
    """Return a trace of (launch, thread, start, end) and (name, thread, start, end)."""
    called, threads, starts, ends = zip(*launches, strict=True)
    count = range(1, len(called) + 1)
    calls = {
        "start_ns": [*called],
        "end_ns": [time + 1 for time in called],
        "thread_id": [*threads],
        "correlation_id": [*count],
        "name": ["cudaLaunchKernel"] * len(called),
    }
    kernels = {
        "start_ns": [*starts],
        "end_ns": [*ends],
        "correlation_id": [*count],
        "name": [f"sgemm_{'nt'[place % 2]}{place}" for place in count],  # no two: no period
    }
    names, owners, begun, ended = zip(*ranges, strict=True)
    spans = {
        "start_ns": [*begun],
        "end_ns": [*ended],
        "thread_id": [*owners],
        "name": [*names],
        "source_id": [*range(len(names))],
    }
    return Trace(MemorySource({**OWNERS, "api_call": calls, "kernel": kernels, "range": spans}))


def by_path(found):
    """Return calls, total and self time by path."""
    return {
        "/".join(found.path(row)): (
            int(found.calls[row]),
            int(found.total_ns[row].sum()),
            int(found.self_ns[row].sum()),
        )
        for row in range(len(found.texts))
    }


def test_time_goes_to_the_innermost_range_and_all_around_it():
    trace = made(
        [(10, MAIN, 20, 30), (40, MAIN, 50, 70), (80, MAIN, 85, 90)],
        [("model", MAIN, 0, 60), ("layer", MAIN, 35, 55)],
    )
    found = phases(Run(trace))
    # The device's time is [20, 90). Idle from 30 to 50 belongs to the second kernel, 70 to 85 to
    # the third, which was launched outside of ranges.
    assert by_path(found) == {"model": (1, 50, 10), "model/layer": (1, 40, 40), "": (0, 20, 20)}
    layer = found.total_ns[1]
    assert layer[TimePart.GEMM] == 20
    assert layer.sum() == 40


def test_another_thread_works_inside_what_the_leading_thread_had_open():
    trace = made(
        [
            (10, MAIN, 10, 20),
            (30, AUTOGRAD, 30, 40),
            (55, AUTOGRAD, 55, 60),
            (95, AUTOGRAD, 95, 99),
        ],
        [
            ("forward", MAIN, 5, 25),
            ("backward", MAIN, 26, 80),
            ("sort", AUTOGRAD, 50, 58),
            ("forward", AUTOGRAD, 90, 98),
        ],
    )
    # The device's time is [10, 99). Without ranges of its own the thread works for "backward",
    # where its range "sort" stands. Its range "forward" began when the leading one had nothing
    # open.
    assert by_path(phases(Run(trace))) == {
        "forward": (2, 10 + 39, 10 + 39),
        "backward": (1, 20 + 20, 20),
        "backward/sort": (1, 20, 20),
        "": (0, 0, 0),
    }


def test_steps_are_counted_and_numbered_names_are_one_phase():
    times = [100 * n + at for n in range(5) for at in (5, 50)]
    launches = [(time, MAIN, time, time + 10) for time in times]
    ranges = [(f"step_{n}", MAIN, 100 * n, 100 * n + 90) for n in range(5)]
    ranges += [("forward", MAIN, 100 * n, 100 * n + 30) for n in range(5)]
    found = phases(Run(made(launches, ranges)))
    windows = measure_windows(Run(made(launches, ranges)))
    counted = len(windows.device)
    total = int((windows.end_ns - windows.start_ns).sum())
    assert total == 100 * counted
    assert by_path(found)["step_*"] == (counted, total, 45 * counted)
    # 10 busy, and 45 idle from the end of the second kernel at 60 to the next step's first at 105.
    assert by_path(found)["step_*/forward"] == (counted, 55 * counted, 55 * counted)


def test_siblings_of_different_threads_stay_with_their_family():
    trace = made(
        [(5, MAIN, 5, 8), (15, AUTOGRAD, 15, 18), (25, MAIN, 25, 28)],
        [
            ("a", MAIN, 0, 20),
            ("b", MAIN, 21, 30),
            ("inner", MAIN, 4, 9),
            ("grafted", AUTOGRAD, 14, 17),
        ],
    )
    found = phases(Run(trace))
    order = ["/".join(found.path(row)) for row in range(len(found.texts))]
    assert order == ["a", "a/inner", "a/grafted", "b", ""]
    assert found.tree.depth.tolist() == [0, 1, 1, 0, 0]


def test_without_ranges_or_calls_all_time_is_outside():
    whole = made([(0, MAIN, 0, 10)], [("a", MAIN, 0, 5)])
    tables = {name: whole.columns(name, "start_ns", "end_ns") for name in ("kernel",)}
    kernels = {key: column.values.tolist() for key, column in tables["kernel"].items()}
    alone = Trace(MemorySource({**OWNERS, "kernel": kernels}))
    assert by_path(phases(Run(alone))) == {"": (0, 10, 10)}
    skipped = api.run(alone, "phases")
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "no ranges were recorded"


@settings(max_examples=60)
@given(any_traces(max_rows=12))
def test_phases_sum_to_the_windows_whatever_the_trace(made_trace):
    trace = made_trace.trace()
    found, windows = phases(Run(trace)), measure_windows(Run(trace))
    whole = int((windows.end_ns - windows.start_ns).sum())
    outermost = ~found.tree.has_parent
    assert int(found.self_ns.sum()) == int(found.total_ns[outermost].sum()) == whole
    inner = np.flatnonzero(found.tree.has_parent)
    up = found.tree.parent[inner]
    assert (up < inner).all(), "a phase stands before those inside it"
    assert (found.tree.depth[inner] == found.tree.depth[up] + 1).all()
    assert (found.total_ns[inner] <= found.total_ns[up]).all()
