"""CPU samples of ``--keep-last``: those of the kept time, whole; the others are gone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from support import hot_programs

from warpline.trace import Trace

BUDGET_MS = 100
KEPT_S, PAUSE_S = 3, 4  # a program that is 30 times as slow as it should be would still fit
Record = Callable[..., Trace]


def test_samples_of_the_kept_time_are_whole_and_the_others_are_gone(
    record: Record, tmp_path: Path
) -> None:
    hot = hot_programs.compiled(tmp_path)
    script = f'"{hot}" {BUDGET_MS} work; sleep {PAUSE_S}; "{hot}" {BUDGET_MS} coroutine'
    ends = (3, "worked\nworked\n")
    trace = record(["sh", "-c", script], f"--keep-last={KEPT_S}s", ends=ends)
    samples = hot_programs.samples_of(trace)
    inner = [each for each in samples if "hot_seventy" in each.functions]
    assert inner
    assert all("coroutine" in each.functions for each in inner)
    whole = [each for each in inner if {"caller", "work"} < set(each.functions)]
    assert len(whole) >= 0.98 * len(inner)
    used_ms = sum(each.period_ns for each in inner) / 1e6 / hot_programs.SHARES["hot_seventy"]
    assert 0.85 * BUDGET_MS < used_ms < 1.15 * BUDGET_MS
    times = trace.columns("cpu_sample", "time_ns")["time_ns"].values
    assert times.max() - times.min() <= KEPT_S * 1e9
    assert trace.row_count("sched_event")
    assert any("are recorded (--keep-last)" in text for text in trace.meta.warnings)


BURSTS = """
import time
for _ in range(4):
    time.sleep(1)
    end = time.process_time() + 0.03
    while time.process_time() < end:
        pass
print("worked")
"""


def test_a_process_that_goes_on_is_trimmed_and_recorded_further(record: Record) -> None:
    # Its log is written to after others have removed what was in it.
    trace = record([sys.executable, "-c", BURSTS], "--keep-last=1s", ends=(0, "worked\n"))
    assert trace.row_count("cpu_sample")
    assert trace.meta.lost == {}
    told = [text for text in trace.meta.warnings if "have no Python frames" not in text]
    assert [text.partition(" are recorded (")[2] for text in told] == ["--keep-last)"]
