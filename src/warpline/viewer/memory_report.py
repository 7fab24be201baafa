"""The page of memory: one self-contained HTML file with who held what, at every moment.

The data are columns: the times of all allocations and frees, and of each block the first and last
of them between which it is in use. The page adds up what it shows, so nothing is sampled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpline.derived.memory.labels import BYS, By, Labels
from warpline.derived.memory.lifetimes import Lifetimes
from warpline.derived.python_stacks import PythonStacks
from warpline.ops.arrays import I64
from warpline.presentation import Block as Shown
from warpline.units import plural
from warpline.viewer.columns import Packed, delta, optional, plain
from warpline.viewer.container import BlockWriter
from warpline.viewer.markup import element, join
from warpline.viewer.page import Assets, app, page_of_blocks
from warpline.viewer.report import Report, size_of
from warpline.viewer.static_page import blocks_html

SCHEMA_VERSION = 1
MOST_BLOCKS = 1_000_000
_NO_SCRIPT = (
    "The plot and the list of blocks need JavaScript. The script has no network access. The tables"
    " below work without JavaScript."
)
_NONE = -1

NamedSpan = tuple[str, int, int]
"""A step or phase: its name, start and end in ns."""


@dataclass(frozen=True)
class PoolContent:
    """Memory of one process in one place.

    Attributes:
        label: The GPU and the process.
        device_bytes: Size of the GPU's memory; None if unknown.
        lifetimes: Its blocks.
        labels: What events of `allocations` are named after.
        stacks: Their Python stacks.
        steps: The steps of the process, by start.
        phases: Their phases, by start.
    """

    label: str
    device_bytes: int | None
    lifetimes: Lifetimes
    labels: Mapping[By, Labels]
    stacks: PythonStacks
    steps: Sequence[NamedSpan]
    phases: Sequence[NamedSpan]


@dataclass(frozen=True)
class SideContent:
    """A recording.

    Attributes:
        name: Its name.
        pools: Its memory, the largest peak first; at least one.
    """

    name: str
    pools: Sequence[PoolContent]


@dataclass(frozen=True)
class MemoryContent:
    """What the page shows.

    Attributes:
        title: Names of the recordings.
        notes: What has to be known of the data.
        sides: One recording, or before and after.
        by: What the layers are named after at first.
        tables: What the page has as text, with or without its script.
    """

    title: str
    notes: Sequence[str]
    sides: Sequence[SideContent]
    by: By
    tables: Sequence[Shown]


def make_memory_report(content: MemoryContent, parts: Assets) -> Report:
    """Return the self-contained page.

    Args:
        content: What it shows.
        parts: Its script and style sheets.
    """
    writer = BlockWriter()
    sides = []
    notes = list(content.notes)
    for side in content.sides:
        pools = []
        for pool in side.pools:
            shown = _largest(pool.lifetimes)
            left_out = len(pool.lifetimes.bytes) - len(shown)
            if left_out:
                notes.append(
                    f"{side.name}, {pool.label}: the {plural(left_out, 'smallest block')} of"
                    f" {len(pool.lifetimes.bytes):,} are not listed. Sums include them."
                )
            pools.append(_pool(writer, pool, shown))
        sides.append({"name": side.name, "pools": pools})
    blocks = writer.blocks()
    head = {
        "schema_version": SCHEMA_VERSION,
        "title": content.title,
        "notes": notes,
        "by": content.by,
        "sides": sides,
        "blocks": [{"raw_bytes": block.raw_bytes} for block in blocks],
    }
    title = f"{content.title} · memory"
    pieces = list(page_of_blocks(title, _body(content), head, blocks, parts))
    return Report(pieces, size_of(pieces), None, head)


def _largest(memory: Lifetimes) -> I64:
    """Return the blocks that the page has, in order: all, or the largest ones."""
    count = len(memory.bytes)
    if count <= MOST_BLOCKS:
        return np.arange(count)
    return np.sort(np.argpartition(memory.bytes, count - MOST_BLOCKS)[count - MOST_BLOCKS :])


def _pool(writer: BlockWriter, pool: PoolContent, shown: I64) -> dict[str, Any]:
    """Add the columns of a pool, and return its part of the head."""
    memory = pool.lifetimes
    states = len(memory.time_ns)
    peak = memory.peak
    reserved = memory.reserved_bytes
    none = np.zeros(0, np.int64)
    changes = none if reserved is None else _changes(reserved)
    codes, texts = _texts(pool, memory.allocation[shown])
    rest = memory.rest_bytes + _left_out(memory, shown)
    changed = _changes(rest)
    columns = [
        plain("start", memory.start[shown]),
        plain("length", memory.end[shown] - memory.start[shown]),
        plain("bytes", memory.bytes[shown]),
        *(optional(name, code, code >= 0) for name, code in codes.items()),
    ]
    return {
        "label": pool.label,
        "device_bytes": pool.device_bytes,
        "left_out": len(memory.bytes) - len(shown),
        "peak": {
            "state": peak,
            "time_ns": int(memory.time_ns[peak]),
            "allocated_bytes": int(memory.allocated_bytes[peak]),
            "reserved_bytes": None if reserved is None else int(reserved[peak]),
        },
        "states": _part(writer, states, [delta("time", memory.time_ns)]),
        "reserved": _steps(writer, changes, none if reserved is None else reserved),
        "rest": _steps(writer, changed, rest),
        "blocks": _part(writer, len(shown), columns),
        "texts_block": writer.add("json", _json(texts)),
    }


def _texts(pool: PoolContent, allocation: I64) -> tuple[dict[str, I64], dict[str, Any]]:
    """Return the places of each block's texts, and the texts that are used."""
    codes: dict[str, I64] = {}
    texts: dict[str, Any] = {"steps": pool.steps, "phases": pool.phases}
    of_events: dict[str, tuple[Any, Sequence[str]]] = {
        **{by: (pool.labels[by].codes, pool.labels[by].texts) for by in BYS},
        "stack": pool.stacks,
    }
    for name, (of_event, all_texts) in of_events.items():
        code = np.where(allocation >= 0, np.append(of_event, _NONE)[allocation], _NONE)
        used = np.unique(code[code >= 0])
        place = np.full(len(all_texts) + 1, _NONE, np.int64)
        place[used] = np.arange(len(used))
        codes[name] = place[code]
        texts[name] = [all_texts[one] for one in used.tolist()]
    return codes, texts


