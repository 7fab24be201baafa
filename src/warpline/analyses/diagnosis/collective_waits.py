"""collective_waits: waiting and transfer time of each kind of collective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.collectives.matches import RECORD_HINT, cannot_match
from warpline.derived.collectives.waits import CollectiveWaits, collective_waits
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.texts import labelled
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "collective_waits"
TITLE = "Waiting and transfer in collectives"
FIELDS = (
    Field("operation", Unit.NONE, "Operation, such as all-reduce.", "Operation"),
    Field("communicator", Unit.NONE, "Communicator, as recorded.", "Communicator"),
    Field("ranks", Unit.COUNT, "Number of ranks compared.", "Ranks"),
    Field("collectives", Unit.COUNT, "Number of collectives.", "Collectives"),
    Field("kernel_ns", Unit.NS, "Total kernel time of all ranks.", "Kernel Time (ns)"),
    Field("wait_ns", Unit.NS, "Time spent waiting for the last rank.", "Waited (ns)"),
    Field("transfer_ns", Unit.NS, "The remaining time: transfer.", "Transfer (ns)"),
    Field("wait_ratio", Unit.RATIO, "Share of waiting.", "Waiting (%)", 100.0, 1),
    Field(
        "median_skew_ns",
        Unit.NS,
        "Median time from the first to the last rank's arrival.",
        "Med Skew (ns)",
        digits=1,
    ),
    Field("max_skew_ns", Unit.NS, "Longest such time.", "Max Skew (ns)"),
    Field(
        "median_intrinsic_ns",
        Unit.NS,
        "Median time from the last rank's arrival to the end.",
        "Med Intrinsic (ns)",
        digits=1,
    ),
    Field("bytes", Unit.BYTES, "Total size of messages of known size.", "Bytes"),
    Field(
        "algorithm_bytes_per_s",
        Unit.BYTES_PER_S,
        "Message size divided by intrinsic time.",
        "Algorithm Bandwidth (B/s)",
        digits=0,
    ),
)
_KEY = ("operation", "communicator", "ranks")


class _Collectives(NamedTuple):
    """One row per collective.

    Attributes:
        kernel_ns: Shape (n,), int64, over all ranks.
        wait_ns: Shape (n,), int64, over all ranks.
        ranks: Shape (n,), int64.
        skew_ns: Shape (n,), int64, from the first arrival to the last.
        intrinsic_ns: Shape (n,), int64, from the last arrival to the last end.
    """

    kernel_ns: I64
    wait_ns: I64
    ranks: I64
    skew_ns: I64
    intrinsic_ns: I64


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments=STEP_ARGUMENT,
    missing_hint=RECORD_HINT,
)
def collective_waits_table(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Waiting and transfer time of each kind of collective.

    What it measures: By operation and communicator, the kernel time of all ranks, divided into
        waiting for the last rank and transfer, and the skew between the ranks' arrivals, in the
        included steps.
    Why it matters: A collective kernel runs from the arrival of its own rank, so its duration says
        little about the network. If most of it is waiting, a faster network or another algorithm
        does not help: balance the ranks (see table stragglers). If most of it is transfer, look
        at message sizes, algorithms and overlap.
    How it is computed: As in table stragglers: a kernel waits until the last rank's kernel starts,
        and the rest is transfer. The intrinsic time lasts from there to the last rank's end.
        Algorithm bandwidth is message size divided by intrinsic time, for messages of known size.
        The bandwidth of a link is a multiple that depends on the operation and the ranks.
    Limits: As for table stragglers. Compute that overlaps with a transfer slows it down.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    skipped = cannot_match(trace, NAME)
    if skipped is not None:
        return skipped
    waits = collective_waits(run)
    each = _collectives(waits)
    first = np.flatnonzero(np.diff(waits.collective, prepend=-1))
    kinds = collective_kinds(trace, waits.operation[first])
    groups = factorize_rows(kinds.operation, kinds.communicator, each.ranks)
    codes, n = groups.codes.astype(np.int64), groups.n_groups
    kernel, wait = (group_stats(codes, ns, n).sum for ns in (each.kernel_ns, each.wait_ns))
    skew, intrinsic = (group_stats(codes, ns, n) for ns in (each.skew_ns, each.intrinsic_ns))
    size, is_sized, rate = _rates(kinds.bytes, each.intrinsic_ns, codes, n)
    order = np.argsort(-kernel, kind="stable")
    first = groups.first[order]
    values: dict[str, Values] = {
        "operation": labelled(kinds.operation[first], kinds.operations),
        "communicator": labelled(kinds.communicator[first] + 1, [None, *kinds.communicators]),
        "ranks": Numbers(each.ranks[first]),
        "collectives": Numbers(skew.count[order]),
        "kernel_ns": Numbers(kernel[order]),
        "wait_ns": Numbers(wait[order]),
        "transfer_ns": Numbers((kernel - wait)[order]),
        "wait_ratio": Numbers(wait[order] / np.maximum(kernel[order], 1)),
        "median_skew_ns": Numbers(skew.median[order]),
        "max_skew_ns": Numbers(skew.max[order]),
        "median_intrinsic_ns": Numbers(intrinsic.median[order]),
        "bytes": Numbers(size[order], is_sized[order]),
        "algorithm_bytes_per_s": Numbers(rate[order], is_sized[order]),
    }
    notes = waits.matches.notes
    return Result(":".join((NAME, *arguments)), TITLE, FIELDS, values, _KEY, notes)


def _collectives(waits: CollectiveWaits) -> _Collectives:
    first = np.flatnonzero(np.diff(waits.collective, prepend=-1))
    if not len(first):
        return _Collectives(*(np.zeros(0, np.int64) for _ in range(5)))
    wait = np.add.reduceat(waits.wait_ns, first)
    arrived = np.minimum.reduceat(waits.arrival_ns, first)
    latest = waits.arrival_ns[waits.last]
    # A kernel can end before the last rank arrives due to clock errors: its transfer time is 0.
    return _Collectives(
        wait + np.add.reduceat(waits.transfer_ns, first),
        wait,
        np.diff(np.append(first, len(waits.collective))),
        latest - arrived,
        np.maximum.reduceat(waits.transfer_ns, first),
    )


def _rates(
    size: I64, intrinsic_ns: I64, codes: I64, n: int
) -> tuple[I64, BoolArray, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return total bytes, whether any are known, and bytes per second of each group."""
    known = (size >= 0) & (intrinsic_ns > 0)
    total, took = (
        group_stats(codes, np.where(known, part, 0), n).sum for part in (size, intrinsic_ns)
    )
    is_sized = np.bincount(codes, known, n) > 0
    return total, is_sized, total * 1e9 / np.maximum(took, 1)
