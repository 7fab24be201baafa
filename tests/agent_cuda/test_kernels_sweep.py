"""``warpline kernels sweep`` of a program that uses the fake CUDA: runs, failures, and results."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_cuda.kernels_command import kernels_script
from support.launching import Ended

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

Run = Callable[..., Ended]
METRICS = ("--metrics", "sm__inst_executed.sum")  # time is always counted, too


class Sweep:
    """The command, with the fake CUDA; the program is run by a shell."""

    def __init__(self, folder: Path, cuda: Any, status: int = 0) -> None:
        self._folder = folder
        self._command, self._environment = kernels_script(
            folder, cuda, has_clock=True, has_flop=True, status=status
        )
        self.app = " ".join(cuda.command("init", cupti=self._environment["FAKE_CUPTI"]))

    def words(self, *flags: str, script: str | None = None) -> list[str]:
        program = ["--", "sh", "-c", script] if script is not None else []
        return [*self._command, "sweep", *flags, *program]

    def __call__(self, *flags: str, script: str | None = None) -> Ended:
        done = subprocess.run(
            self.words(*flags, script=script),
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, *flags: str, script: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*flags, script=script),
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )


@pytest.fixture
def sweep(tmp_path: Path, cuda: Any) -> Sweep:
    return Sweep(tmp_path, cuda)


def points(found: Ended) -> list[dict[str, Any]]:
    return list(json.loads(found.out)["points"])


def test_each_point_has_its_kernel_as_csv_and_a_page(sweep: Sweep, tmp_path: Path) -> None:
    script = f"echo to the log; {sweep.app} repeat 4 k{{K}}g{{G}},k9g1"
    flags = ("--vary", "K=7,8", "--vary", "G=4:16:x4", "--csv", "--plot", "page.html", *METRICS)
    found = sweep(*flags, script=script)
    assert found.status == 0, found.err
    rows = list(csv.DictReader(io.StringIO(found.out)))
    assert [(row["K"], row["G"], row["Kernel"]) for row in rows] == [
        (of, size, f"kernel{of}(float *)") for of in ("7", "8") for size in ("4", "16")
    ]
    # The fake's rule: a kernel takes 1 us per block.
    assert [float(row["Time (us)"]) for row in rows] == [4, 16, 4, 16]
    assert [row["Grid"] for row in rows[:2]] == ["4x1x1", "16x1x1"]
    assert {row["Launches"] for row in rows} == {"4"}
    assert float(rows[0]["sm__inst_executed.sum"]) == pytest.approx(21004 + 7 / 64, abs=0.01)
    assert "to the log" not in found.out + found.err
    assert "note: run 4 of 4: K=8 G=16" in found.err
    page = (tmp_path / "page.html").read_text()
    assert '<th scope="row">16</th>' in page
    assert "<script" not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages", "page.html"]


def test_failures_are_rows_and_the_sweep_goes_on(sweep: Sweep) -> None:
    script = (
        f"case {{N}} in oom) echo 'CUDA error: out of memory' >&2; exit 1;; bad) exit 7;;"
        f" dead) kill -SEGV $$;; none) exit 0;; esac;"
        f" {sweep.app} repeat 2 k7g3; read line && exit 9; exit 0"
    )
    found = sweep("--vary", "N=oom,bad,dead,none,ok", "--json", *METRICS, script=script)
    assert found.status == 0, found.err
    *failed, ok = points(found)
    assert ok["failure"] is None  # its standard input was empty
    assert ok["kernels"][0]["duration_ns"] == 3000
    assert [point["failure"] for point in failed[:3]] == [
        "out of GPU memory",
        "exit status 7",
        "ended by SIGSEGV",
    ]
    assert failed[3]["failure"].startswith("no kernel was counted: ")
    assert all(point["kernels"] == [] for point in failed)
    assert "note: N=oom: out of GPU memory" in found.err


def test_runs_that_take_too_long_are_ended(sweep: Sweep) -> None:
    script = "trap '' TERM; sleep 600 & sleep {N}"
    found = sweep("--vary", "N=600,700", "--time-limit", "0.2", *METRICS, script=script)
    assert found.status == 1
    assert "2 of 2 points not measured" in found.out
    assert found.out.count("took longer than 0.2 s") == 2


def test_an_interrupted_sweep_is_resumed(sweep: Sweep, tmp_path: Path) -> None:
    script = (
        f"echo {{N}} >> {tmp_path}/ran; {sweep.app} repeat 2 k{{N}}g{{N}};"
        f" test -e {tmp_path}/go || test {{N}} != 8 || exec sleep 600"
    )
    process = sweep.start("--vary", "N=7,8,9", "-o", "dir", *METRICS, script=script)
    ran = tmp_path / "ran"
    until = time.monotonic() + 60
    while not ran.exists() or len(ran.read_text().split()) < 2:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted with 2 runs to make; warpline kernels sweep -o dir --resume goes on" in err
    assert "2 of 3 points not measured" in out
    assert "not run yet" in out
    (tmp_path / "go").touch()
    found = sweep("-o", "dir", "--resume", "--json")
    assert found.status == 0, found.err
    assert [point["kernels"][0]["grid"] for point in points(found)] == ["7x1x1", "8x1x1", "9x1x1"]
    assert ran.read_text().split() == ["7", "8", "8", "9"]
    names = [f"point-{n}.{end}" for n in (1, 2, 3) for end in ("log", "warpline")]
    assert sorted(path.name for path in (tmp_path / "dir").iterdir()) == [*names, "sweep.json"]


def test_flop_come_from_a_second_run(sweep: Sweep, tmp_path: Path) -> None:
    """The default: both runs make one recording, which other commands read."""
    script = f"echo run >> {tmp_path}/ran; {sweep.app} repeat 30 k7g{{N}}"
    found = sweep("--vary", "N=2,4", "-o", "dir", "--json", script=script)
    assert found.status == 0, found.err
    assert (tmp_path / "ran").read_text().split() == ["run"] * 4
    assert sorted(path.suffix for path in (tmp_path / "dir").iterdir()) == [
        *(".json", *[".log"] * 4, *[".warpline"] * 2)
    ]
    for point, grid in zip(points(found), (2, 4), strict=True):
        (kernel,) = point["kernels"]
        assert (kernel["duration_ns"], kernel["launches"]) == (1000 * grid, 20)
        # The fake's rule for other counters; an FMA is two FLOP.
        name = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
        assert kernel["flop"] == 4 * (1000 * len(name) + grid + 7 / 64)
        assert kernel["flop_per_s"] == pytest.approx(kernel["flop"] / kernel["duration_ns"] * 1e9)


def test_one_set_is_one_run(sweep: Sweep, tmp_path: Path) -> None:
    script = f"echo run >> {tmp_path}/ran; {sweep.app} repeat 2 k7g{{N}}"
    (point,) = points(sweep("--vary", "N=2", "--set", "light", "--json", script=script))
    assert (tmp_path / "ran").read_text().split() == ["run"]
    assert point["kernels"][0]["flop"] is None


def test_repeats_and_all_kernels_in_markdown(sweep: Sweep) -> None:
    script = f"{sweep.app} repeat 2 k7g{{N}},k8g1"
    flags = ("--vary", "N=2,3", "--repeat", "2", "--top", "0", "--format", "markdown", *METRICS)
    lines = sweep(*flags, script=script).out.splitlines()
    rows = [line for line in lines if line.startswith("|") and "`kernel" in line]
    # N, time, metric, shortest and longest time, share of the time, launches, grid, block, kernel
    assert [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in rows] == [
        ["2", "2.00", "21002.11", "2.00", "2.00", "66.7", "4", "2", "256", "kernel7"],
        ["2", "1.00", "21001.13", "1.00", "1.00", "33.3", "4", "1", "256", "kernel8"],
        ["3", "3.00", "21003.11", "3.00", "3.00", "75.0", "4", "3", "256", "kernel7"],
        ["3", "1.00", "21001.13", "1.00", "1.00", "25.0", "4", "1", "256", "kernel8"],
    ]


def test_without_rights_to_counters_times_are_those_of_timelines(tmp_path: Path, cuda: Any) -> None:
    sweep = Sweep(tmp_path, cuda, status=35)
    script = f"{sweep.app} repeat 3 k7g{{N}}"
    found = sweep("--vary", "N=1,2", "--json", script=script)
    assert found.status == 0, found.err
    assert "recording timelines instead" in found.err
    for point in points(found):
        (kernel,) = point["kernels"]
        assert (kernel["short_name"], kernel["launches"]) == ("kernel7", 3)
        assert kernel["duration_ns"] > 0
        assert (kernel["flop"], kernel["roof"]) == (None, None)
    chosen = sweep("--vary", "N=1,2", "-k", "kernel7", script=script)
    assert chosen.status == 1
    assert chosen.err.startswith("error: this user may not read GPU counters")
