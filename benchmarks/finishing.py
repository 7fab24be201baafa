"""Times `warpline.capture.finishing` in a separate process, on raw recordings of any size.

    python benchmarks/finishing.py 1000000 10000000

Events are push/pop ranges nested two deep. A few of them also have a mark.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path

from paired import run

_MAGIC = b"WLRAW\r\n\x1a"
_HEADER_BYTES = 4096
_STRING, _PUSH, _POP, _THREAD = 3, 8, 9, 2
_NAMES = 200
_THREADS = 4
_BATCH = 100_000


def _word(kind: int, words: int, aux: int) -> int:
    return words << 48 | kind << 32 | aux


def write_session(folder: Path, ranges: int) -> int:
    """Write a raw recording with the given number of ranges; return the size of its logs."""
    facts = {"started_monotonic_ns": 1_000, "started_utc_ns": 1_790_000_000_000_000_000}
    (folder / "session.json").write_text(json.dumps({**facts, "collected": ["nvtx"]}))
    size = 0
    for thread in range(_THREADS):
        count = ranges * (thread + 1) // _THREADS - ranges * thread // _THREADS
        path = folder / f"7-1-{thread}.wlraw"
        with path.open("wb") as file:
            file.write(_header(count).ljust(_HEADER_BYTES, b"\0"))
            file.write(struct.pack("<QQQ16x", _word(_THREAD, 5, 0), 1_000, 100 + thread))
            for slot in range(_NAMES):
                text = f"layer {slot}".encode().ljust(16, b" ")
                file.write(struct.pack("<QQ16s", _word(_STRING, 4, slot), 16, text))
            for batch in _events(count):
                file.write(batch)
        size += path.stat().st_size
    return size


def _header(events: int) -> bytes:
    fixed = struct.pack("<8s4IQ2IQ2q", _MAGIC, 1, _HEADER_BYTES, 7, 1, 1, 0, 0, 0, 1_000, 2_000)
    return fixed + struct.pack("<5Q64s512s", events, 0, 0, 1, _HEADER_BYTES, b"box", b"/bin/prog")


def _events(ranges: int) -> Iterator[bytes]:
    """Yield the records of ranges: one outer range around each inner one."""
    pushes = [_word(_PUSH, 2, slot) for slot in range(_NAMES)]
    pop, now = _word(_POP, 2, 0), 2_000
    for first in range(0, ranges // 2, _BATCH):
        words = array("Q")
        for number in range(first, min(first + _BATCH, ranges // 2)):
            outer, inner = pushes[number % _NAMES], pushes[(number + 1) % _NAMES]
            words.extend((outer, now, inner, now + 100, pop, now + 300, pop, now + 450))
            now += 1_000
        yield words.tobytes()


def command(folder: Path) -> list[str]:
    """Return the command that finishes a raw recording, to out.warpline beside its logs."""
    words = [str(folder), "--output", str(folder / "out.warpline")]
    return [sys.executable, "-m", "warpline.capture.finishing", *words]


def main() -> None:
    """Print a line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranges", type=int, nargs="*", default=[1_000_000])
    print(f"{'ranges':>12} {'logs':>9} {'seconds':>9} {'memory':>9} {'per range':>10} {'file':>9}")
    for ranges in parser.parse_args().ranges:
        with tempfile.TemporaryDirectory(suffix=".raw") as name:
            logs = write_session(Path(name), ranges)
            cost = run(command(Path(name)))
            size = Path(name, "out.warpline").stat().st_size
        print(
            f"{ranges:>12,} {logs / 1e6:>6.0f} MB {cost.wall_s:>9.2f} {cost.peak_mb:>6.0f} MB"
            f" {cost.peak_mb * 1e6 / ranges:>8.0f} B {size / 1e6:>6.0f} MB"
        )


if __name__ == "__main__":
    main()
