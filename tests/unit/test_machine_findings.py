"""Findings about the machine: other processes, PCIe, NVLink, memory, CPU cores, errors."""

from __future__ import annotations

from typing import Any

import pytest
from support.health import MS, read_gpu, read_gpu_every, read_host
from support.machine import Machine

import warpline
from warpline import plugins
from warpline.analyses.findings.cpu_saturated import cpu_saturated
from warpline.result import RULES, Finding, Skipped
from warpline.result.changes import ScaleOperations
from warpline.trace import Run, Trace

plugins.load("analyses")

GIB = 1 << 30
STEPS = 20
OF_MACHINE = (
    *("clock-limited", "gpu-shared", "pcie-link", "nvlink-down", "gpu-memory-full"),
    *("cpu-saturated", "gpu-errors"),
)


def program(*, copied: int = 0, cpu_ns: int = 0) -> Machine:
    """Run steps of about 10 ms on the GPU, with a pinned copy and CPU work before."""
    machine = Machine()
    for _ in range(STEPS):
        machine.work(cpu_ns)
        if copied:
            machine.copy(copied, pinned=True)
        machine.launch(10 * MS, "square")
        machine.wait()
        machine.end_step()
    return machine


def recorded(state: dict[str, Any], **numbers: Any) -> Trace:
    machine = program()
    read_gpu_every(machine, 20 * MS, lambda _: state)
    return machine.trace(**numbers)


def found(name: str, trace: Trace) -> list[Finding]:
    result = RULES.get(name).judge(Run(trace))
    assert not isinstance(result, Skipped), result.reason
    return list(result)


def test_without_readings_nothing_is_found() -> None:
    trace = program(copied=1 << 20).trace()
    for name in OF_MACHINE:
        assert found(name, trace) == []


def test_nothing_is_found_on_a_machine_in_good_order() -> None:
    state = {
        "other_processes": 0, "used_memory_bytes": 40 * GIB, "pcie_generation": 5,
        "pcie_width": 16, "nvlinks": 18, "ecc_uncorrected": 3, "busy_ratio": 0.99,
    }  # fmt: skip
    machine = program(copied=200 << 20)
    read_gpu_every(machine, 5 * MS, lambda _: state)
    for at_ns in range(0, machine.now, 50 * MS):
        read_host(machine, at_ns, cpu_ns=at_ns, cores=8, usable_cores=8.0)
    trace = machine.trace(clock_hz=1_980_000_000, memory_bytes=80 * GIB, pcie_generation=5,
                          pcie_width=16)  # fmt: skip
    for name in OF_MACHINE:
        assert found(name, trace) == []


def test_unknown_values_are_no_findings() -> None:
    trace = recorded({}, memory_bytes=80 * GIB, pcie_generation=5, pcie_width=16)
    for name in OF_MACHINE[1:]:
        assert found(name, trace) == []


def test_other_processes_with_memory() -> None:
    machine, seen = program(), {"other_processes": 2, "other_memory_bytes": 3 * GIB}
    # Processes are read less often than clocks.
    read_gpu_every(machine, 20 * MS, lambda at: seen if at % (40 * MS) < 20 * MS else {})
    trace = machine.trace()
    (item,) = found("gpu-shared", trace)
    assert (item.severity, item.title) == ("low", "GPU 0 is shared with 2 other processes")
    assert "2 other processes with up to 3.00 GiB of memory, in 100.0% of the reading" in item.claim
    assert "Whether they run kernels is unknown" in item.claim


def test_what_is_read_rarely_may_be_read_outside_of_the_steps() -> None:
    machine = program()
    read_gpu_every(machine, 20 * MS, lambda _: {})
    rare = {"used_memory_bytes": 78 * GIB, "other_processes": 1}
    read_gpu(machine, machine.now + 50 * MS, **rare)
    trace = machine.trace(memory_bytes=80 * GIB)
    (memory,), (shared,) = found("gpu-memory-full", trace), found("gpu-shared", trace)
    assert "in 100.0% of the readings" in memory.claim
    assert shared.evidence[0].text == "1 of 1 reading of the GPU"


