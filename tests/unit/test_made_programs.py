"""Programs with and without a problem, run by a simulated machine with known rules.

Each program is a function of the machine and of whether it has the problem. The saving of the first
finding must be what the fixed program really saves. Where that is next to nothing, every finding
must have a low severity.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.machine import ELEMENTWISE, GEMM, Machine

import warpline
from warpline.result import Diagnosis, Finding

STEPS = 14
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda,"
    " std::array<char*, 2>, 4, TrivialOffsetCalculator<1>, TrivialOffsetCalculator<1>,"
    " at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>>"
)
LAYOUT = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)>>"
)
FLOAT32 = "void cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
FUSED = "void at::native::multi_tensor_apply_kernel<FusedAdam>"

Program = Callable[[Machine, bool], None]


def a_wait_behind_each_short_kernel(machine: Machine, bad: bool) -> None:
    for _ in range(40):
        machine.launch(30_000)
        if bad:
            machine.wait()


def a_wait_in_steps_of_several_lengths(machine: Machine, bad: bool) -> None:
    for _ in range((20, 35, 50, 27)[machine.steps % 4]):
        machine.launch(30_000)
        if bad:
            machine.wait()


def a_batch_from_pageable_memory(machine: Machine, bad: bool) -> None:
    machine.copy(8_000_000, pinned=not bad)
    for _ in range(30):
        machine.launch(60_000)
    machine.copy(400_000, pinned=True, to_host=True)
    machine.wait()


def a_small_batch_behind_much_work(machine: Machine, bad: bool) -> None:
    """The copy is short, but waits for all work before it, and the CPU is late after it."""
    machine.copy(200_000, pinned=not bad)
    machine.work(4_000_000)
    for _ in range(20):
        machine.launch(300_000)


def a_large_result_to_pageable_memory(machine: Machine, bad: bool) -> None:
    for _ in range(20):
        machine.launch(100_000)
    if bad:
        machine.copy(16_000_000, pinned=False, to_host=True)
        machine.wait()


def a_loader_that_takes_longer_than_the_device(machine: Machine, bad: bool) -> None:
    machine.work(8_000_000 if bad else 0)
    machine.copy(4_000_000, pinned=True)
    for _ in range(20):
        machine.launch(300_000)
    machine.read()


def other_work_between_steps(machine: Machine, bad: bool) -> None:
    machine.work(20_000_000 if bad else 0)
    for _ in range(20):
        machine.launch(100_000)


def memory_from_the_driver(machine: Machine, bad: bool) -> None:
    for place in range(40):
        machine.work(20_000)
        machine.launch(10_000)
        if bad and place % 8 == 0:
            machine.allocate(100_000, frees=False)


def a_result_in_every_part(machine: Machine, bad: bool) -> None:
    for _ in range(30):
        machine.work(10_000)
        for _ in range(3):
            machine.launch(20_000)
        if bad:
            machine.read()


def casts_that_the_device_waits_for(machine: Machine, bad: bool) -> None:
    for _ in range(20):
        if bad:
            machine.launch(150_000, CAST)
        machine.launch(400_000)


def casts_behind_a_full_queue(machine: Machine, bad: bool) -> None:
    """Each launch waits until the GPU has taken an earlier one from the stream's queue."""
    for _ in range(600):
        if bad:
            machine.launch(10_000, CAST)
        machine.launch(5_000)


def short_casts_by_a_host_that_is_late(machine: Machine, bad: bool) -> None:
    """The casts run in no time on the GPU: their launches take the time."""
    for _ in range(40):
        if bad:
            machine.launch(2_000, CAST)
        machine.launch(3_000)


def short_layout_copies_by_a_host_that_is_late(machine: Machine, bad: bool) -> None:
    for _ in range(40):
        if bad:
            machine.launch(2_000, LAYOUT)
        machine.launch(3_000)


