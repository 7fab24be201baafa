"""The text of recorded machine code, where nvdisasm is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice, pairwise

import numpy as np

from warpline.cubins.disassembly import disassemble
from warpline.cubins.instructions import INSTRUCTION_BYTES
from warpline.derived.code.functions import functions
from warpline.derived.code.values import NO_ROW
from warpline.documents.table_rows import Rows
from warpline.ops.arrays import I64
from warpline.trace import Trace

NO_CODE = "the machine code was not recorded"

_NO_DEVICE = "SASS is not shown: the compute capability of the GPU is unknown"

Capability = tuple[int, int]

Sass = tuple[tuple[str, ...] | None, str]
"""Text of each instruction and nothing; or None, and why there is none."""


def sass(trace: Trace, codes: Sequence[tuple[I64, Capability | None]]) -> list[Sass]:
    """Return the text of the instructions of functions.

    Args:
        trace: The trace.
        codes: Of each kernel, rows of `kernel_instruction` by function and offset, `NO_ROW` after
            those that are known, and the compute capability of its GPU; None if unknown.

    Returns:
        The texts of the instructions of each kernel that are known.
    """
    found: list[Sass] = [(None, _NO_DEVICE)] * len(codes)
    by_chip: dict[Capability, dict[int, list[bytes]]] = {}
    for place, (rows, capability) in enumerate(codes):
        bits = _bits(trace, rows[rows != NO_ROW])
        if bits is None:
            found[place] = None, NO_CODE
        elif capability is not None:
            by_chip.setdefault(capability, {})[place] = bits
    for capability, of_chip in by_chip.items():
        made = disassemble([*chain.from_iterable(of_chip.values())], capability)
        texts = None if made.texts is None else iter(made.texts)
        for place, of_functions in of_chip.items():
            found[place] = None, made.note or ""
            if texts is not None:
                of_kernel = chain.from_iterable(islice(texts, len(of_functions)))
                found[place] = tuple(of_kernel), ""
    return found


def capabilities_of(trace: Trace) -> Callable[[int | None], Capability | None]:
    """Return what finds the compute capability of a row of `device`.

    Without a row it is that of all GPUs, if they are alike.
    """
    devices = Rows(trace, "device")
    known = [
        None if major is None else (major, minor or 0)
        for major, minor in zip(devices["compute_major"], devices["compute_minor"], strict=True)
    ]
    shared = known[0] if len(set(known)) == 1 else None
    return lambda row: shared if row is None else known[row]


def encodings(trace: Trace, rows: I64) -> list[str | None]:
    """Return the bits of instructions in hexadecimal; None for those that are not recorded.

    Args:
        trace: The trace.
        rows: Rows of `kernel_instruction`, or `NO_ROW`, shape (n,).
    """
    known = rows[rows != NO_ROW]
    if not len(known):
        return [None] * len(rows)
    column = trace.columns("kernel_instruction", "encoding_id")["encoding_id"].take(known)
    texts = iter([None if row is None else trace.strings.text(row) for row in column.to_list()])
    return [None if row == NO_ROW else next(texts) for row in rows.tolist()]


def _bits(trace: Trace, rows: I64) -> list[bytes] | None:
    """Return the bits of the instructions of each function; None if some are not recorded."""
    if not len(rows):
        return None
    try:
        bits = [bytes.fromhex(text or "") for text in encodings(trace, rows)]
    except ValueError:
        return None
    if any(len(of) != INSTRUCTION_BYTES for of in bits):
        return None
    of_function = functions(trace).of_row[rows]
    starts = [0, *(np.flatnonzero(np.diff(of_function)) + 1).tolist(), len(bits)]
    return [b"".join(bits[first:last]) for first, last in pairwise(starts)]