def test_other_processes_that_work() -> None:
    machine = program(cpu_ns=10 * MS)  # busy half of the time
    read_gpu_every(machine, 20 * MS, lambda _: {"other_processes": 1, "busy_ratio": 0.9})
    (item,) = found("gpu-shared", machine.trace())
    assert (item.severity, item.title) == ("medium", "GPU 0 is shared with 1 other process")
    # 0.9 of the driver, less 10 ms of 20.01.
    assert "busy 40.0% of the time without work of the program" in item.claim


def test_a_slow_link_during_copies() -> None:
    machine = program(copied=500 << 20)  # 10.5 ms at 50 GB/s
    # An idle link has a low generation, and is no finding.
    read_gpu_every(machine, 3 * MS, lambda _: {"pcie_generation": 5, "pcie_width": 8})
    trace = machine.trace(pcie_generation=5, pcie_width=16)
    (item,) = found("pcie-link", trace)
    assert item.title == "The PCIe link of GPU 0 is 5 x8 instead of 5 x16"
    assert "31.5 GB/s instead of 63.0 GB/s" in item.claim
    (change,) = item.changes
    assert isinstance(change, ScaleOperations)
    assert change.factor.central == pytest.approx(0.5)
    (priced,) = (each for each in warpline.analyze(trace).findings if each.rule == "pcie-link")
    assert priced.saving_ns == pytest.approx(10.5 / 2 * MS, rel=0.03)


