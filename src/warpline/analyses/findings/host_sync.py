"""host-sync: the CPU synchronizes with the GPU in every step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.host_lines import call_lines
from warpline.derived.breakdown.input_waits import needs_results
from warpline.derived.breakdown.recurrence import recurs
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.idle.host_blocking import OWN_COST_NS, SMALL_COPY_BYTES, blocking_copies
from warpline.derived.idle.host_calls import working_calls
from warpline.derived.idle.kinds import CallKind
from warpline.derived.idle.masked_indexing import masked_indexing
from warpline.derived.idle.result_reads import result_reads, waits_behind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.program import program_kind
from warpline.derived.recorder import calls_hint
from warpline.derived.severity import severity_of
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate, exactly
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.result import Finding, Skipped, rule
from warpline.result.changes import Change, DropCalls, DropOperations, MakeAsync
from warpline.trace import Run, Trace
from warpline.units import format_ns, plural

NAME = "host-sync"
TITLE = "CPU-GPU synchronization in every step"

_LEAST_SHARE = 0.01  # without steps
# Of the kernels before a read: at worst, the program needs all of them for something else.
_KERNELS_THAT_STAY = Estimate(0, 0, 1)

# Of indexing with masks: torch.where reads and writes once what kernels with indices gather and
# scatter. At worst, the program needs the indices.
_WHERE_INSTEAD = Estimate(0, 0.25, 1)

_FIX = (
    "Accumulate metrics in a GPU tensor and read them every N steps. Replace .item(), float(),"
    " print(), nonzero(), and branches on tensors with torch.where or masks. Copy to pinned memory"
    " with non_blocking=True."
)
_FIX_MASKS = (
    "Replace indexing with boolean masks (x[mask], x[mask] = y) and nonzero() with torch.where or"
    " masked_fill. "
)
_FIX_CUDA = (
    "Copy results to pinned memory with cudaMemcpyAsync and record an event after the copy. Read"
    " the value in a later step, once cudaEventQuery succeeds. Remove cudaStreamSynchronize and"
    " cudaDeviceSynchronize from the loop."
)
_FIX_CUDA_READS = (
    "If the results decide what is launched next, decide that on the GPU, or read them every few"
    " iterations. Otherwise copy them to pinned memory with cudaMemcpyAsync, and read them once"
    " cudaEventQuery succeeds."
)
_CONDITION = "The saving assumes that the program can continue without them."
_FIX_JAX = (
    "Keep results on the GPU, and read them every N steps: float(x), .item(), np.asarray(x),"
    " print(x), jax.device_get, and block_until_ready wait for the GPU. Replace branches on arrays"
    " with jnp.where or lax.cond."
)


@rule(name=NAME, title=TITLE)
def host_sync(run: Run) -> list[Finding] | Skipped:
    """Calls in which the CPU waits for the GPU in every step.

    What it finds: Synchronization with a stream, an event, or a device, reads of small results,
        and larger device-to-host copies that block the CPU, on threads that launch work: at least
        one in every second step. Without steps: waits that recur throughout the time with GPU work,
        and leave the GPU idle for at least 1% of it.
    Why it matters: A blocked CPU launches nothing. The GPU becomes idle, and the next launches are
        late. Both cost more than the wait itself.
    How it is found: By function name, and by device-to-host copies of at most 64 KiB with the
        wait that follows. A few short kernels before a read (absolute values, sums, casts) are
        assumed to serve only that read. In larger copies, the CPU waits for the GPU until the copy
        begins; copying itself, and all of pageable copies to the GPU, belongs to pageable-copy.
    What to do: Read results less often, later, or not at all.
    Limits: A program that needs a value to continue cannot remove the wait. Where most waits read
        results that no kernel was launched for, the saving is an upper bound. Where the CPU changes
        data between copies from and to the GPU, no more than the idle time of the cause host-sync
        is promised. A recording does not show whether the kernels before a read have another use:
        the lower bound of the saving is for the case that all have. At most six consecutive kernels
        are attributed to a read.
        Indexing with boolean masks counts as avoidable with torch.where, at a quarter of the time
        of the gathers and scatters.
    Source: CUDA Runtime API, sections about synchronization; measured on programs with and
        without the waits.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", calls_hint(trace))
    scope, reads = step_scope(run), result_reads(trace)
    blocked = _blocked(trace)
    waits = blocked.call[blocked.is_wait]
    count = scope.number_of_calls(waits)
    if count < 0.5 or not (scope.has_steps or _recur(scope, waits)):
        return []
    spent = _per_step(scope, blocked)
    fed = _bool(len(operations(trace)), reads.feeding)
    for_reads = scope.number_of(fed)
    number = max(round(count), 1)
    times = "once" if number == 1 else f"{number:,} times"
    text = f"{plural(number, 'synchronization')}{scope.each} in {format_ns(spent)}"
    shown = [scope.show_calls(text, blocked.call[blocked.is_wait])]
    extra = ""
    if for_reads >= 1:
        kernels = f"{plural(round(for_reads), 'kernel')}{scope.each}"
        extra = f" It launches {kernels} only to compute the values that it reads."
        shown.append(scope.show_operations(f"{kernels} only for these reads", fed))
    masks = masked_indexing(trace)
    masked = _bool(len(operations(trace)), np.append(masks.finding, masks.using))
    for_masks = round(scope.number_of(masked))
    if for_masks >= 1:
        kernels = f"{plural(for_masks, 'kernel')}{scope.each}"
        extra += f" {kernels} index with boolean masks."
        shown.append(scope.show_operations(f"{kernels} for indexing with masks", masked))
    read = round(_number_read(scope, waits))
    is_conditional = 2 * read >= number
    if is_conditional:
        often = "a result each time" if read == number else f"results in {read:,} of these calls"
        extra += f" It reads {often}. {_CONDITION}"
    changes, lost = _changes(trace), spent + _feeding_ns(trace, scope)
    idle_ns = scope.idle_ns() if scope.has_steps else scope.idle_ns(TimePart.HOST_SYNC)
    return [
        Finding(
            NAME,
            severity_of(scope.share(min(lost, idle_ns))),
            f"CPU-GPU synchronization delays launches {times}{scope.each}",
            f"The CPU synchronizes with the GPU {times}{scope.each}, blocking launches for"
            f" {format_ns(spent)}.{_where(scope, waits)}{extra}",
            tuple(shown),
            (_FIX_MASKS if for_masks >= 1 else "") + _FIX,
            "Profile again: `warpline stats -r cuda_api_sum` shows fewer cudaStreamSynchronize"
            " calls, and steps are shorter.",
            fix_cuda=_FIX_CUDA_READS if is_conditional else _FIX_CUDA,
            fix_in={"jax": _FIX_JAX},
            changes=changes,
            most_ns=_most_ns(scope, changes, lost),
            is_conditional=is_conditional,
            on_devices=scope.calls_on_devices(blocked.call, blocked.ns, blocked.is_wait),
        )
    ]


