"""The state of a machine and its processes, from made-up files of /proc and /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpline.capture.collectors.host_health import MOST_PROCESSES, HostHealth, ProcessHealth

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

FILES = {
    "proc/stat": "cpu  100 20 30 4000 500 6 7 8 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\nBuffers: 1 kB\n",
    "proc/net/dev": (
        "Inter-|   Receive                |  Transmit\n face |bytes packets errs\n"
        "    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n"
        "  eth0: 1000 1 0 0 0 0 0 0 70 1 0 0 0 0 0 0\n"
        "bridge: 500 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n"
    ),
    "proc/diskstats": (
        "   8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n"
        "   8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n"
        " 253 0 dm-0 1 0 10 0 1 0 20 0 0 0 0\n"
    ),
    "sys/block/sda/device/x": "",
    "sys/block/dm-0/x": "",
    "sys/class/net/eth0/device/x": "",
    "sys/class/net/bridge/x": "",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2000000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000000\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": "100\n",
    "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "200\n",
    "sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data": "11\n",
    "sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data": "N/A\n",
}


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def machine(root: Path, **files: str) -> dict[str, int | None]:
    put(root, files)
    row = HostHealth(os.getpid(), root).read()
    assert (row.pop("start_ns") or 0) <= (row.pop("end_ns") or 0)
    return {name: value for name, value in row.items() if value is not None}


def test_a_machine(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    cores = {"cores": os.cpu_count(), "usable_millicores": 1000 * len(os.sched_getaffinity(0))}
    assert machine(tmp_path) == {
        "pid": 0,
        "cpu_ns": (100 + 20 + 30 + 6 + 7 + 8) * TICK_NS,  # neither idle, nor waiting for disks
        "cpu_clock_hz": 2_500_000_000,
        "memory_bytes": 400 << 10,
        "free_memory_bytes": 600 << 10,
        "read_bytes": 10 * 512,  # of the disk; its partition and what is on it have the same
        "written_bytes": 20 * 512,
        "received_bytes": 1000,
        "sent_bytes": 70,
        "rdma_received_bytes": 4 * 111,
        "rdma_sent_bytes": 4 * 200,
        **cores,
    }


def test_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    assert {*machine(tmp_path)} == {"pid", "cores", "usable_millicores"}


def test_interfaces_of_a_container_count_if_none_is_physical(tmp_path: Path) -> None:
    put(tmp_path, {"proc/net/dev": FILES["proc/net/dev"]})
    row = machine(tmp_path)
    assert (row["received_bytes"], row["sent_bytes"]) == (1500, 100)


@pytest.mark.parametrize(
    ("group", "files", "limit", "throttled"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/cpu.stat": "throttled_usec 5"}, 1.5, 5000),
        ("0::/a/b\n", {"a/cpu.max": "max 100000", "a/b/cpu.max": "max 100000"}, None, None),
        # In a container, its own group is what is mounted.
        ("0::/\n", {"cpu.max": "50000 100000", "cpu.stat": "throttled_usec 7"}, 0.5, 7000),
        (
            "3:cpu,cpuacct:/a\n0::/\n",
            {
                "cpu/a/cpu.cfs_quota_us": "50000",
                "cpu/a/cpu.cfs_period_us": "100000",
                "cpu/a/cpu.stat": "nr_periods 1\nthrottled_time 9",
            },
            0.5,
            9,
        ),
        ("3:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.stat": ""}, None, None),
    ],
)
def test_the_limit_of_control_groups(
    tmp_path: Path, group: str, files: dict[str, str], limit: float | None, throttled: int | None
) -> None:
    put(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    folder = tmp_path / "sys/fs/cgroup/a/b"
    folder.mkdir(parents=True, exist_ok=True)
    row = machine(tmp_path, **{f"proc/{os.getpid()}/cgroup": group})
    cores = float(len(os.sched_getaffinity(0)))
    assert row["usable_millicores"] == round(1000 * min(cores, limit or cores))
    assert row.get("throttled_ns") == throttled


def test_processes(tmp_path: Path) -> None:
    stat = "{pid} (a) b) {state} 1 1 1 0 -1 0 11 0 12 0 5 6 0 0 20 0 1 0 99 1000 40 0"
    put(
        tmp_path,
        {
            "7/stat": stat.format(pid=7, state="S"),
            "7/io": "rchar: 1\nread_bytes: 100\nwrite_bytes: 200\ncancelled_write_bytes: 3\n",
            "8/stat": stat.format(pid=8, state="Z"),
            "9/stat": "9 (damaged",
            "10/stat": stat.format(pid=10, state="R"),
        },
    )
    first, second = ProcessHealth(tmp_path).read([10, 9, 8, 7, 6])
    expected = {
        "pid": 7,
        "cpu_ns": 11 * TICK_NS,
        "memory_bytes": 40 * os.sysconf("SC_PAGE_SIZE"),
        "minor_faults": 11,
        "major_faults": 12,
        "read_bytes": 100,
        "written_bytes": 200,
    }
    assert {name: value for name, value in first.items() if not name.endswith("t_ns")} == {
        **expected,
        "end_ns": first["end_ns"],
    }
    assert second["pid"] == 10
    assert "read_bytes" not in second  # that file may not be readable


def test_this_machine_and_process() -> None:
    row = HostHealth(os.getpid()).read()
    assert (row["memory_bytes"] or 0) > 0
    assert (row["cpu_ns"] or 0) > 0
    (own,) = ProcessHealth().read([os.getpid()])
    assert (own["memory_bytes"] or 0) > 1 << 20


def test_no_more_than_so_many_processes(tmp_path: Path) -> None:
    stat = " ".join(["0"] * 30)
    put(tmp_path, {f"{pid}/stat": f"{pid} (a) S {stat}" for pid in range(1, 100)})
    assert len([*ProcessHealth(tmp_path).read(range(1, 100))]) == MOST_PROCESSES
