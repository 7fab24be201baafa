"""Where the time of real programs went: exact sums, and the truth about each known fault."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import captures

import warpline
from warpline import api
from warpline.derived.breakdown.overlaps import OverlapKind, overlaps, step_overlaps
from warpline.derived.breakdown.partition import RankWindows, partition, step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.steps.times import NO_STEP, Windows, measure_windows
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.busy import device_busy_ns
from warpline.derived.work.operations import operations
from warpline.result import Result
from warpline.trace import Run, Trace

OWN = Path(warpline.__file__).parent / "data"
# Captures beside the repository that are too large for it, where they are there.
SHARED = Path(__file__).parents[3] / "shared" / "data"
FOLDERS = ("nsys", "kineto", "public/nsys", "public/kineto")
OTHERS = [path for folder in FOLDERS for path in sorted((SHARED / folder).glob("*"))]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    """Return a function that opens a capture by its name, or skips the test without it."""
    folder = tmp_path_factory.mktemp("unpacked")

    @cache
    def trace(name: str) -> Trace:
        if name in captures.names():
            return warpline.open(captures.unpack(name, folder))
        places = [OWN / f"{name}.sqlite", *(p for p in OTHERS if p.name.startswith(name))]
        found = [path for path in places if path.exists()]
        if not found:
            pytest.skip(f"{name} is not here")
        return warpline.open(found[0])

    return trace


def shares(trace: Trace) -> dict[str, float]:
    """Return the share of each part of the time of the trace's only process and device."""
    found = step_partition(Run(trace))
    (rank,) = found.ranks
    total = found.total(rank)
    assert total.sum() == (found.windows.end_ns - found.windows.start_ns).sum()
    return dict(zip(TimePart.labels(), (total / total.sum()).tolist(), strict=True))


def idle_causes(trace: Trace) -> list[str]:
    """Return the causes of idle time that take more than one part in two hundred, longest first."""
    found = shares(trace)
    causes = [name for name in TimePart.labels()[len(BUSY) :] if found[name] > 0.005]
    return sorted(causes, key=lambda name: -found[name])


def busy_share(trace: Trace) -> float:
    return sum(shares(trace)[part.label] for part in BUSY)


def whole(trace: Trace) -> Windows:
    """Return each device's time from its first operation to the end of its last one."""
    work = operations(trace)
    devices = np.unique(work.device)
    none = np.full(len(devices), NO_STEP, np.int64)
    starts = np.array([work.start_ns[rows].min() for rows in rows_of(trace)], np.int64)
    ends = np.array([work.end_ns[rows].max() for rows in rows_of(trace)], np.int64)
    return Windows(devices, starts, ends, none, none)


def rows_of(trace: Trace) -> list[np.ndarray]:
    device = operations(trace).device
    return [np.flatnonzero(device == each) for each in np.unique(device)]


@pytest.mark.parametrize("name", captures.cases())
def test_own_captures_are_divided_exactly(opened: Callable[[str], Trace], name: str):
    check(opened(name))


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_all_captures_are_divided_exactly(path: Path):
    if path.stat().st_size < 10_000 and not operations(warpline.open(path)):
        pytest.skip("it holds no device work")
    check(warpline.open(path))


def check(trace: Trace) -> None:
    for windows in (measure_windows(Run(trace)), whole(trace)):
        found = partition(trace, windows)
        assert (found.ns.sum(axis=1) == windows.end_ns - windows.start_ns).all()
        assert (found.ns >= 0).all()
        unknown = found.ns[:, TimePart.UNKNOWN].sum()
        assert unknown <= 0.05 * found.ns.sum()
    busy = partition(trace, whole(trace)).ns[:, : len(BUSY)].sum(axis=1)
    devices = np.unique(operations(trace).device)
    assert busy.tolist() == device_busy_ns(trace)[devices].tolist()
    together = overlaps(trace, whole(trace)).ns
    assert together[:, OverlapKind.BUSY].tolist() == busy.tolist()


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("host_sync.bad", ["launch-bound", "host-sync"]),
        ("tiny_kernels.bad", ["launch-bound"]),
        ("loop_optimizer.bad", ["launch-bound"]),
        ("loop_optimizer.fixed", ["launch-bound"]),
        ("pageable_h2d.bad", ["pageable-copy"]),
        ("tiny_kernels.fixed", ["dependency"]),
        ("ddp_serial.bad.rank1", ["launch-bound"]),
        ("h100__google_owlv2", ["input"]),
        ("resnet50_num_workers_0", ["input", "launch-bound"]),
    ],
)
def test_the_main_causes_of_idle_time_are_the_known_ones(
    opened: Callable[[str], Trace], name: str, causes: list[str]
):
    assert idle_causes(opened(name))[: len(causes)] == causes


def test_a_program_without_syncs_has_no_idle_time_for_them(opened: Callable[[str], Trace]):
    assert "host-sync" not in idle_causes(opened("host_sync.fixed"))


@pytest.mark.parametrize(
    "name", ["layout_copies.bad", "fp32_matmul.bad", "pageable_h2d.bad", "pageable_h2d.fixed"]
)
def test_these_keep_the_device_busy(opened: Callable[[str], Trace], name: str):
    assert busy_share(opened(name)) >= 0.95


