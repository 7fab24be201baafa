"""Events of a recording's file, read without Warpline's code: plain SQL and JSON.

`viewer_container` is the counterpart: the events shown by the page.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple

from support.viewer_container import Decoded, Event


class Fact(NamedTuple):
    """One event of a file, or of the page.

    Attributes:
        track: Its row: the GPU's index and the stream's number, or the thread's number and the
            kind of row.
        start_ns: Start, by the file's own clock.
        end_ns: End.
        name: Displayed name.
        launch_ns: Start of its launch call; None without one.
    """

    track: tuple[Any, ...]
    start_ns: int
    end_ns: int
    name: str
    launch_ns: int | None = None


def nsys_facts(path: Path) -> Counter[Fact]:
    """Return the events of an Nsight Systems export that the page must show."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        return Counter(_Nsys(database).facts())


# CUpti_ActivityMemcpyKind; old exports have no table of the labels.
_COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}


class _Nsys:
    """One export.

    Times are used as they are: Warpline's have the same origin.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        self._tables = {
            name
            for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
        }
        self._texts = dict(self._rows("SELECT id, value FROM StringIds", "StringIds"))
        self._calls: dict[tuple[int, int], int] = {}

    def _rows(self, sql: str, table: str) -> list[tuple[Any, ...]]:
        return self._database.execute(sql).fetchall() if table in self._tables else []

    def facts(self) -> list[Fact]:
        calls = self._rows(
            "SELECT start, end, globalTid, nameId, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
        )
        found = []
        for start, end, thread, name, correlation in calls:
            key = (thread >> 24, correlation)
            self._calls[key] = min(start, self._calls.get(key, start))
            found.append(Fact(_thread(thread, "CUDA API"), start, end, self._texts[name]))
        found += self._device("KERNEL", "demangledName")
        found += self._device("MEMCPY", "copyKind")
        found += self._device("MEMSET", "'[CUDA memset]'")
        found += self._device("GRAPH_TRACE", "'CUDA graph'")
        found += self._nvtx()
        # The only row of class 31 is not a call: it marks the start of tracing.
        osrt = "SELECT start, end, globalTid, nameId FROM OSRT_API WHERE eventClass != 31"
        found += [
            Fact(_thread(thread, "OS calls"), start, end, self._texts[name])
            for start, end, thread, name in self._rows(osrt, "OSRT_API")
        ]
        for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
            cost = f"SELECT start, end, globalTid, nameId FROM {table}"
            found += [
                Fact(_thread(thread, "profiler"), start, end, self._texts[name])
                for start, end, thread, name in self._rows(cost, table)
            ]
        return found

    def _device(self, kind: str, name: str) -> list[Fact]:
        table = f"CUPTI_ACTIVITY_KIND_{kind}"
        keys = "start, end, deviceId, streamId, globalPid, correlationId"
        found = []
        for start, end, device, stream, process, correlation, label in self._rows(
            f"SELECT {keys}, {name} FROM {table}", table
        ):
            text = label if isinstance(label, str) else self._label(kind, label)
            launch = self._calls.get((process >> 24, correlation))
            found.append(Fact(("gpu", device, stream), start, end, cut(text), launch))
        return found

    def _label(self, kind: str, number: int) -> str:
        if kind == "KERNEL":
            return str(self._texts[number])
        return f"[CUDA memcpy {_COPIES[number]}]"

    def _nvtx(self) -> list[Fact]:
        found = []
        for kind, start, end, thread, text, number in self._rows(
            "SELECT eventType, start, end, globalTid, text, textId FROM NVTX_EVENTS"
            " WHERE eventType IN (34, 59, 60, 70, 71)",
            "NVTX_EVENTS",
        ):
            row = "marks" if kind == 34 else "start/end ranges" if kind in {60, 71} else "ranges"
            name = text if text is not None else self._texts.get(number, "(no name)")
            found.append(Fact(_thread(thread, row), start, start if kind == 34 else end, cut(name)))
        return found


Samples = dict[tuple[int, str], list[tuple[int, float]]]


def nsys_metrics(path: Path) -> Samples:
    """Return the samples of each metric, by GPU and name: time and value. One GPU only."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'GPU_METRICS'")
        if not found.fetchall():
            return {}
        assert database.execute("SELECT count(DISTINCT typeId) FROM GPU_METRICS").fetchone() == (1,)
        rows = database.execute(
            "SELECT metricName, timestamp, value FROM GPU_METRICS"
            " JOIN TARGET_INFO_GPU_METRICS USING (typeId, metricId) ORDER BY timestamp"
        )
        samples: Samples = {}
        for name, time, value in rows:
            # The file has clocks in Hz, and the warps of TPCs, each of which has two SMs.
            divisor = 1e6 if "[MHz]" in name else 2 if "Warps" in name and "[Avg" in name else 1
            shown = value / divisor
            samples.setdefault((0, name), []).append((time, shown))
        return samples


def kineto_memory(path: Path) -> Samples:
    """Return the bytes in use by the framework's allocator on each GPU: time and bytes."""
    samples: Samples = {}
    for item in _kineto(path)["traceEvents"]:
        arguments = item.get("args") or {}
        if item.get("name") == "[memory]" and arguments.get("Device Type") == 1:
            key = (arguments["Device Id"], "allocated memory")
            value = arguments["Total Allocated"]
            samples.setdefault(key, []).append((_ns(item["ts"]), value))
    return {key: sorted(found, key=lambda pair: pair[0]) for key, found in samples.items()}


