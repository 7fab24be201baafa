"""Accuracy of the simulation: against programs that were fixed, and against the recording itself.

usage: replay_quality.py [DIRECTORY ...]

A directory contains pairs NAME.bad.EXT and NAME.fixed.EXT (with two ranks, NAME.bad.rank0.EXT and
NAME.bad.rank1.EXT) of the programs below. For each pair, hand-written changes remove the problem
from the bad program's event graph. The simulated step is printed with the fixed program's step.
Then follows the error of the unchanged simulation for every file. The last figure is the time of
one simulation of a million kernels, each with two CUDA API calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import warpline
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.work import NO_STEP, step_of_operations
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64
from warpline.replay import predict, replay_quality
from warpline.replay.edges import NEVER, Edges, times
from warpline.replay.graph import event_graph
from warpline.replay.steps import recorded, step_times
from warpline.result.changes import (
    Change,
    DropCalls,
    DropOperations,
    FuseOperations,
    LaunchAsGraph,
    MakeAsync,
    OverlapCollectives,
    ScaleOperations,
)
from warpline.trace import Run, Trace

SUFFIXES = (".sqlite", ".json.gz", ".warpline")
# NVIDIA's figures for H200 SXM, dense: TF32 495 TFLOP/s against FP32 67; memory 4.8 TB/s.
TF32_BY_FP32 = 7.4
MEMORY_BYTES_PER_S = 4.8e12
PINNED_BYTES_PER_S = Estimate(45e9, 54e9, 58e9)


def names_of(trace: Trace) -> list[str]:
    """Return the name of each operation; empty for copies and memsets."""
    work = operations(trace)
    kernels = work.of_table("kernel")
    names = np.full(len(work), "", object)
    ids = trace.columns("kernel", "name_id")["name_id"].values[work.row[kernels]]
    distinct, place = np.unique(ids, return_inverse=True)
    names[kernels] = np.array(trace.strings.texts(distinct.tolist()), object)[place]
    return [str(name) for name in names]


def in_category(trace: Trace, *wanted: str) -> I64:
    """Return the operations of some categories."""
    codes = [int(TimePart.of(each)) for each in wanted]
    return np.flatnonzero(np.isin(operation_categories(trace), codes))


def by_step(trace: Trace, places: I64) -> list[I64]:
    """Return operations grouped by step and process."""
    step = step_of_operations(Run(trace))[places]
    return [places[step == each] for each in np.unique(step).tolist() if each != NO_STEP]


def calls_named(trace: Trace, *wanted: str) -> I64:
    """Return the calls of some functions."""
    ids = trace.columns("api_call", "name_id")["name_id"].values
    hits = [
        number
        for number in np.unique(ids).tolist()
        if trace.strings.text(number).startswith(wanted)
    ]
    return np.flatnonzero(np.isin(ids, hits))


def host_sync(trace: Trace) -> Sequence[Change]:
    """Remove reads of results: synchronizations, copies, and the kernels that compute them."""
    syncs = calls_named(trace, "cudaStreamSynchronize")
    copies = in_category(trace, "copy-d2h")
    work = operations(trace)
    launch_order = np.lexsort((work.start_ns, work.stream))
    place = np.empty_like(launch_order)
    place[launch_order] = np.arange(len(work))
    # float(p.abs().max()) runs two kernels (and the reduction's memset) before each copy.
    names = np.array(names_of(trace), object)
    feeds = [copies]
    for back in (1, 2, 3):
        before = launch_order[np.maximum(place[copies] - back, 0)]
        is_set = work.table[before] == 2
        texts = names[before].astype(str)
        known = np.char.find(texts, "AbsFunctor") >= 0
        known |= np.char.find(texts, "MaxOps") >= 0
        known |= np.char.find(texts, "abs_kernel") >= 0
        known |= np.char.find(texts, "max") >= 0
        feeds.append(before[known | is_set])
    return [DropCalls(syncs), DropOperations(np.unique(np.concatenate(feeds)))]


def pageable_h2d(trace: Trace) -> Sequence[Change]:
    """Copy from pinned memory, on a separate stream."""
    work, copies = operations(trace), in_category(trace, "copy-h2d")
    syncs = calls_named(trace, "cudaStreamSynchronize")
    return [MakeAsync(work.call[copies], copies, PINNED_BYTES_PER_S), DropCalls(syncs)]


def tiny_kernels(trace: Trace) -> Sequence[Change]:
    """Launch each step as one CUDA graph."""
    work = operations(trace)
    groups = by_step(trace, np.flatnonzero(work.call >= 0))
    return [LaunchAsGraph(tuple(np.unique(work.call[group]) for group in groups))]


def loop_optimizer(trace: Trace) -> Sequence[Change]:
    """Launch each step's optimizer once; most of its kernels read and write one tensor."""
    work = operations(trace)
    elementwise = in_category(trace, "elementwise", "optimizer", "reduction", "layout-copy")
    step = step_of_operations(Run(trace))
    gemms = in_category(trace, "gemm", "attention", "normalisation")
    groups = []
    for each in np.unique(step[step != NO_STEP]).tolist():
        last = gemms[step[gemms] == each]
        mine = elementwise[step[elementwise] == each]
        groups.append(mine[work.start_ns[mine] > work.end_ns[last].max()])
    longest = float(np.median([(work.end_ns - work.start_ns)[group].sum() for group in groups]))
    return [FuseOperations(tuple(groups), Estimate(longest / 10, longest / 5, longest / 2))]


