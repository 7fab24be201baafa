"""A dask scheduler and workers as processes over TCP: one is killed, one recording is damaged.

`make cluster-tests` runs these; they need the extra `cluster`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpline import api
from warpline.errors import UsageError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "fleet"))

from job_recordings import template, write
from job_summaries import paths
from job_timeline import Fault, Job, timeline

pytestmark = pytest.mark.cluster
psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")

RANKS, DAMAGED, JUNK, LATE = 24, 7, 9, 5
WORKERS = 4


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings of a job: one rank is late, one recording is damaged, one is junk."""
    from support.captures import unpack

    folder = tmp_path_factory.mktemp("job")
    base = template(unpack("ddp_serial.bad.rank1", tmp_path_factory.mktemp("base")))
    fault = Fault("gap", (LATE,), 4e6)
    times = timeline(base.step, Job(RANKS, 20, faults=(fault,), offset_ns=50e6, drift=1e-4))
    for rank, path in enumerate(paths(folder, RANKS)):
        write(base, times, rank, path, f"n{rank // 8}")
    whole = paths(folder, RANKS)[DAMAGED].read_bytes()
    paths(folder, RANKS)[DAMAGED].write_bytes(whole[: len(whole) // 2])
    paths(folder, RANKS)[JUNK].write_bytes(b"junk")
    return folder


class Cluster:
    """A scheduler and workers, each a process."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        where = ("--host", "127.0.0.1", "--no-dashboard")
        self.processes = [
            self._start(folder, "scheduler", "dask_scheduler", "--port", str(port), *where)
        ]
        self.processes += [
            self._start(
                folder,
                f"worker{number}",
                "dask_worker",
                self.address,
                *("--nthreads", "1", "--no-nanny", "--no-dashboard"),
                *("--local-directory", str(folder)),
            )
            for number in range(WORKERS)
        ]

    @staticmethod
    def _start(folder: Path, name: str, module: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
        with (folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until all workers are there."""
        code = (
            "import sys, distributed;"
            f" c = distributed.Client({self.address!r}, timeout='60s');"
            f" c.wait_for_workers({WORKERS}, timeout=120)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    try:
        running.wait()
        yield running
    finally:
        running.stop()


def started(job: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "warpline", "fleet", "analyze", f"{job}/*.warpline"]
    return subprocess.Popen(
        [*command, "--format", "json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(out: str, job: Path) -> None:
    """Check that the answer is that of one process, complete but for what is listed."""
    found = json.loads(out)
    alone = json.loads(json.dumps(api.fleet(f"{job}/*.warpline", workers=1).to_dict()))
    assert found.pop("workers") != alone.pop("workers")
    found["left_out"].sort(key=lambda item: item["path"])
    alone["left_out"].sort(key=lambda item: item["path"])
    assert found == alone
    assert [item["rank"] for item in found["stragglers"]] == [LATE]
    left_out = [Path(item["path"]).name for item in found["left_out"]]
    assert left_out == [f"run.rank{DAMAGED}.warpline", f"run.rank{JUNK}.warpline"]
    assert "2 recordings left out" in found["verdict"]


def test_a_worker_is_killed_in_the_middle(job: Path, cluster: Cluster) -> None:
    running = started(job, "--scheduler", cluster.address)
    busy = cluster.processes[2]
    began = cpu_s(busy)
    while running.poll() is None and cpu_s(busy) < began + 0.3:
        time.sleep(0.01)
    busy.kill()
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, ""), err
    check(out, job)


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time of a process."""
    fields = (
        Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_workers_on_this_machine(job: Path) -> None:
    running = started(job, "--workers", "2")
    listening: set[str] = set()
    whole = psutil.Process(running.pid)
    while running.poll() is None:
        listening |= {address for process in tree(whole) for address in listens(process)}
        time.sleep(0.05)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, ""), err
    assert listening == {"127.0.0.1"}, "reachable from elsewhere"
    check(out, job)


def tree(process: Any) -> list[Any]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def listens(process: Any) -> list[str]:
    """Return the addresses that a process listens on."""
    try:
        found = process.net_connections("inet")
    except psutil.Error:
        return []
    return [each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN]


def test_a_recording_that_kills_workers_is_left_out(job: Path, tmp_path: Path) -> None:
    for number, path in enumerate(paths(job, 4)):
        (tmp_path / f"rank{number}.warpline").symlink_to(path)
    found = json.loads(started_with_deadly(tmp_path).communicate(timeout=300)[0])
    (item,) = found["left_out"]
    assert Path(item["path"]).name == "rank2.warpline"
    assert "workers died while reading it" in item["reason"]
    assert len(found["ranks"]) == 3


def started_with_deadly(folder: Path) -> subprocess.Popen[str]:
    """Analyze a job with a leaf that ends its process at one recording."""
    program = folder / "deadly.py"
    program.write_text(
        "import json, os, sys\n"
        "from warpline import api\n"
        "from warpline.api import fleets\n"
        "real = fleets.summary_of\n"
        "def deadly(path, *, steps=None):\n"
        "    if path.endswith('rank2.warpline'):\n"
        "        os._exit(9)\n"
        "    return real(path, steps=steps)\n"
        "if __name__ == '__main__':\n"
        "    import deadly\n"
        "    fleets.summary_of = deadly.deadly\n"
        f"    print(json.dumps(api.fleet({str(folder)!r} + '/*.warpline', workers=2).to_dict()))\n",
        encoding="utf-8",
    )
    path = os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))
    return subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_no_scheduler_is_a_usage_error(job: Path) -> None:
    with pytest.raises(UsageError, match="no dask scheduler at"):
        api.fleet(f"{job}/*.warpline", scheduler="tcp://127.0.0.1:9")
