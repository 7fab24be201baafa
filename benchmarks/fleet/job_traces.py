"""Traces of the PyTorch profiler of the ranks of a simulated job: a real trace, again and again.

As `job_recordings`: all events follow the simulated times of the collectives. Steps are marked with
``ProfilerStep#n``, as the profiler's schedule does, since other programs need these.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from job_timeline import F64, Step, Timeline

Event = dict[str, Any]
_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
_IDS = ("correlation", "External id", "Ev Idx", "Record function id", "Sequence number")
_SPAN = 10_000_000  # between ids of two repetitions


@dataclass(frozen=True)
class TraceTemplate:
    """A real trace of one rank, whose collectives do not overlap with other work.

    Attributes:
        head: The document without its events.
        facts: Events without a time.
        events: Those with a time.
        step: Work and transfers; one repetition is one step of the timeline.
        anchors_us: Shape (2 + 2 x collectives,): begin, start and end of each collective, end.
        steps_us: When its training steps begin on the CPU.
        thread: The process and thread that runs them.
    """

    head: dict[str, Any]
    facts: list[Event]
    events: list[Event]
    step: Step
    anchors_us: F64
    steps_us: tuple[float, ...]
    thread: tuple[int, int]


def is_collective(event: Event) -> bool:
    """Return whether an event is a kernel of NCCL."""
    return event.get("cat") == "kernel" and "nccl" in str(event["name"])


def template(path: Path, steps: int = 4) -> TraceTemplate:
    """Read a trace.

    Args:
        path: The trace, `.json.gz`.
        steps: How many training steps it has.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        head = json.load(file)
    every = head.pop("traceEvents")
    timed = [event for event in every if event.get("ph") != "M" and isinstance(event["pid"], int)]
    begin = min(event["ts"] for event in timed)
    end = max(event["ts"] + event.get("dur", 0.0) for event in timed)
    work = sorted((e["ts"], e["ts"] + e["dur"]) for e in timed if e.get("cat") in _GPU)
    assert all(after[0] >= before[1] for before, after in pairwise(work))
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in timed if is_collective(e))
    anchors = np.array([begin, *(time for span in spans for time in span), end])
    pieces = np.diff(anchors) * 1000
    thread, starts = _steps(timed, steps)
    facts = [event for event in every if event.get("ph") == "M"]
    step = Step(pieces[::2], pieces[1::2])
    return TraceTemplate(head, facts, timed, step, anchors, starts, thread)


def _steps(events: list[Event], steps: int) -> tuple[tuple[int, int], tuple[float, ...]]:
    """Return the main thread, and where steps begin: at its first operator called once in each."""
    operators = sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: e["ts"])
    main = operators[0]["pid"], operators[0]["tid"]
    outer: list[Event] = []
    for event in operators:
        is_nested = bool(outer) and event["ts"] < outer[-1]["ts"] + outer[-1]["dur"]
        if (event["pid"], event["tid"]) == main and not is_nested:
            outer.append(event)
    times = Counter(event["name"] for event in outer)
    once = next(event["name"] for event in outer if times[event["name"]] == steps)
    return main, tuple(event["ts"] for event in outer if event["name"] == once)


def write(base: TraceTemplate, times: Timeline, rank: int, path: Path) -> None:
    """Write the trace of a rank of a job."""
    ranks = len(times.begin_ns)
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": ranks, "ranks": [*range(ranks)]}
    known = base.head["distributedInfo"]
    info = {**known, "rank": rank, "world_size": ranks, "pg_config": [group]}
    head = json.dumps({**base.head, "distributedInfo": info})
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        file.write(head[:-1] + ', "traceEvents": [\n')
        lines = (json.dumps(event, separators=(",", ":")) for event in _events(base, times, rank))
        file.write(",\n".join(lines))
        file.write("\n]}\n")


def _events(base: TraceTemplate, times: Timeline, rank: int) -> Iterator[Event]:
    yield from base.facts
    begin = np.array([event["ts"] for event in base.events])
    end = begin + np.array([event.get("dur", 0.0) for event in base.events])
    ranks = str([*range(len(times.begin_ns))])
    process, thread = base.thread
    for number in range(times.arrival_ns.shape[1]):
        start_us, end_us = (_moved(base, times, rank, number, at) for at in (begin, end))
        for event, starts, ends in zip(base.events, start_us, end_us, strict=True):
            yield _event(event, starts, ends, number, ranks)
        marks = _moved(base, times, rank, number, np.array([*base.steps_us, base.anchors_us[-1]]))
        for place, (starts, ends) in enumerate(pairwise(marks)):
            step = number * len(base.steps_us) + place
            # Rounded, neighbors must not overlap.
            name, duration = f"ProfilerStep#{step}", round(ends - starts - 0.01, 3)
            mark = {"ph": "X", "cat": "user_annotation", "name": name, "pid": process}
            yield {**mark, "tid": thread, "ts": round(starts, 3), "dur": duration, "args": {}}


def _event(event: Event, start_us: float, end_us: float, number: int, ranks: str) -> Event:
    moved = {**event, "ts": round(float(start_us), 3)}
    if "dur" in event:
        moved["dur"] = round(float(end_us - start_us), 3)
    if "id" in event:
        moved["id"] = event["id"] + number * _SPAN
    known = event.get("args", {})
    if number or "Group size" in known:
        arguments = dict(known)
        for key in _IDS:
            if arguments.get(key):
                arguments[key] += number * _SPAN
        if "Group size" in arguments:
            arguments["Group size"] = ranks.count(",") + 1
            arguments["Process Group Ranks"] = ranks
        moved["args"] = arguments
    return moved


def _moved(base: TraceTemplate, times: Timeline, rank: int, number: int, at_us: F64) -> F64:
    begin, end = times.begin_ns[rank, number], times.begin_ns[rank, number + 1]
    pairs = np.stack((times.arrival_ns[rank, number], times.end_ns[rank, number]), axis=1)
    new = np.concatenate(([begin], pairs.reshape(-1), [end]))
    own = times.on_clock(rank, new) / 1000 + base.anchors_us[0]
    moved: F64 = np.interp(at_us, base.anchors_us, own)
    return moved
