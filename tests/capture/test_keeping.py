"""Sessions that keep the last seconds only: what trimming leaves of them, against the whole."""

from __future__ import annotations

import os
import random
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from capture.cuda_writer import CudaLog
from capture.raw_writer import ORIGIN_NS, Log, write_session

import warpline
from warpline.capture.finishing.finish import finish
from warpline.capture.launcher.keeper import Keeper
from warpline.capture.session.activity import Activity
from warpline.capture.session.control import CONTROL_STEPS, ControlFile, Counters
from warpline.capture.session.facts import read_facts, write_facts
from warpline.capture.session.keeping import KeepLast, copy_session, logs_of, trim
from warpline.capture.session.triggers import Triggers
from warpline.trace import Trace

DATA = Path(__file__).parents[1] / "data" / "raw"
S = 1_000_000_000
NAMES = ("pageable_h2d.bad", "tiny_kernels.graph", "tiny_kernels.node")
# Ids of rows depend on which rows there are; nesting is that of the rows that are there.
LEFT_OUT = {
    "device_id",
    "context_id",
    "stream_id",
    "process_id",
    "thread_id",
    "stack_id",
    "range_id",
    "end_thread_id",
    "source_id",
}
LATER_NS = 1 << 60


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


def finished(session: Path, kept_from_ns: int = 0) -> Trace:
    if kept_from_ns:
        write_facts(session, {**read_facts(session), "kept_from_monotonic_ns": kept_from_ns})
    output = session.with_suffix(".warpline")
    done = finish(session, output)
    assert (done.damaged_logs, done.lost) == (0, 0)
    return warpline.open(output)


