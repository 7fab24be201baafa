"""What programs say about themselves: NVTX ranges and marks, with their payloads."""

from __future__ import annotations

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.declaring import SPAN, enum, flag, number, ref, text, time
from warpline.schema.labels import RANGE_STYLES
from warpline.units import Unit

MODULE_DOMAIN = "nn.Module"  # of the ranges that are calls of PyTorch modules
COMPILED_DOMAIN = "torch.compile"  # of those that are calls of compiled graphs

RANGE = TableSpec(
    "range",
    "One NVTX range or framework annotation: a named interval on a CPU thread.",
    (
        *SPAN,
        ref("process_id", "process", "Process."),
        ref("thread_id", "thread", "Thread that opened the range."),
        ref("end_thread_id", "thread", "Thread that closed it, if different.", nullable=True),
        text("domain", "NVTX domain; null is the default domain.", nullable=True),
        text("name", "Name.", nullable=True),
        text("category", "Category name, or its number if unnamed.", nullable=True),
        number("color", "Color as 0xAARRGGBB.", nullable=True),
        enum("style", RANGE_STYLES, "Push/pop or start/end."),
        flag("is_truncated", "Whether its process, thread or recording ended before the range."),
        number("source_id", "Row in the file, shown by nsys as RangeId."),
    ),
    ("start_ns", "end_ns", "thread_id", "source_id"),
)

RANGE_PAYLOAD = TableSpec(
    "range_payload",
    "One NVTX payload value of a range or a mark. Exactly one of the value columns is valid.",
    (
        ref("range_id", "range", "Range of the payload.", nullable=True),
        ref("mark_id", "mark", "Mark of the payload.", nullable=True),
        text("key", "Name of the value; 'payload' if unnamed."),
        number("int_value", "Integer; unsigned 64-bit values wrap.", nullable=True),
        Column("float_value", DType.FLOAT64, Unit.NONE, "Floating-point value.", nullable=True),
        text("text", "Text, or JSON as recorded.", nullable=True),
    ),
    ("range_id", "mark_id"),
)

MARK = TableSpec(
    "mark",
    "One NVTX mark: a named instant.",
    (
        time("time_ns", "Time."),
        ref("process_id", "process", "Process."),
        ref("thread_id", "thread", "Thread."),
        text("domain", "NVTX domain; null is the default domain.", nullable=True),
        text("name", "Name.", nullable=True),
        text("category", "Category name, or its number if unnamed.", nullable=True),
        number("color", "Color as 0xAARRGGBB.", nullable=True),
    ),
    ("time_ns", "thread_id"),
)

TABLES = (
    RANGE,
    RANGE_PAYLOAD,
    MARK,
)
