"""``warpline sweep`` of a program that uses the fake CUDA: steps, memory, and where it runs out."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.json_schema import violations
from support.launching import Ended, environment

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

_MALLOC = 24  # the fake's number of cudaMalloc
_GPU_BYTES = 150_000_000_000


class Sweep:
    """The command; the program takes 2,000 MiB and 1,500 for each of a batch, or runs out."""

    def __init__(self, folder: Path, cuda: Any) -> None:
        library = folder / "packages" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
        library.parent.mkdir(parents=True)
        shutil.copy(cuda.cupti13, library)
        self._folder = folder
        self._environment = environment(TMPDIR=str(folder))
        self._environment["PYTHONPATH"] += f":{folder / 'packages'}"
        self.app = " ".join(cuda.command("init", cupti=library))
        self.script = (
            "mib=$((2000 + 1500 * {batch}));"
            f" test $mib -gt {_GPU_BYTES >> 20} && exec {self.app} call {_MALLOC} 2 exit 1;"
            f" {self.app} call {_MALLOC} 0 allocate $mib repeat 30 k7,u$((200 + 100 * {{batch}}))"
        )

    def __call__(self, *flags: str, script: str | None = None) -> Ended:
        program = ["--", "sh", "-c", script] if script is not None else []
        done = subprocess.run(
            [sys.executable, "-m", "warpline", "sweep", *flags, *program],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def sweep(tmp_path: Path, cuda: Any) -> Sweep:
    return Sweep(tmp_path, cuda)


def test_memory_is_predicted_until_it_runs_out(
    sweep: Sweep, tmp_path: Path, repository: Path
) -> None:
    flags = ("--vary", "batch=16,48,80,...", "--items", "{batch}*1024", "-o", "dir")
    found = sweep(*flags, "--gpu-health=off", "--json", script=sweep.script)
    assert found.status == 0, found.err
    known = json.loads(found.out)
    schema = json.loads((repository / "docs" / "sweep.schema.json").read_text())
    assert violations(known, schema) == []
    points = known["points"]
    assert [point["values"]["batch"] for point in points] == [16, 48, 80, 112]
    *measured, last = points
    assert last["failure"] == "out of GPU memory"  # by its last call of cudaMalloc
    assert last["is_out_of_memory"]
    mib = [2000 + 1500 * batch for batch in (16, 48, 80)]
    assert [point["peak_memory_bytes"] >> 20 for point in measured] == mib
    assert [point["memory_limit_bytes"] for point in measured] == [_GPU_BYTES] * 3
    assert last["predicted_memory_bytes"] == pytest.approx((2000 + 1500 * 112) << 20, rel=1e-6)
    for point in measured:
        assert point["step_ns"] > 1000 * 100 * point["values"]["batch"]
        items = point["values"]["batch"] * 1024
        assert point["items_per_s"] == pytest.approx(items / point["step_ns"] * 1e9)
        assert 0 < point["busy_ratio"] < 1
    (border,) = known["borders"]
    assert (border["predicted"], border["largest_that_fits"]) == (94, 80)
    assert border["smallest_that_does_not"] == 112
    assert "batch=112 (predicted peak 166 GiB" in found.err
    assert "of 140 GiB: does not fit)" in found.err
    # What is kept can be shown again, in other formats.
    rows = list(csv.DictReader(io.StringIO(sweep("dir", "--csv").out)))
    assert [row["batch"] for row in rows] == ["16", "48", "80", "112"]
    assert rows[-1]["Not Measured"] == "out of GPU memory"
    shown = sweep("dir", "--plot", "page.html")
    assert "Predicted to fit in 140 GiB: batch up to 94" in shown.out
    assert "Measured: 80 fits, 112 does not." in shown.out
    page = (tmp_path / "page.html").read_text()
    assert "free for the program: 139.7 GiB" in page
    assert "<script" not in page


def test_a_border_is_searched_and_a_sweep_resumed(sweep: Sweep) -> None:
    flags = ("--vary", "T=a", "--vary", "batch=20,60,100,140", "--gpu-health=off", "-o", "dir")
    first = sweep(*flags, "--skip-oom", script=f"echo {{T}}; {sweep.script}")
    assert first.status == 0, first.err
    assert "skipped: a smaller point ran out of GPU memory" in first.out
    found = sweep("-o", "dir", "--resume", "--find-border", "--json")
    assert found.err.count("note: run") == 1
    points = {point["values"]["batch"]: point for point in json.loads(found.out)["points"]}
    assert [*points] == [20, 60, 80, 100, 140]
    assert [point["is_measured"] for point in points.values()] == [True, True, True, False, False]
    (border,) = json.loads(found.out)["borders"]
    assert (border["others"], border["largest_that_fits"]) == ({"T": "a"}, 80)


def test_failures_and_another_kind(sweep: Sweep, tmp_path: Path) -> None:
    script = f"test {{N}} = bad && echo ValueError: no >&2 && exit 3; {sweep.app} repeat 9 k7,u500"
    found = sweep("--vary", "N=bad,ok", "-o", "dir", "--gpu-health=off", script=script)
    assert found.status == 0, found.err
    assert "not measured: exit status 3: ValueError: no" in found.out
    assert "note: N=bad: exit status 3: ValueError: no" in found.err
    path = tmp_path / "dir" / "sweep.json"
    path.write_text(path.read_text().replace('"program"', '"kernels"'))
    refused = sweep("dir")
    assert refused.status == 2
    assert "is a sweep of another kind (kernels)" in refused.err
    assert "use warpline kernels sweep" in refused.err