def _left_out(memory: Lifetimes, shown: I64) -> I64:
    """Return the bytes of blocks that are not shown, in each state."""
    change = np.zeros(len(memory.time_ns) + 1, np.int64)
    hidden = np.ones(len(memory.bytes), np.bool_)
    hidden[shown] = False
    np.add.at(change, memory.start[hidden], memory.bytes[hidden])
    np.add.at(change, memory.end[hidden], -memory.bytes[hidden])
    return np.cumsum(change)[:-1]


def _changes(values: I64) -> I64:
    """Return the places where values differ from those before; 0 comes before the first."""
    return np.flatnonzero(np.diff(values, prepend=np.int64(0)))


def _steps(writer: BlockWriter, places: I64, values: I64) -> dict[str, Any]:
    columns = [plain("state", places), delta("bytes", values[places])]
    return _part(writer, len(places), columns)


def _part(writer: BlockWriter, count: int, columns: Sequence[Packed]) -> dict[str, Any]:
    block, offset = writer.append("columns", columns)
    described = [column.head() for column in columns]
    return {"block": block, "offset": offset, "count": count, "columns": described}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _body(content: MemoryContent) -> Iterator[str]:
    yield from app(_NO_SCRIPT)
    tables = element("div", blocks_html(content.tables), class_="wl-page")
    yield element("div", join(tables), id="warpline-static")
    yield "\n"