def an_optimizer_that_the_device_waits_for(machine: Machine, bad: bool) -> None:
    for _ in range(10):
        machine.launch(2_000_000)
    if not bad:
        machine.launch(640_000, FUSED)
        return
    for _ in range(40):
        for what in ("Mul", "Add", "Sqrt", "Div"):
            machine.launch(20_000, ELEMENTWISE.replace("Add", what))


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (a_wait_behind_each_short_kernel, "host-sync"),
        (a_wait_in_steps_of_several_lengths, "host-sync"),
        (a_result_in_every_part, "host-sync"),
        (a_batch_from_pageable_memory, "pageable-copy"),
        (a_small_batch_behind_much_work, "pageable-copy"),
        (a_large_result_to_pageable_memory, "pageable-copy"),
        (a_loader_that_takes_longer_than_the_device, "input-bound"),
        (other_work_between_steps, "launch-bound"),
        (memory_from_the_driver, "allocator"),
        (casts_that_the_device_waits_for, "cast-copies"),
        (casts_behind_a_full_queue, "cast-copies"),
        (short_casts_by_a_host_that_is_late, "cast-copies"),
        (short_layout_copies_by_a_host_that_is_late, "layout-copies"),
        (an_optimizer_that_the_device_waits_for, "unfused-optimizer"),
    ],
)
def test_the_fault_is_first_and_its_price_true(program: Program, rule: str) -> None:
    bad, fixed = diagnosis(program, bad=True), diagnosis(program, bad=False)
    first = priced(bad)[0]
    assert first.rule == rule
    assert first.severity in {"medium", "high"}
    saved = step_ns(bad) - step_ns(fixed)
    assert first.saving_ns == pytest.approx(saved, abs=0.05 * step_ns(bad))
    assert (first.saving_low_ns or 0) <= saved <= 1.001 * (first.saving_high_ns or 0)


def a_read_while_the_device_is_far_behind(machine: Machine, bad: bool) -> None:
    for _ in range(40):
        machine.launch(500_000)
    if bad:
        machine.read()


def waits_behind_long_kernels(machine: Machine, bad: bool) -> None:
    for _ in range(10):
        machine.launch(5_000_000)
        if bad:
            machine.wait()


def a_wait_for_the_stream_that_has_less_to_do(machine: Machine, bad: bool) -> None:
    for _ in range(10):
        machine.launch(1_000_000, stream=1)
        machine.launch(50_000)
        if bad:
            machine.wait()


def a_pageable_copy_beside_longer_work(machine: Machine, bad: bool) -> None:
    for _ in range(20):
        machine.launch(1_000_000)
    machine.copy(20_000_000, pinned=not bad, stream=1)
    machine.join(0, 1)


def memory_from_the_driver_while_the_device_works(machine: Machine, bad: bool) -> None:
    for _ in range(20):
        machine.launch(1_000_000)
    for _ in range(5 if bad else 0):
        machine.allocate(150_000, frees=False)


def a_loader_behind_which_the_device_works(machine: Machine, bad: bool) -> None:
    machine.work(5_000_000 if bad else 0)
    machine.copy(4_000_000, pinned=True)
    for _ in range(20):
        machine.launch(1_000_000)


def layouts_on_a_stream_beside(machine: Machine, bad: bool) -> None:
    for _ in range(20):
        machine.launch(1_000_000)
        if bad:
            machine.launch(300_000, LAYOUT, stream=1)


def a_result_that_all_the_work_is_for(machine: Machine, bad: bool) -> None:
    """Few kernels and a read, as in a step of a small solver: they do not only serve the read."""
    for _ in range(5):
        machine.launch(2_000_000, ELEMENTWISE)
    if bad:
        machine.read()


def small_updates_behind_long_kernels(machine: Machine, bad: bool) -> None:
    for _ in range(10):
        machine.launch(4_000_000)
    if not bad:
        machine.launch(60_000, FUSED)
        return
    for _ in range(40):
        for what in ("Mul", "Add", "Sqrt", "Div"):
            machine.launch(2_000, ELEMENTWISE.replace("Add", what))


