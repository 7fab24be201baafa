"""Page faults of running and of blocked threads, against what the program measured itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import warpline
from warpline.derived.host.page_faults import fault_samples
from warpline.trace import Trace

SOURCE = Path(__file__).parent / "programs" / "page_faults.c"
BUDGET_MS = 300
HELD_NS = 3 * 60_000_000

Record = Callable[..., Trace]


class Touched(NamedTuple):
    """Times of the program in ns, and the row of its main thread in thread_states."""

    touching: int
    used: int
    held: int
    states: dict[str, int]


@pytest.fixture
def touch(record: Record, tmp_path: Path) -> Callable[[str], Touched]:
    """Return a function that records the program; skips where samples lack the kernel."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler")
    program, times = tmp_path / "page_faults", tmp_path / "times"
    command = [compiler, "-O1", str(SOURCE), "-o", str(program), "-lpthread"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no headers of userfaultfd")

    def run(mode: str) -> Touched:
        trace = record([program, BUDGET_MS, mode, times], "--cpuctxsw", "process-tree")
        if fault_samples(trace) is None:
            pytest.skip("samples have no functions of the kernel")
        rows = warpline.stats(trace, "thread_states").to_polars().rows(named=True)
        states = next(row for row in rows if row["pid"] == row["tid"])
        touching, used, held = map(int, times.read_text().split())
        return Touched(touching, used, held, states)

    return run


def test_touching_fresh_memory_is_time_in_page_faults(touch: Callable[[str], Touched]) -> None:
    found = touch("fresh")
    in_faults_ns = found.states["running_page_fault_ns"]
    # Nearly all of touching a page for the first time is the fault. What else the program does has
    # few: freeing the memory, computing.
    assert 0.8 * found.touching < in_faults_ns < 1.1 * found.touching
    assert in_faults_ns < 0.6 * found.used


def test_touching_the_same_memory_again_is_not(touch: Callable[[str], Touched]) -> None:
    found = touch("reused")
    assert (found.states["running_page_fault_ns"] or 0) < 0.15 * found.touching


def test_a_thread_that_waits_for_a_page_is_blocked_on_a_page_fault(
    touch: Callable[[str], Touched],
) -> None:
    found = touch("held")
    if not found.held:
        pytest.skip("the system forbids userfaultfd")
    assert found.held >= HELD_NS
    # It may have been woken up later than it was given the page.
    assert 0.95 * HELD_NS < found.states["page_fault_ns"] < 1.05 * found.held
