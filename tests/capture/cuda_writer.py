"""Writes the CUDA records of raw logs, and whole raw sessions from exports of nsys.

The layout is that of native/raw/records.toml.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from capture.raw_writer import ORIGIN_NS, Log, text_body, write_session

CALL_NAME, NAME, CALL, KERNEL, COPY, FILL, GRAPH, WAIT, EVENT, MEMORY, POOL = range(64, 75)
OVERHEAD, DEVICE, CONTEXT, STREAM, GRAPH_NODE, LOST, BUFFER, CUDA_CLOCK, COLLECTING = range(75, 84)
COUNTER_NAME, COUNTED_KERNEL, COUNTER_VALUE, PASS_CLOCK = range(86, 90)
DEVICE_ATTRIBUTE = 90
CPU_FAULT, GPU_FAULT, PC_SAMPLE, PC_SAMPLING = range(91, 95)
IS_RANGE, IS_FAILED = 1, 2
NONE = 0xFFFFFFFF
LAUNCHES, CAPTURES, IS_GRAPH = 1, 2, 4
HAS_PLACE, HAS_EVENT = 16, 32
NULL_STREAM = 0xFFFFFFFE
TARGETS = 1024  # the bit of what is collected
HAS_NODE, HAS_CLUSTER, HAS_PEER, HAS_COUNT, IS_MIGRATION = 1, 2, 2, 4, 8
COOPERATIVE, COOPERATIVE_MULTI = 16, 32
DRIVER, RUNTIME = 1, 2
ALL_KINDS = 1023
BY_CALLS = ALL_KINDS & ~(32 | 64) | TARGETS


class CudaLog(Log):
    """A log with CUDA records; times count from the origin, except where CUPTI has its own clock.

    Args:
        cupti_origin_ns: What CUPTI's clock shows at the origin; None: it is the host's.
        more: What `Log` takes.
    """

    def __init__(self, *args: Any, cupti_origin_ns: int | None = None, **more: Any) -> None:
        self.cupti_origin_ns = ORIGIN_NS if cupti_origin_ns is None else cupti_origin_ns
        self._names: dict[str, int] = {}
        self._calls: dict[tuple[str, int], int] = {}
        super().__init__(*args, **more)

    def name_number(self, text: str | None) -> int:
        if text is None:
            return 0
        if text not in self._names:
            self._names[text] = len(self._names) + 1
            self.add(NAME, self._names[text], body=text_body(text, 0))
        return self._names[text]

    def call(
        self,
        name: str,
        start: int,
        end: int,
        correlation: int,
        *,
        status: int = 0,
        flags: int = 0,
        domain: int = RUNTIME,
        place: tuple[int, int] | None = None,
        event: int | None = None,
    ) -> None:
        """Write a call; `place` is the context and the stream that it says it concerns."""
        if (name, domain) not in self._calls:
            self._calls[name, domain] = len(self._calls) + 1
            self.add(CALL_NAME, domain << 16 | self._calls[name, domain], body=text_body(name, 0))
        self.events += 1
        body = struct.pack("<QQII", ORIGIN_NS + start, ORIGIN_NS + end, correlation, status)
        if place is not None:
            flags, body = flags | HAS_PLACE, body + struct.pack("<II", place[1], place[0])
        if event is not None:
            flags, body = flags | HAS_EVENT, body + struct.pack("<Q", event)
        self.add(CALL, domain << 16 | self._calls[name, domain], flags, body)

    def launch(self, start: int, end: int, correlation: int, **more: Any) -> None:
        self.call("cudaLaunchKernel_v7000", start, end, correlation, flags=LAUNCHES, **more)

    def graph_call(self, start: int, correlation: int) -> None:
        name = "cudaGraphLaunch_v10000"
        self.call(name, start, start + 5, correlation, flags=LAUNCHES | IS_GRAPH)

    def kernel(
        self, name: str | None, start: int | None, end: int | None, correlation: int, **more: Any
    ) -> None:
        """Write a kernel; times of None are what CUPTI could not tell."""
        number = self.name_number(name)
        flags, words = more.get("flags", 0), self._work(start, end, correlation, more)
        grid, block = more.get("grid", (1, 1, 1)), more.get("block", (32, 1, 1))
        words += struct.pack("<IHH", *grid)
        words += struct.pack("<4H", *block, more.get("registers", 16))
        words += struct.pack("<II", *more.get("shared", (0, 0)))
        words += struct.pack("<IIQ", more.get("executed", 0), *more.get("local", (0, 0)))
        node_flag, node = _node(more)
        words += node
        if "cluster" in more:
            flags, words = flags | HAS_CLUSTER, words + struct.pack("<4H", *more["cluster"], 0)
        self._event(KERNEL, number, flags | node_flag, words)

    def copy(self, start: int, end: int, correlation: int, size: int, **more: Any) -> None:
        source, destination = more.get("memory", (1, 3))
        aux = more.get("kind", 1) | source << 8 | destination << 16
        flags, node = _node(more)
        words = self._work(start, end, correlation, more) + struct.pack("<Q", size) + node
        if "peers" in more:
            flags, words = flags | HAS_PEER, words + struct.pack("<4I", *more["peers"], 1, 1)
        if "count" in more:
            flags, words = flags | HAS_COUNT, words + struct.pack("<Q", more["count"])
        if "migration" in more:  # address and cause
            flags, words = flags | IS_MIGRATION, words + struct.pack("<QQ", *more["migration"])
        self._event(COPY, aux, flags, words)

    def fill(self, start: int, end: int, correlation: int, size: int, **more: Any) -> None:
        flags, node = _node(more)
        words = self._work(start, end, correlation, more)
        words += struct.pack("<QII", size, more.get("memory", 3), 1) + node
        self._event(FILL, more.get("value", 0), flags, words)

    def graph(self, graph: int, start: int, end: int, correlation: int, **more: Any) -> None:
        self._event(GRAPH, graph, 0, self._work(start, end, correlation, more))

    def wait(self, kind: int, start: int, end: int, correlation: int, **more: Any) -> None:
        words = self._times(start, end)
        words += struct.pack("<II", more.get("context", 1), more.get("stream", NONE))
        words += struct.pack("<II", correlation, more.get("event", NONE))
        self.add(WAIT, kind, body=words + struct.pack("<QQ", more.get("sync", 0), 0))

    def event(self, event: int, correlation: int, **more: Any) -> None:
        words = struct.pack("<II", more.get("context", 1), more.get("stream", 7))
        words += struct.pack("<II", correlation, more.get("device", NONE))
        words += struct.pack("<Q", more.get("sync", 0))
        time = more.get("time")
        if time is not None:
            words += struct.pack("<Q", self.cupti_origin_ns + time)
        self.add(EVENT, event, int(time is not None), words)

    def memory(self, operation: int, time: int, address: int, size: int, **more: Any) -> None:
        number = self.name_number(more.get("name"))
        words = struct.pack("<Q", self.cupti_origin_ns + time)
        words += struct.pack("<II", more.get("device", 0), more.get("context", 1))
        words += struct.pack("<II", more.get("stream", NONE), more.get("correlation", 0))
        words += struct.pack("<QQ", address, size)
        flags = 0
        if "pool" in more:
            flags, words = 1, words + struct.pack("<4Q", more["pool"], 0, 0, 0)
        if number:
            flags, words = flags | 2, words + struct.pack("<Q", number)
        self.add(MEMORY, operation | more.get("kind", 3) << 8, flags, words)

    def cpu_fault(self, time: int, address: int, pc: int) -> None:
        self.add(CPU_FAULT, body=struct.pack("<QQQ", self.cupti_origin_ns + time, address, pc))

    def gpu_fault(self, start: int | None, end: int | None, address: int, **more: Any) -> None:
        words = self._times(start, end) + struct.pack("<QQ", more.get("device", 0), address)
        self.add(GPU_FAULT, more.get("access", 1), body=words + struct.pack("<Q", more["faults"]))

    def overhead(self, kind: int, start: int, end: int, tid: int | None = None) -> None:
        words = self._times(start, end) + struct.pack("<II", 2 if tid else 0, tid or 0)
        self.add(OVERHEAD, kind, body=words + struct.pack("<Q", 0))

    def device(self, number: int = 0, name: str | None = "GPU", **more: Any) -> None:
        text = self.name_number(name)
        words = struct.pack("<II", text, more.get("processors", 132))
        words += more.get("uuid", bytes([number + 1]) * 16)
        words += struct.pack("<QQQ", *more.get("memory", (80 << 30, 3 * 10**12)), 1_980_000_000)
        words += struct.pack("<II", more.get("l2", 50 << 20), 32)
        words += struct.pack("<II", *more.get("compute", (9, 0)))
        words += more.get("pci", struct.pack("<IHH", 0, number, 0))
        place = more.get("machine_number", -1) + 1 << 8
        self.add(DEVICE, number, body=words + struct.pack("<4I", 2048, 233472, 65536, place))

    def context(self, number: int = 1, **more: Any) -> None:
        words = struct.pack("<II", more.get("device", 0), more.get("null_stream", 7))
        words += struct.pack("<II", more.get("parent", 0), int(more.get("green", False)))
        self.add(CONTEXT, number, body=words)

    def stream(self, number: int, priority: int = 0, kind: int = 2, context: int = 1) -> None:
        self.add(STREAM, number, body=struct.pack("<IiII", context, priority, kind, 0))

    def graph_node(self, time: int, node: int, original: int = 0) -> None:
        self.add(GRAPH_NODE, 0, body=struct.pack("<QQQQ", ORIGIN_NS + time, node, original, 1))

    def lost(self, time: int, count: int) -> None:
        self.add(LOST, body=struct.pack("<QQ", ORIGIN_NS + time, count))

    def buffer(self, time: int, count: int = 1) -> None:
        self.add(BUFFER, body=struct.pack("<QQ", ORIGIN_NS + time, count))

    def cuda_clock(self, cupti: int, time: int) -> None:
        """Write that CUPTI's clock showed `cupti` when the host's showed `time`."""
        words = struct.pack("<QQ", self.cupti_origin_ns + cupti, ORIGIN_NS + time)
        self.add(CUDA_CLOCK, body=words)

    def counter_name(self, metric: int, text: str) -> None:
        """Write the name of a metric, and its unit after a space."""
        self.add(COUNTER_NAME, metric, body=text_body(text, 0))

    def device_attribute(self, name: str, value: int, device: int = 0) -> None:
        self.add(DEVICE_ATTRIBUTE, device, body=text_body(name, value & (1 << 64) - 1))

    def counted(self, name: str | None, launch: int, start: int, end: int, **more: Any) -> None:
        """Write a launch whose counters were collected; `kernels` makes it a range of work."""
        flags = IS_FAILED if more.get("failed") else 0
        flags |= {None: 0, False: 4, True: 12}[more.get("fixed_clocks")]
        words = self._times(start, end)
        place = (more.get("device", 0), more.get("context", 1), more.get("stream", 7))
        words += struct.pack("<4I", *place, more.get("correlation", 0))
        words += struct.pack("<II", launch, more.get("seen", launch))
        words += struct.pack("<IHH", *more.get("grid", (1, 1, 1)))
        words += struct.pack("<4H", *more.get("block", (32, 1, 1)), more.get("registers", 16))
        words += struct.pack("<II", *more.get("shared", (0, 0)))
        words += struct.pack("<II", more.get("local", 0), more.get("passes", 1))
        if "kernels" in more:
            flags, words = flags | IS_RANGE, words + struct.pack("<Q", more["kernels"])
        self._event(COUNTED_KERNEL, self.name_number(name), flags, words)

    def counter_value(self, metric: int, launch: int, value: float) -> None:
        self.add(COUNTER_VALUE, metric, body=struct.pack("<Qd", launch, value))

    def pass_clock(self, launch: int, lowest_mhz: int, highest_mhz: int) -> None:
        self.add(PASS_CLOCK, launch, body=struct.pack("<II", lowest_mhz, highest_mhz))

    def pc_sample(self, checksum: int, function: str, offset: int, **more: Any) -> None:
        """Write samples of one instruction with one stall reason."""
        stall = self.name_number(more.get("stall", "wait"))
        words = struct.pack("<QII", checksum & (1 << 64) - 1, offset, stall)
        words += struct.pack("<QQ", more.get("samples", 1), more.get("not_issued", 0))
        words += struct.pack("<II", more.get("device", 0), 0)
        self._event(PC_SAMPLE, self.name_number(function), 0, words)

    def pc_sampling(self, device: int = 0, **more: int) -> None:
        """Write what CUPTI told about the samples of a device."""
        words = struct.pack("<II", more.get("period", 4096), more.get("left_out", 0))
        counts = (more.get(name, 0) for name in ("total", "dropped", "non_user", "full"))
        self.add(PC_SAMPLING, device, body=words + struct.pack("<4Q", *counts))

    def collecting(self, time: int, kinds: int = ALL_KINDS) -> None:
        self.add(COLLECTING, kinds, body=struct.pack("<Q", ORIGIN_NS + time))

    def _times(self, start: int | None, end: int | None) -> bytes:
        known = [0 if time is None else self.cupti_origin_ns + time for time in (start, end)]
        return struct.pack("<QQ", *known)

    def _work(self, start: int | None, end: int | None, correlation: int, more: Any) -> bytes:
        place = (more.get("device", 0), more.get("context", 1), more.get("stream", 7))
        return self._times(start, end) + struct.pack("<4I", *place, correlation)

    def _event(self, kind: int, aux: int, flags: int, words: bytes) -> None:
        self.events += 1
        self.add(kind, aux, flags, words)


def _node(more: Any) -> tuple[int, bytes]:
    if "node" not in more:
        return 0, b""
    return HAS_NODE, struct.pack("<QQ", more["node"], more.get("graph", 0))


class NsysRows:
    """The tables of an nsys export, row by row; what an export lacks is None."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
        self._database.row_factory = sqlite3.Row
        self._tables = {row[0] for row in self._database.execute("SELECT name FROM sqlite_master")}
        self.strings = {row["id"]: row["value"] for row in self("StringIds")}

    def __call__(self, table: str) -> Iterator[defaultdict[str, Any]]:
        if table in self._tables:
            for row in self._database.execute(f'SELECT * FROM "{table}"'):
                yield defaultdict(lambda: None, zip(row.keys(), row, strict=True))

    def close(self) -> None:
        self._database.close()


