"""PyTorch profiler traces for tests: those in tests/data/kineto, and small handwritten ones."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "kineto"
_ENDING = ".json"
PID = 4242
Event = dict[str, Any]


def names() -> list[str]:
    """Return the names of all captures."""
    return sorted(path.name.split(_ENDING)[0] for path in FOLDER.iterdir())


def unpack(name: str, folder: Path) -> Path:
    """Return the path of ``NAME.json`` in a directory, decompressed there once."""
    target = folder / f"{name}{_ENDING}"
    if not target.exists():
        packed = next(FOLDER.glob(f"{name}{_ENDING}.*"))
        opener = gzip.open if packed.suffix == ".gz" else lzma.open
        partial = target.with_suffix(".part")
        with opener(packed) as source, partial.open("wb") as file:
            shutil.copyfileobj(source, file)
        partial.replace(target)
    return target


def write(path: Path, events: Iterable[Event], **top: Any) -> Path:
    """Write a trace with one event per line, as Kineto does, and return its path."""
    lines = ",\n".join(json.dumps(event) for event in events)
    head = json.dumps({"schemaVersion": 1, **top})[:-1]
    path.write_text(f'{head}, "traceEvents": [\n{lines}\n]}}\n', encoding="utf-8")
    return path


def event(category: str, name: str, ts: Any, dur: Any, **more: Any) -> Event:
    """Return a complete event; arguments go in as a mapping called `args`."""
    at = {"pid": more.pop("pid", PID), "tid": more.pop("tid", PID)}
    return {"ph": "X", "cat": category, "name": name, **at, "ts": ts, "dur": dur, **more}


def device_event(category: str, name: str, ts: Any, dur: Any, **args: Any) -> Event:
    """Return a GPU operation; `args` are its arguments, device 0 and stream 7 by default."""
    known = {"device": 0, "context": 1, "stream": 7, **args}
    at = {"pid": known["device"], "tid": known["stream"]}
    return event(category, name, ts, dur, **at, args=known)


def kernel(name: str, ts: Any, dur: Any, **args: Any) -> Event:
    """Return a kernel of one block of 32 threads."""
    return device_event("kernel", name, ts, dur, grid=[1, 1, 1], block=[32, 1, 1], **args)


def call(name: str, ts: Any, dur: Any, correlation: int, **more: Any) -> Event:
    """Return a call of the CUDA runtime."""
    return event("cuda_runtime", name, ts, dur, args={"correlation": correlation}, **more)


def flow(phase: str, category: str, number: int, ts: Any, pid: Any, tid: Any) -> Event:
    """Return one end of an arrow: phase "s" or "f"."""
    return {
        "ph": phase,
        "cat": category,
        "id": number,
        "name": category,
        "ts": ts,
        "pid": pid,
        "tid": tid,
    }


def metadata(name: str, pid: Any, tid: Any, /, **args: Any) -> Event:
    """Return metadata, such as a process's name."""
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def reversed_rows(events: Sequence[Event]) -> list[Event]:
    """Return the events in reverse order: the order in a file has no meaning."""
    return list(reversed(events))
