"""A cubin, the code of a module: an ELF file with machine code, line tables and PTX."""

from __future__ import annotations

import struct

from warpline.cubins.line_table import CubinError, Place, rows, text_at
from warpline.frozen import frozen

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_HEADER_SIZE = 64
_NO_BITS = 8
# Kinds of sections with relocations, of which only the first two members matter here: place, and
# type with symbol. The first one has an addend, too; GPUs before compute capability 9.0 have none.
_RELOCATIONS = {4: struct.Struct("<QQ8x"), 9: struct.Struct("<QQ")}
_TEXT, _LINES = b".text.", b".debug_line"
_PTX, _PTX_LINES = b".nv_debug_ptx_txt", b".nv_debug_line_sass"

Lines = dict[bytes, list[tuple[int, Place, Place | None]]]
"""Function -> offset, place and, of inlined code, the place in the function; by offset."""


@frozen
class Section:
    """A section of the file.

    Attributes:
        name: Name.
        kind: Type, such as that of a table of symbols.
        data: Content.
        link: Section with its symbols or names.
        info: For relocations: the section that they are of.
    """

    name: bytes
    kind: int
    data: bytes
    link: int
    info: int


class Cubin:
    """The sections of a cubin.

    Args:
        data: The file.

    Raises:
        CubinError: It is damaged.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER_SIZE or not data.startswith(b"\x7fELF\x02\x01"):
            raise CubinError("not a 64-bit ELF file")
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if size != _SECTION.size or start + count * size > len(data) or names >= count:
            raise CubinError("its section table is cut off")
        raw = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
        contents = [_content(data, fields) for fields in raw]
        self._sections = [
            Section(text_at(contents[names], of[0]), of[1], content, of[6], of[7])
            for of, content in zip(raw, contents, strict=True)
        ]

    def code(self, function: bytes) -> bytes | None:
        """Return the machine code of a function; None if it is not there."""
        return self._named(_TEXT + function)

    @property
    def ptx(self) -> list[bytes]:
        """The lines of the PTX; none if it is not there."""
        text = self._named(_PTX)
        return text.rstrip(b"\0").split(b"\0") if text else []

    def lines(self) -> Lines:
        """Return the places in the source that code was made from, from the line table."""
        return self._lines_of(_LINES)

    def ptx_lines(self) -> Lines:
        """Return the lines of the PTX that code was made from; the file has no meaning."""
        return self._lines_of(_PTX_LINES)

    @property
    def functions(self) -> list[bytes]:
        """Names of the functions that have code."""
        return [
            section.name.removeprefix(_TEXT)
            for section in self._sections
            if section.name.startswith(_TEXT)
        ]

    def _lines_of(self, section: bytes) -> Lines:
        table = self._named(section)
        found: Lines = {}
        for function, *row in [] if table is None else rows(table, self._relocations(section)):
            found.setdefault(function, []).append(tuple(row))  # type: ignore[arg-type]
        for places in found.values():
            places.sort(key=lambda place: place[0])
        return found

    def _named(self, name: bytes) -> bytes | None:
        return next((section.data for section in self._sections if section.name == name), None)

    def _relocations(self, table: bytes) -> dict[int, bytes]:
        """Return place in a line table -> function whose address belongs there."""
        lines = next(i for i, section in enumerate(self._sections) if section.name == table)
        places = {}
        for section in self._sections:
            layout = _RELOCATIONS.get(section.kind)
            if layout is None or section.info != lines:
                continue
            symbols = self._section(section.link)
            names = self._section(symbols.link).data
            for place, info in layout.iter_unpack(_whole(section.data, layout.size)):
                at = (info >> 32) * _SYMBOL.size
                if at + _SYMBOL.size > len(symbols.data):
                    raise CubinError("a relocation has no symbol")
                name, _, _, owner, _, _ = _SYMBOL.unpack_from(symbols.data, at)
                is_text = owner < len(self._sections) and self._sections[owner].name.startswith(
                    _TEXT
                )
                if is_text:
                    places[place] = self._sections[owner].name.removeprefix(_TEXT)
                else:
                    places[place] = text_at(names, name).removeprefix(_TEXT)
        return places

    def _section(self, number: int) -> Section:
        if number >= len(self._sections):
            raise CubinError("a section is missing")
        return self._sections[number]


def _content(data: bytes, fields: tuple[int, ...]) -> bytes:
    _, kind, _, _, start, size, *_ = fields
    if kind == _NO_BITS:
        return b""
    if start + size > len(data):
        raise CubinError("a section is cut off")
    return data[start : start + size]


def _whole(data: bytes, size: int) -> bytes:
    return data[: len(data) // size * size]
