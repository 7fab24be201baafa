"""host-sync: the CPU synchronizes with the GPU in every step."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.recurrence import recurs
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.host_blocking import SMALL_COPY_BYTES
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.idle.result_reads import result_reads, waits_behind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import Change, DropCalls, DropOperations
from warpline.trace import Run, Trace
from warpline.units import format_ns, plural

NAME = "host-sync"
TITLE = "CPU-GPU synchronization in every step"

_LEAST_SHARE = 0.01  # without steps

_FIX = (
    "Accumulate metrics in a GPU tensor and read them every N steps. Replace .item(), float(),"
    " print(), nonzero(), and branches on tensors with torch.where or masks. Copy to pinned memory"
    " with non_blocking=True."
)
_FIX_CUDA = (
    "Copy results to pinned memory with cudaMemcpyAsync and record an event after the copy. Read"
    " the value in a later step, once cudaEventQuery succeeds. Remove cudaStreamSynchronize and"
    " cudaDeviceSynchronize from the loop."
)
_FIX_JAX = (
    "Keep results on the GPU, and read them every N steps: float(x), .item(), np.asarray(x),"
    " print(x), jax.device_get, and block_until_ready wait for the GPU. Replace branches on arrays"
    " with jnp.where or lax.cond."
)


@rule(name=NAME, title=TITLE)
def host_sync(run: Run) -> list[Finding] | Skipped:
    """Calls in which the CPU waits for the GPU in every step.

    What it finds: Synchronization with a stream, an event, or a device, and reads of small
        results, on threads that launch work: at least one in every second step. Without steps:
        waits that recur throughout the time with GPU work, and leave the GPU idle for at least 1%
        of it.
    Why it matters: A blocked CPU launches nothing. The GPU becomes idle, and the next launches are
        late. Both cost more than the wait itself.
    How it is found: By function name, and by device-to-host copies of at most 64 KiB with the
        wait that follows. A few short kernels before a read (absolute values, sums, casts) are
        assumed to serve only that read. Waits for pageable copies belong to pageable-copy.
    What to do: Read results less often, later, or not at all.
    Limits: A program that needs a value to continue cannot remove the wait. A recording does not
        show whether the kernels before a read have another use. At most six consecutive kernels
        are attributed to a read.
    Source: CUDA Runtime API, sections about synchronization; measured on programs with and
        without the waits.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", "profile with --trace=cuda")
    scope, reads = step_scope(run), result_reads(trace)
    waits = _waits(trace)
    count = int(np.count_nonzero(scope.calls[waits])) / scope.count
    lost_ns = scope.idle_ns() if scope.has_steps else scope.idle_ns(TimePart.HOST_SYNC)
    if count < 0.5 or not (scope.has_steps or _recur(scope, waits)):
        return []
    spent = scope.call_ns_of(waits)
    fed = _bool(len(operations(trace)), reads.feeding)
    for_reads = scope.number_of(fed)
    number = max(round(count), 1)
    times = "once" if number == 1 else f"{number:,} times"
    text = f"{plural(number, 'synchronization')}{scope.each} in {format_ns(spent)}"
    shown = [scope.show_calls(text, waits)]
    extra = ""
    if for_reads >= 1:
        kernels = f"{plural(round(for_reads), 'kernel')}{scope.each}"
        extra = f" It launches {kernels} only to compute the values that it reads."
        shown.append(scope.show_operations(f"{kernels} only for these reads", fed))
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(_spent_ns(trace, scope), lost_ns))),
            f"CPU-GPU synchronization delays launches {times}{scope.each}",
            f"The CPU synchronizes with the GPU {times}{scope.each}, blocking launches for"
            f" {format_ns(spent)}.{extra}",
            tuple(shown),
            _FIX,
            "Profile again: `warpline stats -r cuda_api_sum` shows fewer cudaStreamSynchronize"
            " calls, and steps are shorter.",
            fix_cuda=_FIX_CUDA,
            fix_in={"jax": _FIX_JAX},
            changes=_changes(trace, waits),
            on_devices=scope.calls_on_devices(waits),
        )
    ]


def _recur(scope: StepScope, waits: I64) -> bool:
    """Return whether waits throughout a recording without steps leave the GPU idle."""
    lost_ns = scope.idle_ns(TimePart.HOST_SYNC)
    return scope.share(lost_ns) >= _LEAST_SHARE and recurs(scope.run, waits)


def _waits(trace: Trace) -> I64:
    """Return the calls that synchronize, except those that wait for pageable copies."""
    calls, reads = working_calls(trace), result_reads(trace)
    waits = calls.row[calls.kind == CallKind.HOST_SYNC]
    behind = np.isin(waits, waits_behind(trace, _large_copies(trace)))
    synchronous = reads.call[reads.wait < 0]
    kind = calls.kind[np.searchsorted(calls.row, synchronous)]
    synchronous = synchronous[kind == CallKind.COPY]
    return np.unique(np.append(waits[~behind], synchronous))


def _large_copies(trace: Trace) -> I64:
    """Return the calls that made large copies between host and device."""
    work = operations(trace)
    copies = work.of_table("memcpy")
    copies = copies[work.call[copies] >= 0]
    if not len(copies):
        return copies
    size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]]
    codes = [TimePart.COPY_H2D, TimePart.COPY_D2H]
    is_host = np.isin(operation_categories(trace)[copies], codes)
    return work.call[copies[is_host & (size > SMALL_COPY_BYTES)]]


def _spent_ns(trace: Trace, scope: StepScope) -> float:
    """Return the CPU time per step in waits and in launches of kernels that serve only reads."""
    reads = result_reads(trace)
    calls = trace.columns("api_call", "start_ns", "end_ns")
    fed = reads.feeding[scope.operations[reads.feeding]]
    launches = operations(trace).call[fed]
    cost = calls["end_ns"].values[launches] - calls["start_ns"].values[launches]
    return scope.call_ns_of(_waits(trace)) + float(cost.sum()) / scope.count


def _changes(trace: Trace, waits: I64) -> tuple[Change, ...]:
    reads = result_reads(trace)
    # Results stay on the GPU: awaited values are neither copied nor requested.
    is_gone = reads.is_fed | (reads.wait >= 0) | np.isin(reads.call, waits)
    gone = reads.wait[is_gone & (reads.wait >= 0)]
    dropped = np.sort(np.append(reads.feeding, reads.copy[is_gone]))
    calls = DropCalls(np.union1d(waits, gone))
    return (DropOperations(dropped), calls) if len(dropped) else (calls,)


def _bool(n: int, places: I64) -> BoolArray:
    chosen = np.zeros(n, np.bool_)
    chosen[places] = True
    return chosen
