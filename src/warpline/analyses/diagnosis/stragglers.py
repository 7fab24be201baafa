"""stragglers: which ranks the others wait for."""

from __future__ import annotations

import numpy as np

from warpline.derived.collectives.matches import RECORD_HINT, cannot_match
from warpline.derived.collectives.waits import CollectiveWaits, collective_waits
from warpline.derived.ranks.names import UNKNOWN, rank_of_process
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.steps.ranges import STEP_ARGUMENT, step_name
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, format_ns, plural

NAME = "stragglers"
TITLE = "Which ranks the others wait for"
FIELDS = (
    Field("rank", Unit.NONE, "The rank, if it is known.", "Rank"),
    Field("caused_ns", Unit.NS, "Time that others waited for it.", "Others Waited (ns)"),
    Field("exposed_ns", Unit.NS, "Where they computed nothing meanwhile.", "Exposed (ns)"),
    Field("caused_ratio", Unit.RATIO, "Share of all waiting.", "Of Waits (%)", 100.0, 1),
    Field("last", Unit.COUNT, "Collectives in which it was last.", "Last In"),
    Field("last_ratio", Unit.RATIO, "Share of its collectives.", "Last (%)", 100.0, 1),
    Field("late_ns", Unit.NS, "By how much it was later than the next to last.", "Late By (ns)"),
    Field("wait_ns", Unit.NS, "Time that it waited itself.", "Waited (ns)"),
    Field("transfer_ns", Unit.NS, "The rest of its kernels: transfers.", "Transfer (ns)"),
    Field("wait_ratio", Unit.RATIO, "Waiting's share of its kernels.", "Waiting (%)", 100.0, 1),
    Field(
        "median_behind_ns",
        Unit.NS,
        "Median time from the first rank's arrival to its own.",
        "Med Behind (ns)",
        is_detail=True,
    ),
    Field("collectives", Unit.COUNT, "Collectives it took part in.", "Collectives"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("gpu_index", Unit.ID, "The producer's index of the GPU.", "GPU"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments=STEP_ARGUMENT,
    missing_hint=RECORD_HINT,
)
def stragglers(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Which ranks arrive last in collectives, and how long the others wait for them.

    What it measures: For each rank, in how many collectives it arrived later than all others, how
        long the others waited for it, and how long it waited itself, in the included steps.
    Why it matters: A collective begins when the last rank does. One slow rank, or the work of one,
        holds up all of them; making anything faster on the others only makes them wait longer.
    How it is computed: Collectives of different ranks are paired by communicator and the number of
        the call, or by their order on a stream if the recording has no calls of NCCL. Ranks arrive
        when their kernel begins. Of each kernel, the time until the last rank arrived is waiting,
        and the rest is the transfer. All the waiting in a collective is put down to the rank that
        was last; it is exposed where the device of the one that waits computes nothing. Clocks of
        different files are aligned by the ends of collectives, which end together on all ranks;
        that also follows clocks that drift. A rank counts as last if it was later than the next
        to last by more than the ends agree.
    Limits: It compares ranks that are in the trace: name all recordings of a run. Broadcasts,
        reductions to one rank, sends and receives are left out, as ranks may end them at
        different times. Where two ranks are late, all waiting is put down to the later one.
        A rank arrives late in one collective because an earlier one kept it: see the table
        breakdown for what else it does.
    Source: Warpline.
    """
    name = step_name(arguments)
    skipped = cannot_match(trace, NAME)
    if skipped is not None:
        return skipped
    found = rank_waits(trace, name)
    order = np.lexsort((found.device, found.process, -found.caused_ns))
    rank = rank_of_process(trace)[found.process[order]]
    kernel_ns = (found.wait_ns + found.transfer_ns)[order]
    values: dict[str, Values] = {
        "rank": Numbers(rank, rank != UNKNOWN),
        "caused_ns": Numbers(found.caused_ns[order]),
        "exposed_ns": Numbers(found.exposed_ns[order]),
        "caused_ratio": Numbers(found.caused_ns[order] / max(int(found.caused_ns.sum()), 1)),
        "last": Numbers(found.last[order]),
        "last_ratio": Numbers(found.last[order] / np.maximum(found.collectives[order], 1)),
        "late_ns": Numbers(found.late_ns[order]),
        "wait_ns": Numbers(found.wait_ns[order]),
        "transfer_ns": Numbers(found.transfer_ns[order]),
        "wait_ratio": Numbers(found.wait_ns[order] / np.maximum(kernel_ns, 1)),
        "median_behind_ns": Numbers(found.median_behind_ns[order]),
        "collectives": Numbers(found.collectives[order]),
        "pid": Numbers(_values(trace, "process", "pid")[found.process[order]]),
        "gpu_index": Numbers(_values(trace, "device", "gpu_index")[found.device[order]]),
    }
    notes = _notes(trace, collective_waits(trace, name))
    return Result(
        ":".join((NAME, *arguments)), TITLE, FIELDS, values, ("rank", "pid", "gpu_index"), notes
    )


def _values(trace: Trace, table: str, column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return trace.columns(table, column)[column].values.astype(np.int64)


def _notes(trace: Trace, found: CollectiveWaits) -> tuple[str, ...]:
    notes = list(found.matches.notes)
    left_out = found.matches.count - found.count
    if left_out:
        notes.append(
            f"{plural(left_out, 'collective')} outside of the steps that count"
            f" {'is' if left_out == 1 else 'are'} left out"
        )
    if found.count and found.error_ns.any():
        notes.append(
            "clocks of different files agree within"
            f" {format_ns(int(found.error_ns.max()))}, as the ends of collectives tell"
        )
    together = found.count - int(found.is_late.sum())
    if together:
        notes.append(f"in {plural(together, 'collective')} no rank was last beyond doubt")
    return tuple(notes)
