"""What findings about kernels save of a step: counters of one run, the timeline of another."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.kernel_counters import IDLE, OF_PEAK, TIME_NS, trace
from support.programs import Program

from warpline import render
from warpline.documents import kernel_pages
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_findings import kernel_findings, of_kernels
from warpline.documents.kernel_steps import TimelineSteps
from warpline.errors import MissingTableError
from warpline.presentation.kernel_findings import findings_screen
from warpline.render.diagnosis import text
from warpline.render.kernel_listings import write_json
from warpline.result.kernel_findings import KernelFindings, StepSaving
from warpline.trace import Trace

STEPS, SLOW, OTHER = 6, "slow(float*)", "other"
STEP_NS = 500_000
L1 = f"l1tex__data_pipe_lsu_wavefronts.{OF_PEAK}"
# The fault of `test_kernel_findings`: 100 us, and 14.2 us without it.
SCATTERED = {
    L1: 90.0,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 32_000_000,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1_000_000,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 4.0,
    "l1tex__t_sector_hit_rate.pct": 87.5,
    "dram__bytes_read.sum": 128_000_000,
}


def program(slow_ns: int, other_ns: int, step_ns: int = 0) -> Trace:
    """Return steps of a slow kernel and another one, of a CPU that needs some time for each."""
    made = Program()
    end = 0
    for number in range(STEPS):
        begin = number * max(step_ns, 30_000)
        for place, (name, length) in enumerate(((SLOW, slow_ns), (OTHER, other_ns))):
            call = begin + 8_000 * place
            start = max(end, call + 6_000)
            end = start + length
            made.launch(call, call + 5_000, (start, end), name, grid=(64,), block=(256,))
        made.step(number, begin, begin + max(step_ns, 30_000) - 1)
    return made.trace()


def counters(metrics: Sequence[dict[str, Any]] = (SCATTERED,), **columns: Sequence[Any]) -> Trace:
    """Return profiled launches of the slow kernel."""
    count = len(metrics)
    shape = {f"{of}_{axis}": [1] * count for of in ("grid", "block") for axis in "yz"}
    kernels: dict[str, Sequence[Any]] = {
        "name": [SLOW] * count,
        "grid_x": [64] * count,
        "block_x": [256] * count,
    }
    return trace([IDLE | of for of in metrics], columns={**shape, **kernels, **columns})


def found(timeline: Trace, counted: Trace) -> list[KernelFindings]:
    return of_kernels(counted, Choice(), timeline=TimelineSteps(timeline, counted))


def step_of(timeline: Trace, counted: Trace) -> StepSaving:
    (kernel,) = found(timeline, counted)
    saving = kernel.findings[0].step
    assert saving is not None
    return saving


def test_a_step_that_is_never_idle_saves_what_its_kernel_does() -> None:
    saving = step_of(program(400_000, 100_000), counters())
    assert saving.step_ns == STEP_NS
    ratio = 0.1125 / 0.92 + 2_000 / TIME_NS  # a hand calculation of `test_kernel_findings`
    assert saving.saving_ns == pytest.approx(400_000 * (1 - ratio), rel=0.01)
    assert saving.low_ns <= (saving.saving_ns or 0) <= saving.high_ns <= 400_000


def test_nothing_is_saved_where_the_gpu_waits_for_the_cpu() -> None:
    saving = step_of(program(20_000, 10_000, step_ns=STEP_NS), counters())
    assert saving.saving_ns == pytest.approx(0, abs=100)
    assert saving.step_ns == STEP_NS


def test_savings_of_a_kernel_never_exceed_its_time_in_the_step() -> None:
    conflicts = {
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 40_000_000,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 45_000_000,
    }
    few = {  # half of the time of L1 is for bank conflicts
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 16_000_000,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 500_000,
    }
    timeline = program(400_000, 100_000)
    (kernel,) = found(timeline, counters([SCATTERED | few | conflicts]))
    savings = [item.step.saving_ns for item in kernel.findings if item.step is not None]
    assert [item.rule for item in kernel.findings] == ["bank-conflicts", "uncoalesced"]
    # Both together leave the kernel the share of its time that they leave of a launch.
    left = 400_000 * (kernel.findings[-1].likely_ns or 0) / TIME_NS
    assert sum(of or 0 for of in savings) == pytest.approx(400_000 - left, rel=0.01)


def test_the_kernel_in_a_step() -> None:
    (kernel,) = found(program(400_000, 100_000), counters())
    assert kernel.in_steps is not None
    of = kernel.in_steps
    assert (of.launches, of.time_ns, of.step_ns, of.source) == (1, 400_000, STEP_NS, "range:step_*")


@pytest.mark.parametrize(
    "other", [{"grid_x": [65]}, {"block_x": [128]}, {"name": ["slower(float*)"]}]
)
def test_nothing_is_said_of_other_names_and_shapes(other: dict[str, Any]) -> None:
    (kernel,) = found(program(400_000, 100_000), counters(**other))
    assert kernel.findings[0].step is None
    assert kernel.in_steps is not None
    assert not kernel.in_steps.launches
    assert "Not in the timeline" in screen([kernel])


def test_spelling_of_a_name_does_not_matter() -> None:
    (kernel,) = found(program(400_000, 100_000), counters(name=["void slow(float *)"]))
    assert kernel.findings[0].step is not None


def test_mangled_names_come_first() -> None:
    timeline = program(400_000, 100_000)
    counted = counters(mangled_name=["_Z4slowPf"])
    (kernel,) = found(timeline, counted)
    assert kernel.findings[0].step is not None, "the timeline has none: names are compared"


def test_each_launch_has_the_saving_of_the_median_one() -> None:
    timeline = program(400_000, 100_000)
    counted = counters([SCATTERED | {"gpu__time_duration.sum": ns * 1e5} for ns in (0.5, 1, 2)])
    steps = TimelineSteps(timeline, counted)
    launches = kernel_findings(counted, Choice(), timeline=steps)
    (alone,) = kernel_findings(counters(), Choice(), timeline=steps)
    assert [items[0].step for items in launches] == [alone[0].step] * 3


def test_json_and_screen() -> None:
    timeline, counted = program(400_000, 100_000), counters()
    steps = TimelineSteps(timeline, counted)
    out = io.StringIO()
    found_in = kernel_findings(counted, Choice(), timeline=steps)
    write_json(kernel_pages.launches(counted, Choice()), out, findings=found_in)
    ((finding,),) = (of["findings"] for of in json.loads(out.getvalue())["kernels"])
    assert finding["step_ns"] == STEP_NS
    assert finding["step_saving_low_ns"] <= finding["step_saving_ns"]
    assert finding["step_saving_ns"] <= finding["step_saving_high_ns"]
    shown = screen(of_kernels(counted, Choice(), timeline=steps))
    assert "In a step: 1 launch, 400 us of the 500 us (80.0%)." in shown
    assert "7.0x faster, this kernel saves 343 us of the 500 us step (between" in shown


def screen(kernels: Sequence[KernelFindings]) -> str:
    out = io.StringIO()
    text.write(findings_screen(kernels), out, render.Options(width=200))
    return out.getvalue()


def test_a_timeline_without_kernels_is_an_error() -> None:
    with pytest.raises(MissingTableError, match="no kernels"):
        TimelineSteps(counters(), counters())
