"""The GPU memory that recorded Python programs have left in a session, as rows of its recording.

It is a step of its own, see `session_step`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from warpline import plugins
from warpline.capture.session.memory import (
    Piece,
    has_memory,
    piece_files,
    read_piece,
    tensor_files,
    unwritten,
)
from warpline.documents.session_step import origin_ns, run
from warpline.errors import CaptureError, CorruptTraceError
from warpline.ops.arrays import I64
from warpline.schema.labels import TENSOR_KINDS
from warpline.trace import Trace, TraceMeta
from warpline.trace.allocator_records import (
    Gpu,
    ProcessMemory,
    TensorRow,
    with_allocator_records,
)
from warpline.trace.allocator_snapshots import read_snapshot
from warpline.trace.reading import read_all
from warpline.trace.recording import write_recording

_KINDS = frozenset(TENSOR_KINDS.values())
_LARGEST = 1 << 63


def add(recording: Path, session: Path) -> bool:
    """Add the GPU memory of a session to its recording, which is replaced.

    Args:
        recording: The recording.
        session: The session's directory.

    Returns:
        Whether there was any.

    Raises:
        InputError: The recording cannot be read or written.
    """
    pieces, lost = piece_files(session), unwritten(session)
    if not has_memory(session) or not (pieces or lost):
        return False
    warnings = [
        f"process {pid} ended before it wrote its last events of GPU memory" for pid in lost
    ]
    begin_ns = origin_ns(session) or 0
    tensors = tensor_files(session)
    memories = [
        _memory(pid, files, tensors.get(pid), begin_ns, warnings) for pid, files in pieces.items()
    ]
    plugins.load("readers")
    ours = Trace(read_all([recording])[0])
    write_recording(with_allocator_records(ours, memories, warnings), recording)
    return True


def _memory(
    pid: int, files: Sequence[Path], tensors: Path | None, origin_ns: int, warnings: list[str]
) -> ProcessMemory:
    """Return the memory of a process, as far as its files can be read."""
    pieces = _contiguous(pid, files, warnings)
    if not pieces:
        return ProcessMemory(pid, None, (), ())
    try:
        gpus = [_gpu(device) for device in pieces[-1].head["devices"]]
        to_ns = _to_ns(pieces, origin_ns)
        meta = TraceMeta((), "snapshot")
        history = Trace(read_snapshot(_joined(pieces), meta, pid=pid, to_ns=to_ns))
    except (
        CorruptTraceError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
    ) as error:
        why = error.message if isinstance(error, CorruptTraceError) else "a piece is damaged"
        warnings.append(f"GPU memory of process {pid} cannot be read: {why}")
        return ProcessMemory(pid, None, (), ())
    return ProcessMemory(pid, history, gpus, _tensors(tensors, origin_ns))


def _contiguous(pid: int, files: Sequence[Path], warnings: list[str]) -> list[Piece]:
    """Return the last pieces that follow each other without missing allocations.

    What is missing from a piece was before its first entry: a ring keeps the last ones.
    """
    pieces: list[Piece] = []
    missing = 0
    for file in files:
        try:
            piece = read_piece(file)
            lost = sum(map(int, piece.head["missing"]))
        except (CaptureError, KeyError, TypeError, ValueError) as error:
            why = error.message if isinstance(error, CaptureError) else f"{file.name} is damaged"
            warnings.append(f"GPU memory of process {pid}: {why}; events before it are left out")
            pieces = []
            continue
        if lost:
            pieces = []
            missing += lost
        pieces.append(piece)
    if missing:
        warnings.append(
            f"process {pid}: {missing:,} allocations and frees of GPU memory are missing, and all"
            " events before them are left out"
        )
    return pieces


def _joined(pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return pieces as one snapshot: the state of the last one, and all their entries."""
    last = pieces[-1].snapshot
    traces = zip(*(piece.snapshot["device_traces"] for piece in pieces), strict=True)
    return {**last, "device_traces": [[*chain.from_iterable(parts)] for parts in traces]}


def _to_ns(pieces: Sequence[Piece], origin_ns: int) -> Callable[[I64], I64]:
    """Return what turns torch's times, in us of wall time, into times of the recording.

    Each piece has both clocks at its begin and end. Between these moments they run evenly.
    """
    pairs = np.array([pair for piece in pieces for pair in piece.head["clocks"]], np.int64)
    wall, shift = pairs[:, 0], pairs[:, 1] - pairs[:, 0]
    if (np.diff(wall) < 0).any():  # the wall clock was set back: torch's times are by its last pace
        wall, shift = wall[-1:], shift[-1:]

    def to_ns(times_us: I64) -> I64:
        times_ns = times_us * 1000
        # Shifts are large, their differences small: floats hold these exactly.
        off = np.interp((times_ns - wall[0]).astype(np.float64), wall - wall[0], shift - shift[0])
        result: I64 = times_ns + shift[0] + np.rint(off).astype(np.int64) - origin_ns
        return result

    return to_ns


def _gpu(device: Mapping[str, Any]) -> Gpu:
    return Gpu(str(device["name"]), str(device["uuid"]), int(device["memory_bytes"]))


def _tensors(path: Path | None, origin_ns: int) -> list[TensorRow]:
    """Return where the tensors of a process were, each time that they were looked at."""
    rows: list[TensorRow] = []
    names: dict[int, tuple[str, str, str | None]] = {}
    looks: dict[str, list[tuple[int, int, int, int]]] = {}
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path is not None else ""
    except OSError:
        return rows
    for line in text.splitlines():
        try:
            what, first, *rest = json.loads(line)
            if what == "tensor":
                kind, name, module = rest
                if kind in _KINDS and isinstance(name, str) and isinstance(module, str | None):
                    names[int(first)] = kind, name, module
                continue
            if what == "seen":
                looks[str(rest[0])] = [_place(place) for place in rest[1]]
            time_ns = int(first) - origin_ns
            seen = looks.get(str(rest[0]), [])
        except (ValueError, TypeError, IndexError, RecursionError):  # cut by a full disk
            continue
        rows += [
            TensorRow(time_ns, device, address, size, *names[number])
            for number, device, address, size in seen
            if number in names
        ]
    return rows


def _place(place: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return a tensor's number, device, address and bytes; ValueError if they cannot be."""
    number, device, address, size = map(int, place)
    if not all(0 <= value < _LARGEST for value in (number, device, address, size)):
        raise ValueError(place)
    return number, device, address, size


if __name__ == "__main__":
    sys.exit(run(add, sys.argv[1:]))
