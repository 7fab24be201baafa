"""What holds in a ZIP file whose structure is whole.

A ZIP says most things twice: in front of each member, and in the directory at its end. `zipfile`
believes the directory, and reads on where it does not fit: a flipped bit in a name there makes a
member vanish, one in a length may swallow the next entry. Here both are compared. What is left of
a directory without a seal (times, attributes, padding) has no meaning for us.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

from warpline.checksum import crc32

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC, _END_MAGIC = b"PK\x03\x04", b"PK\x05\x06"
_END = struct.Struct("<4s4H2LH")
_ENCRYPTED, _SIZES_FOLLOW, _UTF_8 = 1, 1 << 3, 1 << 11
_ELSEWHERE_16, _ELSEWHERE_32 = 0xFFFF, 0xFFFFFFFF  # the value stands in a ZIP64 field
_ZIP64_ID, _EXTRA_HEADER, _ZIP64_SIZES = 1, struct.Struct("<HH"), struct.Struct("<QQ")

# The comment of the archive: what the directory and the end record must sum to.
SEAL = b"warpline directory crc32 %08x"
_SEAL_BEGIN = SEAL.partition(b"%")[0]
_SEAL_PATTERN = re.compile(re.escape(_SEAL_BEGIN) + rb"([0-9a-f]{8})")
SEAL_BYTES = len(SEAL % 0)


class Place(NamedTuple):
    """Where the data of a member lie, and what their checksum must be."""

    name: str
    begin: int
    end: int
    crc32: int


def places(archive: zipfile.ZipFile, data: memoryview) -> list[Place]:
    """Return where all members lie, directories left out, in the order of the file.

    Args:
        archive: As `zipfile` read it.
        data: The whole file.

    Raises:
        ValueError: The parts of the file contradict each other.
    """
    infos = archive.infolist()
    _check_end(archive, data, len(infos))
    found, reached = [], 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        place = _place(info, data)
        if info.header_offset < reached:
            raise ValueError(f"{info.filename} overlaps what is before it")
        reached = place.end
        if not info.is_dir():
            found.append(place)
    if reached > archive.start_dir:
        raise ValueError("the directory overlaps what is before it")
    return found


def sealed(tail: bytes) -> bytes:
    """Return the comment for a file that ends in `tail`: its directory and its end record.

    The end record says already how long the comment is.
    """
    return SEAL % crc32(memoryview(tail))


def _check_end(archive: zipfile.ZipFile, data: memoryview, members: int) -> None:
    """Raise ValueError unless the end record counts the members, and the seal fits."""
    end_at = _end_at(archive, data)
    *_, here, in_all, _, _, comment_bytes = _END.unpack_from(data, end_at)
    if end_at + _END.size + comment_bytes > len(data):
        raise ValueError("its end is cut off")
    if {here, in_all} - {members, _ELSEWHERE_16}:
        raise ValueError("its directory does not hold as many members as it says")
    if not archive.comment.startswith(_SEAL_BEGIN):
        return  # of an older version, or another program
    seal = _SEAL_PATTERN.fullmatch(archive.comment)
    if seal is None or int(seal[1], 16) != crc32(data[archive.start_dir : end_at + _END.size]):
        raise ValueError("its directory is damaged: the checksum does not match")


def _end_at(archive: zipfile.ZipFile, data: memoryview) -> int:
    """Return where the end record is, which `zipfile` found by its magic."""
    tail_at = max(archive.start_dir, len(data) - _END.size - (1 << 16))
    found = bytes(data[tail_at:]).rfind(_END_MAGIC)
    if found < 0 or tail_at + found + _END.size > len(data):
        raise ValueError("there is no end record")
    return tail_at + found


def _place(info: zipfile.ZipInfo, data: memoryview) -> Place:
    """Return where a member lies; ValueError unless its header says what the directory says."""
    is_plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & _ENCRYPTED
    if not is_plain or info.file_size != info.compress_size:
        raise ValueError(f"{info.filename} is compressed")
    at = info.header_offset
    if at < 0 or at + LOCAL_HEADER.size > len(data):
        raise ValueError(f"{info.filename} does not lie in the file")
    magic, _, flags, method, _, _, crc, *sizes, name_bytes, extra_bytes = LOCAL_HEADER.unpack_from(
        data, at
    )
    name_at = at + LOCAL_HEADER.size
    begin = name_at + name_bytes + extra_bytes
    if magic != _LOCAL_MAGIC or begin + info.file_size > len(data):
        raise ValueError(f"{info.filename} does not lie in the file")
    extra = bytes(data[name_at + name_bytes : begin])
    if _ELSEWHERE_32 in sizes:
        sizes = next(_zip64_sizes(extra), sizes)
    told = (flags, method, bytes(data[name_at : name_at + name_bytes]), crc, *sizes)
    follows = info.flag_bits & _SIZES_FOLLOW and (crc, *sizes) == (0, 0, 0)
    known = (0, 0, 0) if follows else (info.CRC, info.compress_size, info.file_size)
    if told != (info.flag_bits, info.compress_type, _name(info), *known):
        raise ValueError(f"{info.filename} is not what the directory says")
    return Place(info.filename, begin, begin + info.file_size, info.CRC)


def _zip64_sizes(extra: bytes) -> Iterator[list[int]]:
    """Yield the sizes, packed and not, of the ZIP64 field of a local header, if there is one."""
    at = 0
    while at + _EXTRA_HEADER.size <= len(extra):
        kind, size_bytes = _EXTRA_HEADER.unpack_from(extra, at)
        at += _EXTRA_HEADER.size
        if kind == _ZIP64_ID and at + _ZIP64_SIZES.size <= len(extra):
            unpacked_bytes, packed_bytes = _ZIP64_SIZES.unpack_from(extra, at)
            yield [packed_bytes, unpacked_bytes]
        at += size_bytes


def _name(info: zipfile.ZipInfo) -> bytes:
    """Return a name as its bytes stand in the directory."""
    encoding = "utf-8" if info.flag_bits & _UTF_8 else "cp437"
    return info.orig_filename.encode(encoding, "surrogatepass")
