"""The text of a trace file in pieces, decompressed if gzip, in bounded time and memory."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from warpline import progress
from warpline.errors import CorruptTraceError, InputError
from warpline.readers.kineto.sniff import GZIP_MAGIC

CHUNK_BYTES = 1 << 20

# Traces compress 10 to 50 times, but deflate can reach 1000. A file may decompress to MAX_RATIO
# times its size, small ones to FREE_BYTES: a 10 MB file of zeros then ends after 2 GB, in seconds.
MAX_RATIO = 200
FREE_BYTES = 1 << 28

_GZIP = 31  # for zlib: a gzip header, the largest window
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


def chunks(path: Path, lost: list[str]) -> Generator[bytes, None, None]:
    """Yield the text of a file, plain or gzip, about a MiB at a time.

    A gzip file is decompressed one piece ahead, in a separate thread. Memory does not grow with
    the file.

    Args:
        path: The file.
        lost: Receives one sentence for each part that could not be decompressed, at the latest
            when the text ends.

    Raises:
        InputError: The file cannot be opened or read.
        CorruptTraceError: It is UTF-16 or UTF-32.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file, progress.task(f"Reading {path.name}", size) as advance:
            head, place = file.peek(4)[:4], 0
            if head.startswith(GZIP_MAGIC):
                pieces = _ahead(_unpack(file, size, lost))
            else:
                pieces = iter(lambda: file.read(CHUNK_BYTES), b"")
            is_first = True
            for piece in pieces:
                if is_first:
                    _check_width(path, piece[:4])
                    is_first = False
                reached = file.tell()
                advance(reached - place)
                place = reached
                yield piece
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _check_width(path: Path, head: bytes) -> None:
    if head.startswith(_WIDE_MARKS) or (head.count(0) >= 2 and any(head)):
        raise CorruptTraceError(
            f"{path}: its text is UTF-16 or UTF-32", hint="convert it to UTF-8, which JSON requires"
        )


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same, preparing the next piece meanwhile: zlib releases the GIL."""
    with ThreadPoolExecutor(1, "warpline-gzip") as pool:
        coming = pool.submit(next, pieces, b"")
        while piece := coming.result():
            coming = pool.submit(next, pieces, b"")
            yield piece


def _unpack(file: IO[bytes], packed_bytes: int, lost: list[str]) -> Iterator[bytes]:
    """Yield the content of a gzip file's members; `lost` receives damage and truncation."""
    members = _Members(file, max(FREE_BYTES, packed_bytes * MAX_RATIO), lost, inflater())
    while piece := members.read():
        yield piece


def inflater() -> ModuleType:
    """Return zlib, or zlib-ng if it is installed: it has the same functions and is faster."""
    try:
        from zlib_ng import zlib_ng  # noqa: PLC0415 - an extra
    except ImportError:
        return zlib
    return zlib_ng


class _Members:
    """The members of a gzip file, in order."""

    def __init__(self, file: IO[bytes], most_bytes: int, lost: list[str], zlib: ModuleType) -> None:
        self._zlib = zlib
        self._file = file
        self._most_bytes = most_bytes
        self._lost = lost
        self._packed = b""
        self._stream = self._zlib.decompressobj(_GZIP)
        self._unpacked_bytes = 0
        self._read_bytes = 0
        self._is_over = False

    def read(self) -> bytes:
        """Return the next piece, which is empty at the end."""
        while not self._is_over:
            if not self._packed and not self._refill():
                break
            piece = self._step()
            if piece:
                return self._within_bounds(piece)
        return b""

    def _refill(self) -> bool:
        self._packed = self._file.read(CHUNK_BYTES >> 2)
        self._read_bytes += len(self._packed)
        if not self._packed and not self._stream.eof:
            self._end("is truncated")
        return bool(self._packed)

    def _step(self) -> bytes:
        if self._stream.eof and not self._next_member():
            return b""
        before = self._stream.copy()
        try:
            piece: bytes = self._stream.decompress(self._packed, CHUNK_BYTES)
        except self._zlib.error as error:
            self._end(f"is damaged near byte {self._read_bytes:,}: {_reason(error)}")
            return _before_damage(before, self._packed, self._zlib.error)
        at_end = self._stream.eof
        self._packed = self._stream.unused_data if at_end else self._stream.unconsumed_tail
        return piece

    def _next_member(self) -> bool:
        """Begin another member if one follows. Zeros after the last one are padding."""
        self._packed = self._packed.lstrip(b"\0")
        if len(self._packed) < len(GZIP_MAGIC):
            more = self._file.read(CHUNK_BYTES >> 2)
            self._read_bytes += len(more)
            self._packed += more
        if self._packed.startswith(GZIP_MAGIC):
            self._stream = self._zlib.decompressobj(_GZIP)
            return True
        if self._packed.strip(b"\0"):
            self._end("has trailing data, which is not read")
        self._packed = self._packed if self._is_over else b""
        return False

    def _within_bounds(self, piece: bytes) -> bytes:
        self._unpacked_bytes += len(piece)
        if self._unpacked_bytes >= self._most_bytes:
            self._end(
                f"decompresses to more than {self._most_bytes:,} bytes, {MAX_RATIO} times its "
                "size, unlike any trace. The rest is not read"
            )
        return piece

    def _end(self, what: str) -> None:
        self._is_over = True
        self._lost.append(
            f"the gzip file {what}. {self._unpacked_bytes:,} bytes were decompressed before that"
        )


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2]


def _before_damage(stream: Any, packed: bytes, damage: type[Exception]) -> bytes:
    """Return the content before the damage, found by halving the input."""
    pieces = []
    step = len(packed)
    while step:
        trial = stream.copy()
        try:
            pieces.append(trial.decompress(packed[:step]))
        except damage:
            step //= 2
            continue
        stream, packed = trial, packed[step:]
        step = min(step, len(packed))
    return b"".join(pieces)
