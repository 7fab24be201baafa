"""Findings of serialized-streams in programs with two streams, by what orders these."""

from __future__ import annotations

import pytest
from support.machine import ELEMENTWISE, GEMM, Machine

from warpline.analyses.findings.serialized_streams import serialized_streams
from warpline.result import Finding, Skipped
from warpline.trace import MemorySource, Run, Trace

STEPS = 6
PAIRS = 20
US = 1_000
LONG, SHORT = 50 * US, 40 * US


def launch(machine: Machine, ns: int, stream: int, order: str, name: str) -> None:
    """Launch a kernel in one of two streams, in the order of the launches or independently."""
    if order == "events":
        machine.join(stream, 1 - stream)
    if order == "default stream":  # the driver's order needs no call
        machine._end[stream] = max(machine._end)
    machine.launch(ns, name, stream)


def program(order: str, *, blocks: int = 16, late_ns: int = 0, name: str = GEMM) -> Trace:
    """Return steps of pairs of kernels, one in each stream; no kernel has much of the GPU."""
    machine = Machine()
    for _ in range(STEPS):
        for _ in range(PAIRS):
            machine.work(late_ns)
            launch(machine, LONG, 0, order, name)
            machine.work(late_ns)
            launch(machine, SHORT, 1, order, name)
        machine.wait(0)
        machine.wait(1)
        machine.end_step()
    for row in machine.program.rows["kernel"]:
        row.update(grid_x=blocks, grid_y=1, grid_z=1)
    return machine.trace()


def found(trace: Trace) -> list[Finding]:
    result = serialized_streams(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_the_default_stream_orders_kernels():
    (item,) = found(program("default stream"))
    # Stream 7 is CUPTI's default stream. The short kernels could hide behind the long ones.
    assert item.title.startswith("Streams 7 and 13 run one after another: up to 4")
    assert item.severity == "medium"
    assert "39 kernels per step start only when" in item.claim
    assert "up to 800 us" in item.claim
    assert "legacy default stream" in item.claim
    assert "cudaStreamNonBlocking" in item.fix
    # A step: all kernels, gaps of 1.2 us, 6 us until the first one, and the ends of two waits.
    step_ns = (
        PAIRS * (LONG + SHORT) + (2 * PAIRS - 1) * 1_200 + 6_000 + 5_000 + 1_000 + 6_000 + 1_000
    )
    assert item.share == pytest.approx(PAIRS * SHORT / step_ns, rel=0.01)
    # Five of six steps have a period; the first kernel of each did not wait.
    (there,) = item.on_devices
    assert (there.steps, there.number) == (5, 5 * 39)
    assert there.ns == pytest.approx(5 * PAIRS * SHORT, rel=1e-3)
    assert item.changes == ()


def test_events_that_order_kernels_are_only_a_note():
    (item,) = found(program("events"))
    assert item.severity == "info"
    assert "Events order them (cudaStreamWaitEvent)." in item.claim


def test_streams_that_overlap_are_fine():
    assert found(program("none")) == []


def test_streams_that_overlap_in_part_are_fine():
    machine = Machine()
    for _ in range(STEPS):
        for place in range(PAIRS):
            order = "none" if place < PAIRS // 4 else "default stream"
            launch(machine, LONG, 0, order, GEMM)
            launch(machine, SHORT, 1, order, GEMM)
        machine.wait(0)
        machine.wait(1)
        machine.end_step()
    for row in machine.program.rows["kernel"]:
        row.update(grid_x=16, grid_y=1, grid_z=1)
    assert found(machine.trace()) == []


def test_kernels_that_fill_the_gpu_cannot_overlap():
    assert found(program("default stream", blocks=81)) == []
    assert found(program("default stream", blocks=0)) == []  # unknown


def test_kernels_that_are_launched_late_do_not_wait_for_a_stream():
    assert found(program("default stream", late_ns=60 * US)) == []


def test_streams_of_pytorch_do_not_wait_for_the_default_stream():
    # Their kernels wait for something else.
    assert found(program("default stream", name=ELEMENTWISE)) == []


def test_a_second_stream_with_little_work_does_not_count():
    machine = Machine()
    for _ in range(STEPS):
        for _ in range(PAIRS):
            launch(machine, LONG, 0, "default stream", GEMM)
        launch(machine, SHORT, 1, "default stream", GEMM)
        machine.wait(0)
        machine.end_step()
    for row in machine.program.rows["kernel"]:
        row.update(grid_x=16, grid_y=1, grid_z=1)
    assert found(machine.trace()) == []


def test_without_calls_the_rule_is_skipped():
    assert isinstance(serialized_streams(Run(Trace(MemorySource({})))), Skipped)
