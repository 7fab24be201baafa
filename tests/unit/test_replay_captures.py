"""Simulation of real recordings, and of arbitrary traces."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support.any_trace import AnyTrace, any_traces, empty_trace

import warpline
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.replay import predict, replay_quality
from warpline.replay.draft import Draft
from warpline.replay.graph import event_graph
from warpline.replay.meetings import meetings
from warpline.replay.steps import recorded, step_times
from warpline.result.changes import DropCalls, DropOperations, ScaleOperations
from warpline.trace import Run, Trace

CAPTURES = (
    "cuda_graph_level",
    "ddp_serial.bad.rank0",
    "ddp_serial.bad.rank1",
    "host_sync.bad",
    "pageable_h2d.fixed",
    "rich_metrics_sampling",
    "tiny_kernels.fixed",
)
KINETO = (
    "ddp_step.rank0.json.xz",
    "fp32_matmul.fixed.json.xz",
    "pageable_h2d.bad.json.gz",
    "tiny_kernels.fixed.json.xz",
)
# Limits of the step time error and of the share of unexplained time.
MOST_RATIO = 0.03
Capture = Callable[[str], Path]


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_explained(capture: Capture, name: str) -> None:
    found = replay_quality(Run(warpline.open(capture(name))))
    assert found.error_ratio <= MOST_RATIO
    assert found.unexplained_ratio <= MOST_RATIO


@pytest.mark.parametrize("name", KINETO)
def test_a_trace_without_rows_for_waits_is_explained(
    data_dir: Path, tmp_path: Path, name: str
) -> None:
    path = data_dir / "kineto" / name
    if path.suffix == ".xz":
        plain = tmp_path / path.stem
        with lzma.open(path) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
        path = plain
    found = replay_quality(Run(warpline.open(path)))
    assert found.error_ratio <= MOST_RATIO
    assert found.unexplained_ratio <= MOST_RATIO


def test_two_ranks_are_explained_together(capture: Capture) -> None:
    trace = warpline.open(capture("ddp_serial.bad.rank0"), capture("ddp_serial.bad.rank1"))
    collective = operation_categories(trace) == TimePart.COLLECTIVE
    # Each collective of one rank meets one of the other rank.
    assert 2 * meetings(Run(trace)).n_meetings == np.count_nonzero(collective) > 1_000
    found = replay_quality(Run(trace))
    assert found.error_ratio <= MOST_RATIO
    assert found.unexplained_ratio <= MOST_RATIO


@pytest.mark.parametrize("name", CAPTURES)
def test_measured_latencies_give_back_what_was_measured(capture: Capture, name: str) -> None:
    trace = warpline.open(capture(name))
    graph = event_graph(Run(trace))
    again, before = Draft(graph).timing(), recorded(graph)
    launched = (graph.queued.operation >= 0) & (graph.queued.call >= 0)
    late = (again.item_start_ns - before.item_start_ns)[launched]
    assert np.percentile(np.abs(late), 99) <= 50_000
    replayed, measured = (step_times(Run(trace), graph, at).step_ns for at in (again, before))
    assert replayed == pytest.approx(measured, rel=0.01)


def test_work_twice_as_long_makes_a_busy_device_twice_as_slow(capture: Capture) -> None:
    trace = warpline.open(capture("tiny_kernels.fixed"))
    everything = np.arange(len(operations(trace)))
    found = predict(Run(trace), [ScaleOperations(everything, Estimate(2, 2, 2))])
    assert found.step_ns.central == pytest.approx(2 * found.unchanged_ns, rel=0.15)
    assert found.step_ns.low <= found.step_ns.central <= found.step_ns.high


def test_dropped_waits_shorten_a_program_that_waits(capture: Capture) -> None:
    trace = warpline.open(capture("host_sync.bad"))
    names = trace.columns("api_call", "name_id")["name_id"].values
    sync = [
        number
        for number in np.unique(names).tolist()
        if trace.strings.text(number).startswith("cudaStreamSynchronize")
    ]
    copies = np.flatnonzero(operation_categories(trace) == TimePart.COPY_D2H)
    waits = DropCalls(np.flatnonzero(np.isin(names, sync)))
    found = predict(Run(trace), [waits, DropOperations(copies)])
    # The kernels that computed the copied values are still there; without them it is 9.8 ms.
    assert 0.6 < found.step_ns.central / found.unchanged_ns < 0.95


@settings(max_examples=40)
@given(any_traces())
def test_any_trace_is_replayed_and_moving_it_in_time_changes_nothing(made: AnyTrace) -> None:
    found = replay_quality(Run(made.trace()))
    assert found.error_ratio >= 0
    assert found.unexplained_ratio >= 0
    moved = made.shifted(1_000_000).trace()
    assert replay_quality(Run(moved)).steps == found.steps
    assert predicted(moved) == predicted(made.trace())


@settings(max_examples=40)
@given(any_traces())
def test_the_order_of_rows_plays_no_part(made: AnyTrace) -> None:
    assert predicted(made.permuted(7).trace()) == predicted(made.trace())


def test_an_empty_trace_is_replayed() -> None:
    assert replay_quality(Run(empty_trace())) == (0.0, 0.0, 0)


def predicted(trace: Trace) -> tuple[int, int, Estimate]:
    everything = np.arange(len(operations(trace)))
    found = predict(Run(trace), [ScaleOperations(everything, Estimate(0.5, 0.5, 0.5))])
    return found.measured_ns, found.unchanged_ns, found.step_ns
