"""Copies of growing logs have of the last seconds what the logs have."""

from __future__ import annotations

import os
import random
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpline.capture.finishing.draft import recorded_tables, rows_of
from warpline.capture.finishing.raw_session import LogFile, RawSession, log_files
from warpline.capture.session.facts import read_facts
from warpline.capture.session.keeping import logs_of, trim
from warpline.capture.session.raw_numbers import LogHeader
from warpline.live.follow import Following
from warpline.live.source import LiveSource, empty_meta
from warpline.trace import Trace

DATA = Path(__file__).parents[1] / "data" / "raw"
# Ids of rows depend on which rows there are; nesting is that of the rows that are there.
LEFT_OUT = {
    *("device_id", "context_id", "stream_id", "process_id", "thread_id", "stack_id", "range_id"),
    *("end_thread_id", "source_id"),
}
TABLES = ("kernel", "memcpy", "memset", "api_call", "graph_launch", "range", "mark")
END_NS = 1 << 60


def unpacked(name: str, tmp_path: Path) -> tuple[Path, Path, int]:
    """Return the folder of a whole session, one for its growing copy, and the session's begin."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (whole,) = tmp_path.iterdir()
    folder = tmp_path / "growing.raw"
    folder.mkdir()
    return whole, folder, int(read_facts(whole)["started_monotonic_ns"])


class Playback:
    """A session that grows again as it once did.

    Args:
        whole: The directory of the session.
        folder: An empty directory for what there is of it at a time.
    """

    def __init__(self, whole: Path, folder: Path) -> None:
        self.folder = folder
        self._logs = {path.name: path.read_bytes() for path in logs_of(whole)}
        self._ends = {name: list(_bounds(data)) for name, data in self._logs.items()}
        self._used = dict.fromkeys(self._logs, 0)

    @property
    def largest(self) -> str:
        """The name of the largest log."""
        return max(self._logs, key=lambda name: len(self._logs[name]))

    def grow(self, part: float, more_bytes: int = 0, *, held: str = "") -> None:
        """Let each log have a part of its records, and some bytes of the next one; one is held."""
        for name, data in self._logs.items():
            if name == held:
                continue
            ends = self._ends[name]
            end = ends[round(part * (len(ends) - 1))]
            path = self.folder / name
            header = LogHeader.from_buffer_copy(path.read_bytes() if path.exists() else data)
            header.used_bytes = end
            with path.open("r+b" if path.exists() else "wb") as file:
                os.pwrite(file.fileno(), data[self._used[name] : end], self._used[name])
                # A record is written first, then its header, then where the next one will be.
                os.pwrite(file.fileno(), b"\0" * 8 + data[end + 8 : end + 8 + more_bytes], end)
                os.pwrite(file.fileno(), bytes(header), 0)
            self._used[name] = end


def _bounds(data: bytes) -> Iterator[int]:
    """Yield the places of records in a log, and its end."""
    header = LogHeader.from_buffer_copy(data)
    at = int(header.header_bytes)
    while at < header.used_bytes:
        yield at
        words = int.from_bytes(data[at : at + 8], "little") >> 48
        assert words
        at += words * 8
    yield at


def trace_of(session: RawSession, origin_ns: int, end_ns: int | None = END_NS) -> Trace:
    session.decode(lambda _: None)
    session.seal(origin_ns, end_ns)
    rows = rows_of(session)
    there = recorded_tables(session, {"collected": ["cuda", "nvtx"]}, rows)
    known = {name: count for name, count in rows.items() if name in there}
    return Trace(LiveSource(session, known, empty_meta("x")))


def contents(logs: list[LogFile], origin_ns: int, from_ns: int) -> dict[str, Counter[object]]:
    """Return the rows of each table that end after a time, without ids."""
    found: dict[str, Counter[object]] = {}
    with RawSession(logs) as session:
        trace = trace_of(session, origin_ns)
        for table in TABLES:
            if table in trace:
                frame = trace[table]
                end = "end_ns" if "end_ns" in frame.columns else "time_ns"
                names = [name for name in frame.columns if name not in LEFT_OUT]
                found[table] = Counter(frame.filter(frame[end] >= from_ns).select(names).rows())
    return found


def newest_ns(logs: list[LogFile]) -> int:
    with RawSession(logs) as session:
        session.decode(lambda _: None)
        return max(session.facts("process", "last_ns"))


def copies_of(following: Following) -> list[LogFile]:
    following.read()
    return following.copies(0)


@pytest.mark.parametrize("is_trimmed", [False, True])
@pytest.mark.parametrize("name", ["pageable_h2d.bad", "tiny_kernels.node"])
def test_a_mirror_of_a_growing_session_has_what_the_session_has(
    name: str, is_trimmed: bool, tmp_path: Path
) -> None:
    whole, folder, origin_ns = unpacked(name, tmp_path)
    playback, draw = Playback(whole, folder), random.Random(name)
    seconds = (newest_ns(log_files(whole)) - origin_ns) / 8e9
    now_ns = origin_ns
    seen = 0
    with closing(Following(folder, seconds, (seconds,), clock=lambda: now_ns)) as mirror:
        for step in range(1, 9):
            playback.grow(step / 8, more_bytes=8 * draw.randrange(4))
            now_ns = newest_ns(log_files(folder))
            from_ns = now_ns - round(seconds * 1e9)
            if is_trimmed and step % 2:  # somebody else removes what is old, before it is read
                trim(logs_of(folder), from_ns, now_ns)
            copies = copies_of(mirror)
            wanted = contents(log_files(folder), origin_ns, from_ns - origin_ns)
            assert contents(copies, origin_ns, from_ns - origin_ns) == wanted
            seen += sum(sum(of.values()) for of in wanted.values())
            most = sum(log.path.stat().st_blocks * 512 for log in copies)
            assert (mirror.removed_until_ns > 0) == is_trimmed
        whole_bytes = sum(path.stat().st_size for path in logs_of(whole))
        assert most < whole_bytes * 0.8  # what is old is gone
    assert seen > 1000
    before = {path.name: path.read_bytes() for path in logs_of(folder)}
    with closing(Following(folder, seconds, (seconds,), clock=lambda: now_ns)) as late:
        copies_of(late)
    assert {path.name: path.read_bytes() for path in logs_of(folder)} == before


def test_a_session_that_is_gone_leaves_the_copies(tmp_path: Path) -> None:
    with tarfile.open(DATA / "tiny_kernels.node.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (whole,) = tmp_path.iterdir()
    now_ns = newest_ns(log_files(whole))
    with closing(Following(whole, 1.0, (1.0,), clock=lambda: now_ns)) as mirror:
        before = [log.path.read_bytes() for log in copies_of(mirror)]
        shutil.rmtree(whole)
        assert [log.path.read_bytes() for log in copies_of(mirror)] == before
        assert np.prod([len(data) > 4096 for data in before])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("used_bytes", 1 << 62),
        ("used_bytes", 0),
        ("first_bytes", 1 << 62),
        ("first_bytes", 4097),
        ("header_bytes", 7),
        ("past_bytes", 1 << 63),
        ("magic", b"none"),
    ],
)
def test_a_log_with_a_false_header_harms_nothing_else(
    field: str, value: Any, tmp_path: Path
) -> None:
    with tarfile.open(DATA / "tiny_kernels.node.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (whole,) = tmp_path.iterdir()
    now_ns = newest_ns(log_files(whole))
    with closing(Following(whole, 1.0, (1.0,), clock=lambda: now_ns)) as mirror:
        count = len(copies_of(mirror))
        largest = max(logs_of(whole), key=lambda path: path.stat().st_size)
        header = LogHeader.from_buffer_copy(largest.read_bytes())
        setattr(header, field, value)
        with largest.open("r+b") as file:
            file.write(bytes(header))
        with RawSession(copies_of(mirror)) as session:
            assert session.rows("log") == count
    with (
        closing(Following(whole, 1.0, (1.0,), clock=lambda: now_ns)) as late,
        RawSession(copies_of(late)) as of,
    ):
        of.decode(lambda _: None)
        assert of.rows("log") >= count - 1
