"""A trace in Kineto's layout: PyTorch's own file of operators, with the GPU's events added.

TensorBoard, Holistic Trace Analysis, Perfetto and Warpline read it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import torch

from warpline.files import complete_file
from warpline.torch.kineto_events import ANNOTATION, CALLS, KinetoEvent

_GZIP_LEVEL = 5  # a third of the time of the highest level, 3% larger
_HEAD_BYTES = 1 << 20  # everything before the events
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_DEVICES = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\]')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*([0-9]+)')
_GPU_SORT_INDEX = 5_000_000  # as in Kineto: GPUs below threads
_PROPERTIES = {
    "name": "name",
    "totalGlobalMem": "total_memory",
    "computeMajor": "major",
    "computeMinor": "minor",
    "maxThreadsPerBlock": "max_threads_per_block",
    "maxThreadsPerMultiprocessor": "max_threads_per_multi_processor",
    "warpSize": "warp_size",
    "sharedMemPerBlock": "shared_memory_per_block",
    "numSms": "multi_processor_count",
    "regsPerMultiprocessor": "regs_per_multiprocessor",
    "sharedMemPerBlockOptin": "shared_memory_per_block_optin",
    "sharedMemPerMultiprocessor": "shared_memory_per_multiprocessor",
}


def add_gpu_events(operators: Path, path: Path, events: Sequence[KinetoEvent]) -> None:
    """Write PyTorch's trace with more events.

    Args:
        operators: The trace that PyTorch wrote.
        path: Output file, compressed if it ends in ``.gz``; an existing file is replaced.
        events: Events of the GPU, and CUDA calls.
    """
    with (
        operators.open("rb") as source,
        complete_file(path) as unfinished,
        unfinished.open("wb") as file,
        _compressed(file, path) as out,
    ):
        head = source.read(_HEAD_BYTES)
        place = _EVENTS.search(head)
        if place is not None:
            base = _BASE.search(head)
            properties = f'"deviceProperties": {json.dumps(_devices(events))}'
            out.write(_DEVICES.sub(lambda _: properties.encode(), head[: place.end()], count=1))
            for text in _texts(events, int(base[1]) if base else 0):
                out.write(text.encode() + b",\n")
            head = head[place.end() :]
        out.write(head)
        shutil.copyfileobj(source, out)


def write_empty(path: str) -> None:
    """Write a trace of this process without operators."""
    event = _named("process_name", "name", "python", os.getpid(), 0, time.time_ns())
    Path(path).write_text(
        '{"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms",'
        f' "baseTimeNanoseconds": 0, "traceEvents": [{event}], "traceName": {json.dumps(path)}}}\n'
    )


def _compressed(file: BinaryIO, path: Path) -> AbstractContextManager[Any]:
    if path.suffix != ".gz":
        return nullcontext(file)
    return gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0)


def _devices(events: Iterable[KinetoEvent]) -> list[dict[str, Any]]:
    """Return the properties of the GPUs of some events."""
    found = []
    for gpu in sorted({event.place for event in events if event.kind not in CALLS}):
        known = torch.cuda.get_device_properties(gpu) if gpu < torch.cuda.device_count() else None
        values = {name: getattr(known, key, None) for name, key in _PROPERTIES.items()}
        found.append({"id": gpu, **{name: v for name, v in values.items() if v is not None}})
    return found


def _texts(events: Sequence[KinetoEvent], base_ns: int) -> Iterator[str]:
    """Yield the JSON of events and of their tracks."""
    first_ns: dict[tuple[int, int], int] = {}
    for event in events:
        yield _complete(event, base_ns)
        if event.kind != ANNOTATION and event.correlation:
            yield _arrow(event, base_ns)
        if event.kind not in CALLS:
            track = event.place, event.track
            first_ns[track] = min(first_ns.get(track, event.begin), event.begin)
    gpus: dict[int, int] = {}
    for (gpu, stream), at_ns in sorted(first_ns.items()):
        gpus[gpu] = min(gpus.get(gpu, at_ns), at_ns)
        yield _named("thread_name", "name", f"stream {stream} ", gpu, stream, at_ns - base_ns)
        yield _named("thread_sort_index", "sort_index", stream, gpu, stream, at_ns - base_ns)
    for gpu, at_ns in gpus.items():
        labels: tuple[tuple[str, str, str | int], ...] = (
            ("process_name", "name", "python"),
            ("process_labels", "labels", f"GPU {gpu}"),
            ("process_sort_index", "sort_index", _GPU_SORT_INDEX + gpu),
        )
        for name, key, value in labels:
            yield _named(name, key, value, gpu, 0, at_ns - base_ns)


def _complete(event: KinetoEvent, base_ns: int) -> str:
    start, end = event.begin, event.end
    if event.kind == ANNOTATION:  # viewers draw it around operations that begin and end with it
        start, end = start - 1, end + 1
    link = event.correlation if event.kind == ANNOTATION else event.operator
    details = [f'"External id": {link}'] * bool(link) + [event.details] * bool(event.details)
    return (
        f'{{"ph": "X", "cat": "{event.kind}", "name": {json.dumps(event.label)},'
        f' "pid": {event.place}, "tid": {event.track}, "ts": {_us(start - base_ns)},'
        f' "dur": {_us(end - start)}, "args": {{{", ".join(details)}}}}}'
    )


def _arrow(event: KinetoEvent, base_ns: int) -> str:
    """Return the end of an arrow from a call to the operation that it launched."""
    end = '"s"' if event.kind in CALLS else '"f", "bp": "e"'
    return (
        f'{{"ph": {end}, "id": {event.correlation}, "pid": {event.place}, "tid": {event.track},'
        f' "ts": {_us(event.begin - base_ns)}, "cat": "ac2g", "name": "ac2g"}}'
    )


def _named(name: str, key: str, value: str | int, pid: int, tid: int, at_ns: int) -> str:
    args = json.dumps({key: value})
    return (
        f'{{"ph": "M", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {_us(at_ns)},'
        f' "args": {args}}}'
    )


def _us(time_ns: int) -> str:
    """Return exact microseconds: a float would round the nanoseconds."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
