"""The file of sampled GPU metrics in a session.

Several processes append records to it, each by one write, so one that is killed loses at most the
record that it was writing. A record has a head with a checksum; a reader finds the next one after
damage. The kinds of records:

- facts, as JSON: what is sampled on a GPU, why it is not, and at the end what it took;
- blocks: consecutive samples of one metric, see the table counter_block;
- values: the values of all metrics at one time.

Times are those of the monotonic clock, in ns.
"""

from __future__ import annotations

import enum
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpline.schema.counters import BLOCK_SAMPLES

NAME = "gpu_metrics.samples"

_MAGIC = b"WLSAMPLE"
_HEAD = struct.Struct("=8sHHII")  # magic, kind, GPU, bytes after it, their checksum
_BLOCK = struct.Struct("=IIqqd")  # metric, samples, start, end, scale; then codes or none
_CODE_BYTES = 2
_MOST_BYTES = 1 << 24
_MOST_GPUS = 1 << 10


class _Kind(enum.IntEnum):
    FACTS = 1
    BLOCK = 2
    VALUES = 3


@dataclass(frozen=True)
class Block:
    """Consecutive samples of a metric.

    Attributes:
        metric: Its place among the GPU's metrics.
        samples: Their number.
        start_ns, end_ns: The time of all samples.
        scale: A value is a code times this; without codes, this is each value.
        codes: 16 bits per sample, in the machine's order of bytes; empty if all are equal.
    """

    metric: int
    samples: int
    start_ns: int
    end_ns: int
    scale: float
    codes: bytes | memoryview


class SampleWriter:
    """Appends records to the file; it stops at the first error, such as a full disk.

    Args:
        descriptor: The file, open for appending.
        gpu: Number of the GPU in this file.
    """

    def __init__(self, descriptor: int, gpu: int) -> None:
        self._descriptor = descriptor
        self._gpu = gpu
        self._is_open = True

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Append facts; later ones add to those before."""
        self._write([self._record(_Kind.FACTS, json.dumps(facts).encode("ascii"))])

    def blocks(self, blocks: Iterable[Block]) -> None:
        """Append blocks."""
        self._write(
            self._record(
                _Kind.BLOCK,
                _BLOCK.pack(each.metric, each.samples, each.start_ns, each.end_ns, each.scale)
                + each.codes,
            )
            for each in blocks
        )

    def values(self, time_ns: int, values: Sequence[float]) -> None:
        """Append the values of all metrics at a time; NaN for those that are unknown."""
        data = struct.pack(f"=q{len(values)}d", time_ns, *values)
        self._write([self._record(_Kind.VALUES, data)])

    def _record(self, kind: _Kind, data: bytes) -> bytes:
        return _HEAD.pack(_MAGIC, kind, self._gpu, len(data), zlib.crc32(data)) + data

    def _write(self, records: Iterable[bytes]) -> None:
        data = b"".join(records)
        if not self._is_open or not data:
            return
        try:
            self._is_open = os.write(self._descriptor, data) == len(data)
        except OSError:
            self._is_open = False


@dataclass
class GpuSamples:
    """What the file has of one GPU.

    Attributes:
        facts: All facts about it.
        blocks: In the order of the file.
        values: Time and values of all metrics.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    values: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)


@dataclass(frozen=True)
class Samples:
    """The content of a file.

    Attributes:
        gpus: By number.
        damaged: Parts of the file that could not be read.
    """

    gpus: Mapping[int, GpuSamples]
    damaged: int


def path_of(folder: Path) -> Path:
    """Return the file in a session's directory."""
    return folder / NAME


def read_samples(folder: Path) -> Samples | None:
    """Return the content of a session's file; None if there is no file, or it is empty.

    Raises:
        OSError: It cannot be read.
    """
    path = path_of(folder)
    if not path.is_file() or not path.stat().st_size:
        return None
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    gpus: dict[int, GpuSamples] = {}
    place = damaged = 0
    while place < len(data):
        end = _read_record(data, place, gpus)
        if end is None:
            damaged += 1
            end = _next_record(data, place + 1)
        place = end
    return Samples(gpus, damaged)


def _next_record(data: memoryview, place: int) -> int:
    """Return where the next record may begin."""
    found = data.obj.find(_MAGIC, place)  # type: ignore[attr-defined]  # a mapped file
    return len(data) if found < 0 else int(found)


def _read_record(data: memoryview, place: int, gpus: dict[int, GpuSamples]) -> int | None:
    """Take the record at a place, and return its end; None if it is damaged."""
    if place + _HEAD.size > len(data):
        return None
    magic, kind, gpu, size, checksum = _HEAD.unpack_from(data, place)
    start, end = place + _HEAD.size, place + _HEAD.size + size
    if magic != _MAGIC or size > _MOST_BYTES or end > len(data) or gpu >= _MOST_GPUS:
        return None
    body = data[start:end]
    if zlib.crc32(body) != checksum:
        return None
    try:
        _take(kind, body, gpus.setdefault(gpu, GpuSamples()))
    except (ValueError, TypeError, struct.error, RecursionError):
        return None
    return start + int(size)


def _take(kind: int, body: memoryview, gpu: GpuSamples) -> None:
    """Add a record; ValueError or struct.error if it is none of this version."""
    if kind == _Kind.FACTS:
        gpu.facts.update(json.loads(bytes(body)))
    elif kind == _Kind.BLOCK:
        metric, samples, start_ns, end_ns, scale = _BLOCK.unpack_from(body)
        codes = body[_BLOCK.size :]
        is_right = 0 < samples <= BLOCK_SAMPLES and start_ns <= end_ns
        if not is_right or len(codes) not in {0, samples * _CODE_BYTES}:
            raise ValueError("impossible")
        gpu.blocks.append(Block(metric, samples, start_ns, end_ns, scale, codes))
    elif kind == _Kind.VALUES:
        time_ns, *values = struct.unpack(f"=q{(len(body) - 8) // 8}d", body)
        gpu.values.append((time_ns, tuple(values)))
