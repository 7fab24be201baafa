"""Rules about unsteady steps and unused concurrency say nothing about steady real programs."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

import warpline
from warpline.analyses.findings.cold_start import cold_start
from warpline.analyses.findings.serialized_streams import serialized_streams
from warpline.analyses.findings.step_jitter import step_jitter
from warpline.trace import Run

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "faults").glob("*.fixed.warpline.xz"))


@pytest.mark.parametrize("packed", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_fixed_programs(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / packed.name.removesuffix(".xz")
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    run = Run(warpline.open(path))
    for judge in (cold_start, step_jitter, serialized_streams):
        assert judge(run) == []


def test_there_are_such_recordings() -> None:
    assert len(RECORDINGS) >= 8
