"""Files with pieces of torch's memory history: lines of JSON, compressed.

    {"head": {...}}             what is known of the piece: clocks, statistics, GPUs
    {"device": 0, "entries": [...]}     entries of its history, in order, as torch has them
    {"segments": [...]}         segments and blocks at the end
    {"settings": {...}}         the rest of torch's snapshot
    {"frames": [...]}           frames: file, line, function
    {"stacks": [...]}           stacks: numbers of frames, the innermost first

Frames of entries, segments and blocks are a number of a stack. A file without the last line is
incomplete. Thousands of entries share a stack, and torch gives each of them a list of its own, of
frames that are the same objects.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_BLOCK = 10_000  # entries of a line
_LEVEL = 1  # of compression: the program waits for it


def write_piece(path: Path, head: dict[str, Any], snapshot: dict[str, Any]) -> int:
    """Write a snapshot, whose frames become numbers; return how many entries it has.

    Args:
        path: The file.
        head: What is known of it.
        snapshot: As torch made it.

    Raises:
        OSError: The file cannot be written.
    """
    stacks = _Stacks()
    part, count = path.with_name(f"{path.name}.part"), 0
    with gzip.open(part, "wt", encoding="utf-8", compresslevel=_LEVEL) as file:

        def write(**content: Any) -> None:
            file.write(json.dumps(content, separators=(",", ":"), default=str) + "\n")

        write(head=head)
        for device, entries in enumerate(snapshot["device_traces"]):
            stacks.number(entries)
            count += len(entries)
            for first in range(0, len(entries), _BLOCK):
                write(device=device, entries=entries[first : first + _BLOCK])
        segments = snapshot["segments"]
        stacks.number(segments)
        for segment in segments:
            stacks.number(segment["blocks"])
        write(segments=segments)
        write(settings=snapshot.get("allocator_settings"))
        write(frames=stacks.frames)
        write(stacks=stacks.stacks)
    part.replace(path)
    return count


class _Stacks:
    """The different stacks of a snapshot, and their frames.

    Attributes:
        frames: File, line and function of each frame.
        stacks: The numbers of each stack's frames.
    """

    def __init__(self) -> None:
        self.frames: list[list[Any]] = []
        self.stacks: list[list[int]] = []
        self._frames: dict[int, int] = {}  # by identity: the snapshot keeps them
        self._lists: dict[int, int] = {}  # stacks by the identity of their list
        self._stacks: dict[tuple[int, ...], int] = {}
        self._kept: list[Any] = []

    def number(self, parts: Iterable[dict[str, Any]]) -> None:
        """Replace the frames of entries, segments or blocks by the number of their stack.

        What nothing is made of is left out, too.
        """
        lists, add = self._lists, self._add
        for part in parts:
            part.pop("compile_context", None)
            part.pop("user_metadata", None)
            frames = part.get("frames")
            if frames is not None:
                number = lists.get(id(frames))
                part["frames"] = add(frames) if number is None else number

    def _add(self, frames: list[Any]) -> int:
        self._kept.append(frames)  # its identity is not to be another list's
        key = tuple(map(id, frames))
        number = self._stacks.get(key)
        if number is None:
            number = self._stacks[key] = len(self.stacks)
            self.stacks.append([self._frame(frame) for frame in frames])
        self._lists[id(frames)] = number
        return number

    def _frame(self, frame: dict[str, Any]) -> int:
        number = self._frames.get(id(frame))
        if number is None:
            number = self._frames[id(frame)] = len(self.frames)
            self.frames.append([frame["filename"], frame["line"], frame["name"]])
        return number
