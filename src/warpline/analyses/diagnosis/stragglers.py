"""stragglers: the ranks that delay the others."""

from __future__ import annotations

import numpy as np

from warpline.derived.collectives.matches import RECORD_HINT, cannot_match, file_errors
from warpline.derived.collectives.waits import CollectiveWaits, collective_waits
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.work.ranks import UNKNOWN, rank_of_process
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, format_ns, plural

NAME = "stragglers"
TITLE = "Ranks that delay the others"
FIELDS = (
    Field("rank", Unit.NONE, "The rank, if known.", "Rank"),
    Field("caused_ns", Unit.NS, "Time that other ranks waited for it.", "Others Waited (ns)"),
    Field("exposed_ns", Unit.NS, "The part of it without concurrent compute.", "Exposed (ns)"),
    Field("caused_ratio", Unit.RATIO, "Share of all waiting time.", "Of Waits (%)", 100.0, 1),
    Field("last", Unit.COUNT, "Collectives in which it arrived last.", "Last In"),
    Field("last_ratio", Unit.RATIO, "Share of its collectives.", "Last (%)", 100.0, 1),
    Field("late_ns", Unit.NS, "Total delay after the next-to-last rank.", "Late By (ns)"),
    Field("wait_ns", Unit.NS, "Time that it waited for other ranks.", "Waited (ns)"),
    Field("transfer_ns", Unit.NS, "The rest of its kernel time: transfer.", "Transfer (ns)"),
    Field("wait_ratio", Unit.RATIO, "Waiting share of kernel time.", "Waiting (%)", 100.0, 1),
    Field(
        "median_behind_ns",
        Unit.NS,
        "Median delay after the first rank's arrival.",
        "Med Behind (ns)",
        is_detail=True,
    ),
    Field("collectives", Unit.COUNT, "Number of its collectives.", "Collectives"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
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
    """Ranks that arrive last in collectives, and the time that others wait for them.

    What it measures: For each rank in the included steps: the number of collectives in which it
        arrived last, the time that others waited for it, and the time that it waited itself.
    Why it matters: A collective starts when the last rank arrives. One slow rank delays all ranks,
        and a speedup on the others only makes them wait longer.
    How it is computed: Collectives of different ranks are matched by communicator and call number
        or, without recorded NCCL calls, by their order on the stream. A rank arrives when its
        kernel starts. Kernel time until the last rank arrives is waiting, and the rest is transfer.
        All waiting in a collective is attributed to the last rank. It is exposed where the waiting
        rank's GPU has no concurrent compute. Clocks of different files are aligned by the ends of
        collectives, which all ranks reach together. This also corrects clock drift. A rank counts
        as last if it is later than the second-to-last by more than the ends differ.
    Limits: Only ranks in the trace are compared: pass the recordings of all ranks. Broadcasts,
        reduces, sends and receives are excluded, as ranks may finish them at different times. If
        two ranks are late, all waiting is attributed to the later one. A rank may be late because
        an earlier collective delayed it. Table breakdown shows what else it does.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    skipped = cannot_match(trace, NAME)
    if skipped is not None:
        return skipped
    waits = rank_waits(run)
    order = np.lexsort((waits.device, waits.process, -waits.caused_ns))
    rank = rank_of_process(trace)[waits.process[order]]
    kernel_ns = (waits.wait_ns + waits.transfer_ns)[order]
    values: dict[str, Values] = {
        "rank": Numbers(rank, rank != UNKNOWN),
        "caused_ns": Numbers(waits.caused_ns[order]),
        "exposed_ns": Numbers(waits.exposed_ns[order]),
        "caused_ratio": Numbers(waits.caused_ns[order] / max(int(waits.caused_ns.sum()), 1)),
        "last": Numbers(waits.last[order]),
        "last_ratio": Numbers(waits.last[order] / np.maximum(waits.collectives[order], 1)),
        "late_ns": Numbers(waits.late_ns[order]),
        "wait_ns": Numbers(waits.wait_ns[order]),
        "transfer_ns": Numbers(waits.transfer_ns[order]),
        "wait_ratio": Numbers(waits.wait_ns[order] / np.maximum(kernel_ns, 1)),
        "median_behind_ns": Numbers(waits.median_behind_ns[order]),
        "collectives": Numbers(waits.collectives[order]),
        "pid": Numbers(_values(trace, "process", "pid")[waits.process[order]]),
        "gpu_index": Numbers(_values(trace, "device", "gpu_index")[waits.device[order]]),
    }
    notes = _notes(trace, collective_waits(run))
    return Result(
        ":".join((NAME, *arguments)), TITLE, FIELDS, values, ("rank", "pid", "gpu_index"), notes
    )


def _values(trace: Trace, table: str, column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return trace.columns(table, column)[column].values.astype(np.int64)


def _notes(trace: Trace, waits: CollectiveWaits) -> tuple[str, ...]:
    notes = list(waits.matches.notes)
    left_out = waits.matches.count - waits.count
    if left_out:
        notes.append(
            f"{plural(left_out, 'collective')} outside the included steps"
            f" {'is' if left_out == 1 else 'are'} excluded"
        )
    errors = file_errors(waits.matches, trace.meta.file_of_process)
    if waits.count and errors:
        notes.append(
            "the clocks of other files agree with the first file's within"
            f" {format_ns(max(errors.values()))}, for 90% of the ends of collectives"
        )
    together = waits.count - int(waits.is_late.sum())
    if together:
        notes.append(f"in {plural(together, 'collective')}, no rank is clearly last")
    return tuple(notes)
