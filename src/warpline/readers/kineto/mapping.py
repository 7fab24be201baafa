"""Which events become which table of a trace, and how their columns are made.

Columns that are not named here are null, or 0 where the trace allows no null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from warpline.ops.arrays import I64
from warpline.readers.kineto.device_fields import (
    copied_bytes,
    copy_kind,
    copy_memory,
    dimension,
    host_wait_rows,
    peer,
    short,
    stream_wait_rows,
    wait_kind,
)
from warpline.readers.kineto.fields import (
    Field,
    Reading,
    constant,
    context,
    correlation,
    device,
    end_ns,
    launcher,
    name,
    number,
    process,
    start_ns,
    stream,
    text,
    thread,
)
from warpline.readers.kineto.host_fields import (
    allocated_on,
    allocation,
    allocation_memory,
    api_kind,
    frame_kind,
    global_name,
    module_rows,
    range_domain,
    range_name,
    released_or_not,
    source_id,
)
from warpline.readers.kineto.kinds import Kind

RowsOf = Callable[[Reading], I64]


@dataclass(frozen=True)
class Mapped:
    """A table of a trace.

    Attributes:
        kinds: Events of these kinds are its rows.
        fields: Column -> its field.
        rows: Returns the rows, if not all events of the kinds belong to it.
    """

    kinds: tuple[Kind, ...]
    fields: Mapping[str, Field]
    rows: RowsOf | None = None


_SPAN: Mapping[str, Field] = {"start_ns": start_ns, "end_ns": end_ns}
_PLACE: Mapping[str, Field] = {
    "device_id": device,
    "context_id": context,
    "stream_id": stream,
    "process_id": launcher,
}
_CORRELATION: Mapping[str, Field] = {"correlation_id": correlation}
_NODE: Mapping[str, Field] = {"graph_node_id": number("graph node id", null=0)}
_CALL: Mapping[str, Field] = {**_SPAN, "process_id": process, "thread_id": thread}
_WAIT: Mapping[str, Field] = {
    **_SPAN,
    **_PLACE,
    **_CORRELATION,
    "event_id": number("wait_on_cuda_event_id", null=-1),
    # A wait names the call that recorded its event, as does the row of event_record.
    "event_sync_id": number("wait_on_cuda_event_record_corr_id", null=-1),
}

MAPPING: Mapping[str, Mapped] = {
    "kernel": Mapped(
        (Kind.KERNEL,),
        {
            **_SPAN,
            **_PLACE,
            **_CORRELATION,
            **_NODE,
            "name_id": name,
            "short_name_id": short,
            **{f"grid_{axis}": dimension("grid", place) for place, axis in enumerate("xyz")},
            **{f"block_{axis}": dimension("block", place) for place, axis in enumerate("xyz")},
            **{f"cluster_{axis}": dimension("cluster", place) for place, axis in enumerate("xyz")},
            "registers_per_thread": number("registers per thread"),
            "static_shared_bytes": number("static shared memory"),
            # The file holds only the sum of both.
            "dynamic_shared_bytes": number("dynamic shared memory", "shared memory"),
            "local_per_thread_bytes": number("local memory per thread"),
            "graph_id": number("graph id", null=0),
        },
    ),
    "memcpy": Mapped(
        (Kind.MEMCPY,),
        {
            **_SPAN,
            **_PLACE,
            **_CORRELATION,
            **_NODE,
            "bytes": copied_bytes,
            "kind": copy_kind,
            "src_memory": copy_memory(0),
            "dst_memory": copy_memory(1),
            "src_device_id": peer("fromDevice"),
            "dst_device_id": peer("toDevice"),
        },
    ),
    "memset": Mapped(
        (Kind.MEMSET,),
        {
            **_SPAN,
            **_PLACE,
            **_CORRELATION,
            **_NODE,
            "bytes": copied_bytes,
            "value": constant(0),
            "memory": copy_memory(0),
        },
    ),
    "api_call": Mapped(
        (Kind.RUNTIME, Kind.DRIVER),
        {
            **_CALL,
            **_CORRELATION,
            "name_id": name,
            "api": api_kind,
            "return_value": constant(0),
        },
    ),
    "host_wait": Mapped((Kind.WAIT,), {**_WAIT, "kind": wait_kind}, host_wait_rows),
    "stream_wait": Mapped((Kind.WAIT,), _WAIT, stream_wait_rows),
    "op": Mapped(
        (Kind.OP,),
        {
            **_CALL,
            "name_id": name,
            "external_id": number("External id", "external id"),
            "sequence": number("Sequence number", null=-1),
            "forward_thread": number("Fwd thread id"),
            "flops": number("flops", "Flops", "FLOPS", "FLOPs"),
            "input_shapes_id": text("Input Dims", "Input dims"),
            "input_dtypes_id": text("Input type"),
            "input_strides_id": text("Input Strides"),
            "input_values_id": text("Concrete Inputs"),
            "module_id": text("Module Hierarchy"),
            "stack_id": text("Call stack"),
        },
    ),
    "python_frame": Mapped(
        (Kind.PYTHON,),
        {
            **_CALL,
            "name_id": name,
            "kind": frame_kind,
            "frame_id": number("Python id"),
            "parent_frame_id": number("Python parent id", null=0),
            "module_number": number("Python module id"),
        },
    ),
    "range": Mapped(
        (Kind.ANNOTATION,),
        {
            **_CALL,
            "name_id": range_name,
            "domain_id": range_domain,
            "style": constant(0),
            "is_truncated": constant(0),
            "source_id": source_id,
        },
        module_rows,
    ),
    "mark": Mapped(
        (Kind.MARK,),
        {"time_ns": start_ns, "process_id": process, "thread_id": thread, "name_id": name},
    ),
    "allocator_event": Mapped(
        (Kind.ALLOCATION,),
        {
            "time_ns": start_ns,
            "process_id": process,
            "thread_id": thread,
            "memory": allocation_memory,
            "device_id": allocated_on,
            "operation": released_or_not,
            "bytes": allocation,
            "address": number("Addr"),
            "total_allocated_bytes": number("Total Allocated"),
            "total_reserved_bytes": number("Total Reserved"),
        },
    ),
    "overhead": Mapped((Kind.OVERHEAD,), {**_SPAN, "name_id": global_name}),
}
