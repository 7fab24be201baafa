"""Tables and columns that recordings of earlier versions hold, which readers convert."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import flag, number, text

CALL_FRAME = TableSpec(
    "call_frame",
    "One frame of a backtrace; now the tables stack and frame.",
    (
        number("chain_id", "Id of the backtrace."),
        number("depth", "Distance from the innermost frame."),
        text("symbol", "Function name."),
        text("module", "Library or file."),
        flag("is_unresolved", "Whether the symbol could not be resolved."),
        number("address", "Instruction pointer.", nullable=True),
    ),
)
CHAIN_ID = number("chain_id", "The rows of call_frame with this id; now stack_id.", nullable=True)

# Table -> its former columns.
FORMER: Mapping[str, TableSpec] = {
    CALL_FRAME.name: CALL_FRAME,
    **{name: TableSpec(name, "", (CHAIN_ID,)) for name in ("api_call", "os_call", "cpu_sample")},
}