def _where(scope: StepScope, waits: I64) -> str:
    """Return a sentence about the lines that wait; empty if unknown."""
    return call_lines(scope.run.trace, waits[scope.calls[waits]]).shared("that")


def _recur(scope: StepScope, waits: I64) -> bool:
    """Return whether waits throughout a recording without steps leave the GPU idle."""
    lost_ns = scope.idle_ns(TimePart.HOST_SYNC)
    return scope.share(lost_ns) >= _LEAST_SHARE and recurs(scope.run, waits)


class _Blocked(NamedTuple):
    """Calls in which the CPU waits for the GPU.

    Attributes:
        call: Shape (n,), int64, rows of api_call, ascending.
        ns: Shape (n,), int64, the time until the GPU had done what was awaited.
        is_wait: Shape (n,), bool; False for a copy that the next call waits for.
    """

    call: I64
    ns: I64
    is_wait: BoolArray


def _blocked(trace: Trace) -> _Blocked:
    work, waits, (large, waited_ns) = operations(trace), _waits(trace), _large_reads(trace)
    reads = result_reads(trace).copy
    small = reads[np.isin(reads, blocking_copies(trace).operation)]
    call = distinct_values(np.concatenate((waits, work.call[small], work.call[large])))
    times = trace.columns("api_call", "start_ns", "end_ns")
    start, end = (times[key].values[call] for key in ("start_ns", "end_ns"))
    ns = np.maximum(end - start, 0)
    np.minimum.at(ns, np.searchsorted(call, work.call[large]), waited_ns)
    is_wait = np.isin(call, waits) | np.isin(call, work.call[large])
    return _Blocked(call, ns, is_wait)


def _per_step(scope: StepScope, blocked: _Blocked) -> float:
    return scope.call_ns_of(blocked.call, blocked.ns)


def _waits(trace: Trace) -> I64:
    """Return the calls that synchronize, except those behind large copies that block anyway."""
    calls, reads, copies = working_calls(trace), result_reads(trace), blocking_copies(trace)
    waits = calls.row[calls.kind == CallKind.HOST_SYNC]
    held = operations(trace).call[copies.operation]
    large = operations(trace).call[_large_copies(trace)]
    behind = np.isin(waits, waits_behind(trace, large[np.isin(large, held)]))
    synchronous = reads.call[(reads.wait < 0) & np.isin(reads.call, held)]
    return distinct_values(np.append(waits[~behind], synchronous))


