"""small-copies: many small copies in a row, which one copy of packed data could replace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES, blocking_copies
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.program import is_python, program_kind
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import Change, DropOperations, SetDurations
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ns, format_ratio, plural

NAME = "small-copies"
TITLE = "Data is copied in many small pieces"

_LEAST_IN_ROW = 8
_LEAST = 32  # per step
_LATENCY_NS = 1_500  # of a copy, besides its bytes
_OF_PEAK = Estimate(0.65, 0.8, 0.95)  # of large copies
# No link of a data center GPU since 2017 is slower, and no PCIe link is faster.
_ANY_LINK = Estimate(10e9, 20e9, 55e9)
_ANY_MEMORY = Estimate(0.1e12, 0.4e12, 2e12)  # bytes copied: each is read and written
# At worst, the CPU packs the data first, and nothing overlaps with that.
_PACKING_BYTES_PER_S = 10e9

_DIRECTIONS = {
    TimePart.COPY_H2D: "host-to-device",
    TimePart.COPY_D2H: "device-to-host",
    TimePart.COPY_D2D: "device-to-device",
}
_PACK = (
    "Pack the data of a step on the host and copy it once: torch.stack or torch.cat into one pinned"
    " tensor (pin_memory=True), .to('cuda', non_blocking=True), and views of the result on the GPU."
)
_GATHER = (
    "Gather results in one tensor on the GPU (torch.stack, torch.cat) and copy it once, to a pinned"
    " tensor with non_blocking=True."
)
_ON_GPU = (
    "Copy all pieces with one kernel: torch._foreach_copy_ for lists of tensors, index_copy_ or"
    " x[indices] = y for rows of one tensor."
)
_CUDA_LINK = (
    "Pack the data into one pinned buffer and copy it with one cudaMemcpyAsync. For rows at a"
    " constant distance, call cudaMemcpy2DAsync. For scattered pieces, use cudaMemcpyBatchAsync"
    " (CUDA 12.8 or later), or a kernel that reads and writes pinned host memory."
)
_CUDA_ON_GPU = (
    "Copy all pieces with one kernel that takes a list of pointers and sizes. For rows at a"
    " constant distance, call cudaMemcpy2DAsync, for others cudaMemcpyBatchAsync (CUDA 12.8 or"
    " later)."
)
_IN_PYTHON = " In CuPy, stack the pieces in one NumPy array, and call cupy.asarray once."
_JAX = (
    "Stack the pieces in one NumPy array, and call jax.device_put once: for a tree of arrays, it"
    " copies each leaf by itself. Slice the result in the compiled function."
)
_JAX_ON_GPU = (
    "Move the updates into one jax.jit, so that XLA fuses them, and donate the arrays that they"
    " replace (donate_argnums)."
)


class _Rows(NamedTuple):
    """Copies in a row: the same direction, stream, and thread, with nothing in between.

    Attributes:
        operation: Shape (n,), int64, indices into `operations`, by row.
        number: Shape (n,), int64, the row of each copy, ascending from 0.
    """

    operation: I64
    number: I64

    @property
    def is_first(self) -> BoolArray:
        """Shape (n,), bool, the first copy of each row."""
        return np.diff(self.number, prepend=-1) > 0


@rule(name=NAME, title=TITLE)
def small_copies(run: Run) -> list[Finding]:
    """Many small copies in a row.

    What it finds: Rows of at least eight copies of up to 64 KiB each, in one direction and stream,
        without other work or a wait in between: at least 32 such copies per step. With their
        launches and the gaps between them, they take at least 5% of the step.
    Why it matters: A copy takes 1 to 2 us, and as long again until the next one begins, whatever
        its size: copies of a few KB reach a few percent of the bandwidth. Each also takes a call.
    How it is found: In the launch order of each stream. A row as one copy takes its latency once,
        and all its bytes at 0.65 to 0.95 of the peak bandwidth of the link or memory. The lower
        bound of the saving also assumes that the CPU packs the data at 10 GB/s.
    What to do: Pack what is copied together, or copy scattered pieces with one kernel or one
        batched call.
    Limits: A recording does not show whether the pieces are needed at different times, or can lie
        next to each other. Copies that the CPU waits for one by one belong to host-sync, larger
        ones to pageable-copy and exposed-copies. Copies of CUDA graphs do not count.
    Source: CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device"; CUDA Runtime
        API, cudaMemcpyBatchAsync. scattered_copies of the blind set.
    """
    trace = run.trace
    if not trace.has("memcpy") or not trace.row_count("memcpy"):
        return []
    scope, category = step_scope(run), operation_categories(trace)
    found = []
    for direction, label in _DIRECTIONS.items():
        rows = _of_direction(run, direction)
        places = np.zeros(len(category), np.bool_)
        places[rows.operation] = True
        weight = scope.weigh(places)
        if weight.number >= _LEAST and weight.is_measurable_with_launches:
            found.append(_finding(scope, rows, places, direction, label))
    return found


def _finding(
    scope: StepScope, rows: _Rows, places: BoolArray, direction: TimePart, label: str
) -> Finding:
    trace, weight = scope.run.trace, scope.weigh(places)
    size = _bytes(trace)
    counted = rows.operation[scope.operations[rows.operation]]
    each = float(size[counted].mean())
    rate = float(size[counted].sum()) / max(float(_lengths(trace)[counted].sum()), 1.0)
    low_ns, packed_ns, high_ns = _packed_ns(trace, rows, direction)
    first = rows.is_first
    together = packed_ns[scope.operations[rows.operation[first]]].sum()
    share = float(together) / max(float(_lengths(trace)[counted].sum()), 1.0)
    many = plural(max(round(weight.number), 1), "copy", "copies")
    on_gpu = direction == TimePart.COPY_D2D
    fix = {TimePart.COPY_H2D: _PACK, TimePart.COPY_D2H: _GATHER}.get(direction, _ON_GPU)
    fix_cuda = _CUDA_ON_GPU if on_gpu else _CUDA_LINK
    if program_kind(trace) == "cuda" and is_python(trace) and direction == TimePart.COPY_H2D:
        fix_cuda += _IN_PYTHON
    changes: tuple[Change, ...] = (
        DropOperations(rows.operation[~first]),
        SetDurations(rows.operation[first], low_ns, packed_ns, high_ns),
    )
    return Finding(
        NAME,
        severity_of(weight.share + weight.around_share),
        f"Small copies: {many}{scope.each} of {format_bytes(each)} each on average",
        f"{many} {label}{scope.each}, {format_bytes(each)} each on average, take"
        f" {weight.time}{weight.launching}, at {rate:.2g} GB/s. Packed together, they would"
        f" take about {format_ratio(min(share, 1.0))} of that.",
        (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", places),),
        fix,
        "Profile again: `warpline stats -r cuda_gpu_mem_time_sum` shows few copies, and"
        " `warpline stats -r cuda_gpu_mem_size_sum` shows large ones.",
        fix_cuda=fix_cuda,
        fix_in={"jax": _JAX_ON_GPU if on_gpu else _JAX},
        changes=changes,
        on_devices=weight.on_devices,
    )


def _of_direction(run: Run, direction: TimePart) -> _Rows:
    """Return the copies of one direction that are in rows of sufficient length."""
    every = _rows(run)
    chosen = operation_categories(run.trace)[every.operation] == direction
    numbers = np.unique(every.number[chosen], return_inverse=True)[1]
    return _Rows(every.operation[chosen], numbers.astype(np.int64))


@derived
def _rows(run: Run) -> _Rows:
    """Return the small copies that are in rows of sufficient length."""
    trace, work = run.trace, operations(run.trace)
    is_small = _small(trace)
    launched = np.flatnonzero(work.call >= 0)
    none = np.zeros(0, np.int64)
    if np.count_nonzero(is_small) < _LEAST_IN_ROW:
        return _Rows(none, none)
    order = launched[np.lexsort((work.call[launched], work.stream[launched]))]
    thread = trace.columns("api_call", "thread_id")["thread_id"].filled(-1)[work.call[order]]
    kind = np.where(is_small[order], operation_categories(trace)[order].astype(np.int64), -1)
    facts = (
        *(kind, work.stream[order], thread, step_scope(run).step[order]),
        _waits_before(trace, thread.astype(np.int64), work.call[order]),
    )
    begins = np.zeros(len(order), np.bool_)
    for fact in facts:
        begins |= np.diff(fact, prepend=fact[:1] - 1) != 0
    number = np.cumsum(begins) - 1
    length = np.bincount(number)
    chosen = (kind >= 0) & (length[number] >= _LEAST_IN_ROW)
    return _Rows(order[chosen], number[chosen])


def _small(trace: Trace) -> BoolArray:
    """Return which operations are small copies, each of a call that does not wait for it."""
    work = operations(trace)
    known = work.call[work.call >= 0]
    is_alone = np.bincount(known, minlength=1)[work.call] == 1
    is_small: BoolArray = np.isin(operation_categories(trace), list(_DIRECTIONS))
    is_small &= (work.call >= 0) & is_alone & (_bytes(trace) <= SMALL_COPY_BYTES)
    is_small[blocking_copies(trace).operation] = False
    return is_small


def _waits_before(trace: Trace, thread: I64, call: I64) -> I64:
    """Return how many synchronizing calls each call's thread has made before it.

    Args:
        trace: The trace.
        thread: Shape (n,), int64, rows of the thread table.
        call: Shape (n,), int64, rows of api_call.
    """
    calls = working_calls(trace)
    is_wait = calls.kind == CallKind.HOST_SYNC
    stride = trace.row_count("api_call") + 1
    # Calls of a thread follow those of the threads before it.
    waits = np.sort(calls.thread[is_wait] * stride + calls.row[is_wait])
    before = np.searchsorted(waits, thread * stride + call) - np.searchsorted(
        waits, thread * stride
    )
    return before.astype(np.int64)


def _packed_ns(trace: Trace, rows: _Rows, direction: TimePart) -> tuple[I64, I64, I64]:
    """Return the shortest, likely, and longest time of each row as one copy."""
    size = np.bincount(rows.number, _bytes(trace)[rows.operation])
    now = np.bincount(rows.number, _lengths(trace)[rows.operation])
    slow, likely, fast = _rates(trace, operations(trace).device[rows.operation], direction)
    of_row = rows.is_first
    packing = 0.0 if direction == TimePart.COPY_D2D else 1e9 / _PACKING_BYTES_PER_S

    def taking(rate: F64, more: float = 0.0) -> I64:
        ns = _LATENCY_NS + size * (1e9 / rate[of_row] + more)
        shorter: I64 = np.rint(np.minimum(ns, now)).astype(np.int64)
        return shorter

    return taking(fast), taking(likely), taking(slow, packing)


def _rates(trace: Trace, device: I64, direction: TimePart) -> tuple[F64, F64, F64]:
    """Return the bytes per second of large copies, at least, likely, and at most; per copy."""
    peaks = peaks_of_devices(trace)
    if direction == TimePart.COPY_D2D:
        peak, unknown = peaks.bytes_per_s / 2, _ANY_MEMORY
    else:
        link = (model.pcie_bytes_per_s if model else None for model in peaks.model)
        peak, unknown = np.array([rate or 0 for rate in link], np.float64), _ANY_LINK
    of_copy = np.append(peak, 0.0)[device]
    low, central, high = (
        np.where(of_copy > 0, of_copy * share, usual)
        for share, usual in zip(_OF_PEAK, unknown, strict=True)
    )
    return low, central, high


def _bytes(trace: Trace) -> I64:
    """Return the bytes of each operation; 0 for those that are no copies."""
    work = operations(trace)
    size, copies = np.zeros(len(work), np.int64), work.of_table("memcpy")
    size[copies] = np.maximum(trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]], 0)
    return size


def _lengths(trace: Trace) -> I64:
    work = operations(trace)
    return work.end_ns - work.start_ns
