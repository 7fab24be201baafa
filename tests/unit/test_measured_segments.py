"""The pieces of the analyzed windows, some windows at a time."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import warpline
from warpline.derived.breakdown import partition
from warpline.derived.breakdown.partition import (
    measured_parts,
    measured_segments,
    step_partition,
    window_segments,
)
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart
from warpline.trace import Run


def demo() -> Run:
    return Run(warpline.open(Path(str(files("warpline") / "data" / "pageable_h2d.bad.sqlite"))))


@pytest.mark.parametrize("size", [1, 100])
def test_blocks_together_are_all_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = demo()
    whole = window_segments(run.trace, measure_windows(run))
    monkeypatch.setattr(partition, "_SEGMENTS_PER_BLOCK", size)
    blocks = list(measured_segments(run))
    assert len(blocks) > 1
    for place, column in enumerate(whole):
        assert np.concatenate([block[place] for block in blocks]).tolist() == column.tolist()
    part = device_segments(run.trace).part[whole.row]
    chosen = np.isin(part, (TimePart.COPY_H2D, TimePart.LAUNCH_BOUND))
    some = measured_parts(run, TimePart.COPY_H2D, TimePart.LAUNCH_BOUND)
    assert some.start_ns.tolist() == whole.start_ns[chosen].tolist()


def test_sums_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = step_partition(demo()).ns
    monkeypatch.setattr(partition, "_SEGMENTS_PER_BLOCK", 1)
    assert step_partition(demo()).ns.tolist() == expected.tolist()
