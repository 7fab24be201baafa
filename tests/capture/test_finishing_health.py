"""The state of GPUs and machine in a recording: from files of readings, whole or damaged."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from capture.cuda_writer import ALL_KINDS, CudaLog
from capture.finished import rows
from capture.raw_writer import ORIGIN_NS, write_session

import warpline
from warpline import native
from warpline.capture.finishing.finish import Finished, finish
from warpline.capture.session.readings import ReadingsWriter, path_of
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

SECOND = 1_000_000_000
NODES = ALL_KINDS & ~16  # graphs are recorded by their nodes
NEAR, FAR, UNUSED = bytes([1]) * 16, bytes([2]) * 16, bytes([3]) * 16
Row = Mapping[str, int | None]


def uuid(raw: bytes) -> str:
    text = raw.hex()
    return "GPU-" + "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


def gpu(raw: bytes, **limits: object) -> dict[str, Any]:
    return {"uuids": [uuid(raw)], "name": "Fake GPU", **limits}


GPUS = [
    gpu(UNUSED),
    gpu(FAR, memory_clock_hz=2_619_000_000, power_limit_mw=500_000, pcie_width=16),
    gpu(NEAR, default_power_limit_mw=700_000),
]


def reading(number: int, at_s: float, *, is_recording: int = 1, **values: int) -> Row:
    start_ns = ORIGIN_NS + int(at_s * SECOND)
    key = "gpu" if "pid" not in values else "pid"
    row = {"start_ns": start_ns, "end_ns": start_ns + 50, "is_recording": is_recording}
    return {key: number, **row, **values}


def logs() -> list[CudaLog]:
    log = CudaLog(100)
    log.collecting(0, NODES)
    log.device(0, uuid=NEAR)
    log.device(1, uuid=FAR)
    log.device(2, uuid=bytes(16), pci=struct.pack("<IHH", 0, 9, 0))  # without one
    for device in range(3):
        log.context(device + 1, device=device)
        log.kernel("f", 10, 20, device, device=device, context=device + 1)
    return [log]


def record(
    folder: Path,
    tables: Mapping[str, Sequence[Row]],
    *,
    gpus: Sequence[object] = GPUS,
    period_ns: object = SECOND,
    meters_ns: object = None,
    made: Sequence[CudaLog] | None = None,
) -> tuple[Trace, Finished]:
    """Finish a session with these readings."""
    session = write_session(
        folder / "x.warpline.raw",
        *(logs() if made is None else made),
        collected=["cuda"],
        ended_monotonic_ns=ORIGIN_NS + 10 * SECOND,
    )
    for table, written in tables.items():
        descriptor = os.open(path_of(session, table), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        facts = {"period_ns": period_ns, "meters_period_ns": meters_ns, "gpus": gpus}
        ReadingsWriter(descriptor, table, facts).write(written)
        os.close(descriptor)
    return finished(folder)


def finished(folder: Path) -> tuple[Trace, Finished]:
    found = finish(folder / "x.warpline.raw", folder / "x.warpline")
    return warpline.open(folder / "x.warpline"), found


def test_readings_of_gpus_that_the_program_used(tmp_path: Path) -> None:
    state = {"sm_clock_hz": 1_980_000_000, "power_mw": 123_456, "energy_mj": 7, "busy_percent": 75}
    written = [reading(0, 1, **state), reading(2, 1, **state), reading(1, 2, temperature_c=60)]
    trace, _ = record(tmp_path, {"gpu_health": written})
    names = ("start_ns", "end_ns", "device_id", "sm_clock_hz", "power_w", "energy_j", "busy_ratio")
    assert rows(trace, "gpu_health", *names, "temperature_c") == [
        (SECOND, SECOND + 50, 0, 1_980_000_000, 123.456, 0.007, 0.75, None),
        (2 * SECOND, 2 * SECOND + 50, 1, None, None, None, None, 60),
    ]
    assert trace["gpu_health"]["nvlinks"].to_list() == [None, None]
    assert trace.meta.warnings == ()


def test_limits_of_gpus_are_facts_of_devices(tmp_path: Path) -> None:
    trace, _ = record(tmp_path, {"gpu_health": [reading(1, 1, power_mw=1)]})
    names = ("memory_clock_hz", "power_limit_w", "default_power_limit_w", "pcie_width")
    assert rows(trace, "device", "gpu_index", *names, "pcie_generation") == [
        (0, None, None, 700.0, None, None),
        (1, 2_619_000_000, 500.0, None, 16, None),
        (2, None, None, None, None, None),
    ]


def test_errors(tmp_path: Path) -> None:
    written = [
        {"gpu": 1, "time_ns": ORIGIN_NS + 5, "xid": 79},
        {"gpu": 0, "time_ns": ORIGIN_NS + 6, "xid": 31},
    ]
    trace, _ = record(tmp_path, {"gpu_error": written})
    assert rows(trace, "gpu_error", "time_ns", "device_id", "xid") == [(5, 1, 79)]
    trace, _ = record(tmp_path, {"gpu_error": []})
    assert trace.has("gpu_error")
    assert trace.row_count("gpu_error") == 0


def test_the_machine_and_processes(tmp_path: Path) -> None:
    first, second = (CudaLog(100, incarnation=ORIGIN_NS + at * SECOND) for at in (0, 3))
    written = [
        reading(0, 1, pid=0, usable_millicores=1500, cores=8),
        *(reading(100, at, pid=100, cpu_ns=at) for at in (2, 5)),
        reading(999, 5, pid=999, cpu_ns=7),
    ]
    made = [first, second]
    for log in made:
        log.collecting(0, NODES)
    trace, _ = record(tmp_path, {"host_health": written}, made=made)
    names = ("start_ns", "process_id", "cpu_ns", "usable_cores", "cores")
    assert rows(trace, "host_health", *names) == [
        (1 * SECOND, None, None, 1.5, 8),
        (2 * SECOND, 0, 2, None, None),
        (5 * SECOND, 1, 5, None, None),  # after an exec
    ]


def test_readings_far_from_recording_are_left_out(tmp_path: Path) -> None:
    on = {3, 7}
    written = [reading(1, at, is_recording=int(at in on), power_mw=at) for at in range(10)]
    trace, _ = record(tmp_path, {"gpu_health": written})
    assert trace["gpu_health"]["power_w"].to_list() == [n / 1000 for n in (2, 3, 4, 6, 7, 8)]


def test_the_energy_before_and_after_recording_are_kept(tmp_path: Path) -> None:
    written = []
    for at in range(18):
        energy = {} if at % 5 else {"energy_mj": at}
        written.append(reading(1, at, is_recording=int(at in {8, 9}), power_mw=at, **energy))
    trace, _ = record(tmp_path, {"gpu_health": written}, meters_ns=5 * SECOND)
    times = [n // SECOND for n in trace["gpu_health"]["start_ns"].to_list()]
    assert times == [5, 7, 8, 9, 10, 15]
    assert trace["gpu_health"]["energy_j"].drop_nulls().to_list() == [0.005, 0.01, 0.015]


def test_a_range_between_two_readings_keeps_both(tmp_path: Path) -> None:
    written = [reading(1, at, is_recording=2 * (at == 5), power_mw=at) for at in range(10)]
    trace, _ = record(tmp_path, {"gpu_health": written})
    assert trace["gpu_health"]["power_w"].to_list() == [0.004, 0.005]


def test_a_lost_gpu_is_a_warning(tmp_path: Path) -> None:
    written = [reading(0, 1), reading(1, 1, power_mw=1), reading(1, 2), reading(2, 2, power_mw=2)]
    trace, _ = record(tmp_path, {"gpu_health": written})
    assert trace["gpu_health"]["device_id"].to_list() == [1, 0]
    assert trace.meta.warnings == (
        "GPU 1 was lost: its driver did not reach it after 2.00 s; run nvidia-smi",
    )


def test_gpus_that_no_recorded_process_used(tmp_path: Path) -> None:
    written = {"gpu_health": [reading(0, 1, power_mw=1)], "gpu_error": []}
    trace, _ = record(tmp_path, written, gpus=[gpu(UNUSED)])
    assert not trace.has("gpu_health")
    assert not trace.has("gpu_error")
    assert trace.row_count("device") == 3


def test_a_program_without_a_gpu(tmp_path: Path) -> None:
    trace, _ = record(tmp_path, {"gpu_health": [reading(0, 1, power_mw=1)]}, made=[])
    assert not trace.has("gpu_health")


def test_a_mig_instance_has_the_state_of_its_gpu(tmp_path: Path) -> None:
    parent = {"uuids": [uuid(UNUSED), uuid(FAR).replace("GPU-", "MIG-")]}
    trace, _ = record(tmp_path, {"gpu_health": [reading(0, 1, power_mw=1)]}, gpus=[parent])
    assert trace["gpu_health"]["device_id"].to_list() == [1]


def test_without_readings_there_are_no_tables(tmp_path: Path) -> None:
    trace, _ = record(tmp_path, {})
    assert not {"gpu_health", "gpu_error", "host_health"} & {*trace.tables}


def test_a_cut_file_loses_its_last_row(tmp_path: Path) -> None:
    record(tmp_path, {"gpu_health": [reading(1, at, power_mw=at) for at in (1, 2, 3)]})
    path = path_of(tmp_path / "x.warpline.raw", "gpu_health")
    path.write_bytes(path.read_bytes()[:-1])
    trace, _ = finished(tmp_path)
    assert trace["gpu_health"]["power_w"].to_list() == [0.001, 0.002]
    assert trace.meta.warnings == ("gpu_health.readings: the last reading is incomplete",)


def test_an_unreadable_file_is_a_warning(tmp_path: Path) -> None:
    record(tmp_path, {"gpu_health": [], "host_health": []})
    session = tmp_path / "x.warpline.raw"
    path_of(session, "gpu_health").write_bytes(b"nonsense\n")
    path_of(session, "host_health").unlink()
    os.mkfifo(path_of(session, "host_health"))
    trace, _ = finished(tmp_path)
    assert trace.meta.warnings == (
        "gpu_health.readings could not be read: its first line is damaged",
    )
    assert trace.row_count("kernel") == 3


@pytest.mark.parametrize("gpus", ["x", [7], [{"uuids": 7}], [{"uuids": [[], None]}], None])
def test_hostile_facts(tmp_path: Path, gpus: Any) -> None:
    for period_ns in (-1, "x", 2**70, None):
        written = {"gpu_health": [reading(0, 1, power_mw=1)]}
        trace, _ = record(tmp_path, written, gpus=gpus, period_ns=period_ns)
        assert not trace.has("gpu_health")


@pytest.mark.parametrize("seed", range(8))
def test_hostile_rows_never_fail(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    words = [0, 1, -1, 2, 100, 2**63 - 1, -(2**63), 2**61, ORIGIN_NS, rng.randrange(2**62)]
    record(tmp_path, {table: [] for table in ("gpu_health", "gpu_error", "host_health")})
    for path in (tmp_path / "x.warpline.raw").glob("*.readings"):
        with path.open("ab") as file:
            file.write(struct.pack("=2400q", *(rng.choice(words) for _ in range(2400))))
    trace, _ = finished(tmp_path)
    for table in ("gpu_health", "gpu_error", "host_health"):
        assert len(trace[table]) == trace.row_count(table)
    assert trace.row_count("kernel") == 3
