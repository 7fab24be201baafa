"""Consistency checks of the structure of a ZIP file.

A ZIP file stores most facts twice: in the header of each member, and in the directory at the end.
`zipfile` trusts the directory and ignores contradictions: a flipped bit in a name there hides a
member, one in a length may skip the next entry. These functions compare both. The other fields of a
directory without a seal (times, attributes, padding) are not used.
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
_ELSEWHERE_16, _ELSEWHERE_32 = 0xFFFF, 0xFFFFFFFF  # the value is in a ZIP64 field
_ZIP64_ID, _EXTRA_HEADER, _ZIP64_SIZES = 1, struct.Struct("<HH"), struct.Struct("<QQ")

# The comment of the archive: the checksum of the directory and the end record.
SEAL = b"warpline directory crc32 %08x"
_SEAL_BEGIN = SEAL.partition(b"%")[0]
_SEAL_PATTERN = re.compile(re.escape(_SEAL_BEGIN) + rb"([0-9a-f]{8})")
SEAL_BYTES = len(SEAL % 0)


class Place(NamedTuple):
    """Location of the data of a member, and their expected checksum."""

    name: str
    begin: int
    end: int
    crc32: int


def places(archive: zipfile.ZipFile, data: memoryview) -> list[Place]:
    """Return the locations of all members except directories, in file order.

    Args:
        archive: The archive, opened by `zipfile`.
        data: The whole file.

    Raises:
        ValueError: The parts of the file contradict each other.
    """
    infos = archive.infolist()
    _check_end(archive, data, len(infos))
    listed, reached = [], 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        place = _place(info, data)
        if info.header_offset < reached:
            raise ValueError(f"{info.filename} overlaps the previous member")
        reached = place.end
        if not info.is_dir():
            listed.append(place)
    if reached > archive.start_dir:
        raise ValueError("the directory overlaps the last member")
    return listed


def sealed(tail: bytes) -> bytes:
    """Return the comment for a file that ends in `tail`: its directory and its end record.

    The end record already contains the length of the comment.
    """
    return SEAL % crc32(memoryview(tail))


def _check_end(archive: zipfile.ZipFile, data: memoryview, members: int) -> None:
    """Raise ValueError if the number of members in the end record, or the seal, is wrong."""
    end_at = _end_at(archive, data)
    *_, here, in_all, _, _, comment_bytes = _END.unpack_from(data, end_at)
    if end_at + _END.size + comment_bytes > len(data):
        raise ValueError("its end is missing")
    if {here, in_all} - {members, _ELSEWHERE_16}:
        raise ValueError("the number of members in its directory is wrong")
    if not archive.comment.startswith(_SEAL_BEGIN):
        return  # from an older version or another program
    seal = _SEAL_PATTERN.fullmatch(archive.comment)
    if seal is None or int(seal[1], 16) != crc32(data[archive.start_dir : end_at + _END.size]):
        raise ValueError("its directory is damaged: the checksum does not match")


def _end_at(archive: zipfile.ZipFile, data: memoryview) -> int:
    """Return the offset of the end record, which `zipfile` found by its magic."""
    tail_at = max(archive.start_dir, len(data) - _END.size - (1 << 16))
    found = bytes(data[tail_at:]).rfind(_END_MAGIC)
    if found < 0 or tail_at + found + _END.size > len(data):
        raise ValueError("there is no end record")
    return tail_at + found


def _place(info: zipfile.ZipInfo, data: memoryview) -> Place:
    """Return the location of a member. Raises ValueError if header and directory differ."""
    is_plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & _ENCRYPTED
    if not is_plain or info.file_size != info.compress_size:
        raise ValueError(f"{info.filename} is compressed")
    at = info.header_offset
    if at < 0 or at + LOCAL_HEADER.size > len(data):
        raise ValueError(f"{info.filename} lies outside the file")
    magic, _, flags, method, _, _, crc, *sizes, name_bytes, extra_bytes = LOCAL_HEADER.unpack_from(
        data, at
    )
    name_at = at + LOCAL_HEADER.size
    begin = name_at + name_bytes + extra_bytes
    if magic != _LOCAL_MAGIC or begin + info.file_size > len(data):
        raise ValueError(f"{info.filename} lies outside the file")
    extra = bytes(data[name_at + name_bytes : begin])
    if _ELSEWHERE_32 in sizes:
        sizes = next(_zip64_sizes(extra), sizes)
    header = (flags, method, bytes(data[name_at : name_at + name_bytes]), crc, *sizes)
    follows = info.flag_bits & _SIZES_FOLLOW and (crc, *sizes) == (0, 0, 0)
    known = (0, 0, 0) if follows else (info.CRC, info.compress_size, info.file_size)
    if header != (info.flag_bits, info.compress_type, _name(info), *known):
        raise ValueError(f"the header of {info.filename} contradicts the directory")
    return Place(info.filename, begin, begin + info.file_size, info.CRC)


def _zip64_sizes(extra: bytes) -> Iterator[list[int]]:
    """Yield the compressed and uncompressed size in the ZIP64 field of a local header, if any."""
    at = 0
    while at + _EXTRA_HEADER.size <= len(extra):
        kind, size_bytes = _EXTRA_HEADER.unpack_from(extra, at)
        at += _EXTRA_HEADER.size
        if kind == _ZIP64_ID and at + _ZIP64_SIZES.size <= len(extra):
            unpacked_bytes, packed_bytes = _ZIP64_SIZES.unpack_from(extra, at)
            yield [packed_bytes, unpacked_bytes]
        at += size_bytes


def _name(info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a name in the directory."""
    encoding = "utf-8" if info.flag_bits & _UTF_8 else "cp437"
    return info.orig_filename.encode(encoding, "surrogatepass")
