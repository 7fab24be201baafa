"""A reference model of torch.profiler's key_averages(), computed from JSON in plain Python.

It follows PyTorch's definitions, one event at a time. A stack per thread gives each event its
parent. GPU work belongs to the operator with its external id. An only child with its parent's name
is merged with the parent. Unlike in PyTorch, memory is counted per thread.
"""

from __future__ import annotations

import bisect
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import warpline

_CALLS = {"cpu_op", "operator", "user_annotation", "cuda_runtime", "runtime", "cuda_driver"}
_CUDA_CALLS = {"cuda_runtime", "runtime", "cuda_driver"}
_WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_HIDDEN = {
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}
_MARKS = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#")
_OWNERS = ("Operator", "Annotation")
Row = tuple[int, ...]
FIELDS = (
    "calls",
    "host_ns",
    "self_host_ns",
    "device_ns",
    "self_device_ns",
    "device_bytes",
    "self_device_bytes",
    "host_bytes",
    "self_host_bytes",
)


@dataclass
class Call:
    """An event of a CPU thread."""

    name: str
    kind: str
    start_ns: int
    end_ns: int
    external_id: int | None
    correlation: int | None
    shapes: str
    parent: Call | None = None
    children: list[Call] = field(default_factory=list)
    kernels: list[tuple[str, int]] = field(default_factory=list)
    memory: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    @property
    def host_ns(self) -> int:
        """Its duration."""
        return self.end_ns - self.start_ns

    @property
    def device_ns(self) -> int:
        """Total duration of the work launched by it and its children."""
        own = sum(duration for _, duration in self.kernels)
        return own + sum(child.device_ns for child in self.children)


def calls_of(path: Path) -> list[Call]:
    """Return the calls listed by key_averages(), with parents, children, kernels and memory."""
    events = _load(path)
    threads = _threads(events)
    _launches(events, threads)
    _memory(events, threads)
    calls = [call for members in threads.values() for call in members]
    while True:
        twins = [call for call in calls if _is_twin(call)]
        if not twins:
            return [call for call in calls if call.kind != "CUDA"]
        lifted = set()
        for call in sorted(twins, key=lambda each: (each.start_ns, -each.end_ns)):
            _lift(call)
            lifted.add(id(call))
        calls = [call for call in calls if id(call) not in lifted]


def table(calls: Iterable[Call], *, by_shape: bool = False) -> dict[tuple[str, ...], Row]:
    """Return the sums of the calls of each kind and name, as `FIELDS`."""
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * len(FIELDS))
    for call in calls:
        name = "ProfilerStep*" if call.name.startswith("ProfilerStep#") else call.name
        key = (call.kind, name, call.shapes) if by_shape else (call.kind, name)
        inside = call.children
        memory = [
            part
            for on_device in (True, False)
            for part in (
                call.memory[on_device],
                call.memory[on_device] - sum(child.memory[on_device] for child in inside),
            )
        ]
        row = [
            1,
            call.host_ns,
            call.host_ns - sum(child.host_ns for child in inside),
            call.device_ns,
            call.device_ns - sum(child.device_ns for child in inside),
            *memory,
        ]
        sums[key] = [total + value for total, value in zip(sums[key], row, strict=True)]
    return {key: tuple(row) for key, row in sums.items()}


