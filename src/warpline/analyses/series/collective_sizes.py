"""collective_sizes: bandwidth of collectives by message size."""

from __future__ import annotations

import numpy as np

from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.collectives.matches import RECORD_HINT, cannot_match
from warpline.derived.collectives.ring import ring_factor
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.texts import labelled
from warpline.derived.work.device_peaks import device_peaks
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.bins import power_bins
from warpline.ops.group import distinct_values, factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "collective_sizes"
TITLE = "Collectives by message size"
FIELDS = (
    Field("operation", Unit.NONE, "Operation, such as all-reduce.", "Operation"),
    Field("ranks", Unit.COUNT, "Number of ranks compared.", "Ranks"),
    Field("least_bytes", Unit.BYTES, "Lower bound of the message sizes.", "From (B)"),
    Field("collectives", Unit.COUNT, "Number of collectives.", "Collectives"),
    Field("total_bytes", Unit.BYTES, "Sum of the message sizes.", "Total (B)"),
    Field("intrinsic_ns", Unit.NS, "Sum of their intrinsic times.", "Intrinsic (ns)"),
    Field("median_intrinsic_ns", Unit.NS, "Median intrinsic time.", "Med Intrinsic (ns)", digits=1),
    Field(
        "algorithm_bytes_per_s",
        Unit.BYTES_PER_S,
        "Message size divided by intrinsic time.",
        "Algorithm Bandwidth (B/s)",
        digits=0,
    ),
    Field(
        "bus_bytes_per_s",
        Unit.BYTES_PER_S,
        "What a ring moves over each rank's link per second.",
        "Bus Bandwidth (B/s)",
        digits=0,
    ),
    Field(
        "link_bytes_per_s",
        Unit.BYTES_PER_S,
        "Peak of the GPU's NVLink, per direction.",
        "Link (B/s)",
        digits=0,
    ),
    Field("event", Unit.NONE, "The last kernel of the slowest.", "Event", is_detail=True),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments=STEP_ARGUMENT,
    missing_hint=RECORD_HINT,
)
def collective_sizes(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Time and bandwidth of collectives by operation and message size.

    What it measures: For each operation, number of ranks and bin of message sizes, the number of
        collectives in the included steps, their time without waiting, and their bandwidth.
    Why it matters: Small messages take a fixed time, large ones reach the bandwidth of the link.
        The size at which the bandwidth bends says how large buckets have to be.
    How it is computed: Bins of sizes are factors of two. The intrinsic time lasts from the last
        rank's start to the last rank's end. Algorithm bandwidth is the sum of the sizes divided by
        the sum of these times. Bus bandwidth is what a ring moves over each link: 2 (n - 1) / n
        times as much for an all-reduce, n - 1 times for an all-gather or a reduce-scatter, whose
        size is one rank's part. The link is NVLink, from the GPU's data sheet.
    Limits: As for table stragglers. Messages of unknown size are not included. Compute that
        overlaps with a transfer slows it down. In-switch reductions move less than a ring, and
        ranks on several hosts use slower links than NVLink.
    Source: Warpline.
    """
    run = run_of(trace, arguments)
    skipped = cannot_match(trace, NAME)
    if skipped is not None:
        return skipped
    waits = collective_waits(run)
    heads = np.flatnonzero(np.diff(waits.collective, prepend=-1))
    kinds = collective_kinds(trace, waits.operation[heads])
    ranks = np.diff(np.append(heads, len(waits.collective)))
    intrinsic = np.zeros(len(heads), np.int64)
    np.maximum.at(intrinsic, waits.collective, waits.transfer_ns)
    rows = np.flatnonzero((kinds.bytes > 0) & (intrinsic > 0))
    if not len(rows):
        return Skipped(NAME, "no message sizes were recorded", RECORD_HINT)
    size, took = kinds.bytes[rows], intrinsic[rows]
    least = power_bins(size, 1)
    groups = factorize_rows(kinds.operation[rows], ranks[rows], least)
    codes, n, first = groups.codes.astype(np.int64), groups.n_groups, groups.first
    times, total = group_stats(codes, took, n), group_stats(codes, size, n).sum
    slowest = np.zeros(n, np.int64)
    by_time = np.lexsort((-np.arange(len(took)), took))
    slowest[codes[by_time]] = by_time
    last = waits.operation[waits.last[rows[slowest]]]
    rate = total * 1e9 / times.sum
    operation, width = kinds.operation[rows][first], ranks[rows][first]
    factor = np.array(
        [ring_factor(kinds.operations[o], w) for o, w in zip(operation, width, strict=True)]
    )
    link = _link(trace, waits.operation)
    work = operations(trace)
    values: dict[str, Values] = {
        "operation": labelled(operation, kinds.operations),
        "ranks": Numbers(width),
        "least_bytes": Numbers(least[first]),
        "collectives": Numbers(times.count),
        "total_bytes": Numbers(total),
        "intrinsic_ns": Numbers(times.sum),
        "median_intrinsic_ns": Numbers(times.median),
        "algorithm_bytes_per_s": Numbers(rate),
        "bus_bytes_per_s": Numbers(rate * factor, factor > 0),
        "link_bytes_per_s": Numbers(np.full(n, link), np.full(n, link > 0)),
        "event": Texts(
            np.arange(n, dtype=np.int32), [f"kernel:{row}" for row in work.row[last].tolist()]
        ),
    }
    name = ":".join((NAME, *arguments))
    key = ("operation", "ranks", "least_bytes")
    return Result(name, TITLE, FIELDS, values, key, waits.matches.notes)


def _link(trace: Trace, places: I64) -> int:
    """Return the lowest NVLink bandwidth of the GPUs of some operations; 0 if one is unknown."""
    devices = distinct_values(operations(trace).device[places]).tolist()
    peaks = [device_peaks(trace, device) for device in devices]
    return min((peak.nvlink_bytes_per_s or 0 if peak else 0 for peak in peaks), default=0)
