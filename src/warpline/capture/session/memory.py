"""What a session has of the memory of PyTorch programs: rows after its recording is written.

Files are PID-N.memory.jsonl.gz, pieces of torch's memory history (`injected/memory_pieces.py` has
their lines), PID-tensors.jsonl (`injected/tensors.py`), and PID-memory.unwritten of a process that
has not written its last piece. Programs write them, so nothing of them is trusted.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from warpline.capture.session.facts import read_facts
from warpline.capture.session.pytorch import FOLDER
from warpline.errors import CaptureError

_PIECE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\.memory\.jsonl\.gz")
_TENSORS = re.compile(r"([0-9]{1,9})-tensors\.jsonl")
_UNWRITTEN = re.compile(r"([0-9]{1,9})-memory\.unwritten")
_ASKED = "memory"
_MOST_BYTES = 1 << 32  # of a piece
_OWN = "/warpline/injected/"  # in the files of frames that are ours


class Piece(NamedTuple):
    """A piece of a process's memory history.

    Attributes:
        head: What is known of it: clocks, statistics, GPUs.
        snapshot: Segments, entries and settings as in torch's snapshot. Equal stacks are the same
            list, equal frames the same dictionary.
    """

    head: Mapping[str, Any]
    snapshot: dict[str, Any]


def has_memory(session: Path) -> bool:
    """Return whether GPU memory was asked for, or recorded."""
    try:
        asked = read_facts(session).get("pytorch")
    except CaptureError:
        asked = None
    return (isinstance(asked, list) and _ASKED in asked) or bool(piece_files(session))


def piece_files(session: Path) -> dict[int, list[Path]]:
    """Return the files with pieces of each process, by pid, in order."""
    found: dict[int, list[tuple[int, Path]]] = {}
    for match, path in _matching(session, _PIECE):
        found.setdefault(int(match[1]), []).append((int(match[2]), path))
    return {pid: [path for _, path in sorted(paths)] for pid, paths in found.items()}


def tensor_files(session: Path) -> dict[int, Path]:
    """Return the file with tensors of each process, by pid."""
    return {int(match[1]): path for match, path in _matching(session, _TENSORS)}


def unwritten(session: Path) -> list[int]:
    """Return the pids of processes that ended before they wrote their last piece."""
    return [int(match[1]) for match, _ in _matching(session, _UNWRITTEN)]


def read_piece(path: Path) -> Piece:
    """Read a piece.

    Raises:
        CaptureError: It is damaged.
    """
    try:
        return _piece(path)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise CaptureError(f"{path.name} cannot be read: {error}") from None
    except (KeyError, TypeError, IndexError, AttributeError):
        raise CaptureError(f"{path.name} is damaged") from None


def _piece(path: Path) -> Piece:
    traces: dict[int, list[Any]] = {}
    parts: dict[str, Any] = {}
    for line in _lines(path):
        if "entries" in line:
            traces.setdefault(line["device"], []).extend(line["entries"])
        else:
            parts |= line
    frames = [
        {"filename": file, "line": number, "name": name} for file, number, name in parts["frames"]
    ]
    is_own = [_OWN in frame["filename"] for frame in frames]
    stacks = [
        [frames[number] for number in stack if not is_own[number]] for stack in parts["stacks"]
    ]
    segments = parts["segments"]
    for holder in (*traces.values(), segments, *(segment["blocks"] for segment in segments)):
        for part in holder:
            part["frames"] = stacks[part["frames"]] if "frames" in part else []
    count = len(parts["head"]["devices"])
    snapshot = {
        "segments": segments,
        "device_traces": [traces.get(device, []) for device in range(count)],
    }
    if parts["settings"]:
        snapshot["allocator_settings"] = parts["settings"]
    return Piece(parts["head"], snapshot)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    left = _MOST_BYTES
    with gzip.open(path, "rb") as file:
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise ValueError(f"more than {_MOST_BYTES >> 30} GiB")
            yield json.loads(line)


def _matching(session: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Path]]:
    try:
        files = sorted((session / FOLDER).iterdir())
    except OSError:
        return
    for path in files:
        match = pattern.fullmatch(path.name)
        if match is not None:
            yield match, path