@pytest.mark.parametrize(
    "program",
    [
        a_read_while_the_device_is_far_behind,
        waits_behind_long_kernels,
        a_wait_for_the_stream_that_has_less_to_do,
        a_pageable_copy_beside_longer_work,
        memory_from_the_driver_while_the_device_works,
        a_loader_behind_which_the_device_works,
        layouts_on_a_stream_beside,
        a_result_that_all_the_work_is_for,
        small_updates_behind_long_kernels,
    ],
)
def test_where_the_repair_saves_nothing_nothing_is_promised(program: Program) -> None:
    bad, fixed = diagnosis(program, bad=True), diagnosis(program, bad=False)
    assert step_ns(bad) - step_ns(fixed) < 0.05 * step_ns(bad)
    for found in priced(bad):
        assert found.severity == "low"
        assert (found.saving_ns or 0) < 0.05 * step_ns(bad)


def casts_before_which_the_host_is_slow(machine: Machine, bad: bool) -> None:
    for _ in range(20):
        machine.work(80_000)
        if bad:
            machine.launch(15_000, CAST)
        machine.launch(20_000)


def products_while_the_host_is_slow(machine: Machine, bad: bool) -> None:
    for _ in range(30):
        machine.work(200_000)
        machine.launch(60_000 if bad else 10_000, FLOAT32 if bad else GEMM)


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (casts_before_which_the_host_is_slow, "cast-copies"),
        (products_while_the_host_is_slow, "no-tensor-cores"),
    ],
)
def test_work_that_the_device_does_while_the_host_is_slow_costs_little(
    program: Program, rule: str
) -> None:
    bad, fixed = diagnosis(program, bad=True), diagnosis(program, bad=False)
    savings = [item.saving_ns for item in bad.findings if item.rule == rule]
    saved = step_ns(bad) - step_ns(fixed)
    # A finding that saves next to nothing is not reported.
    assert sum(ns or 0 for ns in savings) == pytest.approx(saved, abs=0.02 * step_ns(bad))
    assert priced(bad)[0].rule in {rule, "graph-opportunity"}


def of_rule(item: Diagnosis, rule: str) -> list[Finding]:
    return [found for found in item.findings if found.rule == rule]


def test_conversions_within_convolutions_cost_no_launches_of_the_program() -> None:
    def program(name: str) -> Program:
        def run(machine: Machine, bad: bool) -> None:
            for _ in range(40):
                machine.launch(500, name)
                machine.launch(13_000)

        return run

    own = of_rule(diagnosis(program(LAYOUT), bad=True), "layout-copies")
    assert [item.severity for item in own] == ["medium"]  # nearly all of it for launches
    assert ", with their launches up to " in own[0].claim
    inside = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>"
    assert of_rule(diagnosis(program(inside), bad=True), "layout-copies") == []


@pytest.mark.parametrize(("update", "severity"), [(FUSED, "medium"), (ELEMENTWISE, "high")])
def test_casts_of_weights_stay_in_training(update: str, severity: str) -> None:
    def program(machine: Machine, bad: bool) -> None:
        for _ in range(40):
            machine.launch(300, CAST)
            machine.launch(3_000)
        machine.launch(3_000, update)

    (found,) = of_rule(diagnosis(program, bad=True), "cast-copies")
    assert found.severity == severity
    assert found.title.startswith("40 repeated casts per step take up to ")


def test_two_faults_are_priced_alone_and_together() -> None:
    def program(machine: Machine, bad: bool) -> None:
        machine.copy(8_000_000, pinned=not bad)
        a_wait_behind_each_short_kernel(machine, bad)

    bad, fixed = diagnosis(program, bad=True), diagnosis(program, bad=False)
    first, second = priced(bad)[:2]
    assert {first.rule, second.rule} == {"pageable-copy", "host-sync"}
    saved = step_ns(bad) - step_ns(fixed)
    assert second.cumulative_saving_ns == pytest.approx(saved, rel=0.15)
    assert (first.saving_ns or 0) + (second.saving_ns or 0) <= 1.1 * saved