def layout_copies(trace: Trace) -> Sequence[Change]:
    """Remove layout conversions."""
    return [DropOperations(in_category(trace, "layout-copy"))]


def fp32_matmul(trace: Trace) -> Sequence[Change]:
    """Run GEMMs on Tensor Cores, near their peak rate."""
    factor = Estimate(1 / TF32_BY_FP32, 1 / (0.8 * TF32_BY_FP32), 1 / (0.6 * TF32_BY_FP32))
    return [ScaleOperations(in_category(trace, "gemm"), factor)]


def ddp_serial(trace: Trace) -> Sequence[Change]:
    """Run collectives in buckets, overlapped with the backward pass."""
    return [OverlapCollectives(in_category(trace, "collective"), 8)]


REPAIRS: dict[str, Callable[[Trace], Sequence[Change]]] = {
    "host_sync": host_sync,
    "pageable_h2d": pageable_h2d,
    "tiny_kernels": tiny_kernels,
    "loop_optimizer": loop_optimizer,
    "layout_copies": layout_copies,
    "fp32_matmul": fp32_matmul,
    "ddp_serial": ddp_serial,
}


def files_of(folder: Path, name: str) -> list[Path]:
    """Return the files of a program: one per rank."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.startswith(f"{name}.") and path.name.endswith(SUFFIXES)
    )


def measured_ms(trace: Trace) -> float:
    """Return the step as recorded."""
    graph = event_graph(Run(trace))
    return step_times(Run(trace), graph, recorded(graph)).step_ns / 1e6


def print_pairs(folder: Path) -> None:
    """Print simulated and measured step of each pair."""
    print(f"\n{folder}\n{'program':14} {'bad':>8} {'predicted ms':>22} {'fixed':>8} {'error':>7}")
    for name, repair in REPAIRS.items():
        bad, fixed = files_of(folder, f"{name}.bad"), files_of(folder, f"{name}.fixed")
        if not bad or not fixed:
            continue
        trace, truth = warpline.open(*bad), measured_ms(warpline.open(*fixed))
        found = predict(Run(trace), repair(trace))
        low, central, high = (value / 1e6 for value in found.step_ns)
        span = f"{central:.2f} ({low:.2f}-{high:.2f})"
        error = central / truth - 1 if truth else float("nan")
        inside = "" if low <= truth <= high else "  truth outside"
        before = found.measured_ns / 1e6
        print(f"{name:14} {before:8.2f} {span:>22} {truth:8.2f} {error:+7.1%}{inside}")


def print_quality(folder: Path) -> None:
    """Print the simulation error for each recording."""
    print(f"\n{'recording':40} {'steps':>5} {'error':>7} {'unexplained':>11} {'s':>6}")
    stems: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.name.endswith(SUFFIXES):
            stems.setdefault(path.name.split(".rank")[0], []).append(path)
    groups = [[path] for paths in stems.values() for path in paths]
    groups += [paths for paths in stems.values() if len(paths) > 1]
    for paths in groups:
        trace = warpline.open(*paths)
        began = time.perf_counter()
        found = replay_quality(Run(trace))
        took = time.perf_counter() - began
        name = paths[0].name if len(paths) == 1 else f"{paths[0].name} and other ranks"
        ratios = f"{found.error_ratio:7.2%} {found.unexplained_ratio:11.2%}"
        print(f"{name:40} {found.steps:5} {ratios} {took:6.2f}")


def print_speed(kernels: int = 1_000_000) -> None:
    """Print the time of one simulation: calls in order, kernels after launch and stream order."""
    calls = np.arange(2 * kernels)
    items = 2 * kernels + np.arange(kernels)
    target = np.concatenate((calls[1:], items, items[1:]))
    source = np.concatenate((calls[:-1], calls[1::2], items[:-1]))
    order = np.argsort(target, kind="stable")
    edges = Edges(
        np.append(0, np.cumsum(np.bincount(target))),
        source[order].astype(np.int32),
        np.ones(len(target), np.bool_),
        np.zeros(len(target), np.uint8),
    )
    earliest = np.full(3 * kernels, NEVER)
    earliest[0] = 0
    weight, length = np.full(len(target), 1_000), np.full(3 * kernels, 3_000)
    rounds = []
    for _ in range(5):
        began = time.perf_counter()
        times(edges, weight, length, earliest)
        rounds.append(time.perf_counter() - began)
    print(f"\nre-timing {kernels:,} kernels and {2 * kernels:,} calls: {min(rounds):.3f} s")


def main() -> None:
    """Print both tables for each directory, and the time of a large simulation."""
    for folder in map(Path, sys.argv[1:]):
        print_pairs(folder)
        print_quality(folder)
    print_speed()


if __name__ == "__main__":
    main()
