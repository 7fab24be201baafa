"""Line tables of a cubin: DWARF, versions 2 to 4, with NVIDIA's notes on inlined functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warpline.cubins.library_files import is_of_library

Place = tuple[bytes, int]
"""File and line."""

Row = tuple[bytes, int, Place, Place | None]
"""Function, offset in it, and place. Of code that was inlined, that is the place in the innermost
function, and the last one that of the nearest call which is not in a library."""

_VERSIONS = (2, 3, 4)  # the fifth has other tables of files
_WITH_SLOTS = 4  # the version that added a number
_MOST_ROWS = 4_000_000
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_INLINED_CALL = 0x90  # of NVIDIA: number of the row of the call, from 1, and a name
_SIGN = 0x80
_BYTE = 0x100
_LONGEST = 70  # bits of a number, seven at a time


class CubinError(ValueError):
    """The bytes are not a module, or contradict its format."""


def rows(table: bytes, targets: Mapping[int, bytes]) -> Iterator[Row]:
    """Yield the rows of a table.

    Args:
        table: The table.
        targets: Place of an address in the table -> function that it is the address of.

    Raises:
        CubinError: It is damaged.
    """
    at = 0
    while at < len(table):
        unit = _Reader(table, at, len(table))
        size = unit.number(4)
        at = unit.at + size
        yield from _Program(_Reader(table, unit.at, at), targets).rows()


def text_at(data: bytes, at: int) -> bytes:
    """Return the text that ends with a zero byte."""
    end = data.find(b"\0", at)
    if at > len(data) or end < 0:
        raise CubinError("a name is cut off")
    return data[at:end]


class _Reader:
    """Reads numbers and texts one after another."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        if end > len(data):
            raise CubinError("the line table is cut off")
        self._data, self.at, self.end = data, at, end

    def number(self, size: int) -> int:
        if self.at + size > self.end:
            raise CubinError("the line table is cut off")
        value = int.from_bytes(self._data[self.at : self.at + size], "little")
        self.at += size
        return value

    def leb(self, *, is_signed: bool = False) -> int:
        value = shift = 0
        byte = _SIGN
        while byte & _SIGN:
            byte = self.number(1)
            value |= (byte & (_SIGN - 1)) << shift
            shift += 7
            if shift > _LONGEST:
                raise CubinError("a number in the line table is too long")
        return value - (1 << shift) if is_signed and byte & (_SIGN >> 1) else value

    def text(self) -> bytes:
        text = text_at(self._data, self.at)
        self.at += len(text) + 1
        return text


class _Program:
    """The line program of one unit of the table."""

    def __init__(self, reader: _Reader, targets: Mapping[int, bytes]) -> None:
        self._reader, self._targets = reader, targets
        version = reader.number(2)
        self._is_known = version in _VERSIONS
        if not self._is_known:
            return
        start = reader.number(4) + reader.at
        self._step = reader.number(1)
        if version == _WITH_SLOTS:
            reader.number(1)
        reader.number(1)
        base = reader.number(1)
        self._line_base = base - _BYTE if base & _SIGN else base
        self._line_range, self._first = reader.number(1), reader.number(1)
        if not self._line_range or not self._first:
            raise CubinError("the line table has no range of lines")
        self._operands = [0, *(reader.number(1) for _ in range(self._first - 1))]
        self._files = self._read_files()
        reader.at = start
        self._reset()

    def _read_files(self) -> list[bytes]:
        reader = self._reader
        folders = [b""]
        while folder := reader.text():
            folders.append(folder)
        files = [b""]
        while name := reader.text():
            number = reader.leb()
            reader.leb(), reader.leb()  # time and size, unused
            folder = folders[number] if number < len(folders) else b""
            files.append(folder + b"/" + name if folder and not name.startswith(b"/") else name)
        return files

    def _reset(self) -> None:
        self._function, self._offset, self._file, self._line = b"", 0, 1, 1
        self._call = 0  # row of the call of the inlined function; 0 outside
        self._called: list[Place] = []  # of each row of the sequence: its place outside libraries

    def rows(self) -> Iterator[Row]:
        """Yield the rows that the program makes."""
        count = 0
        while self._is_known and self._reader.at < self._reader.end:
            opcode = self._reader.number(1)
            if opcode >= self._first:
                self._advance(opcode)
                self._line += self._line_base + (opcode - self._first) % self._line_range
            elif opcode != _COPY:
                self._do(opcode)
                continue
            count += 1
            if count > _MOST_ROWS:
                raise CubinError("the line table has too many rows")
            name = self._files[self._file] if self._file < len(self._files) else b""
            place = name, self._line
            is_inlined = 0 < self._call <= len(self._called)
            caller = self._called[self._call - 1] if is_inlined else None
            self._called.append(caller if caller and is_of_library(name) else place)
            if self._function:
                yield self._function, self._offset, place, caller

    def _advance(self, opcode: int) -> None:
        self._offset += (opcode - self._first) // self._line_range * self._step

    def _do(self, opcode: int) -> None:
        """Execute an instruction that makes no row."""
        reader = self._reader
        if opcode == 0:
            self._do_extended()
        elif opcode == _ADVANCE_PC:
            self._offset += reader.leb() * self._step
        elif opcode == _ADVANCE_LINE:
            self._line += reader.leb(is_signed=True)
        elif opcode == _SET_FILE:
            self._file = reader.leb()
        elif opcode == _CONST_ADD_PC:
            self._advance(_BYTE - 1)
        elif opcode == _FIXED_ADVANCE_PC:
            self._offset += reader.number(2)
        else:
            for _ in range(self._operands[opcode]):
                reader.leb()

    def _do_extended(self) -> None:
        reader = self._reader
        size = reader.leb()
        after = reader.at + size
        operation = reader.number(1) if size else 0
        if operation == _SET_ADDRESS:
            self._function, self._offset = self._targets.get(reader.at, b""), 0
        elif operation == _END_SEQUENCE:
            self._reset()
        elif operation == _INLINED_CALL:
            self._call = reader.leb()
        reader.at = after
