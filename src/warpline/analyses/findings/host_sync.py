"""host-sync: the host waits for results of the device again and again."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CALL_KINDS
from warpline.derived.idle.result_reads import result_reads, waits_behind
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import Change, DropCalls, DropOperations
from warpline.trace import Trace
from warpline.units import format_ns, plural

NAME = "host-sync"
TITLE = "The host waits for the device in every step"

_FIX = (
    "Keep results on the device: collect metrics in a tensor there and read them once every some"
    " steps; replace .item(), float(tensor), print(tensor), tensor.nonzero() and comparisons of"
    " tensors in if by torch.where and masks; copy with non_blocking=True to pinned memory"
)
_FIX_CUDA = (
    "Read with cudaMemcpyAsync to pinned memory, and look at the value only after an event"
    " recorded behind it has been passed (cudaEventQuery) in a later step; drop"
    " cudaStreamSynchronize and cudaDeviceSynchronize from the loop"
)


@rule(name=NAME, title=TITLE)
def host_sync(trace: Trace, steps: str | None) -> list[Finding] | Skipped:
    """Calls in which the host waits for the device in every step.

    What it finds: Waits for a stream, an event or a device, and reads of small results, on
        threads that launch work, at least one in every second step.
    Why it matters: While the host waits it launches nothing. The device runs dry, and the host
        is late with what comes next; that costs more than the wait itself.
    How it is found: By the functions that wait, and by copies to the host of at most 64 KiB with
        the wait that follows. A few short kernels between two reads (absolute values, sums,
        casts) were launched for the read only, and go with it. Waits for copies from pageable
        memory belong to pageable-copy.
    What to do: Read results less often, later, or not at all.
    Limits: A program that must know a value to go on cannot drop the wait. Whether kernels in front
        of a read have another use does not show in a recording: at most six, one after the other.
    Source: CUDA Runtime API, sections about synchronization; measured on programs with and
        without the waits.
    """
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA calls were recorded", "record with --trace=cuda")
    scope, reads = step_scope(trace, steps), result_reads(trace)
    waits = _waits(trace)
    count = int(np.count_nonzero(scope.calls[waits])) / scope.count
    if count < 0.5 or not scope.has_steps:
        return []
    calls = trace.columns("api_call", "start_ns", "end_ns")
    chosen = waits[scope.calls[waits]]
    spent = (calls["end_ns"].values - calls["start_ns"].values)[chosen].sum() / scope.count
    fed = _bool(len(operations(trace)), reads.feeding)
    for_reads = scope.number_of(fed)
    shown = [scope.show_calls(f"{count:,.0f} waits{scope.each}, {format_ns(spent)} in them", waits)]
    if for_reads >= 1:
        text = f"{for_reads:,.0f} kernels{scope.each} compute only what is read"
        shown.append(scope.show_operations(text, fed))
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(_spent_ns(trace, scope), scope.idle_ns()))),
            TITLE,
            f"The host waits for the device {plural(round(count), 'time')}{scope.each}"
            f" ({format_ns(spent)} in the waits), and launches nothing meanwhile.",
            tuple(shown),
            _FIX,
            "record again: fewer cudaStreamSynchronize in `warpline stats -r cuda_api_sum`,"
            " and the step is shorter",
            fix_cuda=_FIX_CUDA,
            changes=_changes(trace, waits),
        )
    ]


def _waits(trace: Trace) -> I64:
    """Return the calls that wait, but for those behind copies from or to pageable memory."""
    calls, reads = working_calls(trace), result_reads(trace)
    waits = calls.row[calls.kind == CALL_KINDS.index("host-sync")]
    behind = np.isin(waits, waits_behind(trace, _large_copies(trace)))
    synchronous = reads.call[reads.wait < 0]
    kind = calls.kind[np.searchsorted(calls.row, synchronous)]
    synchronous = synchronous[kind == CALL_KINDS.index("copy")]
    return np.unique(np.append(waits[~behind], synchronous))


def _large_copies(trace: Trace) -> I64:
    """Return the calls that made large copies from or to the host."""
    work = operations(trace)
    copies = work.of_table("memcpy")
    copies = copies[work.call[copies] >= 0]
    if not len(copies):
        return copies
    size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]]
    codes = [BUSY_CATEGORIES.index(name) for name in ("copy-h2d", "copy-d2h")]
    is_host = np.isin(operation_categories(trace)[copies], codes)
    return work.call[copies[is_host & (size > SMALL_COPY_BYTES)]]


def _spent_ns(trace: Trace, scope: StepScope) -> float:
    """Return the host time per step from each read's work to its end, or of the wait alone."""
    reads, waits = result_reads(trace), _waits(trace)
    calls = trace.columns("api_call", "start_ns", "end_ns")
    chosen = waits[scope.calls[waits]]
    spent = (calls["end_ns"].values - calls["start_ns"].values)[chosen].sum()
    fed = reads.feeding[scope.operations[reads.feeding]]
    launches = operations(trace).call[fed]
    cost = calls["end_ns"].values[launches] - calls["start_ns"].values[launches]
    return float(spent + cost.sum()) / scope.count


def _changes(trace: Trace, waits: I64) -> tuple[Change, ...]:
    reads = result_reads(trace)
    # Results stay on the device: what is waited for is neither copied nor asked for.
    is_gone = reads.is_fed | (reads.wait >= 0) | np.isin(reads.call, waits)
    gone = reads.wait[is_gone & (reads.wait >= 0)]
    dropped = np.sort(np.append(reads.feeding, reads.copy[is_gone]))
    calls = DropCalls(np.union1d(waits, gone))
    return (DropOperations(dropped), calls) if len(dropped) else (calls,)


def _bool(n: int, places: I64) -> BoolArray:
    found = np.zeros(n, np.bool_)
    found[places] = True
    return found
