"""Backtraces."""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import flag, number, text

CALL_FRAME = TableSpec(
    "call_frame",
    "One frame of a backtrace; depth 0 is the innermost.",
    (
        number("chain_id", "Id of the backtrace."),
        number("depth", "Distance from the innermost frame."),
        text("symbol", "Function name."),
        text("module", "Library or file."),
        flag("is_unresolved", "Whether the symbol could not be resolved."),
        number("address", "Instruction pointer.", nullable=True),
    ),
    ("chain_id", "depth"),
)

TABLES = (CALL_FRAME,)
