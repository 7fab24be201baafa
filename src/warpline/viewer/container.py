"""The container: a JSON head and numbered blocks of bytes, see ``viewer/CONTAINER.md``."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from warpline.viewer.columns import Packed, delta, float32, optional, optional_delta, plain
from warpline.viewer.rows import Events

VERSION = 1
BLOCK_BYTES = 3_000_000  # size of a block before compression
_PART_EVENTS = 2**18
_LEVEL = 4  # a quarter faster than 6, 2 to 4% larger
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # deflate; no flags, time, or system
_SAMPLE_BYTES = 1 << 14
_LONG_BYTES = 1 << 17
_THREADS = 4


class Block(NamedTuple):
    """A block: its kind, its size before compression, and its bytes."""

    kind: str
    raw_bytes: int
    data: bytes


@dataclass(frozen=True)
class Container:
    """A trace packed for the page.

    Attributes:
        head: The JSON head, without ``source``.
        blocks: In the order of their numbers.
    """

    head: dict[str, Any]
    blocks: tuple[Block, ...]

    def head_json(self, source: str) -> str:
        """Return the head as ASCII JSON without HTML markup characters.

        Args:
            source: Location of the blocks: ``inline`` or ``http``.
        """
        return script_json({**self.head, "source": source})


def script_json(value: Any) -> str:
    """Return JSON in ASCII without ``<``, ``>`` or ``&``."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@dataclass
class BlockWriter:
    """Collects blocks, and compresses them in other threads once they are complete."""

    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))
    _raw: list[tuple[str, list[bytes | memoryview]]] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _packed: dict[int, Block | Future[Block]] = field(default_factory=dict)
    _is_open: bool = False

    def add(self, kind: str, data: bytes) -> int:
        """Add a separate block and return its number."""
        self.end_block()
        self._raw.append((kind, [data]))
        self._sizes.append(len(data))
        return len(self._raw) - 1

    def extend(self, blocks: Sequence[Block]) -> int:
        """Add compressed blocks and return the number of the first."""
        first = len(self._raw)
        for block in blocks:
            self.add(block.kind, b"")
            self._packed[len(self._raw) - 1] = block
        return first

    def replace(self, number: int, data: bytes) -> None:
        """Replace the bytes of a block."""
        self._raw[number] = (self._raw[number][0], [data])
        self._sizes[number] = len(data)

    def append(self, kind: str, columns: Sequence[Packed]) -> tuple[int, int]:
        """Add columns to the current block or a new one; return its number and the offset."""
        is_same = self._is_open and self._raw[-1][0] == kind and self._sizes[-1] < BLOCK_BYTES
        if not is_same:
            self.add(kind, b"")
            self._is_open = True
        offset = self._sizes[-1]
        self._raw[-1][1].extend(plane for column in columns for plane in column.by_plane())
        self._sizes[-1] += sum(len(column.data) for column in columns)
        return len(self._raw) - 1, offset

    def end_block(self) -> None:
        """End the current block: the next addition starts a new one."""
        if self._is_open:
            number, self._is_open = len(self._raw) - 1, False
            kind, parts = self._raw[number]
            self._packed[number] = self._pool.submit(_compressed, kind, parts)
            self._raw[number] = kind, []  # its bytes are freed when they are compressed

    def blocks(self) -> tuple[Block, ...]:
        """Return all blocks, compressed."""
        self.end_block()
        with self._pool as pool:
            for number, (kind, parts) in enumerate(self._raw):
                if number not in self._packed:
                    self._packed[number] = pool.submit(_compressed, kind, parts)
            packed = [self._packed[number] for number in range(len(self._raw))]
            return tuple(item if isinstance(item, Block) else item.result() for item in packed)


