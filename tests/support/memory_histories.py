"""Memory snapshots as PyTorch writes them, made by hand: allocations with stacks."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20
BEGIN = 0x7F0000000000
_SEGMENT = 256 * MIB

Frame = tuple[str, int, str]
"""File, line, function."""


class History:
    """A memory history: blocks of multiples of 2 MiB, one after another in one segment."""

    def __init__(self) -> None:
        self._time_us = 1_700_000_000_000_000
        self._entries = [self._entry("segment_alloc", BEGIN, _SEGMENT, ())]
        self._free = BEGIN
        self._sizes: dict[int, int] = {}

    def allocate(self, mib: int, frames: Iterable[Frame], after_us: int = 1000) -> int:
        """Add a block, innermost frame first, and return its address."""
        assert mib % 2 == 0
        self._time_us += after_us
        address, size = self._free, mib * MIB
        self._free += size
        self._sizes[address] = size
        self._entries.append(self._entry("alloc", address, size, frames))
        return address

    def free(self, address: int, after_us: int = 1000) -> None:
        """Free a block."""
        self._time_us += after_us
        size = self._sizes.pop(address)
        for action in ("free_requested", "free_completed"):
            self._entries.append(self._entry(action, address, size, ()))

    def write(self, path: Path) -> Path:
        """Write the snapshot and return its path."""
        snapshot = {"segments": [], "device_traces": [self._entries], "allocator_settings": {}}
        path.write_bytes(pickle.dumps(snapshot, protocol=4))
        return path

    def _entry(
        self, action: str, address: int, size: int, frames: Iterable[Frame]
    ) -> dict[str, Any]:
        return {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": self._time_us,
            "frames": [
                {"filename": file, "line": line, "name": name} for file, line, name in frames
            ],
        }


def training(
    path: Path, steps: int = 3, *, files: Sequence[str] = ("model.py", "train.py")
) -> Path:
    """Write the history of a program that keeps 10 MiB and uses 8 and 4 MiB more in each step."""
    model, train = files
    history = History()
    history.allocate(10, [("/app/" + model, 5, "__init__"), ("/app/" + train, 1, "main")])
    for _ in range(steps):
        first = history.allocate(8, [("/app/" + model, 20, "forward")])
        library = "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py"
        second = history.allocate(4, [(library, 9, "forward"), ("/app/" + model, 21, "forward")])
        history.free(first)
        history.free(second)
    return history.write(path)