def _thread(number: int | None, row: str) -> tuple[Any, ...]:
    """Return the track of a globalTid, in which the thread's number is the lowest 24 bits."""
    return ("thread", number & 0xFFFFFF if number else None, row)


def cut(text: str) -> str:
    """Return the text as stored in a container."""
    return text if len(text) <= 1000 else text[:999] + "…"


_ROW_OF_CATEGORY = {
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "hip_runtime"), "CUDA API"),
    "cpu_op": "operators",
    "operator": "operators",
    "user_annotation": "ranges",
    "python_function": "Python",
    "overhead": "profiler",
}
# What the framework annotates of itself was an operator until 2021.
_OLD_ANNOTATIONS = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#")
_MODULE = "nn.Module: "
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}


def kineto_facts(path: Path) -> tuple[Counter[Fact], int]:
    """Return the events of a PyTorch profiler trace, and the origin of its times."""
    content = _kineto(path)
    events = [item for item in content["traceEvents"] if item.get("ph") == "X" and "ts" in item]
    calls: dict[Any, int] = {}
    for item in events:
        if _ROW_OF_CATEGORY.get(_category(item)) == "CUDA API":
            correlation = (item.get("args") or {}).get("correlation")
            start = _ns(item["ts"])
            calls[correlation] = min(start, calls.get(correlation, start))
    facts = Counter(fact for item in events for fact in _kineto_event(item, calls))
    return facts, content.get("baseTimeNanoseconds", 0)


def _kineto(path: Path) -> dict[str, Any]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        content = json.loads(file.read(), parse_float=Decimal)
    return {"traceEvents": content} if isinstance(content, list) else dict(content)


def _category(item: dict[str, Any]) -> str:
    return str(item.get("cat", "")).lower()


def _kineto_event(item: dict[str, Any], calls: dict[Any, int]) -> Iterator[Fact]:
    start = _ns(item["ts"])
    end = start + _ns(item.get("dur", 0))
    arguments = item.get("args") or {}
    name = cut(item["name"])
    if _category(item) in _DEVICE:
        device, stream = (_number(arguments.get(key)) for key in ("device", "stream"))
        launch = calls.get(arguments.get("correlation"))
        yield Fact(("gpu", device, stream), start, end, _device_name(item), launch)
        return
    row = _ROW_OF_CATEGORY.get(_category(item))
    if row is None:
        return
    if row == "operators" and name.startswith(_OLD_ANNOTATIONS):
        row = "ranges"
    thread = None if _number(item["pid"]) == -1 else _number(item["tid"])
    yield Fact(("thread", thread, row), start, end, name)
    if row == "Python" and name.startswith(_MODULE):
        # A module's call is a range of the program, too.
        yield Fact(("thread", thread, "ranges"), start, end, name.removeprefix(_MODULE))


def _device_name(item: dict[str, Any]) -> str:
    """Return a kernel's base name; copies and memsets are named as in Nsight Systems."""
    if "memset" in _category(item):
        return "[CUDA memset]"
    ends = re.match(r"Mem[cC]py (\w)to(\w)", item["name"]) if "memcpy" in _category(item) else None
    places = {"H": "Host", "D": "Device", "P": "Peer", "A": "Array"}
    if ends is None:
        return cut(item["name"])
    return f"[CUDA memcpy {places[ends[1]]}-to-{places[ends[2]]}]"


def _ns(microseconds: Any) -> int:
    exact = Decimal(microseconds) * 1000
    return int(exact.to_integral_value(ROUND_HALF_UP))


def _number(value: Any) -> int | None:
    found = re.search(r"-?\d+", str(value))
    return int(found[0]) if found else None


def page_facts(page: Decoded, shift_ns: int) -> Counter[Fact]:
    """Return the events shown by the page, with tracks from its labels.

    Args:
        page: The page.
        shift_ns: Offset of the page's times from those of the file.
    """
    calls = {
        event.row: event.start_ns
        for row_id, row in page.rows.items()
        if row["kind"] == "api"
        for event in page.events(row_id)
    }
    found = []
    for row_id, row in page.rows.items():
        if row["kind"] in {"group", "state", "step", "phase", "counter", "thread", "sample"}:
            continue
        track = _track(page, row)
        found += [_page_fact(track, event, calls, shift_ns) for event in page.events(row_id)]
    return Counter(found)


def _page_fact(
    track: tuple[Any, ...], event: Event, calls: dict[int | None, int], shift_ns: int
) -> Fact:
    launch = event.links.get("launch")
    launch_ns = None if launch is None else calls[launch] + shift_ns
    start, end = event.start_ns + shift_ns, event.end_ns + shift_ns
    return Fact(track, start, end, event.name, launch_ns)


def _track(page: Decoded, row: dict[str, Any]) -> tuple[Any, ...]:
    group = page.rows[row["parent"]]
    if row["kind"] == "stream":
        device = re.search(r"GPU (-?\d+)", group["label"])
        stream = re.match(r"stream (-?\d+)", row["label"])
        assert device
        assert stream
        return ("gpu", int(device[1]), int(stream[1]))
    if group["label"] == "unknown thread":
        return ("thread", None, row["label"])
    thread = re.match(r"thread (-?\d+)", group["label"])
    assert thread
    return ("thread", int(thread[1]), row["label"])