def kernels(calls: Iterable[Call]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return calls, instances and time of the kernels of each operator."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for call in calls:
        if call.kind != "Operator":
            continue
        for name, count in Counter(name for name, _ in call.kernels).items():
            row = found[call.name, name]
            row[0] += 1
            row[1] += count
        for name, duration in call.kernels:
            found[call.name, name][2] += duration
    return {key: (row[0], row[1], row[2]) for key, row in found.items()}


def _load(path: Path) -> list[dict[str, Any]]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    content = json.loads(raw.decode("utf-8", "replace"), parse_float=Decimal, strict=False)
    events: list[dict[str, Any]] = content if isinstance(content, list) else content["traceEvents"]
    return events


def _ns(value: Any) -> int:
    return int((Decimal(str(value)) * 1000).to_integral_value())


def _category(event: dict[str, Any]) -> str:
    return str(event.get("cat", "")).lower() if event.get("ph") == "X" else ""


def _threads(events: list[dict[str, Any]]) -> dict[tuple[Any, Any], list[Call]]:
    threads: dict[tuple[Any, Any], list[Call]] = defaultdict(list)
    for event in events:
        category = _category(event)
        if category not in _CALLS or event["name"] in _HIDDEN:
            continue
        args, start = event.get("args", {}), _ns(event["ts"])
        end = _ns(Decimal(str(event["ts"])) + Decimal(str(event.get("dur", 0))))
        is_marked = event["name"].startswith(_MARKS)  # whatever its category, in old traces
        is_operator = category in {"cpu_op", "operator"} and not is_marked
        kind = "CUDA" if category in _CUDA_CALLS else "Operator" if is_operator else "Annotation"
        number = _external_id(event) if is_operator else None
        dims = args.get("Input Dims", args.get("Input dims"))
        shapes = "" if dims is None or not is_operator else json.dumps(dims)
        launch = args.get("correlation") if kind == "CUDA" else None
        call = Call(event["name"], kind, start, end, number, launch, shapes)
        threads[event["pid"], event["tid"]].append(call)
    for members in threads.values():
        _nest(members)
    return threads


def _nest(calls: list[Call]) -> None:
    around: list[Call] = []
    for call in sorted(calls, key=lambda each: (each.start_ns, -each.end_ns)):
        while around:
            top = around[-1]
            if call.start_ns < top.end_ns and call.end_ns <= top.end_ns:
                call.parent = top
                top.children.append(call)
                break
            around.pop()
        around.append(call)


def _launches(events: list[dict[str, Any]], threads: dict[tuple[Any, Any], list[Call]]) -> None:
    """Assign GPU work to the operator with its external id, else to the one around its launch.

    Until 2022, the id was that of the launch call: then only the time identifies the operator.
    """
    work = [event for event in events if _category(event) in _WORK]
    has_ids = any(_external_id(event) != event["args"].get("correlation") for event in work)
    every = [call for calls in threads.values() for call in calls]
    by_number = {call.external_id: call for call in every if call.external_id is not None}
    by_launch = {call.correlation: call for call in every if call.correlation is not None}
    for event in work:
        owner = by_number.get(_external_id(event)) if has_ids else None
        if owner is None:
            owner = _around(by_launch.get(event["args"].get("correlation")))
        if owner is not None:
            end = Decimal(str(event["ts"])) + Decimal(str(event.get("dur", 0)))
            name = event["name"] if _category(event) == "kernel" else ""
            owner.kernels.append((name, _ns(end) - _ns(event["ts"])))


def _external_id(event: dict[str, Any]) -> Any:
    args = event.get("args", {})
    return args.get("External id", args.get("external id"))


def _around(launch: Call | None) -> Call | None:
    """Return the operator around a CUDA API call, or else the annotation."""
    around = []
    while launch is not None:
        launch = launch.parent
        around.append(launch)
    of_kind = (next((c for c in around if c and c.kind == kind), None) for kind in _OWNERS)
    return next((call for call in of_kind if call is not None), None)


def _memory(events: list[dict[str, Any]], threads: dict[tuple[Any, Any], list[Call]]) -> None:
    for calls in threads.values():
        calls.sort(key=lambda each: (each.start_ns, -each.end_ns))
    starts = {thread: [call.start_ns for call in calls] for thread, calls in threads.items()}
    for event in events:
        thread = (event.get("pid"), event.get("tid"))
        if event.get("name") != "[memory]" or thread not in threads:
            continue
        args, time = event["args"], _ns(event["ts"])
        place = bisect.bisect_right(starts[thread], time) - 1
        call = threads[thread][place] if place >= 0 else None
        while call is not None:
            if time < call.end_ns:
                call.memory[args.get("Device Type", 0) != 0] += int(args["Bytes"])
            call = call.parent


def _is_twin(call: Call) -> bool:
    parent = call.parent
    return parent is not None and parent.name == call.name and len(parent.children) == 1


def _lift(call: Call) -> None:
    parent = call.parent
    assert parent is not None
    parent.children = call.children
    parent.kernels = parent.kernels + call.kernels
    for child in call.children:
        child.parent = parent


def differences(path: Path) -> Iterator[str]:
    """Yield where the tables of a trace differ from this model."""
    calls = calls_of(path)
    trace = warpline.open(path)
    if not any(call.kind == "Operator" for call in calls):
        return
    for name, by_shape in (("op_sum", False), ("op_sum:shape", True)):
        expected, found = table(calls, by_shape=by_shape), shown(trace, name)
        for key in sorted(expected.keys() | found.keys()):
            if expected.get(key) != found.get(key):
                yield f"{name} {key} {FIELDS}: {expected.get(key)} {found.get(key)}"
    wanted, pairs = kernels(calls), shown_kernels(trace)
    for pair in sorted({key for key in wanted if key[1]} | pairs.keys()):
        if wanted.get(pair) != pairs.get(pair):
            yield f"op_kern_sum {pair}: {wanted.get(pair)} {pairs.get(pair)}"


def shown(trace: Any, name: str) -> dict[tuple[str, ...], Row]:
    """Return the result of op_sum in the form of `table`."""
    columns = {key: values.to_list() for key, values in warpline.stats(trace, name).columns.items()}
    key = ["kind", "name", *(["input_shapes"] if name.endswith("shape") else [])]
    rows = zip(*([value or "" for value in columns[part]] for part in key), strict=True)
    values = zip(*([value or 0 for value in columns[part]] for part in FIELDS), strict=True)
    return dict(zip(rows, values, strict=True))


def shown_kernels(trace: Any) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return the result of op_kern_sum in the form of `kernels`."""
    if not trace.has("kernel"):
        return {}
    columns = warpline.stats(trace, "op_kern_sum").columns
    names = ("kind", "operator", "name", "calls", "instances", "total_ns")
    rows = zip(*(columns[name].to_list() for name in names), strict=True)
    return {(row[1], row[2]): row[3:] for row in rows if row[0] == "Operator"}
