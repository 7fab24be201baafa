"""Steps against a brute-force model of ranges and operations, and their invariants."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces

from warpline.derived.steps.times import NO_STEP, measure_windows, step_of_operations, steps
from warpline.derived.work.operations import operations
from warpline.errors import UsageError
from warpline.trace import MemorySource, Run, Trace

Columns = dict[str, list[Any]]


def program(seed: int, n_steps: int, n_devices: int) -> Trace:
    """Return a program with marked steps, and work launched in and between them on one stream."""
    rng = random.Random(seed)
    ranges: Columns = defaultdict(list)
    calls: Columns = defaultdict(list)
    kernels: Columns = defaultdict(list)
    now, free, number = 0, [0] * n_devices, 0

    def launch(at: int) -> None:
        nonlocal number
        number += 1
        calls["start_ns"].append(at)
        calls["end_ns"].append(at + rng.randrange(3))
        calls["correlation_id"].append(number)
        calls["name"].append("cudaLaunchKernel")
        device = rng.randrange(n_devices)
        start = max(free[device], at + rng.randrange(1, 40))
        free[device] = start + rng.randrange(1, 30)
        kernels["start_ns"].append(start)
        kernels["end_ns"].append(free[device])
        kernels["device_id"].append(device)
        kernels["stream_id"].append(device)
        kernels["correlation_id"].append(number)
        kernels["name"].append("k")

    for step in range(n_steps):
        begin = now
        for _ in range(rng.randrange(5)):
            now += rng.randrange(1, 20)
            launch(now)
        now += rng.randrange(1, 10)
        ranges["start_ns"].append(begin)
        ranges["end_ns"].append(now)
        ranges["name"].append(f"step_{step}")
        if rng.random() < 0.2:
            launch(now)
        now += rng.randrange(1, 10)
    order = list(range(len(kernels["start_ns"])))
    rng.shuffle(order)
    shuffled = {name: [values[row] for row in order] for name, values in kernels.items()}
    devices = {"gpu_index": list(range(n_devices))}
    streams = {"native_id": list(range(n_devices))}
    tables = {"range": dict(ranges), "device": devices, "stream": streams}
    if calls:
        tables |= {"api_call": dict(calls), "kernel": shuffled}
    return Trace(MemorySource(tables))


def model(trace: Trace) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the window of each (step, device), by brute force."""
    marked = trace["range"].sort("start_ns").iter_rows(named=True)
    bounds = [(row["start_ns"], row["end_ns"]) for row in marked]
    launched = {row["correlation_id"]: row["start_ns"] for row in trace["api_call"].to_dicts()}
    first: dict[tuple[int, int], int] = {}
    for row in trace["kernel"].to_dicts():
        for step, (begin, end) in enumerate(bounds):
            if begin <= launched[row["correlation_id"]] < end:
                key = step, row["device_id"]
                first[key] = min(first.get(key, row["start_ns"]), row["start_ns"])
    return {
        (step, device): (start, first[step + 1, device])
        for (step, device), start in first.items()
        if (step + 1, device) in first
    }


@settings(max_examples=80)
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 3))
def test_windows_are_those_of_the_model(seed: int, n_steps: int, n_devices: int):
    trace = program(seed, n_steps, n_devices)
    found = steps(Run(trace, "step_*"))
    assert found.label.to_list() == [f"step_{step}" for step in range(n_steps)]
    windows = zip(
        found.window_step.tolist(),
        found.window_device.tolist(),
        found.window_start_ns.tolist(),
        found.window_end_ns.tolist(),
        strict=True,
    )
    expected = model(trace) if trace.has("kernel") else {}
    assert {(step, device): (start, end) for step, device, start, end in windows} == expected


@settings(max_examples=60)
@given(any_traces(max_rows=12), st.booleans())
def test_what_holds_for_every_trace(any_trace: AnyTrace, is_named: bool):
    trace = any_trace.trace()
    names = [name for name in any_trace.tables["range"]["name"] if name]
    name = names[0] if names and is_named else None
    try:
        found = steps(Run(trace, name))
    except UsageError:
        return  # ranges of that name overlap
    n = len(found)
    assert np.all(np.diff(found.loop) >= 0)
    assert np.all(found.host_end_ns >= found.host_start_ns)
    assert np.all(found.window_end_ns > found.window_start_ns)
    assert np.all(np.diff(found.window_step) >= 0)
    assert {step for step, _ in found.excluded} == {*np.flatnonzero(~found.included).tolist()}
    same_loop = found.has_next[:-1] if n else np.zeros(0, np.bool_)
    assert np.all(found.host_end_ns[:-1][same_loop] <= found.host_start_ns[1:][same_loop])
    owner = step_of_operations(Run(trace, name))
    assert len(owner) == len(operations(trace))
    assert np.all((owner >= NO_STEP) & (owner < n))
    measured = measure_windows(Run(trace, name))
    for rank in {*zip(measured.process.tolist(), measured.device.tolist(), strict=True)}:
        own = (measured.process == rank[0]) & (measured.device == rank[1])
        steps_here = measured.step[own]
        if (steps_here == NO_STEP).all() or len(np.unique(found.loop[steps_here])) == 1:
            assert np.all(measured.end_ns[own][:-1] <= measured.start_ns[own][1:])
