"""speedscope's own format: a profile per thread, whose samples are in the order of time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

import warpline
from warpline.derived.flame.profiles import Labels, Profile, profile
from warpline.derived.flame.threads import thread_name
from warpline.derived.flame.weighted import TITLES, Choice
from warpline.exporters import EXPORTERS, stack_exporter
from warpline.files import complete_file
from warpline.ops.arrays import I64
from warpline.ops.group import group_sums
from warpline.ops.tiling import by_group
from warpline.trace import Trace

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_BLOCK = 10_000


def write(trace: Trace, path: Path, choice: Choice) -> None:
    """Write a profile per thread, the one with the most time first."""
    found = profile(trace, choice)
    threads = [rows for rows in by_group(found.thread) if len(rows)]
    threads.sort(key=lambda rows: -int(found.weight_ns[rows].sum()))
    head = {
        "$schema": _SCHEMA,
        "exporter": f"warpline {warpline.__version__}",
        "name": f"{trace.meta.paths[0].name}: {TITLES[choice.of]}" if trace.meta.paths else "",
        "activeProfileIndex": 0,
        "shared": {"frames": list(_frames(found.labels))},
    }
    with complete_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as out:
        out.write(json.dumps(head)[:-1] + ', "profiles": [')
        texts = _stack_texts(found)
        for place, rows in enumerate(threads):
            out.write(",\n" if place else "\n")
            name = thread_name(trace, int(found.thread[rows[0]])).text
            _write_profile(found, rows, name, texts, out)
        out.write("\n]}\n")


def _frames(labels: Labels) -> Iterator[dict[str, str | int]]:
    for name, file, line in zip(labels.name, labels.file, labels.line, strict=True):
        frame: dict[str, str | int] = {"name": name}
        if file:
            frame["file"] = file
        if line:
            frame["line"] = line
        yield frame


def _stack_texts(found: Profile) -> list[str]:
    """Return the frames of each node, as JSON without the brackets."""
    texts: list[str] = []
    stacks = found.stacks
    columns = (stacks.parent.tolist(), stacks.depth.tolist(), stacks.frame.tolist())
    for parent, depth, frame in zip(*columns, strict=True):
        texts.append(f"{texts[parent]},{frame}" if depth else str(frame))
    return texts


def _write_profile(found: Profile, rows: I64, name: str, texts: list[str], out: TextIO) -> None:
    """Write a thread's samples. Those of one stack that follow each other are one."""
    rows = rows[np.argsort(found.time_ns[rows], kind="stable")]
    node = found.node[rows]
    is_first = np.append(True, node[1:] != node[:-1])
    run = np.cumsum(is_first) - 1
    weights = group_sums(run, found.weight_ns[rows], int(run[-1]) + 1)
    head = {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": int(weights.sum()),
        "weights": weights.tolist(),
    }
    out.write(json.dumps(head)[:-1] + ', "samples": [')
    nodes = node[is_first]
    for begin in range(0, len(nodes), _BLOCK):
        block = nodes[begin : begin + _BLOCK].tolist()
        out.write(("," if begin else "") + ",".join(f"[{texts[each]}]" for each in block))
    out.write("]}")


EXPORTERS.add(
    "speedscope",
    stack_exporter("speedscope", "Stacks for speedscope.", ".speedscope.json", write),
)
