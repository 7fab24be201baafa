"""Clock errors of other files on the page."""

from __future__ import annotations

import numpy as np

import warpline
from warpline.units import format_ns
from warpline.viewer.clocks import with_clock_errors
from warpline.viewer.rows import Row


def groups(trace):
    devices = [Row(f"gpu{place}", None, "", "group", device=place) for place in range(2)]
    hosts = [Row(f"process{place}", None, "", "group", process=place) for place in range(2)]
    stream = Row("gpu1/stream7", "gpu1", "", "stream", device=1)
    rows = with_clock_errors(trace, [*devices, stream, *hosts])
    return {row.id: row.clock_error_ns for row in rows}


def ends_of_collectives(path):
    trace = warpline.open(path)
    kernels = trace["kernel"]
    ends = zip(kernels["name"].to_list(), kernels["end_ns"].to_list(), strict=True)
    found = sorted(end for name, end in ends if name.startswith("nccl"))
    return np.array(found) + trace.meta.origin_utc_ns


def test_nine_of_ten_ends_lie_within_what_is_said(capture):
    paths = [capture(f"ddp_serial.bad.rank{rank}") for rank in range(2)]
    found = groups(warpline.open(*paths))
    assert found["gpu0"] is None
    assert found["process0"] is None
    assert found["gpu1/stream7"] is None
    error = found["gpu1"]
    assert error == found["process1"]
    first, second = map(ends_of_collectives, paths)
    assert len(first) == len(second)
    apart = np.abs(second - first)
    assert np.quantile(apart, 0.9) <= error * 1.05
    assert error <= 10 * np.quantile(apart, 0.9)


def test_one_file_has_one_clock(capture):
    assert set(groups(warpline.open(capture("ddp_serial.bad.rank1"))).values()) == {None}


def test_the_table_of_stragglers_gives_the_same_error(capture):
    paths = [capture(f"ddp_serial.bad.rank{rank}") for rank in range(2)]
    error = groups(warpline.open(*paths))["gpu1"]
    notes = warpline.stats(warpline.open(*paths), "stragglers").notes
    assert any(format_ns(error) in note and "clocks" in note for note in notes)
