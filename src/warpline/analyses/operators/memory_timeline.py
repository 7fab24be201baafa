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
HINT = "record with profile_memory=True in torch.profiler, or with --cuda-memory-usage=true"
FIELDS = (
    Field("time_ns", Unit.NS, "When it changed.", "Time (ns)"),
    Field("allocated_bytes", Unit.BYTES, "In use from then on.", "Allocated (MB)", 1e-6, 3),
    Field("reserved_bytes", Unit.BYTES, "Got from the driver by then.", "Reserved (MB)", 1e-6, 3),
    Field("change_bytes", Unit.BYTES, "Allocated, or negative: released.", "Change (MB)", 1e-6, 3),
    Field("place", Unit.NONE, "The GPU, or Host.", "Place"),
    Field("memory", Unit.NONE, "Kind of the memory.", "Memory"),
    Field("allocator", Unit.NONE, "Who allocated: Framework or Driver.", "Allocator"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("address", Unit.ID, "Address of the block.", "Address"),
    Field("operator", Unit.NONE, "Outermost operator that was running.", "Operator"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event", "memory_event"),
    missing_hint=HINT,
)
def memory_timeline(trace: Trace, arguments: Arguments) -> Result:
    """Each change of the memory in use, with what was in use and reserved afterwards.

    What it measures: For each GPU and process, and for the host, when blocks of memory were
        allocated and released, and how much was in use and reserved from then on.
    Why it matters: It shows whether memory grows from step to step, when the peak is reached,
        and how much of what the framework got from the driver it does not use.
    How it is computed: A row for each allocation and release, by time. What is in use is what
        the allocator recorded with it; where it recorded nothing, as the driver does, it is the
        sum since the recording began, and a note says so.
    Limits: The framework's allocator keeps blocks that it got from the driver: where both are
        listed, their bytes are the same memory and must not be added up. What a process got
        before the recording began is in recorded numbers, and not in counted ones, which may
        then fall below zero.
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
