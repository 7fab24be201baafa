"""Findings of cold-start in small programs, with and without code that is loaded in steps."""

from __future__ import annotations

import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.cold_start import cold_start
from warpline.derived.idle.code_loading import compiling
from warpline.result import Finding, Skipped
from warpline.trace import MemorySource, Run, Trace

MS = 1_000_000
STEPS = 8


def load(machine: Machine, ns: int) -> None:
    machine.program.call("cuModuleLoadData", machine.now, machine.now + ns)
    machine.now += ns + 1_000


def tune(machine: Machine, kernels: int) -> None:
    """Time kernels one by one, as libraries do to choose one."""
    for number in range(kernels):
        machine.launch(30_000, f"candidate_{number}")
        machine.wait()
        machine.program.call("cudaEventElapsedTime", machine.now, machine.now + 1_000)
        machine.now += 2_000


def program(loads: dict[int, int], compiled: int = 0, tuned: dict[int, int] | None = None) -> Trace:
    """Return steps of ten kernels of 100 us; some load code before the sixth one."""
    machine = Machine()
    for step in range(STEPS):
        for place in range(10):
            if place == 5:
                machine.wait()
            if place == 5 and step in loads:
                machine.work(compiled)
                load(machine, loads[step])
            machine.launch(100_000)
        tune(machine, (tuned or {}).get(step, 0))
        machine.wait()
        machine.end_step()
    return machine.trace()


def found(trace: Trace) -> list[Finding]:
    result = cold_start(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_code_that_every_step_loads():
    bad, good = program(dict.fromkeys(range(STEPS), MS)), program({})
    (item,) = found(bad)
    assert found(good) == []
    # A load of 1 ms; the steps of 1 ms have seven periods, of which none differs.
    assert item.claim.startswith("Loading code takes 1.00 ms per step (")
    assert "Affects only" not in item.claim
    (first,) = (each for each in warpline.analyze(bad).findings if each.rule == "cold-start")
    saved = (warpline.analyze(bad).steps.median_ns or 0) - (
        warpline.analyze(good).steps.median_ns or 0
    )
    assert saved == pytest.approx(MS, rel=0.01)
    assert first.saving_ns == pytest.approx(saved, rel=0.01)
    assert first.severity == "high"
    assert [at.ns for at in first.on_devices] == [
        pytest.approx(7 * MS, rel=0.01)
    ]  # the last step has no period


def test_code_that_one_step_loads_is_not_priced():
    # 0.45 ms more than the other steps of 1.04 ms: no outlier, and 6% of the seven steps.
    (item,) = found(program({4: 450_000}))
    assert item.changes == ()
    assert "Affects only 1 of 7 steps." in item.claim
    assert item.share == pytest.approx(450 / 7 / (1_040 + 450 / 7), rel=0.05)
    assert found(program({4: 90_000})) == []  # below 5%


def test_a_gap_before_a_load_is_compilation():
    trace = program(dict.fromkeys(range(STEPS), 200_000), compiled=3 * MS)
    spans = compiling(trace)
    # After the call before it, whose end is 1 us earlier on the CPU.
    assert (spans.end_ns - spans.start_ns).tolist() == [3 * MS + 1_000] * STEPS
    (item,) = found(trace)
    assert "loading code 200 us" in item.claim
    assert "compiling 3.00 ms" in item.claim
    assert item.title.startswith("Loading code and compiling take ")
    assert len(item.changes) == 2
    # Without the load, the gap is something else.
    machine = Machine()
    for _ in range(STEPS):
        machine.launch(100_000)
        machine.work(3 * MS)
        machine.launch(100_000)
        machine.wait()
        machine.end_step()
    assert found(machine.trace()) == []


def test_autotuning_in_a_step():
    (item,) = found(program({}, tuned={3: 8, 5: 8}))
    assert item.title.startswith("Autotuning takes ")
    assert "Affects only 2 of 7 steps." in item.claim
    # Eight times: a launch of 6 us, and 36 us from its start to the end of the kernel, 5 us until
    # the wait returns, 1 us, and the read. The first one begins after the first kernel.
    (period,) = item.evidence
    spent = [end - start for start, end in period.windows_ns]
    assert spent == [7 * (36_000 + 5_000 + 1_000 + 2_000) + 1_000] * 2
    # A program that times a few kernels, here 7, or as many in each step, does not tune.
    assert found(program({}, tuned={3: 7, 5: 7})) == []
    assert found(program({}, tuned=dict.fromkeys(range(STEPS), 8))) == []


def test_a_recording_without_steps():
    machine = Machine()
    load(machine, 5 * MS)  # before the first kernel
    for place in range(20):
        machine.launch(100_000, f"k{place}")
    machine.wait()
    assert found(machine.trace()) == []
    load(machine, MS)
    machine.launch(100_000, "last")
    (item,) = found(machine.trace())
    assert "of the recording" in item.title
    assert item.changes == ()  # it happens once
    assert item.severity == "high"


def test_without_calls_the_rule_is_skipped():
    assert isinstance(cold_start(Run(Trace(MemorySource({})))), Skipped)
