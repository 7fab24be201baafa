"""How busy GPUs were, from records that are read once, is what the tables of the logs say."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest
from live.test_follow import Playback, newest_ns, trace_of, unpacked

from warpline.capture.finishing.raw_session import LogFile, RawSession, log_files
from warpline.live.follow import Following
from warpline.live.measure import activity, gpus_of


def expected(
    logs: list[LogFile], origin_ns: int, spans: list[tuple[int, int]]
) -> tuple[list[list[tuple[int, int]]], int, int | None]:
    """Return busy time and operations by span and GPU, the number of GPUs, what is missing."""
    with RawSession(logs) as session:
        trace = trace_of(session, origin_ns, None)
        found = [
            [(gpu.busy_ns, gpu.operations) for gpu in activity(trace.window(*span))]
            for span in spans
        ]
        missing = [ns for ns in session.facts("cuda", "missing_from_ns") if ns]
        return found, len(gpus_of(trace)), min(missing, default=None)


@pytest.mark.parametrize("name", ["pageable_h2d.bad", "tiny_kernels.node", "tiny_kernels.graph"])
def test_busy_time_and_operations_are_those_of_the_tables(name: str, tmp_path: Path) -> None:
    whole, folder, origin_ns = unpacked(name, tmp_path)
    playback, draw = Playback(whole, folder), random.Random(name)
    now_ns, operations, missed = origin_ns, 0, 0
    with closing(Following(folder, 1e6, (), clock=lambda: now_ns)) as following:
        for step in range(1, 7):
            held = playback.largest if step % 2 else ""  # that of GPU work comes late
            playback.grow(step / 6, more_bytes=8 * draw.randrange(4), held=held)
            logs = log_files(folder)
            now_ns = newest_ns(logs)
            state = following.read()
            places = [draw.randrange(now_ns - origin_ns + 1) for _ in range(8)]
            spans = [(0, now_ns - origin_ns), *((at, at + draw.randrange(10**9)) for at in places)]
            wanted, count, missing_ns = expected(logs, origin_ns, spans)
            rows = [0] * len(following.devices())  # these recordings have one GPU
            for (start, end), values in zip(spans, wanted, strict=True):
                if start < end and count:
                    assert following.measure(start + origin_ns, end + origin_ns, rows, 1) == values
                    operations += values[0][1]
            assert state.missing_from_ns == missing_ns
            missed += missing_ns is not None
    assert operations > 1000
    assert missed  # at some time, launches were there without their work
