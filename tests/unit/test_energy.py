"""Energy in spans of time, by hand, and the tables of the machine's state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.health import MHZ, MS, POWER_CAP, read_gpu, read_gpu_every, read_host
from support.machine import GEMM, Machine

import warpline
from warpline.derived.health.energy import COUNTER_AGE_NS, Meter, meters
from warpline.result import Skipped
from warpline.trace import Trace

S = 1_000_000_000


def meter(*joules: float, age_ns: int = 0) -> Meter:
    """Return a meter with readings one second apart."""
    at_ns = np.arange(len(joules) + 1, dtype=np.int64) * S
    return Meter(at_ns, np.array(joules), age_ns, is_counter=True)


def used(of: Meter, *spans: tuple[float, float]) -> tuple[float, ...]:
    start, end = (np.array([round(span[side] * S) for span in spans]) for side in (0, 1))
    return tuple(of.used(start, end))


def test_whole_times_between_readings_are_exact() -> None:
    assert used(meter(10, 20, 30), (1, 3)) == (50, 50, 50)
    assert used(meter(10, 20, 30), (0, 3)) == (60, 60, 60)
    # Spans that touch or overlap are one.
    assert used(meter(10, 20, 30), (1, 1.25), (1.25, 2), (1.5, 3)) == (50, 50, 50)


def test_a_part_of_a_time_used_between_none_and_all() -> None:
    assert used(meter(10, 20, 30), (1.25, 1.5)) == (0, 5, 20)
    assert used(meter(10, 20, 30), (0.5, 2.5)) == (20, 5 + 20 + 15, 60)
    # Several parts of one time share what it used.
    assert used(meter(10, 20, 30), (1.0, 1.25), (1.5, 1.75)) == (0, 10, 20)


def test_no_part_uses_more_than_the_power_permits() -> None:
    of = meter(10, 20, 20)._replace(most_w=24)
    # The other tenth of the second time uses 2.4 J at most, and so the spans at least 17.6.
    assert used(of, (1.0, 1.9)) == pytest.approx((17.6, 18, 20))
    assert used(of, (1.0, 1.1)) == pytest.approx((0, 2, 2.4))


def test_a_counter_may_be_old_at_both_ends() -> None:
    # At each end, it may miss what the GPU used in 100 ms.
    of = meter(10, 20, 30, age_ns=COUNTER_AGE_NS)
    assert used(of, (1, 2)) == pytest.approx((20 - 3, 20, 20 + 3))  # at most 30 W, as far as known
    of = of._replace(most_w=50)
    assert used(of, (0, 3)) == pytest.approx((60 - 5, 60, 60 + 5))
    # It misses no more than the next reading that is late enough shows.
    of = meter(10, 20, 0, age_ns=COUNTER_AGE_NS)._replace(most_w=500)
    assert used(of, (0, 2)) == pytest.approx((30 - 10, 30, 30))


def watts(at_ns: int) -> float:
    """Return the energy counter of a GPU that uses 500 W."""
    return 1e6 + 500 * at_ns / 1e9


def program(period_ns: int, *, step_ns: int = 12 * MS, steps: int = 100, **less: Any) -> Trace:
    """Return steps of a GEMM in a range, at 500 W."""
    machine = Machine()
    for _ in range(steps):
        begun = machine.now
        machine.launch(step_ns, GEMM)
        machine.wait()
        machine.program.mark("forward", begun, machine.now)
        machine.end_step()
    read_gpu_every(machine, period_ns, lambda at: {"energy_j": watts(at), "power_w": 500.0, **less})
    read_gpu(machine, machine.now, **{"energy_j": watts(machine.now), "power_w": 500.0, **less})
    return machine.trace(power_limit_w=700)


def rows(trace: Trace, name: str = "energy") -> list[dict[str, Any]]:
    result = warpline.stats(trace, name)
    assert not isinstance(result, Skipped), result.reason
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


def test_a_step_shorter_than_the_readings_has_the_mean_of_many() -> None:
    whole, step = rows(program(100 * MS))
    assert (whole["of"], whole["name"], whole["instances"]) == ("recording", None, 1)
    # The counter is up to 100 ms old, a reading takes 1 ms, and the GPU takes less than 1400 W.
    assert whole["energy_j"] == pytest.approx(500 * 1.2, rel=0.01)
    assert whole["high_j"] - whole["energy_j"] == pytest.approx(1_400 * 0.101)
    # The first reading misses at most what the next ones show.
    assert whole["energy_j"] - whole["low_j"] == pytest.approx(500 * 0.2)
    assert whole["mean_w"] == pytest.approx(500)
    assert step["of"] == "step"
    assert step["energy_j"] == pytest.approx(500 * 0.01202, rel=1e-3)
    assert step["low_j"] < step["energy_j"] < step["high_j"]
    assert step["basis"] == (
        f"steps of 12.0 ms are shorter than the readings, 100 ms apart: mean of"
        f" {step['instances']} steps"
    )
    assert step["source"] == "energy counter"


def test_steps_that_cannot_be_resolved_have_no_number() -> None:
    one_by_one = rows(program(100 * MS), "energy:steps")[1:]
    assert {row["energy_j"] for row in one_by_one} == {None}
    assert one_by_one[3]["basis"].startswith("not resolved: steps of 12.0 ms are shorter")
    assert one_by_one[3]["low_j"] == 0
    _, step = rows(program(100 * MS, steps=12))
    assert step["energy_j"] is None  # 130 ms, and a counter that is up to 100 ms old


def test_long_steps_are_known_one_by_one() -> None:
    one_by_one = rows(program(20 * MS, step_ns=2 * S, steps=5), "energy:steps")[1:]
    assert [row["name"] for row in one_by_one][:2] == ["step_0", "step_1"]
    for row in one_by_one:
        assert row["energy_j"] == pytest.approx(1_000, rel=0.01)
        assert row["high_j"] - row["low_j"] == pytest.approx(2 * 500 * 0.12, rel=0.01)
        assert row["basis"] == "1 step, readings, 20.0 ms apart"


def test_ranges_and_classes() -> None:
    trace = program(100 * MS)
    (forward,) = (row for row in rows(trace, "energy:ranges") if row["name"] == "forward")
    assert (forward["of"], forward["instances"]) == ("range", 100)
    # Between two of them, the GPU does nothing for 13 us.
    assert forward["energy_j"] == pytest.approx(500 * 0.012, rel=1e-3)
    gemm, idle = rows(trace, "energy:classes")[-2:]
    assert (gemm["name"], idle["name"]) == ("gemm", "idle")
    assert gemm["energy_j"] == pytest.approx(500 * 0.012, rel=1e-3)
    assert gemm["low_j"] is None
    assert gemm["basis"] == "assumed: in proportion to time between readings"


def two_levels(*, step_ns: int, steps: int) -> Trace:
    """Return steps at 200 W, and as many at 600 W: the counter every 20 s, power every second."""
    machine = Machine()
    for _ in range(2 * steps):
        machine.launch(step_ns, GEMM)
        machine.wait()
        machine.end_step()
    half = machine.begun_ns[0] + (machine.now - machine.begun_ns[0]) // 2

    def used_j(at_ns: int) -> float:
        return (200 * min(at_ns, half) + 600 * max(at_ns - half, 0)) / 1e9

    for number, at in enumerate(range(machine.begun_ns[0], machine.now, S)):
        energy_j = None if number % 20 else used_j(at)
        read_gpu(machine, at, power_w=200.0 if at <= half else 600.0, energy_j=energy_j)
    read_gpu(machine, machine.now, power_w=600.0, energy_j=used_j(machine.now))
    return machine.trace(power_limit_w=700)


def test_power_divides_energy_between_readings_of_the_counter() -> None:
    whole, *steps = rows(two_levels(step_ns=5 * S, steps=6), "energy:steps")
    assert whole["energy_j"] == pytest.approx(400 * 60, rel=0.01)
    # From 20 to 40 s, the counter alone cannot tell 200 W from 600 W.
    for number, step in enumerate(steps):
        assert step["energy_j"] == pytest.approx(1_000 if number < 6 else 3_000, rel=0.02)
        assert step["low_j"] <= step["energy_j"] <= step["high_j"]
    assert steps[5]["high_j"] - steps[5]["low_j"] > 3_000  # bounds are those of the counter
    assert steps[5]["basis"] == (
        "1 step, counter read every 20.0 s, divided by power, read every 1.00 s; bounds are the"
        " counter's"
    )


def test_power_does_not_resolve_what_is_shorter_than_its_average() -> None:
    _, *steps = rows(two_levels(step_ns=500 * MS, steps=60), "energy:steps")
    assert {row["energy_j"] for row in steps} == {None}
    assert steps[0]["basis"].startswith("not resolved: steps of 500 ms are shorter than the readi")


def test_the_parts_of_a_profile_have_the_energy_of_the_counter() -> None:
    (meter,) = meters(two_levels(step_ns=5 * S, steps=6)).values()
    assert meter.profile is not None
    for low, high, joules in zip(meter.at_ns[:-1], meter.at_ns[1:], meter.joules, strict=True):
        within = (meter.profile.at_ns[:-1] >= low) & (meter.profile.at_ns[1:] <= high)
        assert meter.profile.joules[within].sum() == pytest.approx(joules)
        assert meter.used(np.array([low]), np.array([high])).central == pytest.approx(joules)


def test_power_times_time_where_there_is_no_counter() -> None:
    whole, step = rows(program(100 * MS, energy_j=None))
    assert whole["source"] == "power x time"
    assert whole["energy_j"] == pytest.approx(500 * 1.2, rel=0.01)
    assert whole["low_j"] is None
    assert step["energy_j"] == pytest.approx(500 * 0.01202, rel=1e-3)


def test_a_counter_that_falls_is_no_counter() -> None:
    machine = Machine()
    machine.launch(5 * S, GEMM)
    machine.wait()
    for at_ns, joules in ((1 * S, 5.0), (2 * S, 3.0)):
        read_gpu(machine, at_ns, energy_j=joules)
    result = warpline.api.run(machine.trace(), "energy")
    assert isinstance(result, Skipped)


def test_the_state_of_a_gpu() -> None:
    machine = Machine()
    machine.launch(3 * S, GEMM)
    machine.wait()
    for number, clock in enumerate((1_410, 1_400, 1_980, 1_395)):
        read_gpu(
            machine, number * S, sm_clock_hz=clock * MHZ, power_w=600.0 + number,
            clock_limits=POWER_CAP if clock < 1_500 else 0, energy_j=100.0 + 600 * number,
            temperature_c=60 + number, used_memory_bytes=40 << 30, pcie_generation=5 - number % 2,
            pcie_width=16, nvlinks=18, thermal_limited_ns=number * S // 10,
        )  # fmt: skip
    machine.program.add("gpu_error", time_ns=S, device_id=0, xid=31)
    trace = machine.trace(clock_hz=1_980 * MHZ, memory_bytes=80 << 30, power_limit_w=700,
                          pcie_generation=5, pcie_width=16)  # fmt: skip
    (row,) = rows(trace, "gpu_health_sum")
    assert row["min_sm_clock_hz"] == 1_395 * MHZ
    assert row["median_sm_clock_hz"] == 1_405 * MHZ
    assert row["sm_clock_ratio"] == pytest.approx(1_405 / 1_980)
    assert row["limits"] == "SW power cap 75%"
    assert (row["median_power_w"], row["limit_w"], row["energy_j"]) == (601.5, 700, 1_800)
    assert row["thermal_limited_ratio"] == pytest.approx(0.1)
    assert (row["max_c"], row["max_used_ratio"]) == (63, 0.5)
    assert (row["pcie"], row["best_pcie"], row["nvlinks"]) == ("4 x16, 5 x16", "5 x16", 18)
    assert (row["xid"], row["others"], row["period_ns"]) == ("31", None, S)


def test_the_state_of_the_machine() -> None:
    machine = Machine()
    machine.launch(3 * S, GEMM)
    machine.wait()
    for number, cpu_s in enumerate((10, 14, 20)):
        read_host(machine, number * S, cpu_ns=cpu_s * S, cores=8, memory_bytes=(4 + number) << 30)
        read_host(machine, number * S, 0, cpu_ns=number * S, read_bytes=number * 50_000_000)
    whole, process = rows(machine.trace(), "host_health_sum")
    assert (whole["of"], whole["pid"], whole["cores"]) == ("machine", None, 8)
    assert (whole["busy_cores"], whole["max_busy_cores"]) == (5, 6)
    assert whole["max_memory_bytes"] == 6 << 30
    assert (process["of"], process["pid"], process["busy_cores"]) == ("process", 1, 1)
    assert process["read_bytes_per_s"] == 50_000_000