def _pid(key: int) -> int:
    return (key >> 24) & 0xFFFFFF


_SYNC, _EVENTS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"


class _Converter:
    """Writes the CUDA rows of an export as an agent would have.

    Args:
        rows: Of the export.
        by_calls: Waits and event records are what their calls say, no records of CUPTI.
    """

    def __init__(self, rows: NsysRows, *, by_calls: bool) -> None:
        self.rows = rows
        self.by_calls = by_calls
        self.logs: dict[tuple[int, int], CudaLog] = {}

    def log(self, pid: int, tid: int) -> CudaLog:
        if (pid, tid) not in self.logs:
            number = sum(1 for owner, _ in self.logs if owner == pid)
            log = CudaLog(pid, incarnation=1, tid=tid, number=number, closed=1 << 40)
            self.logs[pid, tid] = log
        return self.logs[pid, tid]

    def worker(self, key: int) -> CudaLog:
        return self.log(_pid(key), _pid(key))

    def convert(self) -> list[CudaLog]:
        self.calls()
        self.dimensions()
        self.work()
        if not self.by_calls:
            self.ordering()
        self.memory()
        self.graphs()
        return list(self.logs.values())

    def targets(self) -> dict[tuple[int, int], dict[str, Any]]:
        """Return what calls concern, by process and correlation."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for table in (_SYNC, _EVENTS) if self.by_calls else ():
            for row in self.rows(table):
                target: dict[str, Any] = {"place": (row["contextId"], row["streamId"] & NONE)}
                if row["eventId"] not in {None, NONE}:
                    target["event"] = row["eventId"]
                found[_pid(row["globalPid"]), row["correlationId"]] = target
        return found

    def calls(self) -> None:
        targets = self.targets()
        for row in self.rows("CUPTI_ACTIVITY_KIND_RUNTIME"):
            name, key = self.rows.strings[row["nameId"]], row["globalTid"]
            plain = name.removeprefix("cuda").removeprefix("cu")
            is_graph = plain.startswith("GraphLaunch")
            is_launch = plain.startswith(("Launch", "Memcpy", "Memset")) or is_graph
            target = targets.get((_pid(key), row["correlationId"]), {})
            if self.by_calls and plain.startswith("DeviceSynchronize"):
                target = {"place": (1, NONE)}
            self.log(_pid(key), key & 0xFFFFFF).call(
                name,
                row["start"],
                row["end"],
                row["correlationId"],
                status=row["returnValue"] & NONE,
                flags=LAUNCHES * is_launch | IS_GRAPH * is_graph,
                domain=RUNTIME if name.startswith("cuda") else DRIVER,
                **target,
            )

    def dimensions(self) -> None:
        keys = {row["globalPid"] for row in self.rows("CUPTI_ACTIVITY_KIND_KERNEL")}
        keys |= {row["globalPid"] for row in self.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")}
        gpus = {row["id"]: row for row in self.rows("TARGET_INFO_GPU")}
        for key in sorted(keys):
            log, pid = self.worker(key), _pid(key)
            log.collecting(0, BY_CALLS if self.by_calls else ALL_KINDS)
            for row in self.rows("TARGET_INFO_CUDA_DEVICE"):
                if row["pid"] == pid:
                    _write_gpu(log, row["cudaId"], gpus[row["gpuId"]])
            for row in self.rows("TARGET_INFO_CUDA_CONTEXT_INFO"):
                if row["processId"] == pid:
                    log.context(
                        row["contextId"], device=row["deviceId"], null_stream=row["nullStreamId"]
                    )
            for row in self.rows("TARGET_INFO_CUDA_STREAM"):
                if row["processId"] == pid:
                    priority = struct.unpack("<i", struct.pack("<I", row["priority"]))[0]
                    log.stream(row["streamId"], priority, row["flag"], row["contextId"])

    def work(self) -> None:
        strings = self.rows.strings
        for row in self.rows("CUPTI_ACTIVITY_KIND_KERNEL"):
            more = _place(row)
            if row["clusterX"]:
                more["cluster"] = tuple(row[f"cluster{axis}"] for axis in "XYZ")
            self.worker(row["globalPid"]).kernel(
                strings[row["mangledName"] or row["shortName"]],
                row["start"],
                row["end"],
                row["correlationId"],
                grid=tuple(row[f"grid{axis}"] for axis in "XYZ"),
                block=tuple(row[f"block{axis}"] for axis in "XYZ"),
                registers=row["registersPerThread"],
                shared=(row["staticSharedMemory"], row["dynamicSharedMemory"]),
                executed=row["sharedMemoryExecuted"],
                local=(row["localMemoryPerThread"], row["localMemoryTotal"]),
                flags={2: COOPERATIVE, 3: COOPERATIVE_MULTI}.get(row["launchType"], 0),
                **more,
            )
        for row in self.rows("CUPTI_ACTIVITY_KIND_MEMCPY"):
            more = {**_place(row), "memory": (_cupti(row["srcKind"]), _cupti(row["dstKind"]))}
            if row["srcDeviceId"] is not None:
                more["peers"] = (row["srcDeviceId"], row["dstDeviceId"])
            times = (row["start"], row["end"], row["correlationId"])
            log = self.worker(row["globalPid"])
            log.copy(*times, row["bytes"], kind=row["copyKind"], **more)
        for row in self.rows("CUPTI_ACTIVITY_KIND_MEMSET"):
            more = {**_place(row), "memory": _cupti(row["memKind"]), "value": row["value"]}
            times = (row["start"], row["end"], row["correlationId"])
            self.worker(row["globalPid"]).fill(*times, row["bytes"], **more)
        for row in self.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"):
            times = (row["start"], row["end"], row["correlationId"])
            log = self.worker(row["globalPid"])
            log.graph(row["graphExecId"] or row["graphId"], *times, **_place(row))

    def ordering(self) -> None:
        for row in self.rows(_SYNC):
            times = (row["start"], row["end"], row["correlationId"])
            log, sync = self.worker(row["globalPid"]), row["eventSyncId"] or 0
            names = {"context": row["contextId"], "stream": row["streamId"] & NONE}
            event = NONE if row["eventId"] is None else row["eventId"]
            sync = 0 if sync == NONE else sync
            log.wait(row["syncType"], *times, **names, event=event, sync=sync)
        for row in self.rows(_EVENTS):
            names = {"context": row["contextId"], "stream": row["streamId"]}
            log, sync = self.worker(row["globalPid"]), row["eventSyncId"] or 0
            log.event(row["eventId"], row["correlationId"], sync=sync, **names)

    def memory(self) -> None:
        for row in self.rows("CUDA_GPU_MEMORY_USAGE_EVENTS"):
            more: dict[str, Any] = {
                "device": row["deviceId"],
                "context": row["contextId"],
                "correlation": row["correlationId"],
                "kind": _cupti(row["memKind"]),
                "name": row["name"],
            }
            if row["localMemoryPoolAddress"] is not None:
                more["pool"] = row["localMemoryPoolAddress"]
            self.worker(row["globalPid"]).memory(
                row["memoryOperationType"] + 1, row["start"], row["address"], row["bytes"], **more
            )

    def graphs(self) -> None:
        for row in self.rows("CUDA_GRAPH_NODE_EVENTS"):
            log = self.log(_pid(row["globalTid"]), row["globalTid"] & 0xFFFFFF)
            log.graph_node(row["start"], row["graphNodeId"], row["originalGraphNodeId"] or 0)


def _place(row: Any) -> dict[str, Any]:
    place = {"device": row["deviceId"], "context": row["contextId"], "stream": row["streamId"]}
    if row["graphNodeId"] is not None:
        place["node"] = row["graphNodeId"]
    return place


def _cupti(memory: int | None) -> int:
    """Return CUPTI's number of a kind of memory, from nsys's."""
    return 0 if memory is None or memory == 7 else memory + 1


def _write_gpu(log: CudaLog, number: int, gpu: Any) -> None:
    domain, bus, slot = (int(part, 16) for part in gpu["busLocation"].split(".")[0].split(":"))
    log.device(
        number,
        gpu["name"],
        uuid=bytes.fromhex(gpu["uuid"].replace("-", "")),
        processors=gpu["smCount"],
        memory=(gpu["totalMemory"], gpu["memoryBandwidth"]),
        l2=gpu["l2CacheSize"],
        compute=(gpu["computeMajor"], gpu["computeMinor"]),
        pci=struct.pack("<IHH", domain, bus, slot),
    )


def write_from_nsys(export: Path, folder: Path, *, by_calls: bool = False) -> Path:
    """Write the session that would have led to the CUDA tables of an export of nsys.

    With `by_calls` waits and event records are not CUPTI's: their calls say what they concern.
    """
    with closing(NsysRows(export)) as rows:
        logs = _Converter(rows, by_calls=by_calls).convert()
    return write_session(folder, *logs, ended_monotonic_ns=ORIGIN_NS + (1 << 40))
