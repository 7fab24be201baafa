"""The benchmark page: what is measured, left out, kept, and said of growth."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

import bench
import benchmark_page
import paired
from log_plot import axis

CHILDREN = """
import subprocess, sys
child = "import time; kept = bytearray(b'x') * 80_000_000; time.sleep(1)"
running = [subprocess.Popen([sys.executable, "-c", child]) for _ in range(2)]
for one in running:
    one.wait()
"""


def row(size: int, seconds: float, megabytes: float, **more: object) -> dict[str, object]:
    figures = {"runs": 5, "wall_s": seconds, "cpu_s": seconds, "peak_mb": megabytes}
    facts = {"work": "analyze", "program": "warpline", "size": size, "date": "2026-01-02"}
    return {**facts, **figures, "times_ours": 1.0, "load": 0.5, **more}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_memory_is_that_of_all_processes_at_one_time():
    cost = paired.run([sys.executable, "-c", CHILDREN])
    assert 160 < cost.peak_mb < 320


@pytest.mark.skipif(sys.platform != "linux", reason="measures otherwise")
def test_memory_of_the_measuring_process_does_not_count():
    kept = bytearray(b"x") * 60_000_000
    assert paired.run([sys.executable, "-S", "-c", "pass"]).peak_mb < 60
    assert len(kept) == 60_000_000


def test_a_failure_is_reported():
    with pytest.raises(SystemExit, match="exit 3"):
        paired.run([sys.executable, "-c", "raise SystemExit('exit 3')"])


def test_a_slow_command_runs_once():
    command = [sys.executable, "-c", "pass"]
    costs = paired.compare({"slow": command}, rounds=3, patience_s=0)
    assert len(costs["slow"]) == 1
    assert len(paired.compare({"quick": command}, rounds=3, patience_s=1e9)["quick"]) == 3


def test_what_would_take_too_long_or_too_much_is_left_out():
    last = row(1_000, 1.0, 100.0)
    assert bench.is_affordable(last, 10_000, patience_s=1.0, memory_mb=2_000.0)
    assert not bench.is_affordable(last, 10_001, patience_s=1.0, memory_mb=2_001.0)
    assert not bench.is_affordable(last, 10_000, patience_s=1.0, memory_mb=1_999.0)
    assert bench.is_affordable(None, 10**9, patience_s=0.0, memory_mb=0.0)
    left_out = {key: last[key] for key in ("work", "program", "size")}
    assert not bench.is_affordable(left_out, 2_000, patience_s=1e9, memory_mb=1e9)


def test_other_sizes_stay_in_the_data(tmp_path):
    path = tmp_path / "data.json"
    bench.store(path, [row(1_000, 1.0, 10.0), row(10, 0.1, 1.0)], {"cores": 2})
    bench.store(path, [row(1_000, 2.0, 20.0)], {"cores": 4})
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["conditions"] == {"cores": 4}
    assert [(one["size"], one["wall_s"]) for one in stored["rows"]] == [(10, 0.1), (1_000, 2.0)]


def test_growth_is_predicted_from_the_next_smaller_size():
    rows = [row(100, 1.0, 1.0), row(1_000, 2.0, 2.0), row(10, 0.0, 0.0), row(9_000, 9.0, 9.0)]
    assert bench.rows_before(rows, "analyze", 9_000)["warpline"]["size"] == 1_000
    assert bench.rows_before(rows, "kineto", 9_000) == {}


@pytest.mark.parametrize(
    ("seconds", "megabytes", "cells"),
    [
        (4.8, 200.0, "| 2,000, 2,400 ns | 1.20x | 400, 100 B | 0.25x | linear or less |"),
        (4.9, 200.0, "| 2,000, 2,450 ns | 1.23x | 400, 100 B | 0.25x | more than linear |"),
        (4.0, 1_000.0, "| 2,000, 2,000 ns | 1.00x | 400, 500 B | 1.25x | more than linear |"),
    ],
)
def test_growth_is_between_the_two_largest_sizes(seconds, megabytes, cells):
    small = row(1_000_000, 2.0, 400.0)
    large = row(2_000_000, seconds, megabytes)
    found = benchmark_page.growth([row(10, 9.0, 9.0), small, large])
    assert found.splitlines()[2:] == [f"| `analyze` | 1 M, 2 M {cells}"]


def test_growth_needs_two_large_sizes():
    found = benchmark_page.growth([row(100_000, 1.0, 1.0), row(1_000_000, 1.0, 1.0)])
    assert found.startswith("Not measured")


def test_a_line_goes_through_its_points():
    x = axis("size", [10, 5_000], str)
    assert [x.share(value) for value in x.ticks()] == [
        0,
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
        1,
    ]
    assert axis("one", [10], str).ticks() == [10, 100]


def test_the_plot_has_every_measured_point():
    shown = [
        one
        for one in benchmark_page.rows_of()
        if one["work"] in benchmark_page.PANELS and "wall_s" in one
    ]
    marks = ET.fromstring(benchmark_page.plot()).iter("{http://www.w3.org/2000/svg}circle")
    titles = [mark.find("{http://www.w3.org/2000/svg}title") for mark in marks]
    assert sum(title is not None for title in titles) == 2 * len(shown) > 0


def test_every_work_has_a_name_on_the_page():
    assert set(benchmark_page.WORKS) == set(bench.WORKS)
