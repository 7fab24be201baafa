"""Stacks: chains of callers, of API calls, of samples and of anything else that has one.

The tables form a tree, in which a frame is stored once and stacks share their callers.
"""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import enum, flag, number, ref, text
from warpline.schema.labels import CODE_KINDS

STACK = TableSpec(
    "stack",
    "One stack: a frame and the stack of its caller. Stacks share the rows of equal callers.",
    (
        ref(
            "parent_id",
            "stack",
            "Stack of the caller, an earlier row; null for the outermost frame.",
            nullable=True,
        ),
        ref("frame_id", "frame", "Innermost frame."),
        number("depth", "Number of callers; 0 for the outermost frame."),
    ),
)

FRAME = TableSpec(
    "frame",
    "One frame of stacks: a function, at one address if that was recorded.",
    (
        text("symbol", "Function name."),
        text("module", "Library or program; the file of Python code."),
        text(
            "file",
            "Source file of native code, where its line is known; null for Python code.",
            nullable=True,
        ),
        number("line", "Line in the file.", nullable=True),
        enum("kind", CODE_KINDS, "Kind of code."),
        flag("is_unresolved", "Whether the symbol could not be resolved."),
        number("address", "Instruction pointer.", nullable=True),
    ),
)

TABLES = (STACK, FRAME)
