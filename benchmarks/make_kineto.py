"""Write a large trace in the form of PyTorch's profiler (Kineto), with the events of make_nsys.py.

Usage: python benchmarks/make_kineto.py KERNELS OUT.json [--seed 1]

A launch, its kernel and the two ends of the arrow between them are events, as PyTorch writes them,
one per line with the usual arguments. Ranges are operators, steps are annotations. All values are
synthetic.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from make_nsys import COMMUNICATION, COMPUTE, batches, strings

PROCESS, THREAD, GPU = 4242, 4242, 0
FIRST_CORRELATION = 100_000  # HTA 0.5.0 with pandas 3 fails if all fit 16 bits
HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "Example GPU", "totalGlobalMem": 150000000000, "computeMajor": 9,
     "computeMinor": 0, "numSms": 132}
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
  "baseTimeNanoseconds": 1700000000000000000,
  "displayTimeUnit": "ms",
  "traceEvents": [
"""
VERSION = re.compile(r"_v\d+$")  # of a CUDA call's name in an nsys export


def time_us(time_ns: int) -> str:
    """Return a time in microseconds, exactly."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def span(category: str, name: str, row: int, begin_ns: int, end_ns: int) -> str:
    """Return an event up to its arguments; `row` is a thread or a stream."""
    process = GPU if category in {"kernel", "gpu_memcpy"} else PROCESS
    times = f'"ts": {time_us(begin_ns)}, "dur": {time_us(end_ns - begin_ns)}'
    where = f'"pid": {process}, "tid": {row}'
    return f'{{"ph": "X", "cat": "{category}", "name": "{name}", {where}, {times}, "args": '


def arrow(phase: str, correlation: int, row: int, process: int, time_ns: int) -> str:
    """Return one end of the arrow from a launch to its operation."""
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'{{"ph": "{phase}", "id": {correlation}, "pid": {process}, "tid": {row},'
        f' "ts": {time_us(time_ns)}, "cat": "ac2g", "name": "ac2g"{end}}}'
    )


def events(rows: dict[str, list[tuple[object, ...]]], names: dict[int, str]) -> Iterator[str]:
    """Yield the events of rows of make_nsys.py as JSON."""
    operation_of: dict[int, str] = {}
    for row in rows["CUPTI_ACTIVITY_KIND_KERNEL"]:
        begin, end, stream, correlation, name = (int(str(row[n])) for n in (0, 1, 5, 6, 8))
        correlation += FIRST_CORRELATION
        arguments = (
            f'{{"External id": {correlation}, "queued": 0, "device": 0, "context": 1,'
            f' "stream": {stream}, "correlation": {correlation}, "registers per thread": 32,'
            ' "shared memory": 0, "blocks per SM": 0.969697, "warps per SM": 3.878788,'
            ' "grid": [128, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 6}}'
        )
        yield span("kernel", names[name], stream, begin, end) + arguments
        operation_of[correlation] = arrow("f", correlation, stream, GPU, begin)
    for row in rows["CUPTI_ACTIVITY_KIND_MEMCPY"]:
        begin, end, stream, correlation, size = (int(str(row[n])) for n in (0, 1, 5, 6, 8))
        correlation += FIRST_CORRELATION
        kind = ("Pageable", "Pinned")[int(str(row[10]))]
        arguments = (
            f'{{"External id": {correlation}, "device": 0, "context": 1, "stream": {stream},'
            f' "correlation": {correlation}, "bytes": {size}}}}}'
        )
        copy = f"Memcpy HtoD ({kind} -> Device)"
        yield span("gpu_memcpy", copy, stream, begin, end) + arguments
        operation_of[correlation] = arrow("f", correlation, stream, GPU, begin)
    for row in rows["CUPTI_ACTIVITY_KIND_RUNTIME"]:
        begin, end, correlation, called = (int(str(row[n])) for n in (0, 1, 4, 5))
        correlation += FIRST_CORRELATION
        arguments = f'{{"External id": {correlation}, "cbid": 211, "correlation": {correlation}}}}}'
        yield span("cuda_runtime", VERSION.sub("", names[called]), THREAD, begin, end) + arguments
        if correlation in operation_of:
            yield arrow("s", correlation, THREAD, PROCESS, begin)
            yield operation_of[correlation]
    for row in rows["NVTX_EVENTS"]:
        begin, end, text = int(str(row[0])), int(str(row[1])), str(row[6])
        category = "cpu_op" if text.startswith("aten::") else "user_annotation"
        yield span(category, text, THREAD, begin, end) + '{"Record function id": 0}}'


def make(kernels: int, path: Path, seed: int = 1) -> None:
    """Write a trace of at least `kernels` kernels, whole steps only."""
    names = dict(strings())
    with path.open("w", encoding="ascii") as file:
        file.write(HEAD)
        file.write(
            f'{{"ph": "M", "name": "process_name", "pid": {PROCESS}, "tid": 0, "ts": 0,'
            ' "args": {"name": "python3"}}'
        )
        for stream in (COMPUTE, COMMUNICATION):
            file.write(
                f',\n{{"ph": "M", "name": "thread_name", "pid": {GPU}, "tid": {stream}, "ts": 0,'
                f' "args": {{"name": "stream {stream}"}}}}'
            )
        for rows in batches(kernels, seed):
            file.writelines(f",\n{event}" for event in events(rows, names))
        file.write("\n]}\n")


def main() -> None:
    """Write the file given on the command line."""
    parser = argparse.ArgumentParser(description="Write a large trace of PyTorch's profiler.")
    parser.add_argument("kernels", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    make(options.kernels, options.out, options.seed)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
