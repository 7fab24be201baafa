"""Python samples and the GIL in exports of nsys: NVTX events in domains of its own."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from support.backtraces import backtraces
from support.nsys_exports import THREAD, event, global_id, strings

OTHER_THREAD = global_id(4242, 4243)
EVENTS = "NVTX_EVENTS"
MARK, PUSH_POP, DOMAIN = 34, 59, 75
RUNNING, WAITING = 1, 7
TEXTS = strings("Holding GIL", "Waiting for GIL", "load", "/app/data.py", "main", "/app/train.py")
SAMPLING = {"name": "PYTHON_BACKTRACE_SAMPLING_OPTIONS:COLLECT_SAMPLES", "value": "true"}
DOMAINS = [
    event(0, kind=DOMAIN, text="Python Periodic Sampling", domainId=1),
    event(0, kind=DOMAIN, text="GIL Trace", domainId=3),
]


def sample(time: int, state: int, frames: Sequence[tuple[int, int, int]], thread: int = THREAD):
    """Return a sample, with frames of function, file and line, innermost first."""
    body = struct.pack("<QII", 77, state, len(frames))
    body += b"".join(struct.pack("<QQQ", *frame) for frame in frames)
    content = struct.pack("<QQQQ", 1, 2**32 + 2, len(body), 32) + body
    return event(time, kind=MARK, domainId=1, globalTid=thread, binaryData=content)


def test_samples_have_states_and_stacks(opened, rows_of):
    deep, shallow = [(2, 3, 41), (4, 5, 12)], [(4, 5, 13)]
    samples = [
        sample(100, RUNNING, deep),
        sample(200, WAITING, deep),
        sample(250, RUNNING, shallow, OTHER_THREAD),
        sample(300, RUNNING, shallow),
        sample(900, 0, []),
        event(400, kind=MARK, text="the program's own", domainId=7),
    ]
    trace = opened(
        {"StringIds": TEXTS, EVENTS: [*DOMAINS, *samples], "META_DATA_CAPTURE": [SAMPLING]}
    )
    assert rows_of(trace, "python_sample", "time_ns", "period_ns", "is_running") == [
        (100, 100, True),
        (200, 100, False),
        (250, 100, True),
        (300, 200, True),  # samples were missed after it
        (900, 100, None),
    ]
    load = ("load", "/app/data.py", 41, "Python", False, None)
    deep_stack = [load, ("main", "/app/train.py", 12, "Python", False, None)]
    shallow_stack = [("main", "/app/train.py", 13, "Python", False, None)]
    assert backtraces(trace, "python_sample") == [
        deep_stack,
        deep_stack,
        shallow_stack,
        shallow_stack,
        None,
    ]


def test_samples_without_payloads_have_no_stacks_and_the_export_is_to_blame(opened, rows_of):
    bare = [event(at, kind=MARK, domainId=1) for at in (100, 200)]
    trace = opened({"StringIds": TEXTS, EVENTS: [*DOMAINS, *bare], "META_DATA_CAPTURE": [SAMPLING]})
    assert rows_of(trace, "python_sample", "time_ns", "stack_id") == [(100, None), (200, None)]
    assert any("--include-blobs=true" in warning for warning in trace.meta.warnings)


def test_damaged_payloads_have_no_stacks(opened, rows_of):
    whole = sample(100, RUNNING, [(2, 3, 41)])
    cut = {**whole, "start": 200, "binaryData": whole["binaryData"][:-8]}
    short = {**whole, "start": 300, "binaryData": b"\x01"}
    trace = opened(
        {"StringIds": TEXTS, EVENTS: [*DOMAINS, whole, cut, short], "META_DATA_CAPTURE": [SAMPLING]}
    )
    stacks = [stack for (stack,) in rows_of(trace, "python_sample", "stack_id")]
    assert stacks[0] is not None
    assert stacks[1:] == [None, None]


def test_times_of_the_gil(opened, rows_of):
    gil = {"kind": PUSH_POP, "domainId": 3}
    events = [
        *DOMAINS,
        event(10, 20, textId=0, **gil),
        event(20, 25, textId=1, globalTid=OTHER_THREAD, **gil),
        event(30, 40, text="the program's own", kind=PUSH_POP, domainId=7),
    ]
    trace = opened({"StringIds": TEXTS, EVENTS: events})
    assert rows_of(trace, "gil_span", "start_ns", "end_ns", "state") == [
        (10, 20, "Holding"),
        (20, 25, "Waiting"),
    ]
    assert not trace.has("python_sample")


@pytest.mark.parametrize(("trigger", "period"), [("Software", 2_000_000), ("Hardware", None)])
def test_the_period_of_cpu_samples_is_that_of_the_software_clock(opened, rows_of, trigger, period):
    options = {"SAMPLING_PERIOD": "2000000", "CPU_IP_TRIGGER_TYPE": trigger}
    rows = [{"name": f"LINUX_PERF_OPTIONS:{k}", "value": v} for k, v in options.items()]
    samples = [{"id": 1, "start": 5, "threadState": 1, "cpuCycles": 1, "globalTid": THREAD}]
    tables = {"StringIds": TEXTS, "COMPOSITE_EVENTS": samples}
    trace = opened({**tables, "META_DATA_CAPTURE": rows})
    assert rows_of(trace, "cpu_sample", "period_ns") == [(period,)]
