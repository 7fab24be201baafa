"""Write a large recording in the form of an Nsight Systems SQLite export.

Usage: python benchmarks/make_nsys.py KERNELS OUT.sqlite [--seed 1]

The recording resembles training: steps with a forward, a backward and an optimizer phase, layers
and operators inside them as nested NVTX ranges, one launch per kernel, a compute stream and a
communication stream, one copy and one synchronization per step. Only tables and columns used by
summaries are written. All values are synthetic.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

TABLES = {
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_GPU": "vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, uuid TEXT, "
    "smCount INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, "
    "contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, "
    "globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER, "
    "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER, "
    "gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
    "staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER, "
    "localMemoryTotal INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, "
    "graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER, end INTEGER, deviceId INTEGER, "
    "contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, "
    "globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, eventClass INTEGER, "
    "globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, "
    "callchainId INTEGER",
    "ThreadNames": "nameId INTEGER, priority INTEGER, globalTid INTEGER",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER, name TEXT, label TEXT",
    "ENUM_CUDA_MEM_KIND": "id INTEGER, name TEXT, label TEXT",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, "
    "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, "
    "textId INTEGER, domainId INTEGER",
}
PROCESS = (1 << 48) | (4242 << 24)
THREAD = PROCESS | 4242
COMPUTE, COMMUNICATION = 7, 13
LAUNCH, COPY, SYNCHRONIZE, COLLECTIVE, THREAD_NAME, FIRST_KERNEL = 1, 2, 3, 4, 5, 6
KERNEL_NAMES = 40
ROWS_PER_WRITE = 50_000


def strings() -> Iterator[tuple[int, str]]:
    """Yield the string table."""
    yield LAUNCH, "cudaLaunchKernel_v7000"
    yield COPY, "cudaMemcpyAsync_v3020"
    yield THREAD_NAME, "python3"
    yield SYNCHRONIZE, "cudaStreamSynchronize_v3020"
    yield COLLECTIVE, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)"
    for index in range(KERNEL_NAMES):
        yield FIRST_KERNEL + index, f"void example::fused_op<{index}, float, {index * 8}>(T2 *)"


class Program:
    """A CPU thread that launches work, and two streams that run it in order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ns = 1_000_000_000
        self.free_ns = {COMPUTE: 0, COMMUNICATION: 0}
        self.correlation = 0
        self.kernels = 0
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}

    def call(self, name: int, duration_ns: int) -> tuple[int, int]:
        """Record one API call; return its start and correlation id."""
        self.correlation += 1
        begin = self.now_ns
        self.now_ns += duration_ns
        row = (begin, self.now_ns, 0, THREAD, self.correlation, name, 0, None)
        self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(row)
        self.now_ns += self.random.randint(500, 3_000)
        return begin, self.correlation

    def run(self, stream: int, earliest_ns: int, duration_ns: int) -> tuple[int, int]:
        """Occupy a stream; return the interval."""
        begin = max(self.free_ns[stream], earliest_ns)
        self.free_ns[stream] = begin + duration_ns
        return begin, begin + duration_ns

    def kernel(self, stream: int, name: int, duration_ns: int) -> None:
        """Launch one kernel."""
        called, correlation = self.call(LAUNCH, self.random.randint(2_500, 7_000))
        begin, end = self.run(stream, called + self.random.randint(2_000, 6_000), duration_ns)
        where = (0, 1, None, stream, correlation, PROCESS)
        shape = (1, None, 32, 128, 1, 1, 128, 1, 1)
        memory = (0, 0, 0, 0, correlation, 32_768, None, 0)
        row = (begin, end, *where, name, name, name, *shape, *memory)
        self.rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(row)
        self.kernels += 1

    def copy(self, byte_count: int) -> None:
        """Copy from the host."""
        called, correlation = self.call(COPY, self.random.randint(4_000, 9_000))
        begin, end = self.run(COMPUTE, called + 3_000, self.random.randint(20_000, 60_000))
        source = self.random.randint(0, 1)
        self.rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append(
            (begin, end, 0, 1, None, COMPUTE, correlation, PROCESS, byte_count, 1, source, 2)
        )

    def open_range(self, name: str) -> int:
        """Push a range; return its row."""
        ranges = self.rows["NVTX_EVENTS"]
        ranges.append((self.now_ns, None, 59, None, None, None, name, THREAD, None, None, 0))
        return len(ranges) - 1

    def close_range(self, row: int) -> None:
        """Pop the range of a row."""
        begin, _, *rest = self.rows["NVTX_EVENTS"][row]
        self.rows["NVTX_EVENTS"][row] = (begin, self.now_ns, *rest)
        self.now_ns += 200

    def layer(self, index: int, phase: str) -> None:
        """Run the operators of one layer."""
        layer = self.open_range(f"layer_{index}")
        for operator in range(4):
            inner = self.open_range(f"aten::op_{operator}")
            name = FIRST_KERNEL + self.random.randrange(KERNEL_NAMES)
            self.kernel(COMPUTE, name, self.random.randint(2_000, 30_000))
            self.close_range(inner)
        if phase == "backward" and index % 3 == 0:
            self.kernel(COMMUNICATION, COLLECTIVE, self.random.randint(50_000, 200_000))
        self.close_range(layer)

    def step(self) -> None:
        """Run one training step."""
        step = self.open_range("step")
        self.copy(1 << 20)
        for phase, layers in (("forward", 12), ("backward", 12), ("optimizer", 4)):
            outer = self.open_range(phase)
            for index in range(layers):
                self.layer(index, phase)
            self.close_range(outer)
        self.call(SYNCHRONIZE, max(1_000, self.free_ns[COMPUTE] - self.now_ns))
        self.close_range(step)


