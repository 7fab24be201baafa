"""Modules of a report: machine code with its source lines, and the imported source."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from warpline.cubins.elf import Cubin
from warpline.cubins.instructions import FunctionCode
from warpline.cubins.line_table import CubinError, Place
from warpline.errors import CorruptTraceError
from warpline.readers.ncu.report import AGAIN, Entry, Report
from warpline.readers.ncu.wire import Message, WireError
from warpline.schema.labels import SOURCE_KINDS

SOURCE, PTX = (
    next(n for n, label in SOURCE_KINDS.items() if label == name) for name in ("source", "ptx")
)
_LARGEST = 1 << 62  # address: with an offset, it fits 64 bits

SourceLine = tuple[int, int, bytes | None, int, int, bytes]
"""Module, kind, file, number of the file, line and text."""

InstructionRow = tuple[
    int, bytes, int, int, bytes, bytes | None, int | None, bytes | None, int | None, int | None
]
"""Process, function, offset, address, bits, file, line, file and line of the caller of inlined
code, and row of the line of PTX."""


def instructions(report: Report, sources: Sequence[SourceLine]) -> Iterator[InstructionRow]:
    """Yield the instructions of the functions whose addresses a report has.

    Args:
        report: The report.
        sources: Its source lines.

    Raises:
        CorruptTraceError: A module is damaged.
    """
    ptx_rows = {(line[0], line[4]): row for row, line in enumerate(sources) if line[1] == PTX}
    # A module that is used again comes again, with the addresses of more functions.
    codes: dict[tuple[int, int], tuple[int, Entry, bytes]] = {}
    functions: dict[tuple[int, int], dict[int, bytes]] = {}
    for number, (entry, module) in enumerate(_modules(report)):
        with report.damage(f"the module at byte {entry.start:,}"):
            key = entry.process, module.integer(1) or 0
            cubin = module.raw(4)
            if cubin:
                codes[key] = number, entry, cubin
            for function in module.message(9).messages(1):
                address = function.number(2)
                if address >= _LARGEST:
                    raise WireError(f"a function has the address {address}")
                functions.setdefault(key, {})[address] = function.raw(1) or b""
    for key, (number, entry, data) in codes.items():
        try:
            code = FunctionCode(Cubin(data))
            for address, name in functions.get(key, {}).items():
                for found in code.of(name):
                    ptx = None if found.ptx_line is None else ptx_rows.get((number, found.ptx_line))
                    yield (
                        *(entry.process, name, found.offset, address + found.offset, found.bits),
                        *(*_file_and_line(found.place), *_file_and_line(found.caller), ptx),
                    )
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
            # The lines of the cubin's own PTX are those that its instructions refer to.
            lines = (Cubin(code).ptx if code else []) or (ptx or b"").splitlines()
        except CubinError as error:
            raise _damaged(report, entry, error) from None
        for line, words in enumerate(lines, 1):
            yield number, PTX, None, len(texts), line, words


def _modules(report: Report) -> Iterator[tuple[Entry, Message]]:
    for entry in report.entries:
        if entry.kind == "module":
            yield entry, report.message(entry)


def _file_and_line(place: Place | None) -> tuple[bytes | None, int | None]:
    return (None, None) if place is None else (place[0] or None, place[1])


def _damaged(report: Report, entry: Entry, error: CubinError) -> CorruptTraceError:
    return CorruptTraceError(
        f"{report.path}: the code of the module at byte {entry.start:,} is damaged: {error}",
        hint=AGAIN,
    )
