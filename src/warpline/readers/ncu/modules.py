"""Modules of a report: machine code with its source lines, and the imported source."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterator

from warpline.errors import CorruptTraceError
from warpline.readers.ncu.cubin import INSTRUCTION_BYTES, Cubin
from warpline.readers.ncu.line_table import CubinError
from warpline.readers.ncu.report import AGAIN, Entry, Report
from warpline.readers.ncu.wire import Message, WireError
from warpline.schema.labels import SOURCE_KINDS

SOURCE, PTX = (
    next(n for n, label in SOURCE_KINDS.items() if label == name) for name in ("source", "ptx")
)
_MOST_LINE = 1 << 31
_LARGEST = 1 << 62  # address: with an offset, it fits 64 bits

Instruction = tuple[int, bytes, int, int, bytes, bytes | None, int | None]
"""Process, function, offset, address, bits, file and line."""

SourceLine = tuple[int, int, bytes | None, int, int, bytes]
"""Module, kind, file, number of the file, line and text."""


def instructions(report: Report) -> Iterator[Instruction]:
    """Yield the instructions of the functions whose addresses a report has.

    Raises:
        CorruptTraceError: A module is damaged.
    """
    # A module that is used again comes again, with the addresses of more functions.
    codes: dict[tuple[int, int], tuple[Entry, bytes]] = {}
    functions: dict[tuple[int, int], dict[int, bytes]] = {}
    for entry, module in _modules(report):
        with report.damage(f"the module at byte {entry.start:,}"):
            key = entry.process, module.integer(1) or 0
            code = module.raw(4)
            if code:
                codes[key] = entry, code
            for function in module.message(9).messages(1):
                address = function.number(2)
                if address >= _LARGEST:
                    raise WireError(f"a function has the address {address}")
                functions.setdefault(key, {})[address] = function.raw(1) or b""
    for key, (entry, code) in codes.items():
        try:
            cubin = Cubin(code)
            lines = cubin.lines()
            for address, name in functions.get(key, {}).items():
                for offset, bits, file, line in _of_function(cubin, name, lines.get(name, [])):
                    yield entry.process, name, offset, address + offset, bits, file, line
        except CubinError as error:
            raise _damaged(report, entry, error) from None


def source_lines(report: Report) -> Iterator[SourceLine]:
    """Yield the lines of imported source files and of PTX.

    Raises:
        CorruptTraceError: A module is damaged.
    """
    for number, (entry, module) in enumerate(_modules(report)):
        with report.damage(f"the module at byte {entry.start:,}"):
            files = module.message(8).messages(1)
            texts = [(posixpath.normpath(file.raw(1) or b""), file.raw(2) or b"") for file in files]
            ptx, code = module.raw(3), module.raw(4)
        for place, (path, text) in enumerate(texts):
            for line, words in enumerate(text.splitlines(), 1):
                yield number, SOURCE, path, place, line, words
        try:
            lines = ptx.splitlines() if ptx else Cubin(code).ptx if code else []
        except CubinError as error:
            raise _damaged(report, entry, error) from None
        for line, words in enumerate(lines, 1):
            yield number, PTX, None, len(texts), line, words


def _modules(report: Report) -> Iterator[tuple[Entry, Message]]:
    for entry in report.entries:
        if entry.kind == "module":
            yield entry, report.message(entry)


def _of_function(
    cubin: Cubin, name: bytes, lines: list[tuple[int, bytes, int]]
) -> Iterator[tuple[int, bytes, bytes | None, int | None]]:
    """Yield offset, bits, file and line of the instructions of a function."""
    code = cubin.code(name) or b""
    starts = [offset for offset, _, _ in lines]
    for offset in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES):
        # Of several rows for one place, the last is the innermost of inlined functions.
        place = bisect_right(starts, offset) - 1
        _, file, line = lines[place] if place >= 0 else (0, None, None)
        is_known = line is not None and 0 < line < _MOST_LINE
        bits = code[offset : offset + INSTRUCTION_BYTES]
        path = posixpath.normpath(file) if is_known and file else None
        yield offset, bits, path, line if is_known else None


def _damaged(report: Report, entry: Entry, error: CubinError) -> CorruptTraceError:
    return CorruptTraceError(
        f"{report.path}: the code of the module at byte {entry.start:,} is damaged: {error}",
        hint=AGAIN,
    )
