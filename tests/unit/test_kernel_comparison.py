"""The comparison of two sides whose kernels were profiled."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.kernel_counters import IDLE, OF_PEAK, trace

import warpline
from warpline import api, render
from warpline.errors import UsageError
from warpline.render.comparison import render_markdown, render_text
from warpline.result.kernel_comparison import KernelComparison, KernelDifference
from warpline.trace import MemorySource, Trace

DURATION = "gpu__time_duration.sum"
L2 = "lts__t_sector_hit_rate.pct"
# Times of launches without a trend, in us.
NOISE = (0.0, 0.3, -0.2, 0.1, -0.3, 0.2, 0.0, -0.1)


def run(
    *kernels: tuple[str, Sequence[float], Mapping[str, float]],
    grid: int = 64,
    gpu: str = "NVIDIA H200",
) -> Trace:
    """Return a run of kernels: each has a name, times of its launches in us, and metrics."""
    launches, names = [], []
    for name, times_us, metrics in kernels:
        launches += [{**IDLE, **metrics, DURATION: us * 1e3} for us in times_us]
        names += [name] * len(times_us)
    sizes = {f"{of}_{axis}": [1] * len(names) for of in ("grid", "block") for axis in "xyz"}
    columns: dict[str, Sequence[Any]] = {**sizes, "name": names, "grid_x": [grid] * len(names)}
    return trace(launches, gpu=gpu, columns=columns)


def times(us: float) -> list[float]:
    return [us + noise for noise in NOISE]


def compare(before: Any, after: Any, **options: Any) -> KernelComparison:
    found = warpline.compare_kernels(before, after, **options)
    assert found.to_dict()["kernels"] is not None
    return found


def only(found: KernelComparison) -> KernelDifference:
    (item,) = found.kernels
    return item


def test_times_of_launches() -> None:
    found = compare(run(("a", times(100), {})), run(("a", times(80), {})))
    item = only(found)
    assert (found.verdict, item.change, item.matched_by) == ("faster", "faster", "shape")
    assert item.ratio == pytest.approx(0.8, abs=0.001)
    assert item.before is not None
    assert (item.before.launches, item.before.shapes) == (8, ("64 of 1",))
    assert (item.low or 1) < 0.8 < (item.high or 0)
    assert found.sentence == "a takes 20.0% less time (100 us to 80.0 us per launch)."
    back = compare(run(("a", times(80), {})), run(("a", times(100), {})))
    assert (back.verdict, only(back).change) == ("slower", "slower")


def test_one_launch_is_not_tested() -> None:
    found = compare(run(("a", [100], {})), run(("a", [80], {})))
    item = only(found)
    assert (item.change, item.p, item.low) == ("faster", None, None)
    assert "not tested" in found.limits[0]
    slower = compare(run(("a", [80], {})), run(("a", [100], {})))
    assert (only(slower).change, slower.verdict) == ("slower", "undecided")


def test_small_differences_are_undecided_or_the_same() -> None:
    noisy = [90, 130, 80, 120, 95, 105, 140, 70]
    found = compare(run(("a", noisy, {})), run(("a", [us * 1.04 for us in noisy], {})))
    assert (found.verdict, only(found).change) == ("undecided", "undecided")
    wide = compare(run(("a", times(100), {})), run(("a", times(100), {})), tolerance=0.2)
    assert (wide.verdict, only(wide).change) == ("same", "same")


def test_kernels_are_matched_by_shape_name_and_position() -> None:
    before = run(("a", [100], {}), ("b<float>", [10], {}), ("c", [50], {}), ("e", [5], {}))
    after = run(("a", [100], {}), ("b<half>", [10], {}), ("d", [30], {}), ("e", [5], {}), grid=128)
    found = {item.name: item.matched_by for item in compare(before, after).kernels}
    assert found == {"a": "name", "b<half>": "base", "d": "position", "e": "name"}
    less = compare(before, run(("a", [100], {})))
    assert sorted(item.change for item in less.kernels) == ["gone", "gone", "gone", "same"]
    more = compare(run(("a", [100], {})), before)
    assert sorted(item.change for item in more.kernels) == ["new", "new", "new", "same"]
    assert all(item.ratio is None for item in more.kernels if item.change == "new")


def test_metrics_are_medians() -> None:
    found = compare(
        run(("a", [100], {L2: 10.0})),
        run(("a", [100], {L2: 90.0}), ("a", [100], {L2: 80.0}), ("a", [100], {L2: 30.0})),
    )
    (metric,) = (of for of in only(found).metrics if of.metric == L2)
    assert (metric.label, metric.unit) == ("L2 hit rate", "ratio")
    assert (metric.before, metric.after) == pytest.approx((0.1, 0.8))


SCATTERED = {
    f"l1tex__data_pipe_lsu_wavefronts.{OF_PEAK}": 90.0,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 32_000_000,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1_000_000,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 4.0,
    "l1tex__t_sector_hit_rate.pct": 87.5,
    "dram__bytes_read.sum": 128_000_000,
}


def test_findings() -> None:
    bad, fixed = run(("a", [100, 100], SCATTERED)), run(("a", [30, 30], {}))
    found = compare(bad, fixed)
    (finding,) = only(found).findings
    assert (finding.rule, finding.change) == ("uncoalesced", "fixed")
    assert found.sentence.endswith("; fixed: uncoalesced.")
    (finding,) = only(compare(fixed, bad)).findings
    assert finding.change == "new"
    (finding,) = only(compare(bad, bad)).findings
    assert finding.change == "same"


def test_several_runs() -> None:
    before = [run(("a", times(us), {})) for us in (100, 101, 99)]
    after = [run(("a", times(us), {})) for us in (80, 81, 79)]
    found = compare(before, after, paired=True)
    assert (found.verdict, found.before.runs, found.before.launches) == ("faster", 3, 24)
    with pytest.raises(UsageError, match="paired"):
        compare(before, after[:2], paired=True)


def test_other_gpus_forbid_a_verdict() -> None:
    found = compare(run(("a", times(100), {})), run(("a", times(80), {}), gpu="NVIDIA A100-PCIE"))
    assert found.verdict == "undecided"
    assert found.sentence == (
        "Times of launches cannot be compared (GPU: NVIDIA H200, NVIDIA A100-PCIE)."
    )


def test_nothing_and_ranges_of_kernels() -> None:
    nothing = Trace(MemorySource({"profiled_kernel": {"launch_number": []}}))
    found = compare(nothing, nothing)
    assert (found.verdict, found.sentence, found.kernels) == ("undecided", "No kernels.", ())


def test_a_timeline_is_refused() -> None:
    timeline = Trace(MemorySource({"kernel": {"start_ns": [0], "end_ns": [1], "name": ["a"]}}))
    with pytest.raises(UsageError, match="cannot be compared with a timeline"):
        api.compared(run(("a", [1], {})), timeline)
    with pytest.raises(UsageError, match="counters of kernels"):
        warpline.compare(run(("a", [1], {})), run(("a", [1], {})))
    with pytest.raises(UsageError, match="timelines"):
        warpline.compare_kernels(timeline, timeline)


def test_text_and_markdown() -> None:
    hostile = "a\x1b[31m|<b>"
    found = compare(run((hostile, times(100), SCATTERED)), run((hostile, times(80), {L2: 50.0})))
    shown = []
    for write in (render_text, render_markdown):
        out = io.StringIO()
        write(found, out, render.Options(width=100))
        shown.append(out.getvalue())
        assert "\x1b" not in shown[-1]
        assert "-20.0% (95% interval " in shown[-1].replace("\\", "")
    assert "fixed: Global memory accesses are not coalesced (uncoalesced), estimated" in shown[0]
    assert "### a\\\\x1b" in shown[1], "headings are escaped"
    assert str(found).startswith("memory compared with memory")