def _large_copies(trace: Trace) -> I64:
    """Return the large copies between host and device whose launch is known."""
    work = operations(trace)
    copies = work.of_table("memcpy")
    copies = copies[work.call[copies] >= 0]
    if not len(copies):
        return np.zeros(0, np.int64)
    size = trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]]
    codes = [TimePart.COPY_H2D, TimePart.COPY_D2H]
    is_host = np.isin(operation_categories(trace)[copies], codes)
    large: I64 = copies[is_host & (size > SMALL_COPY_BYTES)]
    return large


def _large_reads(trace: Trace) -> tuple[I64, I64]:
    """Return the large copies to the host in whose calls the CPU waits for earlier GPU work.

    And for how long: until the device has done all that it began before the copy.
    """
    work, copies = operations(trace), _large_copies(trace)
    copies = copies[operation_categories(trace)[copies] == TimePart.COPY_D2H]
    copies = copies[np.isin(copies, blocking_copies(trace).operation)]
    if not len(copies):
        return copies, copies
    called = trace.columns("api_call", "start_ns")["start_ns"].values[work.call[copies]]
    done = np.zeros_like(called)
    for rows in by_group(work.device):
        of_device = np.flatnonzero(work.device[copies] == work.device[rows[0]])
        reach = np.append(np.iinfo(np.int64).min // 2, np.maximum.accumulate(work.end_ns[rows]))
        done[of_device] = reach[np.searchsorted(rows, copies[of_device])]
    waited_ns = np.minimum(done, work.start_ns[copies]) - called
    is_wait = waited_ns > OWN_COST_NS
    return copies[is_wait], waited_ns[is_wait]


def _feeding_ns(trace: Trace, scope: StepScope) -> float:
    """Return the CPU time per step in launches of kernels that serve only reads."""
    reads = result_reads(trace)
    launches = operations(trace).call[reads.feeding[scope.operations[reads.feeding]]]
    return scope.call_ns_of(launches)


def _number_read(scope: StepScope, waits: I64) -> float:
    """Return how many of the waits per step are for results that no kernel was launched for."""
    reads = result_reads(scope.run.trace)
    read = np.concatenate((reads.wait[~reads.is_fed], reads.call[~reads.is_fed]))
    return scope.number_of_calls(waits[np.isin(waits, read)])


def _most_ns(scope: StepScope, changes: tuple[Change, ...], lost_ns: float) -> Estimate:
    """Return the most that can be saved per step.

    That is idle time and the time of dropped operations. Idle time of a rank may be collectives of
    another. In native programs the calls are what the CPU most likely saves, and at best also the
    time before them. A CPU that changes results before it copies them back saves the idle time
    behind its waits only.

    Args:
        scope: The included steps.
        changes: What the fix changes.
        lost_ns: The CPU time in the calls per step.
    """
    if needs_results(scope.run):
        return exactly(scope.idle_ns(TimePart.HOST_SYNC))
    gone = operation_categories(scope.run.trace) == TimePart.COLLECTIVE
    for change in changes:
        if isinstance(change, DropOperations):
            gone[change.operations] = True
    most_ns = scope.idle_ns() + scope.ns_of(gone)
    likely_ns = min(most_ns, lost_ns) if _is_native(scope.run.trace) else most_ns
    return Estimate(likely_ns, likely_ns, most_ns)


def _is_native(trace: Trace) -> bool:
    """Return whether the time before a wait is the program's own, and stays without the wait.

    In Python it is the framework's, which goes with the call.
    """
    return program_kind(trace) == "cuda"


def _changes(trace: Trace) -> tuple[Change, ...]:
    reads, waits, large = result_reads(trace), _waits(trace), _large_reads(trace)[0]
    # Results stay on the GPU: awaited values are neither copied nor requested.
    is_gone = reads.is_fed | (reads.wait >= 0) | np.isin(reads.call, waits)
    gone = reads.wait[is_gone & (reads.wait >= 0)]
    copies, changes = np.sort(reads.copy[is_gone]), list[Change]()
    if len(copies):
        changes.append(DropOperations(copies))
    if len(reads.feeding):
        changes.append(DropOperations(reads.feeding, _KERNELS_THAT_STAY))
    masks = masked_indexing(trace)
    finding = np.setdiff1d(masks.finding, reads.feeding)
    if len(finding):
        changes.append(DropOperations(finding, _KERNELS_THAT_STAY))
    if len(masks.using):
        changes.append(DropOperations(masks.using, _WHERE_INSTEAD))
    if len(waits) or len(gone):
        changes.append(
            DropCalls(distinct_values(np.append(waits, gone)), keeps_gap=_is_native(trace))
        )
    if len(large):
        calls = distinct_values(operations(trace).call[large])
        changes.append(MakeAsync(calls, large, own_stream=False))
    return tuple(changes)


def _bool(n: int, places: I64) -> BoolArray:
    chosen = np.zeros(n, np.bool_)
    chosen[places] = True
    return chosen
