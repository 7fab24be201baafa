"""Whether GPU work was recorded at all, and in detail."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from warpline.analyses.diagnosis.capture_quality.problem import grade, problem
from warpline.derived.memory.pages import CPU_FAULTS, GPU_FAULTS, HINT
from warpline.derived.recorder import hints
from warpline.derived.work.busy import DeviceWork, device_work, has_device_work
from warpline.lazy import lazy_pattern
from warpline.result import Evidence, Finding, cuda_unrecorded
from warpline.schema.unrecorded import Code
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

_GRAPH_RATIO = {"low": 0.25, "info": 0.05}
_LAUNCH = lazy_pattern(r"^(?:cuda|cu)Launch|^(?:cuda|cu)GraphLaunch")
_ALLOCATES_MANAGED = lazy_pattern(r"^cudaMallocManaged|^cuMemAllocManaged")
_OWN_PRODUCER = "Warpline"  # nsys records migrations always


def not_recorded(trace: Trace) -> Iterator[Finding]:
    """Report processes without CUDA events, and why."""
    for process in cuda_unrecorded(trace):
        if process.code is Code.NOT_IMPORTED:
            yield problem(
                "high",
                "CUDA events were not imported",
                f"{process.text}.",
                Evidence(process.text),
                f"{process.hint}.",
                "warpline summary RECORDING lists kernels.",
            )
            continue
        yield problem(
            "medium" if has_device_work(trace) else "high",
            "CUDA was not recorded",
            f"A process was recorded without CUDA events: {process.why}.",
            Evidence(process.text),
            process.hint or "Run warpline doctor to find out what is missing.",
            "Profile again: the warning is gone.",
        )


def nothing_recorded(trace: Trace) -> Iterator[Finding]:
    """Report a recording without GPU work."""
    if has_device_work(trace) or cuda_unrecorded(trace):
        return
    launches = _count_calls(trace, _LAUNCH)
    if launches:
        yield problem(
            "high",
            "GPU work was not recorded",
            f"The recording has {plural(launches, 'launch call')}, but no kernels, copies or"
            " memsets.",
            Evidence(f"{plural(launches, 'launch call')}", "api_call", count=launches),
            hints(trace).unseen_work,
            "warpline summary RECORDING lists kernels.",
        )
    else:
        yield problem(
            "medium",
            "No GPU work was recorded",
            "The recording has no kernels, copies or memsets, and no launch calls.",
            Evidence("no GPU operations and no launch calls"),
            hints(trace).gpu_work,
            "warpline summary RECORDING lists kernels.",
        )


def whole_graphs(trace: Trace) -> Iterator[Finding]:
    """Report CUDA graphs without their kernels."""
    graphs = device_work(trace, "graph_launch")
    if not len(graphs):
        return
    graph_ns, busy_ns = _busy_ns(graphs), _busy_ns(device_work(trace))
    ratio = graph_ns / max(busy_ns, 1)
    severity = grade(ratio, _GRAPH_RATIO)
    if severity is not None:
        yield problem(
            severity,
            "CUDA graphs were traced at graph level",
            f"{format_ratio(ratio)} of GPU busy time is CUDA graphs without recorded kernels"
            " (category graph).",
            Evidence(
                f"{plural(len(graphs), 'graph execution')} took {format_ns(graph_ns)}",
                "graph_launch",
                count=len(graphs),
            ),
            "Record a few steps with --cuda-graph-trace=node, which adds overhead to graphs.",
            "warpline summary RECORDING lists kernels.",
        )


def migrations_not_recorded(trace: Trace) -> Iterator[Finding]:
    """Report managed memory whose migrations Warpline was not asked to record."""
    is_own = (trace.meta.producer or "").startswith(_OWN_PRODUCER)
    if not is_own or trace.has(CPU_FAULTS) or trace.has(GPU_FAULTS):
        return
    allocations = _count_calls(trace, _ALLOCATES_MANAGED)
    if allocations:
        many = plural(allocations, "allocation")
        yield problem(
            "info",
            "Migrations of managed memory were not recorded",
            f"The program makes {many} of managed memory. Page faults and migrations between host"
            " and GPU are missing.",
            Evidence(f"{many} of managed memory", "api_call", count=allocations),
            f"{HINT[0].upper()}{HINT[1:]}.",
            "warpline stats -r um_total_sum RECORDING shows them.",
        )


def _count_calls(trace: Trace, name: re.Pattern[str]) -> int:
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return 0
    names = trace.columns("api_call", "name_id", ordered=False)["name_id"].filled(-1)
    known, counts = np.unique(names, return_counts=True)
    texts = ("" if row < 0 else trace.strings.text(row) for row in known.tolist())
    return sum(
        count for text, count in zip(texts, counts.tolist(), strict=True) if name.match(text)
    )


def _busy_ns(work: DeviceWork) -> int:
    """Return the busy time, summed over devices."""
    n_devices = int(work.device_id.max(initial=-1)) + 1
    return int(work.busy_ns(work.device_id, n_devices).sum())