def _compressed(kind: str, parts: list[bytes | memoryview]) -> Block:
    """Compress the parts of a block in order, each with its best strategy, and free each."""
    strategy = zlib.Z_DEFAULT_STRATEGY
    compressor = _compressor(strategy)
    raw_bytes, checksum, packed = 0, 0, [_GZIP_HEADER]
    for place, part in enumerate(parts):
        raw_bytes += len(part)
        checksum = zlib.crc32(part, checksum)
        if (best := _strategy(part)) != strategy:
            packed.append(
                compressor.flush(zlib.Z_SYNC_FLUSH)
            )  # ends at a byte: streams can be joined
            strategy, compressor = best, _compressor(best)
        packed.append(compressor.compress(part))
        parts[place] = b""
    packed.append(compressor.flush())
    packed.append(struct.pack("<II", checksum, raw_bytes & 0xFFFFFFFF))
    return Block(kind, raw_bytes, b"".join(packed))


def _compressor(strategy: int) -> zlib._Compress:
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)


def _strategy(part: bytes | memoryview) -> int:
    """Return the strategy of zlib for a part: low bytes of times only repeat by chance.

    Searching them for repetitions takes four times as long and finds nothing. A sample from the
    middle decides.
    """
    if len(part) < _LONG_BYTES:
        return zlib.Z_DEFAULT_STRATEGY
    middle = len(part) // 2
    sample = part[middle : middle + _SAMPLE_BYTES]
    sizes = {}
    for strategy in (zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY):
        compressor = _compressor(strategy)
        sizes[strategy] = len(compressor.compress(sample)) + len(compressor.flush())
    return min(sizes, key=lambda strategy: sizes[strategy])


def write_events(writer: BlockWriter, events: Events, offset_ns: int) -> list[dict[str, Any]]:
    """Add the events of a row and return the descriptions of its parts.

    A long row shares no block with other rows: a page decodes blocks that share a row in sequence,
    and all others in parallel.

    Args:
        writer: Receives the blocks.
        events: Sorted by time, without overlaps.
        offset_ns: Subtracted from all times.
    """
    parts = []
    is_long = len(events) > _PART_EVENTS
    if is_long:
        writer.end_block()
    for begin in range(0, len(events), _PART_EVENTS):
        part = events.taken(slice(begin, begin + _PART_EVENTS)).loaded()
        first_ns = int(part.start_ns[0]) - offset_ns
        columns = event_columns(part)
        block, offset = writer.append("events", columns)
        described = [column.head() for column in columns]
        parts.append(
            {
                "block": block,
                "offset": offset,
                "count": len(part),
                "first_ns": first_ns,
                "columns": described,
            }
        )
    if is_long:
        writer.end_block()
    return parts


def event_columns(part: Events) -> list[Packed]:
    """Return the columns of a part; the events are sorted by time, without overlaps."""
    if part.value is not None:
        gap = np.diff(part.start_ns, prepend=part.start_ns[:1])
        return [plain("gap", gap), *_values(part)]
    gap = part.start_ns - np.append(part.start_ns[:1], part.end_ns[:-1])
    columns = [
        plain("gap", gap),
        plain("duration", part.end_ns - part.start_ns),
        plain("name", part.name),
    ]
    if part.row is not None:
        columns.append(delta("row", part.row))
    if part.table is not None:
        columns.append(plain("table", part.table))
    columns += [
        optional_delta(name, link.row, link.valid)
        for name, link in part.links.items()
        if link.valid.any()
    ]
    return columns


def _values(part: Events) -> Iterator[Packed]:
    """Yield a counter's values: integers exactly, others in single precision."""
    columns = {"value": part.value, "least": part.least, "most": part.most}
    for name, value in columns.items():
        if value is None:
            continue
        known = ~np.isnan(value)
        whole = np.where(known, value, 0.0)
        is_whole = bool(np.all((whole >= 0) & (whole < 2**53) & (whole == np.floor(whole))))
        if not is_whole:
            yield float32(name, value)
        elif known.all():
            yield plain(name, whole.astype(np.int64))
        else:
            yield optional(name, whole.astype(np.int64), known)
