"""Why excluded steps took longer than the others."""

from __future__ import annotations

import pytest
from support.machine import Machine

import warpline
from warpline.derived.breakdown.warm_up import excluded_steps, warm_up_causes
from warpline.trace import Run

MS = 1_000_000
STEPS = 8


def load(machine: Machine) -> None:
    machine.call("cuModuleLoadData", 3 * MS)


def compile_code(machine: Machine) -> None:
    machine.work(20 * MS)
    machine.call("cuModuleLoadData", MS)


def tune(machine: Machine) -> None:
    for number in range(10):
        machine.launch(MS, f"candidate_{number}")
        machine.wait()
        machine.call("cudaEventElapsedTime", 1_000)


def allocate(machine: Machine) -> None:
    for _ in range(5):
        machine.allocate(MS, frees=False)


def compile_and_tune(machine: Machine) -> None:
    compile_code(machine)
    tune(machine)


def pause(machine: Machine) -> None:
    machine.work(20 * MS)


def recorded(first: object) -> Run:
    """Return steps of ten kernels of 100 us, the first with something else before the sixth."""
    machine = Machine()
    for step in range(STEPS):
        for place in range(10):
            if place == 5:
                machine.wait()
                if step == 0:
                    first(machine)  # type: ignore[operator]
            machine.launch(100_000)
        machine.wait()
        machine.end_step()
    return Run(machine.trace())


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        (load, "loading code"),
        (compile_code, "compilation"),
        (tune, "autotuning"),
        (allocate, "memory allocation"),
        (compile_and_tune, "compilation and autotuning"),
    ],
)
def test_calls_show_what_a_first_step_did(first: object, cause: str) -> None:
    run = recorded(first)
    assert warm_up_causes(run) == {0: cause}
    assert excluded_steps(run) == f"2 of {STEPS} steps excluded (first: {cause}, last)"


def test_a_step_without_such_calls_has_no_cause() -> None:
    run = recorded(pause)
    assert warm_up_causes(run) == {}
    assert excluded_steps(run) == f"2 of {STEPS} steps excluded (first, last)"


def test_analyze_and_phases_say_it() -> None:
    run = recorded(tune)
    found = warpline.analyze(run.trace).steps.excluded
    assert [(of.reason, of.cause) for of in found] == [("first", "autotuning"), ("last", None)]
    assert warpline.stats(run.trace, "phases").notes == (excluded_steps(run),)


def test_layers_say_how_to_leave_warm_up_out() -> None:
    trace = recorded(tune).trace
    assert warpline.stats(trace, "layers").notes == (
        "1 warm-up step included; layers:skip=1 is without",
    )
    assert warpline.stats(trace, "layers:skip=1").notes == (
        "warm-up skipped: the first 1 instance of step_*",
    )
