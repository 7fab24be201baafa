"""What the profiler says about the recording."""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import HOST_ORDER, SPAN, enum, ref, text, time
from warpline.schema.labels import SEVERITIES

OVERHEAD = TableSpec(
    "overhead",
    "One interval of overhead, as reported by the profiler.",
    (
        *SPAN,
        ref("thread_id", "thread", "Affected thread.", nullable=True),
        text("name", "Cause of the overhead."),
    ),
    HOST_ORDER,
)

DIAGNOSTIC = TableSpec(
    "diagnostic",
    "One message from the profiler about the recording.",
    (
        time("time_ns", "Time."),
        enum("severity", SEVERITIES, "Severity."),
        text("text", "Message."),
        ref("process_id", "process", "Affected process, if any.", nullable=True),
    ),
    ("time_ns", "severity"),
)

TABLES = (
    OVERHEAD,
    DIAGNOSTIC,
)
