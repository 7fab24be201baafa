"""memory_timeline: memory in use over time."""

from __future__ import annotations

from warpline.derived.memory.allocations import ALLOCATORS, allocations
from warpline.derived.memory.places import (
    counting_notes,
    operators_of_allocations,
    pids_of,
    place_names,
)
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "memory_timeline"
TITLE = "Memory in use over time"
HINT = "profile with --pytorch=memory, --cuda-memory-usage=true, or torch.profiler(profile_memory)"
FIELDS = (
    Field("time_ns", Unit.NS, "Time of the allocation or free.", "Time (ns)"),
    Field("allocated_bytes", Unit.BYTES, "Bytes in use afterwards.", "Allocated (MB)", 1e-6, 3),
    Field(
        "reserved_bytes", Unit.BYTES, "Bytes reserved from the driver.", "Reserved (MB)", 1e-6, 3
    ),
    Field(
        "change_bytes", Unit.BYTES, "Bytes allocated; negative if freed.", "Change (MB)", 1e-6, 3
    ),
    Field("place", Unit.NONE, "GPU index, or Host.", "Place"),
    Field("memory", Unit.NONE, "Memory kind.", "Memory"),
    Field("allocator", Unit.NONE, "Allocator: Framework or Driver.", "Allocator"),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("address", Unit.ID, "Address of the block.", "Address"),
    Field("operator", Unit.NONE, "Outermost operator open on the thread.", "Operator"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event", "memory_event"),
    missing_hint=HINT,
)
def memory_timeline(trace: Trace, arguments: Arguments) -> Result:
    """Every allocation and free, with the bytes in use and reserved afterwards.

    What it measures: For each GPU and process, and for host memory, the time of each allocation
        and free, and the bytes in use and reserved afterwards.
    Why it matters: The timeline shows whether memory grows from step to step, when it peaks, and
        how much reserved memory is unused.
    How it is computed: One row per allocation or free, by time. Bytes in use are as recorded by the
        allocator. The driver does not record them: they are summed from the start of the
        recording, and a note lists the affected memory.
    Limits: The framework's allocator caches blocks that it gets from the driver. Where both are
        listed, they are the same memory, so do not add them. Recorded numbers include
        memory allocated before the recording. Summed numbers do not, and can be negative.
    Source: Warpline.
    """
    events, operators = allocations(trace), operators_of_allocations(trace)
    pool, pools = events.pool, events.pools
    columns: dict[str, Values] = {
        "time_ns": Numbers(events.time_ns),
        "allocated_bytes": Numbers(events.allocated_bytes),
        "reserved_bytes": Numbers(events.reserved_bytes, events.has_reserved),
        "change_bytes": Numbers(events.change_bytes),
        "place": labelled(pool, place_names(trace, pools)),
        "memory": labelled(pool, [each.memory for each in pools]),
        "allocator": labelled(pool, [ALLOCATORS[each.allocator] for each in pools]),
        "pid": Numbers(pids_of(trace, pools)[pool]),
        "address": Numbers(events.address, events.has_address),
        "operator": labelled(operators.name, operators.names, operators.found),
    }
    return Result(NAME, TITLE, FIELDS, columns, (), counting_notes(trace))
