"""Memory snapshots in tests/data/memory, and the sums of torch's own viewer."""

from __future__ import annotations

import lzma
import pickle
from pathlib import Path
from typing import Any

NAMES = ("flush", "fragment", "graph", "leak", "streams", "train", "train_expandable")


def unpack(data_dir: Path, name: str, folder: Path) -> Path:
    """Write a snapshot to a folder and return its path."""
    path = folder / f"{name}.pickle"
    path.write_bytes(lzma.decompress((data_dir / "memory" / f"{name}.pickle.xz").read_bytes()))
    return path


def load(path: Path) -> Any:
    """Return a snapshot of ours as torch's viewer loads it."""
    return pickle.loads(path.read_bytes())


def active_timeline(snapshot: Any, device: int) -> list[int]:
    """Return the heights of torch's active memory timeline, which begins with what was there.

    This is `process_alloc_data` of torch/utils/viz/MemoryViz.js: a block counts from its allocation
    until its free is completed, and one without an allocation from the start.
    """
    sizes: list[int] = []
    initial: list[int] = []
    actions: list[int] = []
    of_address: dict[int, int] = {}
    for entry in snapshot["device_traces"][device]:
        if entry["action"] == "alloc":
            of_address[entry["addr"]] = len(sizes)
        elif entry["action"] != "free_completed":
            continue
        elif entry["addr"] in of_address:
            actions.append(of_address.pop(entry["addr"]))
            continue
        else:
            initial.append(len(sizes))
        actions.append(len(sizes))
        sizes.append(entry["size"])
    for segment in snapshot["segments"]:
        for block in segment["blocks"] if segment["device"] == device else ():
            if block["state"] == "active_allocated" and block["address"] not in of_address:
                initial.append(len(sizes))
                sizes.append(block["requested_size"])
    counted, total = set(initial), sum(sizes[element] for element in initial)
    heights = [total]
    for element in actions:
        total += -sizes[element] if element in counted else sizes[element]
        counted ^= {element}
        heights.append(total)
    return heights