def test_a_pause_is_not_what_fused_updates_save() -> None:
    """Other elementwise kernels before the updates look like a part of them."""

    def program(machine: Machine, bad: bool) -> None:
        for _ in range(10):
            machine.launch(50_000)
        for _ in range(5):
            machine.work(2_000_000)
            machine.launch(4_000, ELEMENTWISE)
        if not bad:
            machine.launch(300_000, FUSED)
            return
        for _ in range(40):
            for what in ("Add", "Mul", "Sqrt", "Div"):
                machine.launch(4_000, ELEMENTWISE.replace("Add", what))

    bad, fixed = diagnosis(program, bad=True), diagnosis(program, bad=False)
    (found,) = (item for item in bad.findings if item.rule == "unfused-optimizer")
    saved = step_ns(bad) - step_ns(fixed)
    assert found.saving_ns == pytest.approx(saved, abs=0.05 * step_ns(bad))
    assert priced(bad)[0].rule == "launch-bound"


def test_a_pause_in_some_steps_is_told_without_a_price() -> None:
    def program(machine: Machine, bad: bool) -> None:
        other_work_between_steps(machine, bad and machine.steps % 4 == 3)

    (found,) = (
        item for item in diagnosis(program, bad=True).findings if item.rule == "launch-bound"
    )
    assert found.claim.endswith(" Affects only 3 of 13 steps.")
    assert found.saving_ns is None
    assert found.severity == "high"


def test_short_pauses_between_few_launches_are_told_without_a_price() -> None:
    """A CUDA graph does not help there, though all steps are equal."""

    def program(machine: Machine, bad: bool) -> None:
        machine.work(400_000 if bad else 0)
        for _ in range(5):
            machine.launch(20_000)

    (found,) = diagnosis(program, bad=True).findings
    assert (found.rule, found.severity, found.saving_ns) == ("launch-bound", "high", None)
    assert diagnosis(program, bad=False).findings == ()


@pytest.mark.parametrize(
    ("fault", "rule", "pause", "severity"),
    [
        # A copy comes next, but a gap in two steps is no input pipeline.
        (a_batch_from_pageable_memory, "pageable-copy", "input-bound", "medium"),
        (a_wait_behind_each_short_kernel, "host-sync", "launch-bound", "high"),
    ],
)
def test_pauses_in_some_steps_hide_no_fault(
    fault: Program, rule: str, pause: str, severity: str
) -> None:
    def program(machine: Machine, bad: bool) -> None:
        machine.work(500_000_000 if machine.steps % 5 == 4 else 0)
        fault(machine, bad)

    bad, fixed = diagnosis(program, bad=True), diagnosis(program, bad=False)
    found = {item.rule: item for item in bad.findings[:2]}
    assert found.keys() == {pause, rule}
    gaps = found[pause]
    assert (gaps.severity, gaps.saving_ns) == (severity, None)
    assert gaps.share is not None
    assert gaps.share > 0.9  # they take most of the total time
    assert " step (mean; the median is " in bad.verdict
    saved = step_ns(bad) - step_ns(fixed)
    assert found[rule].severity == "high"
    assert found[rule].saving_ns == pytest.approx(saved, abs=0.05 * step_ns(bad))


def diagnosis(program: Program, *, bad: bool) -> Diagnosis:
    machine = Machine()
    for _ in range(STEPS):
        program(machine, bad)
        machine.end_step()
    return warpline.analyze(machine.trace())


def priced(found: Diagnosis) -> list[Finding]:
    """Return the findings with a saving, specific ones before generic ones."""
    items = [item for item in found.findings if item.saving_ns is not None]
    return sorted(items, key=lambda item: item.is_generic)


def step_ns(found: Diagnosis) -> int:
    assert found.replay is not None
    return found.replay.step_ns
