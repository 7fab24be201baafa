"""Times `warpline.capture.finishing` in a separate process, on raw recordings of any size.

    python benchmarks/finishing.py 1000000 10000000
    python benchmarks/finishing.py --of launches 5000000    # 10 M events: kernels and calls
    python benchmarks/finishing.py --of graphs 10000000     # kernels of CUDA graphs, node by node

Ranges are push/pop ranges nested two deep. Launches are calls of cudaLaunchKernel by two threads,
each with the kernel it launched: two streams, whose kernels CUPTI returns buffer by buffer and so
not in order of time, as the logs of real programs have them. After every eighth, the thread waits
for its stream.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
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


_CALL_NAME, _CUDA_NAME, _CALL, _KERNEL = 64, 65, 66, 67
_LAUNCHES, _HAS_PLACE = 1, 16  # flags of calls
_HAS_GRAPH_NODE = 1  # of kernels
_KERNELS = 400
_GRAPH_NODES = 1_000
_WAIT_EVERY = 8


def write_cuda_session(folder: Path, launches: int, *, in_graphs: bool = False) -> int:
    """Write a raw recording with kernels and a call for each, or each graph; return its size."""
    facts = {"started_monotonic_ns": 1_000, "started_utc_ns": 1_790_000_000_000_000_000}
    (folder / "session.json").write_text(json.dumps({**facts, "collected": ["nvtx", "cuda"]}))
    calls = launches // _GRAPH_NODES if in_graphs else launches
    name = "cudaGraphLaunch_v10000" if in_graphs else "cudaLaunchKernel_v7000"
    for thread in range(2):
        batches = [
            _text(_CALL_NAME, 2 << 16 | 211, name),
            _text(_CALL_NAME, 2 << 16 | 131, "cudaStreamSynchronize_v3020"),
            *_calls(calls, thread, _LAUNCHES | (4 if in_graphs else 0)),
        ]
        _write_log(folder / f"7-1-{thread}.wlraw", 100 + thread, calls // 2, batches)
    names = [_text(_CUDA_NAME, n + 1, f"_Z9kernel_{n:03}Pfi") for n in range(_KERNELS)]
    batches = [*names, *_kernels(launches, in_graphs=in_graphs)]
    _write_log(folder / "7-1-2.wlraw", 102, launches, batches)
    return sum(path.stat().st_size for path in folder.glob("*.wlraw"))


def _text(kind: int, aux: int, text: str) -> bytes:
    raw = text.encode()
    words = -(-len(raw) // 8)
    header = _word(kind, 3 + words, aux)
    return struct.pack("<QQQ", header, 0, len(raw)) + raw.ljust(words * 8, b"\0")


def _write_log(path: Path, tid: int, events: int, batches: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.write(_header(events).ljust(_HEADER_BYTES, b"\0"))
        file.write(struct.pack("<QQQ16x", _word(_THREAD, 5, 0), 1_000, tid))
        for batch in batches:
            file.write(batch)


def _numbers(count: int) -> Iterator[np.ndarray]:
    for first in range(0, count, _BATCH):
        yield np.arange(first, min(first + _BATCH, count), dtype=np.uint64)


def _calls(calls: int, thread: int, flags: int) -> Iterator[bytes]:
    """Yield the records of every second call, and of a wait after each eighth of them."""
    launch = _word(_CALL, 4, 2 << 16 | 211) | flags << 40
    wait = _word(_CALL, 5, 2 << 16 | 131) | _HAS_PLACE << 40
    for numbers in _numbers(calls // 2):
        own = numbers * 2 + thread
        begun = 2_000 + own * 2_000
        words = np.zeros((len(own), 9), np.uint64)
        words[:, 0], words[:, 1], words[:, 2] = launch, begun, begun + 1_500 + own % 300
        words[:, 3] = own + 1
        words[:, 4], words[:, 5], words[:, 6] = wait, begun + 1_900, begun + 3_900
        words[:, 7], words[:, 8] = 1 << 31 | own, 7 + thread | 1 << 32
        is_there = np.ones(words.shape, bool)
        is_there[numbers % _WAIT_EVERY != 0, 4:] = False
        yield words[is_there].tobytes()


def _kernels(launches: int, *, in_graphs: bool) -> Iterator[bytes]:
    """Yield the records of kernels: of each 500 first those of one stream, then of the other."""
    size = 12 if in_graphs else 10
    for numbers in _numbers(launches):
        order = np.argsort(numbers // 500 * 2 + numbers % 2, kind="stable")
        own = numbers[order]
        begun = 5_000 + own * (2 if in_graphs else 2_000)
        kernel = own % _KERNELS
        words = np.zeros((len(own), size), np.uint64)
        flags = _HAS_GRAPH_NODE if in_graphs else 0
        words[:, 0] = _word(_KERNEL, size, 0) | flags << 40 | kernel + 1
        words[:, 1], words[:, 2] = begun, begun + 1_000 + kernel * 5
        words[:, 3] = 1 << 32
        correlation = own // _GRAPH_NODES + 1 if in_graphs else own + 1
        words[:, 4] = 7 + own % 2 | correlation << 32
        words[:, 5] = 1 + kernel * 13 | 1 << 32 | 1 << 48
        words[:, 6] = 256 | 1 << 16 | 1 << 32 | 32 << 48
        words[:, 7] = kernel % 3 * 1024 << 32
        if in_graphs:
            words[:, 10], words[:, 11] = own % _GRAPH_NODES + 1 | 1 << 40, 3
        yield words.tobytes()


def command(folder: Path) -> list[str]:
    """Return the command that finishes a raw recording, to out.warpline beside its logs."""
    words = [str(folder), "--output", str(folder / "out.warpline")]
    return [sys.executable, "-m", "warpline.capture.finishing", *words]


def main() -> None:
    """Print a line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--of", choices=("ranges", "launches", "graphs"), default="ranges")
    parser.add_argument("--runs", type=int, default=1, help="the least CPU time of so many")
    options = parser.parse_args()
    print(f"{options.of:>12} {'logs':>9} {'CPU':>9} {'memory':>9} {'per row':>10} {'file':>9}")
    for count in options.counts:
        with tempfile.TemporaryDirectory(suffix=".raw") as name:
            folder = Path(name)
            if options.of == "ranges":
                logs = write_session(folder, count)
            else:
                logs = write_cuda_session(folder, count, in_graphs=options.of == "graphs")
            costs = [run(command(folder)) for _ in range(options.runs)]
            size = (folder / "out.warpline").stat().st_size
        cost = min(costs, key=lambda each: each.cpu_s)
        print(
            f"{count:>12,} {logs / 1e6:>6.0f} MB {cost.cpu_s:>7.2f} s {cost.peak_mb:>6.0f} MB"
            f" {cost.peak_mb * 1e6 / count:>8.0f} B {size / 1e6:>6.0f} MB"
        )


if __name__ == "__main__":
    main()