def test_copies_from_pageable_memory_are_what_the_device_did(opened: Callable[[str], Trace]):
    found = shares(opened("pageable_h2d.bad"))
    assert found["copy-h2d"] > 0.8
    together = step_overlaps(Run(opened("pageable_h2d.bad"))).ns.sum(axis=0)
    assert together[OverlapKind.EXPOSED_COPY] == together[OverlapKind.COPY]
    together = step_overlaps(Run(opened("pageable_h2d.fixed"))).ns.sum(axis=0)
    assert together[OverlapKind.COPY_AND_WORK] > 0.9 * together[OverlapKind.COPY]


def test_serial_communication_is_exposed_and_the_largest_part(opened: Callable[[str], Trace]):
    bad = opened("ddp_serial.bad.rank0")
    assert max(shares(bad).items(), key=lambda part: part[1])[0] == "collective"
    together = step_overlaps(Run(bad)).ns.sum(axis=0)
    exposed, all_of_it = (
        together[kind] for kind in (OverlapKind.EXPOSED_COMMUNICATION, OverlapKind.COMMUNICATION)
    )
    assert exposed == all_of_it
    fixed = step_overlaps(Run(opened("ddp_serial.fixed.rank0"))).ns.sum(axis=0)
    assert fixed[OverlapKind.EXPOSED_COMMUNICATION] < 0.5 * fixed[OverlapKind.COMMUNICATION]


def test_two_devices_that_only_copied_were_busy(opened: Callable[[str], Trace]):
    """Counted by hand in SQL: 25.5 GB of copies; the union of all operations is 99.3%."""
    trace = opened("GindaChen+nsys-ai__tests_fixtures_h100_2gpu_1s")
    found = partition(trace, whole(trace)).ns
    busy = found[:, : len(BUSY)].sum(axis=1) / found.sum(axis=1)
    assert busy == pytest.approx([0.993, 0.993], abs=0.002)


def test_breakdown_lists_what_is_not_nothing(opened: Callable[[str], Trace]):
    trace = opened("host_sync.bad")
    plain, by_step, by_origin = (
        table(trace, call) for call in ("breakdown", "breakdown:steps", "breakdown:origin")
    )
    total = sum(plain.columns["total_ns"].to_list())
    assert total == sum(step_partition(Run(trace)).ns.sum(axis=1).tolist())
    for other in (by_step, by_origin):
        assert sum(other.columns["total_ns"].to_list()) == total
    assert sum(plain.columns["share_ratio"].to_list()) == pytest.approx(1)
    assert sum(by_step.columns["share_ratio"].to_list()) == pytest.approx(5)
    assert [*dict.fromkeys(by_step.columns["step"].to_list())] == [f"step_{n}" for n in range(5)]
    kinds = plain.columns["kind"].to_list()
    assert kinds == sorted(kinds)
    for kind in ("busy", "idle"):
        times = [row[5] for row in plain.rows() if row[2] == kind]
        assert times == sorted(times, reverse=True)
    per_step = plain.columns["per_step_ns"].to_list()
    assert per_step == [row[5] / 5 for row in plain.rows()]
    origins = {row[3]: row[8] for row in by_origin.rows()}
    assert origins["attention"] == "cudnn"
    assert origins["launch-bound"] is None
    assert plain.notes[0].startswith("5 steps per GPU, from range:step_*")


def test_overlap_lists_what_ran_together(opened: Callable[[str], Trace]):
    rows = table(opened("pageable_h2d.fixed"), "overlap").rows()
    named = {row[2]: row for row in rows}
    assert "communication" not in named
    copied, hidden, exposed = (named[name][3] for name in ("copy", "copy-and-work", "exposed-copy"))
    assert hidden + exposed == copied
    assert named["copy-and-work"][6] == hidden / copied
    assert named["busy"][5] <= 1


def table(trace: Trace, call: str) -> Result:
    found = api.run(trace, call)
    assert isinstance(found, Result)
    return found


def test_segments_of_a_part_of_a_recording_are_those_of_the_part(
    opened: Callable[[str], Trace],
):
    trace = opened("host_sync.bad")
    low, high = trace.span()
    part = trace.window(low + (high - low) // 3, high - (high - low) // 3)
    found = device_segments(part)
    assert (int(found.start_ns[0]), int(found.end_ns[-1])) == part.span()
    assert (found.start_ns[1:] == found.end_ns[:-1]).all()


@pytest.mark.parametrize("steps", ["step_?", "step_1", "forward"])
def test_tables_are_about_the_chosen_steps(opened: Callable[[str], Trace], steps: str):
    trace = opened("ddp_serial.bad.rank0")
    diagnosis = warpline.analyze(trace, steps=steps)
    (whole,), (overlap,) = diagnosis.breakdown, diagnosis.overlaps
    breakdown = warpline.stats(trace, f"breakdown:name={steps}")
    assert dict(named_rows(breakdown, "category", "total_ns")) == {
        part.category: part.ns for part in whole.parts
    }
    measured = dict(
        named_rows(warpline.stats(trace, f"overlap:name={steps}"), "measure", "total_ns")
    )
    assert measured["communication"] == overlap.communication_ns


def named_rows(result: Result, *names: str) -> list[tuple[Any, ...]]:
    places = [[field.name for field in result.fields].index(name) for name in names]
    return [tuple(row[place] for place in places) for row in result.rows()]


@pytest.mark.parametrize(
    ("process", "owned"), [(0, [True, False, False]), (-1, [True, False, True])]
)
def test_a_rank_is_a_process_on_a_device_or_all_work_of_a_device(
    process: int, owned: list[bool]
) -> None:
    rank = RankWindows(process, 1, np.zeros(0, np.int64))
    assert rank.owns(np.array([0, 0, 1]), np.array([1, 0, 1])).tolist() == owned
