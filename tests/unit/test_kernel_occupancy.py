"""kernel_occupancy against what Nsight Compute printed, and against CUDA's rules by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ncu_captures
from support.recorded_reports import recorded

import warpline
from warpline import native
from warpline.derived.counters.block_limits import block_limits
from warpline.derived.counters.occupancies import configurations
from warpline.hardware.sm_limits import sm_limits
from warpline.trace import Trace

LIMITS = {
    "limit_warps": "launch__occupancy_limit_warps",
    "limit_registers": "launch__occupancy_limit_registers",
    "limit_shared": "launch__occupancy_limit_shared_mem",
    "limit_blocks": "launch__occupancy_limit_blocks",
    "limit_barriers": "launch__occupancy_limit_barriers",
    "warps": "sm__maximum_warps_avg_per_active_cycle",
}
THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"


def opened(name: str, folder: Path) -> Trace:
    if name != "pairs":
        return warpline.open(ncu_captures.unpack(name, folder))
    path = folder / "pairs.csv"
    path.write_text(ncu_captures.printed(name, "raw.csv"))
    return warpline.open(path)


def rows_of(trace: Trace, name: str = "kernel_occupancy") -> list[dict[str, Any]]:
    return warpline.stats(trace, name).to_polars().to_dicts()


def metrics_of(trace: Trace, launch: int) -> dict[str, float]:
    frame = trace["kernel_metric"]
    chosen = frame.filter(frame["profiled_kernel_id"] == launch)
    return dict(zip(chosen["name"], chosen["value"], strict=True))


@pytest.mark.parametrize("name", ["target", "uncoalesced.fixed", "pairs"])
def test_limits_are_those_of_ncu(name: str, tmp_path: Path) -> None:
    trace = opened(name, tmp_path)
    rows = rows_of(trace)
    assert sum(row["launches"] for row in rows) == trace.row_count("profiled_kernel")
    for launch, row in zip(configurations(trace).launch.tolist(), rows, strict=True):
        metrics = metrics_of(trace, launch)
        for field, metric in LIMITS.items():
            assert row[field] == metrics[metric], (row["kernel"], field)
        assert row["theoretical_ratio"] == pytest.approx(metrics[THEORETICAL] / 100)
        if row["launches"] == 1:
            assert row["achieved_ratio"] == pytest.approx(metrics[ACHIEVED] / 100)


def test_launches_with_the_same_resources_are_one_row(tmp_path: Path) -> None:
    rows = rows_of(opened("pairs", tmp_path))
    assert len(rows) == 13
    (loop,) = (row for row in rows if row["launches"] == 2)
    assert loop["kernel"].startswith("saxpy_loop")
    # Two grids, of few and of many blocks: 12.466% and 94.274% in ncu.
    assert loop["achieved_ratio"] == pytest.approx(0.5337, abs=1e-4)


def test_what_limits_it(tmp_path: Path) -> None:
    limited = {
        (row["kernel"].partition("(")[0], row["shared_bytes"]): row["limited_by"]
        for row in rows_of(opened("pairs", tmp_path))
        if row["limited_by"] is not None
    }
    assert limited == {
        ("mm_wmma", 0): "registers",
        ("void gather_smem<0>", 160 << 10): "shared memory",
    }


@pytest.mark.parametrize("what", ["register_count", "block_size"])
def test_curves_are_those_of_ncu(what: str, tmp_path: Path) -> None:
    trace = opened("uncoalesced.fixed", tmp_path)
    found = configurations(trace)
    metrics, instances = trace["kernel_metric"], trace["metric_instance"]
    (row,) = np.flatnonzero((metrics["name"] == f"derived__pct_occupancy_per_{what}").to_numpy())
    curve = instances.filter(instances["kernel_metric_id"] == row)
    curve = curve.filter(curve["key"] > 0)
    values, percents = (curve[of].to_numpy().astype(np.float64) for of in ("key", "value"))
    assert len(values) > 20
    threads, registers, shared = (
        np.broadcast_to(of, len(values))
        for of in (found.threads, found.registers, found.shared_bytes)
    )
    if what == "block_size":
        threads = values
    else:
        registers = values
    by = block_limits(found.limits, threads, registers, shared, found.carveout_bytes)
    assert np.floor(100 * by.occupancy(by.resident, found.limits)).tolist() == [*percents]


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks"),
    [
        ((8, 0), 128, 64, 0, 8),  # 2,048 registers of a warp, 8 warps in each of 4 partitions
        ((8, 0), 128, 65, 0, 7),  # 72 are allocated: 7 warps in each
        ((8, 0), 32, 96, 0, 20),  # 5 warps in each of 4 partitions
        ((8, 6), 1024, 32, 0, 1),  # 48 warps
        ((8, 9), 32, 16, 0, 24),  # blocks
        ((9, 0), 96, 32, 0, 21),  # 64 warps
        ((9, 0), 256, 32, 75 << 10, 3),  # 76 KiB of 228 with the driver's
        ((9, 0), 256, 32, (75 << 10) + 1, 2),  # in units of 128 bytes
        ((7, 0), 256, 32, 48 << 10, 2),  # nothing of the driver's
        ((7, 5), 256, 32, 0, 4),  # 32 warps
        ((9, 0), 1024, 65, 0, 0),  # cannot be launched
    ],
)
def test_rules_of_cuda(
    capability: tuple[int, int], threads: int, registers: int, shared: int, blocks: int
) -> None:
    limits = sm_limits(*capability)
    assert limits is not None
    numbers = [np.array([float(of)]) for of in (threads, registers, shared)]
    found = block_limits(np.array(limits, np.float64)[:, None], *numbers)
    assert found.resident.tolist() == [blocks]


def test_what_other_resources_would_change(tmp_path: Path) -> None:
    rows = rows_of(opened("pairs", tmp_path), "kernel_occupancy:what_if")

    def changes(kernel: str, changed: str) -> list[tuple[int, float]]:
        return [
            (row["then"], round(100 * row["changed_ratio"], 2))
            for row in rows
            if row["kernel"].startswith(kernel) and row["changed"] == changed
        ]

    # As ncu's curves of this kernel: 128 threads, 66 registers, 43.75%. 1,024 cannot be launched,
    # 32 and 64 threads change nothing.
    assert changes("mm_wmma", "block size") == [
        *((96, 42.19), (192, 37.5), (256, 37.5), (384, 37.5), (512, 25.0), (768, 37.5)),
    ]
    assert changes("mm_wmma", "registers") == [
        *((32, 100.0), (40, 75.0), (48, 62.5), (56, 56.25), (64, 50.0)),
        *((80, 37.5), (96, 31.25), (128, 25.0), (168, 18.75), (255, 12.5)),
    ]
    # Of 228 KiB of an SM, 6 blocks have 38 each, 1 KiB of them for the driver; one block has 227.
    shared = changes("mm_wmma", "shared memory")
    assert shared[0] == (37 << 10, 37.5)
    assert shared[-1] == (227 << 10, 6.25)
    # 8 blocks of 8 warps fill an SM: 28.5 KiB each.
    assert changes("void gather_smem", "shared memory")[0] == (28160, 100.0)
    assert not changes("", "carve-out")


def changed(folder: Path, **metrics: str) -> Trace:
    """Return a launch of 256 threads and 18 registers, with other values of some metrics."""
    heading, units, *rows = ncu_captures.printed("pairs", "raw.csv").splitlines()
    names = heading.strip('"').split('","')
    (row,) = (row for row in rows if "saxpy_loop" in row and '"(16, 1, 1)"' in row)
    cells = row.strip('"').split('","')
    for name, value in metrics.items():
        cells[names.index(f"launch__{name}")] = value
    path = folder / "changed.csv"
    path.write_text("\n".join((heading, units, '"' + '","'.join(cells) + '"')) + "\n")
    return warpline.open(path)


def test_a_small_carve_out_limits(tmp_path: Path) -> None:
    trace = changed(tmp_path, shared_mem_config_size="2.048000")  # of blocks of 1 KiB
    (found,) = rows_of(trace)
    assert (found["blocks"], found["limited_by"]) == (2, "shared memory")
    first, *others = rows_of(trace, "kernel_occupancy:what_if")
    assert (first["changed"], first["now"], first["then"]) == ("carve-out", 2048, 228 << 10)
    assert (first["theoretical_ratio"], first["changed_ratio"]) == (0.25, 1.0)
    # The others are as with the largest.
    unchanged = rows_of(changed(tmp_path), "kernel_occupancy:what_if")
    fields = ("changed", "now", "then", "changed_ratio")
    assert [[of[name] for name in fields] for of in others] == [
        [of[name] for name in fields] for of in unchanged
    ]


def test_barriers_limit(tmp_path: Path) -> None:
    trace = changed(tmp_path, occupancy_limit_barriers="3")
    (found,) = rows_of(trace)
    assert (found["warps"], found["limited_by"]) == (24, "barriers")
    occupancies = {
        (row["changed"], row["then"]): row["changed_ratio"]
        for row in rows_of(trace, "kernel_occupancy:what_if")
    }
    assert occupancies["block size", 512] == 0.75
    assert ("registers", 40) not in occupancies, "6 blocks instead of 8 are still more than 3"


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_recordings_of_warpline_have_the_same(tmp_path: Path) -> None:
    report = opened("target", tmp_path)
    unknown = {"limit_shared", "limit_barriers"}  # the carve-out is not recorded
    for ours, theirs in zip(rows_of(recorded(report, tmp_path)), rows_of(report), strict=True):
        assert {name for name in ours if ours[name] != theirs[name]} <= unknown