def contents(trace: Trace, table: str, from_ns: int) -> Counter[tuple[object, ...]]:
    """Return the rows of a table that end after a time, without ids."""
    frame = trace[table]
    end = "end_ns" if "end_ns" in frame.columns else "time_ns"
    names = [name for name in frame.columns if name not in LEFT_OUT]
    return Counter(frame.filter(frame[end] >= from_ns).select(names).rows())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_of_a_real_session_is_what_the_whole_has(name: str, tmp_path: Path) -> None:
    session = unpacked(name, tmp_path / "whole")
    whole = finished(session)
    origin_ns = read_facts(session)["started_monotonic_ns"]
    ends = np.sort(whole.columns("api_call", "end_ns")["end_ns"].values)
    for part in (0.3, 0.6, 0.9):
        kept = tmp_path / f"kept{part}" / "run.raw"
        shutil.copytree(session, kept)
        cut = int(ends[int(part * len(ends))])
        for quarter in range(1, 5):  # as it grows older; the last time is the one that counts
            from_ns = origin_ns + cut * quarter // 4
            trim(logs_of(kept), from_ns, LATER_NS, is_last=quarter == 4)
        found = finished(kept, origin_ns + cut)
        for table in ("kernel", "memcpy", "memset", "api_call", "graph_launch", "mark"):
            assert contents(found, table, cut) == contents(whole, table, cut), table
            assert len(found[table]) == sum(contents(found, table, cut).values())
        ranges = contents(found, "range", cut)
        assert ranges == contents(whole, "range", cut)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_later_than_the_end_of_a_copy_is_not_in_it(name: str, tmp_path: Path) -> None:
    session = unpacked(name, tmp_path / "whole")
    whole = finished(session)
    origin_ns = read_facts(session)["started_monotonic_ns"]
    ends = np.sort(whole.columns("api_call", "end_ns")["end_ns"].values)
    begin, end = int(ends[len(ends) // 4]), int(ends[len(ends) // 2])
    copy = tmp_path / "copy.raw"
    copy.mkdir()
    copy_session(session, copy)
    trim(logs_of(copy), origin_ns + begin, origin_ns + end, is_last=True)
    assert finish(copy, copy.with_suffix(".warpline")).damaged_logs == 0
    found = warpline.open(copy.with_suffix(".warpline"))
    for table, until in (("api_call", "end_ns"), ("kernel", "start_ns"), ("memcpy", "start_ns")):
        rows = whole[table].filter((whole[table]["end_ns"] >= begin) & (whole[table][until] <= end))
        names = [each for each in rows.columns if each not in LEFT_OUT]
        assert Counter(found[table].select(names).rows()) == Counter(rows.select(names).rows())
    ranges = found["range"]
    assert len(ranges.filter(ranges["start_ns"] > end)) == 0
    closed = whole["range"].filter(
        (whole["range"]["end_ns"] >= begin) & (whole["range"]["end_ns"] <= end)
    )
    assert set(closed["start_ns"]) <= set(ranges["start_ns"])


def write_random(folder: Path, draw: random.Random) -> Path:
    """Write a session of three threads with ranges, also ones that other threads end."""
    logs = [Log(tid=number, number=number) for number in range(3)]
    open_pushes: list[list[int]] = [[], [], []]
    ids: list[int] = []
    number = 0
    for time in range(10, 900):
        place = draw.randrange(3)
        log = logs[place]
        what = draw.random()
        if what < 0.3 and len(open_pushes[place]) < 5:
            domain = draw.randrange(2)
            if domain:
                log.domain(1, "other")
            log.push(time, f"push {draw.randrange(40)}", domain=domain)
            open_pushes[place].append(domain)
        elif what < 0.6 and open_pushes[place]:
            log.pop(time, open_pushes[place].pop())
        elif what < 0.75:
            number += 1
            log.start(time, number, f"start {draw.randrange(40)}")
            ids.append(number)
        elif what < 0.9 and ids:
            log.stop(time, ids.pop(draw.randrange(len(ids))))
        else:
            log.mark(time, f"mark {draw.randrange(40)}")
    return write_session(folder, *logs)


@contextmanager
def watching_for_hangs(
    session: Path, keep_s: float
) -> Iterator[tuple[Keeper, list[float], list[str]]]:
    """Yield a keeper, the time that it sees, and why it has written what it keeps."""
    seconds, written = [ORIGIN_NS / 1e9], list[str]()
    with closing(ControlFile.create(session)) as control:
        yield (
            Keeper(
                *(session, control, KeepLast(keep_s), Triggers(hang_s=60.0)),
                lambda _, reason: written.append(reason),
                now=lambda: seconds[0],
            ),
            seconds,
            written,
        )


def test_what_led_to_a_hang_is_kept_however_long_it_lasts(tmp_path: Path) -> None:
    log = Log(pid=os.getpid(), host=os.uname().nodename)
    log.push(10, "before the hang")
    log.pop(20)
    session = write_session(tmp_path / "run.raw", log)
    with watching_for_hangs(session, 10.0) as (keeper, seconds, written):
        for passed in (1, 30, 59, 62, 200, 5000):
            seconds[0] = ORIGIN_NS / 1e9 + passed
            keeper.look()
        keeper.end(ORIGIN_NS + 5000 * 10**9)
    assert written == ["nothing was recorded for 61.0 s"]
    assert finished(session)["range"]["name"].to_list() == ["before the hang"]


def test_a_thread_that_only_asks_does_not_end_a_hang(tmp_path: Path) -> None:
    """NCCL's watchdog asks every 100 ms, as long as the job hangs, and is told "not ready"."""
    log = CudaLog(pid=os.getpid(), host=os.uname().nodename)
    log.launch(10, 20, 1)
    session = write_session(tmp_path / "run.raw", log)
    with watching_for_hangs(session, 1000.0) as (keeper, seconds, written):
        for passed in range(1, 120):
            log.call("cudaEventQuery", passed * S, passed * S + 9, 1, status=600)
            if passed == 30:  # one has completed, so the job goes on
                log.call("cudaEventQuery", passed * S + 10, passed * S + 19, 1)
            log.write(session)
            seconds[0] = ORIGIN_NS / 1e9 + passed
            keeper.look()
        # What led to the hang is kept, not the time of the queries.
        assert keeper.kept_from_ns(ORIGIN_NS + 120 * S) == pytest.approx(
            ORIGIN_NS + (30 - 1000) * S, abs=S
        )
        keeper.end(ORIGIN_NS + 120 * S)
    assert written == ["nothing was recorded for 60.0 s"]


class Steps:
    """A control page that only has steps."""

    def __init__(self) -> None:
        self.begins = [ORIGIN_NS]

    def counters(self) -> Counters:
        times = [0] * CONTROL_STEPS
        for number, begin_ns in enumerate(self.begins):
            times[number % CONTROL_STEPS] = begin_ns
        return replace(
            Counters(0, 0, 1, 0, 0, 0, False, 0, ""),
            steps_begun=len(self.begins),
            step_processes=1,
            step_ns=tuple(times),
        )


def test_a_slow_step_soon_after_a_dump_is_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = write_session(tmp_path / "run.raw", Log())
    steps, now = Steps(), [ORIGIN_NS / 1e9]
    monkeypatch.setattr(Activity, "count", lambda _: len(steps.begins))
    written: list[tuple[float, str]] = []
    keeper = Keeper(
        *(session, cast("ControlFile", steps), KeepLast(10.0), Triggers(step_ratio=2.0)),
        lambda ended_ns, reason: written.append((ended_ns / 1e9 - ORIGIN_NS / 1e9, reason)),
        now=lambda: now[0],
    )
    for step in range(60):
        now[0] += 2.5 if step in {20, 24, 25} else 0.5
        steps.begins.append(round(now[0] * 1e9))
        keeper.look()
    keeper.end(round(now[0] * 1e9))
    assert [reason.split(",")[0] for _, reason in written] == [
        "step 20 took 2.50 s",
        "step 24 took 2.50 s",
    ]
    first, second = (when for when, _ in written)
    assert second - first == pytest.approx(10, abs=0.6)  # it has the steps 24 and 25


@pytest.mark.parametrize("seed", range(12))
def test_ranges_of_several_threads_stay_whole(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    session = write_random(tmp_path / "whole.raw", draw)
    whole = finished(session)
    kept = tmp_path / "kept.raw"
    shutil.copytree(session, kept)
    cut = draw.randrange(100, 900)
    for time in sorted(draw.sample(range(50, cut), 5)):
        trim(logs_of(kept), ORIGIN_NS + time, LATER_NS)
    trim(logs_of(kept), ORIGIN_NS + cut, LATER_NS, is_last=True)
    found = finished(kept)
    assert contents(found, "range", cut) == contents(whole, "range", cut)
    assert contents(found, "mark", cut) == contents(whole, "mark", cut)