def test_a_link_that_is_slow_only_while_idle() -> None:
    machine = program(copied=500 << 20)
    copies = [(row["start_ns"], row["end_ns"]) for row in machine.program.rows["memcpy"]]
    for start, end in copies:
        read_gpu(machine, (start + end) // 2, pcie_generation=5, pcie_width=16)
        read_gpu(machine, start - MS, pcie_generation=1, pcie_width=16)
    assert found("pcie-link", machine.trace(pcie_generation=5, pcie_width=16)) == []


def test_a_link_that_nobody_saw_during_copies_is_unknown() -> None:
    machine = program()
    read_gpu_every(machine, 20 * MS, lambda _: {"pcie_generation": 1, "pcie_width": 16})
    assert found("pcie-link", machine.trace(pcie_generation=5, pcie_width=16)) == []


def test_fewer_links_than_other_gpus() -> None:
    machine = program()
    for at_ns in range(machine.begun_ns[0], machine.now, 50 * MS):
        read_gpu(machine, at_ns, 0, nvlinks=18)
        read_gpu(machine, at_ns, 1, nvlinks=17)
    (item,) = found("nvlink-down", machine.trace())
    assert (item.severity, item.title) == ("medium", "GPU 1 has 17 of 18 NVLinks")
    assert "18 on other GPUs of its model" in item.claim


def test_a_gpu_without_links_may_have_no_bridge() -> None:
    machine = program()
    for device in (0, 1):
        read_gpu(machine, machine.begun_ns[0], device, nvlinks=12 * device)
    (item,) = found("nvlink-down", machine.trace())
    assert (item.severity, item.title) == ("low", "GPU 0 has 0 of 12 NVLinks")


def test_a_link_that_fails_meanwhile() -> None:
    machine = program()
    for number, at_ns in enumerate(range(machine.begun_ns[0], machine.now, 50 * MS)):
        read_gpu(machine, at_ns, nvlinks=18 if number < 2 else 16)
    (item,) = found("nvlink-down", machine.trace())
    assert "16 active NVLinks, 18 at other times" in item.claim


def test_full_memory_is_information_unless_allocations_fail() -> None:
    machine = program()
    read_gpu_every(machine, 20 * MS, lambda _: {"used_memory_bytes": 77 * GIB})
    (item,) = found("gpu-memory-full", machine.trace(memory_bytes=80 * GIB))
    assert (item.severity, item.title) == ("info", "The memory of GPU 0 is 96.2% full")
    for call in machine.program.rows["api_call"]:
        call["return_value"] = 0
    for number in range(3):
        machine.call("cudaMalloc_v3020", MS)
        machine.program.rows["api_call"][-1]["return_value"] = 2 if number else 0
    (item,) = found("gpu-memory-full", machine.trace(memory_bytes=80 * GIB))
    assert item.severity == "medium"
    assert "2 allocations failed" in item.claim
    assert found("gpu-memory-full", machine.trace(memory_bytes=90 * GIB)) == []


def saturated(*, used: float = 8.0, stopped: float = 0.0, own: float = 0.0) -> Trace:
    """Return steps of 10 ms of CPU work and 10 ms on the GPU, with a load of the CPU."""
    machine = program(cpu_ns=10 * MS)
    for at_ns in range(0, machine.now + 50 * MS, 50 * MS):
        read_host(
            machine, at_ns, cpu_ns=round(used * at_ns), cores=8, usable_cores=2.0,
            throttled_ns=round(stopped * at_ns),
        )  # fmt: skip
        read_host(machine, at_ns, 0, cpu_ns=round(own * at_ns))
    return machine.trace()


def judged(trace: Trace) -> Finding | None:
    result = cpu_saturated(Run(trace))
    assert not isinstance(result, Skipped)
    return result[0] if result else None


def test_all_cores_are_busy_while_the_gpu_waits() -> None:
    item = judged(saturated(used=7.8))
    assert item is not None
    assert item.severity == "high"
    assert "GPU idle 10.0 ms per step" in item.claim
    assert "97.5% of the machine's 8 cores is used" in item.claim
    assert judged(saturated(used=7.0)) is None


def test_the_program_uses_all_that_it_may() -> None:
    item = judged(saturated(used=3.0, own=1.96))
    assert item is not None
    assert "the program uses 98.0% of the 2 cores it may use" in item.claim


def test_a_cpu_limit_stops_threads() -> None:
    item = judged(saturated(used=3.0, stopped=0.25))
    assert item is not None
    assert "a CPU limit stops its threads 25.0% of the time" in item.claim


def test_busy_cores_do_not_matter_to_a_busy_gpu() -> None:
    machine = program()
    for at_ns in range(0, machine.now + 50 * MS, 50 * MS):
        read_host(machine, at_ns, cpu_ns=8 * at_ns, cores=8)
    assert judged(machine.trace()) is None


def test_one_reading_shows_no_load() -> None:
    machine = program()
    read_host(machine, 0, cpu_ns=5, cores=8)
    assert isinstance(cpu_saturated(Run(machine.trace())), Skipped)


def test_errors_by_number_and_gpu() -> None:
    machine = program()
    for time_ns, device, xid in ((5 * MS, 0, 31), (6 * MS, 1, 79), (7 * MS, 0, 31)):
        machine.program.add("gpu_error", time_ns=time_ns, device_id=device, xid=xid)
    first, second = found("gpu-errors", machine.trace())
    assert (first.title, first.severity) == ("Xid 31 on GPU 0", "medium")
    assert "2 times: an access to an invalid address." in first.claim
    assert "compute-sanitizer" in first.fix
    assert (second.title, second.severity) == ("Xid 79 on GPU 1", "high")
    assert "the GPU has fallen off the bus" in second.claim


def test_memory_errors_count_from_the_first_reading() -> None:
    machine = program()
    for number, at_ns in enumerate(range(machine.begun_ns[0], machine.now, 50 * MS)):
        read_gpu(machine, at_ns, ecc_uncorrected=7 + (number > 1))
    (item,) = found("gpu-errors", machine.trace())
    assert (item.severity, item.title) == (
        "high",
        "1 memory error on GPU 0 that ECC could not correct",
    )
