"""Tables of the code of sampled kernels: their instructions and source lines.

The agent keeps modules as the files cubins/CHECKSUM.cubin of the session.
"""

from __future__ import annotations

import posixpath
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from warpline.capture.finishing.draft import Made, Packed
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.source_files import SourceFiles, read_file
from warpline.capture.session.facts import Facts
from warpline.cubins.elf import Cubin
from warpline.cubins.instructions import INSTRUCTION_BYTES, FunctionCode, Instruction
from warpline.cubins.line_table import CubinError, Place
from warpline.schema import TABLES, DType
from warpline.schema.labels import SOURCE_KINDS
from warpline.units import plural

FOLDER = "cubins"

_SOURCE, _PTX = (
    next(number for number, word in SOURCE_KINDS.items() if word == kind)
    for kind in ("source", "ptx")
)
_CHECKSUMS = 1 << 64
_LARGEST_CUBIN = 1 << 30
_MOST_INSTRUCTIONS = 2_000_000
_NEAR_LINES = 20  # of PTX that are kept before and after those of a function
_TYPES = {DType.INT64: "q", DType.INT32: "i", DType.UINT16: "H"}

Sampled = Mapping[int, Mapping[int, tuple[int, set[int]]]]
"""Checksum -> number of the function's name -> its first process, and the offsets with samples."""


def make_code(
    folder: Path, session: RawSession, facts: Facts, warnings: list[str]
) -> dict[str, Made]:
    """Return the tables `kernel_instruction` and `source_line` of a sealed session.

    Functions have rows once, whatever number of processes ran them.

    Args:
        folder: The session directory.
        session: The decoded logs.
        facts: The facts of the session.
        warnings: Takes warnings about what is missing.
    """
    if not (folder / FOLDER).is_dir():
        return {}
    code = _Code(session, _directory(facts))
    for module, (checksum, functions) in enumerate(sorted(_sampled(session).items())):
        path = folder / FOLDER / f"{checksum % _CHECKSUMS:016x}.cubin"
        data = read_file(path, _LARGEST_CUBIN)
        if not data:  # which modules were not kept is in the logs
            continue
        try:
            code.add_module(module, checksum, Cubin(data), functions)
        except CubinError as error:
            warnings.append(f"the code of module {path.stem} is damaged: {error}")
    if code.left_out:
        warnings.append(
            f"the code of {plural(code.left_out, 'sampled function')} is not in the recording:"
            f" it is limited to {_MOST_INSTRUCTIONS:,} instructions"
        )
    code.add_sources(warnings)
    return code.tables()


def _directory(facts: Facts) -> str | None:
    """Return the working directory of the program; None if its source files are not wanted."""
    options, directory = facts.get("options"), facts.get("directory")
    if isinstance(options, dict) and options.get("import_source") is False:
        return None
    return directory if isinstance(directory, str) else "/"


def _sampled(session: RawSession) -> Sampled:
    """Return the functions that have samples."""
    count = session.rows("pc_sample")

    def column(name: str, kind: str) -> array[int]:
        values = array(kind)
        for piece in session.values(f"pc_sample/{name}", count, values.itemsize):
            values.frombytes(piece)
        return values

    found: dict[int, dict[int, tuple[int, set[int]]]] = {}
    for process, checksum, function, offset in zip(
        column("process_id", "i"),
        column("module_checksum", "q"),
        column("function_id", "i"),
        column("offset_bytes", "q"),
        strict=True,
    ):
        functions = found.setdefault(checksum, {})
        functions.setdefault(function, (process, set()))[1].add(offset)
    return found


class _Code:
    """Rows of instructions and source lines.

    Args:
        session: Takes their texts.
        directory: What relative paths of source files start from; None leaves lines out.
    """

    def __init__(self, session: RawSession, directory: str | None) -> None:
        self._session = session
        self._keeps_lines = directory is not None
        self._files = SourceFiles(directory or "/")
        self._instructions: list[_Row] = []
        self._lines: list[_Row] = []
        self._ptx: dict[tuple[int, int], int] = {}  # module and line -> row
        self._text = cache(lambda raw: session.intern(raw.decode("utf-8", "replace")))
        self.left_out = 0

    def add_module(
        self,
        module: int,
        checksum: int,
        cubin: Cubin,
        functions: Mapping[int, tuple[int, set[int]]],
    ) -> None:
        """Add the sampled functions of a module.

        Raises:
            CubinError: It is damaged.
        """
        code, ptx = FunctionCode(cubin), cubin.ptx
        for name, (process, sampled) in functions.items():
            function = self._session.text(name).encode("utf-8", "replace")
            size = len(cubin.code(function) or b"") // INSTRUCTION_BYTES
            if len(self._instructions) + size > _MOST_INSTRUCTIONS:
                self.left_out += 1
                continue
            found = list(code.of(function))
            if self._keeps_lines:
                self._add_ptx(module, ptx, [of.ptx_line for of in found if of.ptx_line])
            for of in found:
                if of.offset in sampled:
                    self._add_files(module, of)
                row = None if of.ptx_line is None else self._ptx.get((module, of.ptx_line))
                encoding = self._session.intern(of.bits.hex())
                places = *self._place(of.place), *self._place(of.caller)
                self._instructions.append(
                    (process, checksum, name, of.offset, encoding, *places, row)
                )

    def add_sources(self, warnings: list[str]) -> None:
        """Add the source files; `warnings` takes what is missing."""
        if self._keeps_lines:
            for number, (path, module, lines) in enumerate(self._files.read(warnings), 1):
                for line, words in enumerate(lines, 1):
                    place = self._text(posixpath.normpath(path)), number, line
                    self._lines.append((module, _SOURCE, *place, self._text(words)))

    def tables(self) -> dict[str, Made]:
        """Return the tables."""
        return {
            "kernel_instruction": _made("kernel_instruction", _INSTRUCTION, self._instructions),
            "source_line": _made("source_line", _LINE, self._lines),
        }

    def _add_files(self, module: int, of: Instruction) -> None:
        for place in (of.place, of.caller):
            if place is not None and place[0]:
                self._files.add(place[0], module)

    def _add_ptx(self, module: int, ptx: Sequence[bytes], used: Sequence[int]) -> None:
        """Add the lines of PTX from which a function was made, and those near them."""
        if used and ptx:
            first, last = min(used) - _NEAR_LINES, max(used) + _NEAR_LINES
            for line in range(max(first, 1), min(last, len(ptx)) + 1):
                if (module, line) not in self._ptx:
                    self._ptx[module, line] = len(self._lines)
                    text = self._session.intern(ptx[line - 1].decode("utf-8", "replace"))
                    self._lines.append((module, _PTX, None, 0, line, text))

    def _place(self, place: Place | None) -> tuple[int | None, int | None]:
        if place is None:
            return None, None
        return self._text(place[0]) if place[0] else None, place[1]


_Row = tuple[int | None, ...]
_INSTRUCTION = (
    *("process_id", "module_checksum", "function_id", "offset_bytes", "encoding_id"),
    *("file_id", "line", "caller_file_id", "caller_line", "ptx_line_id"),
)
_LINE = ("module", "kind", "file_id", "file_number", "line", "text_id")


def _made(table: str, names: Sequence[str], rows: Sequence[_Row]) -> Made:
    columns: dict[str, Packed] = {}
    for name, values in zip(
        names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True
    ):
        spec = TABLES[table].column(name)
        numbers = array(_TYPES[spec.dtype], [value or 0 for value in values])
        valid = bytes(value is not None for value in values) if spec.nullable else None
        columns[name] = numbers.tobytes(), valid
    return Made(len(rows), columns)