def write(database: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    """Append rows to a table."""
    places = ",".join("?" * len(TABLES[table].split(",")))
    database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def batches(kernels: int, seed: int) -> Iterator[dict[str, list[tuple[object, ...]]]]:
    """Yield the rows of at least `kernels` kernels by table, whole steps only."""
    program = Program(seed)
    while program.kernels < kernels:
        program.step()
        if len(program.rows["NVTX_EVENTS"]) > ROWS_PER_WRITE or program.kernels >= kernels:
            yield program.rows
            for rows in program.rows.values():
                rows.clear()


def make(kernels: int, path: Path, seed: int = 1) -> None:
    """Write a recording of at least `kernels` kernels, whole steps only."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.executescript("PRAGMA journal_mode=off; PRAGMA synchronous=off;")
    for table, columns in TABLES.items():
        database.execute(f"CREATE TABLE {table} ({columns})")
    version = [("EXPORT_PRODUCT_VERSION", "2024.2.3"), ("EXPORT_SCHEMA_VERSION", "3.11.1")]
    write(database, "META_DATA_EXPORT", version)
    write(database, "StringIds", strings())
    write(database, "TARGET_INFO_SESSION_START_TIME", [(1_700_000_000_000_000_000, None, None)])
    gpu = (1 << 48, 0, "Example GPU", "0000:01:00.0", "00000000-0000-0000-0000-000000000000")
    write(database, "TARGET_INFO_GPU", [(*gpu, 132, 150 << 30, 4_800_000_000_000, 1_980_000_000)])
    # nsys prints a table of copies only if the file contains the names of copy kinds.
    write(database, "ENUM_CUDA_MEMCPY_OPER", [(1, "HTOD", "Host-to-Device")])
    kinds = [(0, "PAGEABLE", "Pageable"), (1, "PINNED", "Pinned"), (2, "DEVICE", "Device")]
    write(database, "ENUM_CUDA_MEM_KIND", kinds)
    write(database, "ThreadNames", [(THREAD_NAME, 20, THREAD)])
    for batch in batches(kernels, seed):
        for table, rows in batch.items():
            write(database, table, rows)
    database.commit()
    database.close()


def main() -> None:
    """Write the file given on the command line."""
    parser = argparse.ArgumentParser(description="Write a large recording.")
    parser.add_argument("kernels", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    make(options.kernels, options.out, options.seed)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
