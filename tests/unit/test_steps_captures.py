"""Steps of real captures against plain SQL on the files, and found with their ranges hidden."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from support import captures

import warpline
from warpline.derived.steps.times import Steps, measure_windows, steps
from warpline.trace import ColumnData, Run, StringPool, TableSource, Trace, TraceMeta, read

SHARED = Path(__file__).parents[3] / "shared" / "data"
MORE = sorted((SHARED / "nsys").glob("*.sqlite"))
KINETO = sorted((SHARED / "kineto").glob("*.json.gz"))
# Captures whose steps are marked; the two left out of the bundled ones have none.
MARKED = [name for name in captures.names() if not name.startswith("ddp_payloads")]

# Each operation launched in a step: when the call began, by any thread of the process. Where
# a call launched several, or a driver call stands inside a runtime call, the outermost answers.
STEPS = """
SELECT rowid AS step, start, end, globalTid >> 24 AS process FROM NVTX_EVENTS
WHERE text GLOB 'step_[0-9]*' ORDER BY start
"""
OPERATIONS = """
SELECT o.start, o.deviceId, o.streamId, min(r.start) AS launched
FROM {table} o JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
ON r.correlationId = o.correlationId AND r.globalTid >> 24 = o.globalPid >> 24
GROUP BY o.rowid
"""
TABLES = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")

Operation = tuple[int, int, int, int]


class WithoutRanges:
    """A recording of a program that marks nothing."""

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self.meta: TraceMeta = source.meta
        self.strings: StringPool = source.strings

    def tables(self) -> Sequence[str]:
        hidden = ("range", "range_payload", "mark", "collective")
        return [name for name in self._source.tables() if name not in hidden]

    def row_count(self, table: str) -> int:
        return self._source.row_count(table)

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        return self._source.load(table, columns)


def true_periods(path: Path) -> tuple[list[int], list[int]]:
    """Return the periods of the steps on the slowest stream of their device, and on the host."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        marked = file.execute(STEPS).fetchall()
        names = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        work: list[Operation] = []
        for table in TABLES:
            full = f"CUPTI_ACTIVITY_KIND_{table}"
            graph_nodes = table == "GRAPH_TRACE" and work
            if full in names and not graph_nodes:
                work += file.execute(OPERATIONS.format(table=full)).fetchall()
    starts: dict[tuple[int, int], list[int]] = {}
    for _, begin, end, _ in marked:
        first: dict[tuple[int, int], int] = {}
        for start, device, stream, launched in work:
            if begin <= launched < end:
                lane = device, stream
                first[lane] = min(first.get(lane, start), start)
        for lane, start in first.items():
            starts.setdefault(lane, []).append(start)
    full_lanes = [lane for lane in starts.values() if len(lane) == len(marked)]
    slowest = max(full_lanes, key=lambda lane: lane[-1] - lane[0])
    near = [lane for lane in full_lanes if lane[-1] - lane[0] >= 0.97 * (slowest[-1] - slowest[0])]
    return _differences(min(near)), _differences([begin for _, begin, _, _ in marked])


def _differences(values: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(values)]


def periods(found: Steps) -> list[int]:
    return [int(ns) for ns in found.period_ns[:-1]]


def check_against_sql(path: Path) -> None:
    device, host = true_periods(path)
    found = steps(Run(warpline.open(path)))
    assert found.source == "range:step_*"
    assert periods(found) == device
    assert found.host_period_ns[:-1].tolist() == host
    assert found.excluded == ((len(found) - 1, "last"),)
    times = found.times()
    assert times.median_ns == round(median(device))
    assert times.host_median_ns == round(median(host))


def check_hidden(path: Path) -> None:
    shown, hidden = steps(Run(warpline.open(path))), steps(Run(Trace(WithoutRanges(read(path)))))
    assert hidden.source == "periodicity"
    assert len(hidden) == len(shown)
    assert hidden.times().median_ns == pytest.approx(shown.times().median_ns, rel=0.01)
    assert hidden.notes


@pytest.mark.parametrize("name", MARKED)
def test_periods_are_those_that_sql_gives(capture: Callable[[str], Path], name: str):
    check_against_sql(capture(name))


@pytest.mark.parametrize("name", MARKED)
def test_steps_are_found_with_their_ranges_hidden(capture: Callable[[str], Path], name: str):
    check_hidden(capture(name))


@pytest.mark.skipif(not MORE, reason="the larger captures are not here")
@pytest.mark.parametrize("path", MORE, ids=lambda path: path.stem)
def test_periods_of_more_captures(path: Path):
    check_against_sql(path)


@pytest.mark.skipif(not MORE, reason="the larger captures are not here")
@pytest.mark.parametrize("path", MORE, ids=lambda path: path.stem)
def test_hidden_ranges_of_more_captures(path: Path):
    check_hidden(path)


@pytest.mark.skipif(not KINETO, reason="the PyTorch profiler's traces are not here")
@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_traces_of_the_pytorch_profiler_have_four_steps(path: Path):
    found = steps(Run(warpline.open(path)))
    assert (found.source, len(found)) == ("periodicity", 4)


def test_two_ranks_have_the_same_steps(capture: Callable[[str], Path]):
    paths = [capture(f"ddp_serial.bad.rank{rank}") for rank in range(2)]
    trace = warpline.open(*paths)
    found = steps(Run(trace))
    apart = [periods(steps(Run(warpline.open(path)))) for path in paths]
    assert found.period_ns.tolist() == [*apart[0], 0, *apart[1], 0]
    assert found.times().count == 5
    windows = measure_windows(Run(trace))
    assert sorted(set(windows.device.tolist())) == [0, 1]
    assert windows.process.tolist() == windows.device.tolist()


def test_windows_of_a_device_touch(capture: Callable[[str], Path]):
    windows = measure_windows(Run(warpline.open(capture("host_sync.bad"))))
    assert windows.end_ns[:-1].tolist() == windows.start_ns[1:].tolist()
    assert (windows.end_ns > windows.start_ns).all()
