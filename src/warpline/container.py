"""The file format of recordings: a ZIP of uncompressed ``.npy`` members, hence a valid ``.npz``.

Members are not compressed, and their data start at multiples of 64 bytes, so that a reader can map
them. ``meta.json`` comes first, so that the first bytes identify the format. Writing requires only
the standard library, because the capture side also writes these files.

All data have checksums. The structure of the file and ``meta.json`` are checked when the file is
opened, every other member on first use.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import struct
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warpline.checksum import crc32
from warpline.errors import CorruptTraceError
from warpline.files import unfinished_name
from warpline.zip_check import LOCAL_HEADER, SEAL_BYTES, Place, places, sealed

Chunk = bytes | memoryview

ALIGNMENT = 64
META = "meta.json"
ARRAY_ENDING = ".npy"

_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = struct.Struct("<H")
_NPY_DESCRIPTION = re.compile(
    rb"\{'descr': '([<|][a-z][0-9]{1,2})', 'fortran_order': False, 'shape': \(([0-9]{1,18}),\), \}"
)
_EXTRA_HEADER = struct.Struct("<HH")
# The local header of a member longer than this has a ZIP64 field of 20 bytes.
_ZIP64_LIMIT = (1 << 31) - 1
_ZIP64_EXTRA_BYTES = 20
_PADDING_ID = 0x5770  # a private id: readers skip unknown extra fields
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a constant, so that the same data give the same file


class ContainerWriter:
    """Writes members sequentially. Use it as a context manager.

    The file appears at its path if the block ends without an error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = unfinished_name(path)
        self._file = self._unfinished.open("x+b")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)
        self._zip.comment = bytes(SEAL_BYTES)  # reserves the space

    def add_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Add a JSON object as the member `name`."""
        text = json.dumps(value, ensure_ascii=False, indent=1)
        data = text.encode("utf-8", "surrogatepass")
        self.add_bytes(name, [data], len(data))

    def add_array(self, name: str, dtype: str, count: int, chunks: Iterable[Chunk]) -> None:
        """Add a one-dimensional array as the member ``NAME.npy``.

        Args:
            name: Such as ``kernel/start_ns``.
            dtype: As ``.npy`` spells it: ``<i8``, ``<i4``, ``<f8``, ``|b1``, ``|u1``.
            count: Number of elements.
            chunks: Contiguous buffers with the elements.
        """
        description = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({count},), }}"
        text = description.encode()
        padding = -(len(_NPY_MAGIC) + _NPY_HEADER.size + len(text) + 1) % ALIGNMENT
        text += b" " * padding + b"\n"
        header = _NPY_MAGIC + _NPY_HEADER.pack(len(text)) + text
        size_bytes = len(header) + count * int(dtype[2:])
        self.add_bytes(f"{name}{ARRAY_ENDING}", _after(header, chunks), size_bytes)

    def add_bytes(self, name: str, chunks: Iterable[Chunk], size_bytes: int) -> None:
        """Add a member of `size_bytes` bytes. It starts at a multiple of 64 bytes."""
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr = 0o644 << 16
        is_large = size_bytes > _ZIP64_LIMIT
        at = self._file.tell() + LOCAL_HEADER.size + len(name.encode())
        at += _EXTRA_HEADER.size + (_ZIP64_EXTRA_BYTES if is_large else 0)
        padding = -at % ALIGNMENT
        info.extra = _EXTRA_HEADER.pack(_PADDING_ID, padding) + bytes(padding)
        with self._zip.open(info, "w", force_zip64=is_large) as member:
            for chunk in chunks:
                member.write(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # On a full disk, writing the buffered data fails again in each of these calls.
        again = contextlib.suppress(*([] if kind is None else [OSError, ValueError]))
        try:
            with again:
                self._zip.close()
            if kind is None:
                self._seal()
                self._file.flush()
                os.fsync(self._file.fileno())
                self._unfinished.replace(self._path)
        finally:
            self._unfinished.unlink(missing_ok=True)
            with again:
                self._file.close()

    def _seal(self) -> None:
        """Write the checksum of the finished directory into the reserved space."""
        seal_at = self._file.seek(-SEAL_BYTES, os.SEEK_END)
        self._file.seek(self._zip.start_dir)
        seal = sealed(self._file.read(seal_at - self._zip.start_dir))
        self._file.seek(seal_at)
        self._file.write(seal)


def _after(first: Chunk, rest: Iterable[Chunk]) -> Iterator[Chunk]:
    yield first
    yield from rest


@dataclass(frozen=True)
class Member:
    """Location of a member in a container.

    Attributes:
        offset_bytes: Offset in the file.
        size_bytes: Size.
        crc32: Expected checksum of its bytes.
        array: Its array, or None if it is not in the format that `add_array` writes. Not verified
            before the member is used.
    """

    offset_bytes: int
    size_bytes: int
    crc32: int
    array: ArrayPlace | None


@dataclass(frozen=True)
class ArrayPlace:
    """Location of the elements of an array.

    Attributes:
        dtype: As ``.npy`` spells it.
        count: Number of elements.
        offset_bytes: Offset in the file.
    """

    dtype: str
    count: int
    offset_bytes: int


@dataclass(frozen=True)
class Container:
    """An open, memory-mapped container. Several threads may read it.

    Attributes:
        path: The file.
        meta: Content of ``meta.json``.
        members: The other members by name, in file order.
        data: The whole file, read-only and unverified. Views of it keep the file open.
    """

    path: Path
    meta: dict[str, Any]
    members: dict[str, Member]
    data: memoryview
    _sums: _Sums = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sums", _Sums(self.data, self.members))

    @classmethod
    def open(cls, path: Path) -> Container:
        """Map a container.

        Raises CorruptTraceError if it is truncated or inconsistent, or if ``meta.json`` is damaged.
        """
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                members = {place.name: _member(place, data) for place in places(archive, data)}
                meta = _read_meta(data, members.pop(META))
        except (zipfile.BadZipFile, NotImplementedError, KeyError, ValueError) as error:
            what = f"{META} is missing" if isinstance(error, KeyError) else error
            raise CorruptTraceError(
                f"{path} is incomplete or damaged: {what}",
                hint="copy or export the file again; it may have been truncated while copying",
            ) from error
        return cls(path, meta, members, data)

    def is_whole(self, name: str) -> bool:
        """Return whether a member matches its checksum. It is verified once."""
        return self._sums.hold(name)

    def member_bytes(self, name: str) -> memoryview:
        """Return the bytes of a member. Raises CorruptTraceError if they are damaged."""
        member = self.members[name]
        return self._whole(name, member.offset_bytes, member.size_bytes)

    def elements(self, name: str, place: ArrayPlace) -> memoryview:
        """Return the elements of a member's array. Raises CorruptTraceError if they are damaged."""
        return self._whole(name, place.offset_bytes, place.count * int(place.dtype[2:]))

    def _whole(self, name: str, offset_bytes: int, size_bytes: int) -> memoryview:
        if not self.is_whole(name):
            what = name.removesuffix(ARRAY_ENDING)
            raise CorruptTraceError(
                f"{self.path}: {what} is damaged: its checksum does not match",
                hint="copy the file again or profile again; `warpline stats -r TABLE` works for"
                f" tables that do not need {what}",
            )
        return self.data[offset_bytes : offset_bytes + size_bytes]


