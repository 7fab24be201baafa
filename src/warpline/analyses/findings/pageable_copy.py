"""pageable-copy: large copies between the device and pageable memory."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.input_waits import needs_results
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES
from warpline.derived.idle.result_reads import waits_behind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.device_peaks import device_peaks
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import DropCalls, MakeAsync
from warpline.schema.labels import MEMORY_KINDS
from warpline.trace import Run, Trace
from warpline.units import format_ns, plural

NAME = "pageable-copy"
TITLE = "Pageable copies block the CPU thread"

_PAGEABLE = next(kind for kind, label in MEMORY_KINDS.items() if label == "Pageable")
_UNKNOWN = -1
# Pinned copies reach 0.7 to 0.9 of the link's bandwidth where nothing else uses it.
_OF_PEAK = Estimate(0.65, 0.8, 0.95)
# No link of a data center GPU since 2017 is slower, and no PCIe link is faster.
_ANY_LINK = Estimate(10e9, 20e9, 55e9)
_MOST = 0.5  # of the copied bytes
_KEEP = "Keep data that the CPU does not change on the GPU from one iteration to the next. "
# Copies to memory that has pages reach 3 to 13 GB/s. The first write to each page of new memory
# takes the CPU longer than the copy.
_NEW_MEMORY_BYTES_PER_S = 3e9
_TO_HOST = 0.9  # of the copied bytes: then they are results
_IN_NEW_MEMORY = (
    " At this rate, the CPU takes most of the time: results go to newly allocated memory."
    " The saving assumes that the program works on them in a pinned buffer that is allocated once."
)
_FIX_RESULTS = (
    "Copy less: select, reduce, or cast results on the GPU first. Copy them to a pinned tensor that"
    " is allocated once (torch.empty(..., pin_memory=True), then"
    " buffer.copy_(result, non_blocking=True)), and read it after an event, while the GPU works on"
    " the next batch. .cpu() and .numpy() allocate pageable memory each time."
)
_FIX_CUDA_RESULTS = (
    "Copy less: select or reduce results on the GPU first. Copy them with cudaMemcpyAsync on a"
    " second stream to a buffer that is allocated once with cudaHostAlloc. Call"
    " cudaEventSynchronize before the CPU reads it, while kernels work on the next batch."
)
_FIX_JAX_RESULTS = (
    "Select or reduce results in the compiled function. Call copy_to_host_async() on them, and read"
    " them (np.asarray, jax.device_get) after the next step was launched."
)
_FIX = (
    "Pin host memory once (DataLoader(pin_memory=True) or tensor.pin_memory()). Copy one batch"
    " ahead on a separate stream with .to(device, non_blocking=True). Make the compute stream wait"
    " for the copy (wait_stream, record_stream)."
)
_FIX_CUDA = (
    "Allocate once with cudaHostAlloc, or register once with cudaHostRegister. Copy with"
    " cudaMemcpyAsync on a second stream. Call cudaStreamWaitEvent before the first use."
)
_FIX_JAX = (
    "Call jax.device_put on the next batch before the current step: it copies asynchronously. Keep"
    " data that stays on the host in pinned memory (a sharding with memory_kind='pinned_host')."
)
_SOME = 0.1  # of the copies: fewer copies of results do not make the CPU wait in every step


@rule(name=NAME, title=TITLE)
def pageable_copy(run: Run) -> list[Finding] | Skipped:
    """Large copies between the device and pageable memory.

    What it finds: Copies of more than 64 KiB from or to pageable host memory.
    Why it matters: The driver stages them through its own pinned buffers. They are slow and block
        the calling thread until they are done. Work that this thread would launch cannot overlap
        with them.
    How it is found: By the recorded memory kind of each copy. The copies of a step, or the calls
        that make them, must take at least 1% of the step.
    What to do: Pin the memory, and copy one batch ahead without blocking, on a separate stream.
        Where copies of the same sizes go in both directions in each step, first keep the data on
        the GPU.
    Limits: The speed of pinned copies is estimated from the peak bandwidth of the GPU's link.
        Other traffic on the link makes them slower. A recording does not show what the CPU does
        with results. Below 3 GB/s, copying them takes the CPU longer than the GPU, as results go to
        new memory: a program that keeps them there saves nothing. So the lower bound is 0 then, and
        the severity medium at most.
    Source: CUDA C++ Best Practices Guide, section about pinned memory; measured on a program with
        and without it.
    """
    trace = run.trace
    if not trace.has("memcpy") or not trace.row_count("memcpy"):
        return []
    scope, copies = step_scope(run), _pageable(trace)
    each, work = scope.ns_of(copies), operations(trace)
    places = np.flatnonzero(copies)
    calls = work.call[places]
    held = _held_ns(trace, scope, calls)
    if scope.share(max(each, held)) < 0.01:
        return []
    count = scope.number_of(copies)
    size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[places]]
    included = scope.operations[places]
    length = (work.end_ns - work.start_ns)[places][included]
    rate = float(size[included].sum()) / max(float(length.sum()), 1.0)
    speed = _speed(trace, scope)
    pinned_ns = each * rate / speed.central * 1e9
    many = plural(max(round(count), 1), "pageable copy", "pageable copies")
    shown = scope.show_operations(
        f"{many}{scope.each} in {format_ns(each)} at {rate:.1f} GB/s", copies
    )
    blocks = f" and block the launching thread for {format_ns(held)}" if held else ""
    are_results = _are_results(trace, places[included])
    is_new = are_results and rate * 1e9 < _NEW_MEMORY_BYTES_PER_S
    keep = _KEEP if scope.has_steps and _are_both_ways(trace, places[included]) else ""
    title = f"Pageable copies block the CPU for {format_ns(held)}{scope.each}"
    if not held:
        title = f"Pageable copies take {format_ns(each)}{scope.each}"
    return [
        Finding(
            NAME,
            severity_of(scope.share(each)),
            title,
            f"Pageable copies take {format_ns(each)}{scope.each} at {rate:.1f} GB/s{blocks}."
            f" Pinned copies would take about {format_ns(pinned_ns)}, and could overlap with"
            f" kernels.{_IN_NEW_MEMORY if is_new else ''}",
            (shown,),
            keep + (_FIX_RESULTS if are_results else _FIX),
            "Profile again: `warpline stats -r cuda_gpu_trace` shows copies from Pinned memory, and"
            " `warpline stats -r overlap` shows them overlapped with kernels.",
            fix_cuda=keep + (_FIX_CUDA_RESULTS if are_results else _FIX_CUDA),
            fix_in={"jax": _FIX_JAX_RESULTS if are_results else _FIX_JAX},
            changes=(
                MakeAsync(distinct_values(calls[calls >= 0]), places, speed),
                DropCalls(waits_behind(trace, calls)),
            ),
            most_ns=_most_ns(run, places, each, rate, speed),
            on_devices=scope.on_devices(copies),
            most_severe="medium" if is_new else "high",
            is_conditional=is_new,
        )
    ]


def _pageable(trace: Trace) -> BoolArray:
    """Return which operations are large copies from or to pageable memory."""
    work = operations(trace)
    columns = trace.columns("memcpy", "bytes", "src_memory", "dst_memory")
    source, target = (columns[key].filled(_UNKNOWN) for key in ("src_memory", "dst_memory"))
    is_pageable = (source == _PAGEABLE) | (target == _PAGEABLE)
    is_pageable &= columns["bytes"].values > SMALL_COPY_BYTES
    chosen = np.zeros(len(work), np.bool_)
    places = np.flatnonzero(work.table == DEVICE_TABLES.index("memcpy"))
    chosen[places] = is_pageable[work.row[places]]
    return chosen


def _are_results(trace: Trace, places: I64) -> bool:
    """Return whether nearly all bytes are copied to the host."""
    size = trace.columns("memcpy", "bytes")["bytes"].values[operations(trace).row[places]]
    is_result = operation_categories(trace)[places] == TimePart.COPY_D2H
    return float(size[is_result].sum()) >= _TO_HOST * float(size.sum()) > 0


def _are_both_ways(trace: Trace, places: I64) -> bool:
    """Return whether most bytes are in copies of a size that is copied in both directions."""
    work, category = operations(trace), operation_categories(trace)[places]
    size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[places]]
    sizes, of_size = np.unique(size, return_inverse=True)
    to_host, to_device = (
        np.bincount(of_size[category == direction], minlength=len(sizes))
        for direction in (TimePart.COPY_D2H, TimePart.COPY_H2D)
    )
    both = 2 * np.minimum(to_host, to_device) * sizes.astype(np.float64)
    return float(both.sum()) >= _MOST * float(size.sum()) > 0


def _most_ns(
    run: Run, places: I64, each_ns: float, rate: float, speed: Estimate
) -> Estimate | None:
    """Return the most that the fix can save where results are copied to the host; None elsewhere.

    Without waiting, the simulated CPU would run past results that the program may need: at best it
    needs none of them. A CPU that changes them before it copies them back gains from the higher
    speed only.

    Args:
        run: The trace, and the choice of its steps.
        places: The copies, as places in operations.
        each_ns: Their time per step.
        rate: Their bytes per ns.
        speed: Bytes per second of pinned copies.
    """
    scope, category = step_scope(run), operation_categories(run.trace)
    if needs_results(run):
        idle_ns = scope.idle_ns(TimePart.PAGEABLE_COPY)
        faster = (max(1 - rate * 1e9 / of_pinned, 0.0) for of_pinned in speed)
        return Estimate(*(each_ns * share + idle_ns for share in faster))
    if np.mean(category[places] == TimePart.COPY_D2H) < _SOME:
        return None
    likely_ns = each_ns + scope.idle_ns(TimePart.PAGEABLE_COPY, TimePart.HOST_SYNC)
    return Estimate(likely_ns, likely_ns, each_ns + scope.idle_ns())


def _held_ns(trace: Trace, scope: StepScope, calls: I64) -> float:
    """Return the time per step in these calls, which also wait for earlier GPU work."""
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return 0.0
    return scope.call_ns_of(distinct_values(calls[calls >= 0]))


def _speed(trace: Trace, scope: StepScope) -> Estimate:
    places = np.flatnonzero(_pageable(trace) & scope.operations)
    peaks = device_peaks(trace, int(operations(trace).device[places[0]]))
    if peaks is None or peaks.pcie_bytes_per_s is None:
        return _ANY_LINK
    return Estimate(*(share * peaks.pcie_bytes_per_s for share in _OF_PEAK))
