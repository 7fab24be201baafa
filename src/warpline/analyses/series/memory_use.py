"""memory_use: memory in use over time, in equal intervals."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.allocations import ALLOCATORS, allocations
from warpline.derived.memory.places import counting_notes, pids_of, place_names
from warpline.derived.texts import labelled
from warpline.ops.bins import equal_bins
from warpline.ops.group import factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "memory_use"
TITLE = "Memory in use over time, in intervals"
HINT = "profile with --pytorch=memory, --cuda-memory-usage=true, or torch.profiler(profile_memory)"
FIELDS = (
    Field("place", Unit.NONE, "GPU index, or Host.", "Place"),
    Field("memory", Unit.NONE, "Memory kind.", "Memory"),
    Field("allocator", Unit.NONE, "Allocator: Framework or Driver.", "Allocator"),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("start_ns", Unit.NS, "Start of the interval.", "Start (ns)"),
    Field("end_ns", Unit.NS, "End of the interval.", "End (ns)"),
    Field("changes", Unit.COUNT, "Allocations and frees in it.", "Changes"),
    Field("max_bytes", Unit.BYTES, "Most bytes in use after one.", "Max (MB)", 1e-6, 3),
    Field("last_bytes", Unit.BYTES, "Bytes in use after the last one.", "Last (MB)", 1e-6, 3),
    Field("reserved_bytes", Unit.BYTES, "Most bytes reserved.", "Reserved (MB)", 1e-6, 3),
    Field("time_ns", Unit.NS, "When most bytes are in use.", "Time of Max (ns)", is_detail=True),
)
_INTERVALS = 400


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event", "memory_event"),
    missing_hint=HINT,
)
def memory_use(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Memory in use over time, in equal intervals.

    What it measures: For each GPU and kind of memory, and for host memory, the most bytes in use
        and reserved in each of up to 400 equal intervals.
    Why it matters: It shows when memory peaks, whether it grows from step to step, and how much of
        the reserved memory is unused, without a row per allocation.
    How it is computed: From the rows of table memory_timeline. Intervals without an allocation or
        free are not listed: there, the bytes in use are those of the last listed one. Intervals run
        from the first allocation or free to the last.
    Limits: Those of table memory_timeline.
    Source: Warpline.
    """
    events = allocations(trace)
    if not len(events):
        return Skipped(NAME, "no allocations in the trace", HINT)
    bins = equal_bins(int(events.time_ns[0]), int(events.time_ns[-1]) + 1, _INTERVALS)
    groups = factorize_rows(events.pool, bins.of(events.time_ns))
    first, n = groups.first, groups.n_groups
    codes, rows = groups.codes, np.arange(len(events))
    # The last assignment counts: the first of the largest, and the last in time.
    top, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
    by_size = np.lexsort((-rows, events.allocated_bytes))
    top[codes[by_size]] = by_size
    last[codes] = rows
    reserved = np.zeros(n, np.int64)
    np.maximum.at(reserved, codes, np.where(events.has_reserved, events.reserved_bytes, 0))
    has_reserved = np.bincount(codes, events.has_reserved, n) > 0
    pool, pools, edges = events.pool[first], events.pools, bins.edges_ns
    place = bins.of(events.time_ns[first])
    values: dict[str, Values] = {
        "place": labelled(pool, place_names(trace, pools)),
        "memory": labelled(pool, [each.memory for each in pools]),
        "allocator": labelled(pool, [ALLOCATORS[each.allocator] for each in pools]),
        "pid": Numbers(pids_of(trace, pools)[pool]),
        "start_ns": Numbers(edges[place]),
        "end_ns": Numbers(edges[place + 1]),
        "changes": Numbers(np.bincount(codes, minlength=n)),
        "max_bytes": Numbers(events.allocated_bytes[top]),
        "last_bytes": Numbers(events.allocated_bytes[last]),
        "reserved_bytes": Numbers(reserved, has_reserved),
        "time_ns": Numbers(events.time_ns[top]),
    }
    key = ("allocator", "place", "memory", "pid", "start_ns")
    return Result(NAME, TITLE, FIELDS, values, key, counting_notes(trace))
