"""The tiling of GPU time, its parts and overlaps, against a model of every nanosecond."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces

from warpline.derived.breakdown.overlaps import COMPUTE, COPIES, OverlapKind, overlaps
from warpline.derived.breakdown.partition import busy_by_origin, partition, ranks_of, step_partition
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import NO_STEP, Windows, measure_windows
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.operations import operations
from warpline.trace import Run, Trace

few = settings(max_examples=40)
moments = st.integers(-900, 900)


def devices(trace: Trace) -> list[int]:
    return [int(device) for device in np.unique(operations(trace).device)]


def running(trace: Trace, device: int, moment: int) -> list[tuple[int, int, int]]:
    """Return category, start and position of the running operations, the counted one first."""
    work, category = operations(trace), operation_categories(trace)
    there = np.flatnonzero(
        (work.device == device) & (work.start_ns <= moment) & (moment < work.end_ns)
    )
    return sorted((int(category[row]), int(work.start_ns[row]), int(row)) for row in there)


def segments_of(trace: Trace, device: int) -> Iterator[tuple[int, int, int, int]]:
    found = device_segments(trace)
    rows = np.flatnonzero(found.device == device)
    for row in rows.tolist():
        yield (
            int(found.start_ns[row]),
            int(found.end_ns[row]),
            int(found.part[row]),
            int(found.operation[row]),
        )


@few
@given(any_traces())
def test_segments_tile_the_span_and_count_what_the_model_counts(any_trace: AnyTrace) -> None:
    trace = any_trace.trace()
    low, high = trace.span()
    work = operations(trace)
    for device in devices(trace):
        reach = low
        for start, end, part, owner in segments_of(trace, device):
            assert start == reach < end
            reach = end
            if part < len(BUSY):
                for moment in range(start, end):
                    counted = running(trace, device, moment)[0]
                    assert counted == (part, work.start_ns[owner], owner)
                continue
            assert not any(running(trace, device, moment) for moment in range(start, end))
            if owner < 0:
                assert TimePart.at(part) == TimePart.TAIL
            else:
                assert work.device[owner] == device
                assert work.start_ns[owner] >= end
        assert reach == high


@few
@given(any_traces(), moments, moments, moments)
def test_windows_in_any_split_sum_the_same(
    any_trace: AnyTrace, one: int, two: int, three: int
) -> None:
    trace = any_trace.trace()
    low, middle, high = sorted((one, two, three))
    for device in devices(trace):
        whole, first, second = (
            windows(device, *bounds) for bounds in ((low, high), (low, middle), (middle, high))
        )
        for measure in (partition, overlaps):
            ns = [measure(trace, each).ns[0] for each in (whole, first, second)]
            assert (ns[0] == ns[1] + ns[2]).all()
        assert partition(trace, whole).ns.sum() == high - low


def windows(device: int, low: int, high: int) -> Windows:
    none = np.array([NO_STEP], np.int64)
    return Windows(
        np.array([device], np.int64),
        np.array([low], np.int64),
        np.array([high], np.int64),
        none,
        none,
    )


@few
@given(any_traces())
def test_parts_sum_to_the_windows_and_origins_to_the_parts(any_trace: AnyTrace) -> None:
    trace = any_trace.trace()
    found = step_partition(Run(trace))
    lengths = found.windows.end_ns - found.windows.start_ns
    assert (found.ns.sum(axis=1) == lengths).all()
    assert (found.ns >= 0).all()
    by_origin = busy_by_origin(trace, found.windows).sum(axis=2)
    busy = len(BUSY)
    assert (by_origin[:, :busy] == found.ns[:, :busy]).all()
    assert not by_origin[:, busy:].any()
    rows = [row for rank in ranks_of(found.windows) for row in rank.windows.tolist()]
    assert sorted(rows) == list(range(len(lengths)))


@few
@given(any_traces())
def test_overlaps_are_what_the_model_sees_at_each_moment(any_trace: AnyTrace) -> None:
    trace = any_trace.trace()
    chosen = measure_windows(Run(trace))
    found = overlaps(trace, chosen)
    streams = operations(trace).stream
    for place in range(len(chosen.device)):
        expected = dict.fromkeys(OverlapKind.labels(), 0)
        device = int(chosen.device[place])
        for moment in range(int(chosen.start_ns[place]), int(chosen.end_ns[place])):
            for kind in kinds_at(running(trace, device, moment), streams):
                expected[kind] += 1
        assert dict(zip(OverlapKind.labels(), found.ns[place].tolist(), strict=True)) == expected


def kinds_at(there: list[tuple[int, int, int]], streams: np.ndarray) -> Iterator[str]:
    """Yield the kinds of work that a nanosecond counts for, given the running operations."""
    parts = [TimePart.at(category) for category, _, _ in there]
    computes, copies = ({*parts} & {*kinds} for kinds in (COMPUTE, COPIES))
    communicates = TimePart.COLLECTIVE in parts
    several = len({int(streams[row]) for _, _, row in there}) > 1
    computing = {
        int(streams[row]) for category, _, row in there if TimePart.at(category) in COMPUTE
    }
    facts = {
        "compute": computes,
        "communication": communicates,
        "compute-and-communication": computes and communicates,
        "exposed-communication": communicates and not computes,
        "copy": copies,
        "copy-and-work": copies and (computes or communicates),
        "exposed-copy": copies and not (computes or communicates),
        "several-streams": several,
        "several-streams-computing": len(computing) > 1,
        "busy": there,
    }
    assert facts.keys() == {*OverlapKind.labels()}
    yield from (kind for kind, holds in facts.items() if holds)
