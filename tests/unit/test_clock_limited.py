"""clock-limited: kernels at a lower clock, why, and what the highest clock would save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.health import (
    APPLICATIONS,
    HIGHEST,
    HW_SLOWDOWN,
    HW_THERMAL,
    MHZ,
    MS,
    POWER_CAP,
    read_gpu,
    read_gpu_every,
)
from support.machine import ELEMENTWISE, GEMM, Machine

import warpline
from warpline import plugins
from warpline.analyses.findings.clock_limited import clock_limited
from warpline.derived.efficiency.compute_bound import compute_bound
from warpline.derived.health.kernel_clocks import kernel_clocks
from warpline.documents.comparison import profile
from warpline.result import Diagnosis, Finding, Skipped
from warpline.result.changes import ScaleOperations
from warpline.trace import Run, Trace

plugins.load("analyses")

H100 = "NVIDIA H100 80GB HBM3"
GEMV = "void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024>(int)"
State = Callable[[int], dict[str, Any]]
STEPS, PER_STEP = 40, 10


def program(clock: Callable[[int], int], *, gemm_ns: int = 2 * MS, other_ns: int = MS) -> Machine:
    """Run steps of GEMMs that take as long as the clock makes them, and of one other kernel.

    Args:
        clock: The clock in Hz at a time.
        gemm_ns: Time of a GEMM at the highest clock.
        other_ns: Time of a kernel that memory bounds.
    """
    machine = Machine()
    for _ in range(STEPS):
        for _ in range(PER_STEP):
            machine.launch(round(gemm_ns * HIGHEST / clock(machine.now)), GEMM)
            machine.wait()
        machine.launch(other_ns, ELEMENTWISE)
        machine.wait()
        machine.end_step()
    return machine


def recorded(state: State, period_ns: int = 50 * MS, **changed: Any) -> Trace:
    """Return the recording of `program` at the clocks of some states, read in equal intervals."""
    machine = program(lambda at: state(at).get("sm_clock_hz", HIGHEST))
    read_gpu_every(machine, period_ns, state)
    return machine.trace(H100, **{"clock_hz": HIGHEST, **changed})


def found(trace: Trace) -> list[Finding]:
    result = clock_limited(Run(trace))
    assert not isinstance(result, Skipped), result.reason
    return list(result)


def hot(_: int) -> dict[str, Any]:
    limits = HW_THERMAL | HW_SLOWDOWN
    return {"sm_clock_hz": 1_320 * MHZ, "clock_limits": limits, "temperature_c": 92}


def at_power_limit(_: int) -> dict[str, Any]:
    return {"sm_clock_hz": 1_400 * MHZ, "clock_limits": POWER_CAP, "power_w": 700.0}


def step_ms(diagnosis: Diagnosis) -> float:
    assert diagnosis.steps.median_ns is not None
    return diagnosis.steps.median_ns / MS


def test_heat_is_a_defect_with_the_price_of_the_clock() -> None:
    slow, fast = recorded(hot), recorded(lambda _: {})
    (item,) = found(slow)
    assert item.title == "HW thermal slowdown lowers the clock of GPU 0"
    assert "at 1,320 MHz of 1,980 MHz (66.7%)" in item.claim
    assert "HW thermal slowdown: the GPU is too hot (up to 92 C)" in item.claim
    assert item.evidence[1].table == "gpu_health"
    diagnosis = warpline.analyze(slow)
    first = diagnosis.findings[0]
    assert (first.rule, first.severity) == ("clock-limited", "high")
    # What the same program takes at the highest clock.
    saved = step_ms(diagnosis) - step_ms(warpline.analyze(fast))
    assert saved == pytest.approx(10, abs=0.3)  # 20 ms of GEMMs took 30
    assert first.saving_ns is not None
    assert first.saving_ns / MS == pytest.approx(saved, rel=0.03)
    # Whether the power limit takes its place is not recorded.
    assert first.saving_low_ns == 0
    assert "no other limit takes its place" in first.claim
    assert found(fast) == []


def test_the_power_limit_is_information() -> None:
    trace = recorded(at_power_limit, power_limit_w=700, default_power_limit_w=700)
    (item,) = found(trace)
    assert (item.severity, item.changes) == ("info", ())
    assert item.title == "Power-limited: normal for a GPU under full load"
    assert "at 1,400 MHz of 1,980 MHz (70.7%), because of the power limit of 700 W" in item.claim
    diagnosis = warpline.analyze(trace)
    assert "No measurable savings found." in diagnosis.verdict


def test_a_power_limit_that_is_set_low_is_not() -> None:
    trace = recorded(at_power_limit, power_limit_w=400, default_power_limit_w=700)
    (item,) = found(trace)
    assert (item.severity, item.title) == ("medium", "The power limit of GPU 0 is set low")
    assert "a power limit of 400 W instead of 700 W" in item.claim
    assert "nvidia-smi -pl 700" in item.fix


def test_after_heat_kernels_run_at_the_clock_that_power_allows() -> None:
    slow = recorded(lambda at: hot(at) if at % (400 * MS) < 200 * MS else at_power_limit(at))
    (item, normal) = found(slow)
    assert "HW thermal" in item.title
    assert " of their time, because of HW thermal slowdown" in item.claim
    assert not item.is_conditional
    (change,) = item.changes
    assert isinstance(change, ScaleOperations)
    assert change.factor.low == pytest.approx(1_320 / 1_980)
    assert change.factor.central == pytest.approx(1_320 / 1_400)
    assert change.factor.high == pytest.approx(1 - (1 - 1_320 / 1_400) / 2)
    assert normal.severity == "info"


def test_clocks_that_are_set_can_be_reset() -> None:
    trace = recorded(lambda _: {"sm_clock_hz": 990 * MHZ, "clock_limits": APPLICATIONS})
    (item,) = found(trace)
    assert item.title == "Applications clocks setting lowers the clock of GPU 0"
    assert "nvidia-smi -rac" in item.fix
    (priced,) = (each for each in warpline.analyze(trace).findings if each.rule == item.rule)
    assert priced.severity == "medium"  # somebody may want that clock
    assert priced.saving_ns == pytest.approx(20 * MS, rel=0.03)


def test_the_headline_names_a_limit_that_takes_little() -> None:
    def rarely(at: int) -> dict[str, Any]:
        is_hot = at % (400 * MS) < 50 * MS
        return {**hot(at), "sm_clock_hz": 1_740 * MHZ} if is_hot else {}

    diagnosis = warpline.analyze(recorded(rarely))
    (item,) = (each for each in diagnosis.findings if each.rule == "clock-limited")
    assert item.severity == "low"
    assert item.saving_ns is None
    assert "Affects 7 of 39 steps." in item.claim
    assert f"but HW thermal slowdown lowers the clock of GPU 0 ({item.id})" in diagnosis.verdict
    assert "savings found" not in diagnosis.verdict


def test_a_limit_that_the_cpu_hides_is_reported_without_a_saving() -> None:
    machine = Machine()
    for _ in range(STEPS):
        machine.launch(2 * MS, GEMM)
        machine.work(20 * MS)
        machine.end_step()
    read_gpu_every(machine, 50 * MS, hot)
    diagnosis = warpline.analyze(machine.trace(H100, clock_hz=HIGHEST))
    (item,) = (each for each in diagnosis.findings if each.rule == "clock-limited")
    assert (item.severity, item.saving_ns) == ("low", None)
    assert "The simulation shows no saving in these steps." in item.claim


def test_kernels_bound_by_memory_do_not_gain() -> None:
    machine = Machine()
    for _ in range(STEPS):
        for name in (ELEMENTWISE, GEMV):
            machine.launch(10 * MS, name)
            machine.wait()
        machine.end_step()
    read_gpu_every(machine, 50 * MS, hot)
    trace = machine.trace(H100, clock_hz=HIGHEST)
    assert not compute_bound(trace).any()
    (item,) = found(trace)
    assert (item.severity, item.changes) == ("low", ())
    assert item.title == "HW thermal slowdown is active on GPU 0"
    assert "HW thermal slowdown in 100.0% of its readings" in item.claim


def test_heat_between_readings_is_counted() -> None:
    def state(at: int) -> dict[str, Any]:
        return {"thermal_limited_ns": at // 8}

    (item,) = found(recorded(state))
    assert (item.severity, item.title) == ("low", "Heat limits the clock of GPU 0")
    assert "12.5% of the time, by a counter of the driver" in item.claim
    assert found(recorded(lambda at: {"thermal_limited_ns": at // 30})) == []
    # Where readings meet it, the kernels near these have a price.
    (item,) = found(recorded(lambda at: {**hot(at), **state(at)}))
    assert item.severity == "high"


def test_a_low_clock_without_a_limit_is_of_unknown_reason() -> None:
    (item,) = found(recorded(lambda _: {"sm_clock_hz": 1_500 * MHZ}))
    assert (item.severity, item.title) == ("info", "The GPU clock is low for an unknown reason")
    assert found(recorded(lambda _: {"sm_clock_hz": 1_755 * MHZ})) == []


def test_few_readings_show_nothing() -> None:
    trace = recorded(hot, period_ns=1_200 * MS)
    result = clock_limited(Run(trace))
    assert isinstance(result, Skipped)
    assert "fewer than 3 readings" in result.reason
    result = clock_limited(Run(recorded(hot, clock_hz=0)))
    assert isinstance(result, Skipped)
    assert "highest clock" in result.reason


def test_without_readings_nothing_is_said() -> None:
    trace = program(lambda _: 1_320 * MHZ).trace(H100, clock_hz=HIGHEST)
    assert found(trace) == []


def test_readings_without_a_clock() -> None:
    machine = program(lambda _: HIGHEST)
    read_gpu_every(machine, 50 * MS, lambda _: {"sm_clock_hz": None, "clock_limits": None})
    result = clock_limited(Run(machine.trace(H100, clock_hz=HIGHEST)))
    assert isinstance(result, Skipped)
    assert "no SM clock" in result.reason


def test_a_comparison_has_the_clock_of_busy_gpus_and_the_power_limit() -> None:
    def state(at: int) -> dict[str, Any]:
        is_idle = at % (200 * MS) < 60 * MS
        return {**at_power_limit(at), **({"clock_limits": 0x1} if is_idle else {})}

    facts = profile(Run(recorded(state, power_limit_w=700))).environment
    assert (facts["GPU clock"], facts["power limit"]) == ("1395 MHz", "700 W")
    facts = profile(Run(program(lambda _: HIGHEST).trace(H100))).environment
    assert (facts["GPU clock"], facts["power limit"]) == (None, None)


def test_kernels_have_the_clock_of_the_nearest_reading_of_a_busy_gpu() -> None:
    machine = Machine()
    for clock, at in ((1_000, 2 * MS), (1_500, 12 * MS), (200, 17 * MS), (1_900, 22 * MS)):
        limits = 0x1 if clock == 200 else 0  # idle
        read_gpu(machine, at, sm_clock_hz=clock * MHZ, clock_limits=limits)
    for tile in (16, 32, 64):  # equal names would look like steps
        machine.launch(5 * MS, GEMM.replace("128x64", f"128x{tile}"))
        machine.wait()
    machine.work(100 * MS)
    machine.launch(5 * MS, GEMM.replace("128x64", "256x64"))  # far from all readings
    (clocks,) = kernel_clocks(Run(machine.trace(H100, clock_hz=HIGHEST)))
    # Their middles are at 3.5, 8.5 and 13.5 ms.
    assert (clocks.clock_hz / MHZ).tolist() == [1_000, 1_500, 1_500]
    assert clocks.mean_hz == pytest.approx(4_000 / 3 * MHZ)