class _Sums:
    """Results of checksums: each member is verified once, on first use."""

    def __init__(self, data: memoryview, members: Mapping[str, Member]) -> None:
        self._data = data
        self._members = members
        self._found: dict[str, bool] = {}
        self._locks = {name: threading.Lock() for name in members}

    def hold(self, name: str) -> bool:
        found = self._found.get(name)
        if found is not None:
            return found
        with self._locks[name]:
            if name not in self._found:
                self._found[name] = _is_whole(self._data, self._members[name])
            return self._found[name]


def is_container(head: bytes) -> bool:
    """Return whether the first bytes of a file are those of a container."""
    name_at = LOCAL_HEADER.size
    return head.startswith(b"PK\x03\x04") and head[name_at:].startswith(META.encode())


def _read_meta(data: memoryview, member: Member) -> dict[str, Any]:
    if not _is_whole(data, member):
        raise ValueError(f"{META} is damaged: its checksum does not match")
    text = bytes(data[member.offset_bytes : member.offset_bytes + member.size_bytes])
    try:
        meta = json.loads(text.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError(f"{META} is nested too deeply") from None
    if not isinstance(meta, dict):
        raise zipfile.BadZipFile(f"{META} is not an object")
    return meta


def _is_whole(data: memoryview, member: Member) -> bool:
    content = data[member.offset_bytes : member.offset_bytes + member.size_bytes]
    return crc32(content) == member.crc32


def _member(place: Place, data: memoryview) -> Member:
    array = _array_place(data, place.begin, place.end)
    return Member(place.begin, place.end - place.begin, place.crc32, array)


def _array_place(data: memoryview, begin: int, end: int) -> ArrayPlace | None:
    prefix_bytes = len(_NPY_MAGIC) + _NPY_HEADER.size
    prefix = bytes(data[begin : min(begin + prefix_bytes, end)])
    if len(prefix) < prefix_bytes or not prefix.startswith(_NPY_MAGIC):
        return None
    (header_bytes,) = _NPY_HEADER.unpack(prefix[len(_NPY_MAGIC) :])
    first = begin + prefix_bytes + header_bytes
    if first > end:
        return None
    header = _NPY_DESCRIPTION.fullmatch(bytes(data[begin + prefix_bytes : first]).strip())
    if header is None:
        return None
    dtype, count = header[1].decode(), int(header[2])
    if first + count * int(dtype[2:]) != end:
        return None
    return ArrayPlace(dtype, count, first)
