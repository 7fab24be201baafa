"""Stacks in recordings: of this version, of earlier ones with a row per frame, and hostile ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.backtraces import backtraces

import warpline
from warpline.container import Container, ContainerWriter
from warpline.errors import CorruptTraceError
from warpline.trace import MemorySource, Trace
from warpline.trace.recording import write_recording

Members = Mapping[str, Any]

TABLES: dict[str, dict[str, list[Any]]] = {
    "api_call": {
        "start_ns": [1, 2, 3, 4],
        "end_ns": [2, 3, 4, 5],
        "name": ["a", "b", "c", "d"],
        "stack_id": [3, None, 2, 3],
    },
    "stack": {
        "parent_id": [None, 0, 1, 1],
        "frame_id": [0, 1, 2, 3],
        "depth": [0, 1, 2, 2],
    },
    "frame": {
        "symbol": ["main", "f", "g", "0x7f"],
        "module": ["app", "app", "lib", "[unknown]"],
        "kind": [1, 1, 1, 1],
        "is_unresolved": [False, False, False, True],
        "address": [16, 32, None, 127],
    },
}
# What api_call had instead: the frames of backtraces 5 and 9, and one without frames.
CHAINS = {"chain_id": [9, 6, 5, 9], "chain_id.valid": [True, True, True, True]}


def dtype_of(name: str) -> str:
    if name.endswith((".valid", "is_unresolved")):
        return "|b1"
    is_row = name.endswith(("symbol_id", "module_id", "parent_id", "frame_id", "stack_id"))
    return "<i4" if is_row else "<i8"


def change(path: Path, members: Members, rows: Mapping[str, int | None]) -> None:
    """Write a recording again with other members and row counts; None leaves one out."""
    found = Container.open(path)
    counts = {**found.meta["rows"], **rows}
    meta = {**found.meta, "rows": {name: n for name, n in counts.items() if n is not None}}
    contents = {name: bytes(found.member_bytes(name)) for name in found.members}
    with ContainerWriter(path) as writer:
        writer.add_json("meta.json", meta)
        for name, content in contents.items():
            if name.removesuffix(".npy") not in members:
                writer.add_bytes(name, [content], len(content))
        for name, values in members.items():
            if values is not None:
                array = np.array(values, dtype_of(name))
                writer.add_array(name, array.dtype.str, len(array), [array.data])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "run.warpline"
    write_recording(Trace(MemorySource(TABLES)), found)
    return found


@pytest.fixture
def former(path: Path) -> Path:
    """The same recording as earlier versions wrote it."""
    content = np.load(path)
    offsets, blob = content["string/offsets"], content["string/blob"].tobytes()
    ends = offsets.tolist()
    texts = [blob[a:b].decode() for a, b in pairwise(ends)]
    frames = [  # innermost first
        (5, 0, "g", "lib", False, None),
        (5, 1, "f", "app", False, 32),
        (5, 2, "main", "app", False, 16),
        (9, 0, "0x7f", "[unknown]", True, 127),
        (9, 1, "f", "app", False, 32),
        (9, 2, "main", "app", False, 16),
    ]
    chain, depth, symbol, module, is_unresolved, address = zip(*frames, strict=True)
    members: dict[str, Any] = {
        name.removesuffix(".npy"): None
        for name in Container.open(path).members
        if name.startswith(("stack/", "frame/", "api_call/stack_id"))
    }
    members |= {
        "call_frame/chain_id": chain,
        "call_frame/depth": depth,
        "call_frame/symbol_id": [texts.index(text) for text in symbol],
        "call_frame/module_id": [texts.index(text) for text in module],
        "call_frame/is_unresolved": is_unresolved,
        "call_frame/address": [value or 0 for value in address],
        "call_frame/address.valid": [value is not None for value in address],
        **{f"api_call/{name}": values for name, values in CHAINS.items()},
    }
    change(path, members, {"stack": None, "frame": None, "call_frame": len(frames)})
    return path


MAIN, F = ("main", "app", None, "Native", False, 16), ("f", "app", None, "Native", False, 32)
G = ("g", "lib", None, "Native", False, None)
UNKNOWN = ("0x7f", "[unknown]", None, "Native", True, 127)
EXPECTED = [[UNKNOWN, F, MAIN], None, [G, F, MAIN], [UNKNOWN, F, MAIN]]


def test_stacks_read_back(path):
    assert backtraces(warpline.open(path), "api_call") == EXPECTED


def test_a_recording_with_a_row_per_frame_gives_the_same(former):
    trace = warpline.open(former)
    assert trace.has("stack")
    assert trace.has("frame")
    assert not trace.has("call_frame")
    assert (trace.row_count("stack"), trace.row_count("frame")) == (4, 4)
    assert backtraces(trace, "api_call") == EXPECTED
    assert trace["stack"]["depth"].to_list() == [0, 1, 2, 2]


def test_a_part_keeps_the_stacks_of_its_calls(former):
    part = warpline.open(former).window(3, None)
    assert backtraces(part, "api_call") == EXPECTED[2:]


def test_a_former_recording_is_rewritten_in_this_versions_form(former, tmp_path):
    again = warpline.export(warpline.open(former), tmp_path / "again.warpline", "warpline")
    assert backtraces(warpline.open(again), "api_call") == EXPECTED
    names = Container.open(again).members
    assert not [name for name in names if "call_frame" in name or "chain_id" in name]


def test_former_recordings_and_others_merge(former, tmp_path):
    other = tmp_path / "other.warpline"
    write_recording(Trace(MemorySource({**TABLES, "process": {"pid": [7]}})), other)
    merged = warpline.open(former, other)
    assert sorted(map(str, backtraces(merged, "api_call"))) == sorted(map(str, EXPECTED * 2))


def test_backtraces_without_the_table_of_their_frames(former):
    change(former, {}, {"call_frame": None})
    trace = warpline.open(former)
    assert not trace.has("stack")
    assert trace["api_call"]["stack_id"].null_count() == 4


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"stack/parent_id": [0, 2, 1, 1]}, "a caller's stack is not an earlier row"),
        ({"stack/parent_id": [0, 1, 1, 1]}, "a caller's stack is not an earlier row"),
        ({"stack/parent_id": [0, 0, 9, 1]}, "refers to a stack row that does not exist"),
        ({"stack/parent_id": [0, 0, -1, 1]}, "refers to a stack row that does not exist"),
        ({"stack/frame_id": [0, 1, 2, 4]}, "refers to a frame row that does not exist"),
        ({"stack/depth": [0, 1, 2, 1 << 60]}, "the depth of a stack is not the number"),
        ({"stack/depth": [-1, 0, 1, 1]}, "the depth of a stack is not the number"),
        ({"api_call/stack_id": [3, 0, 2, 4]}, "refers to a stack row that does not exist"),
    ],
)
def test_hostile_stacks_are_refused(path, members, what):
    change(path, members, {})
    trace = warpline.open(path)
    read: dict[str, Callable[[], object]] = {
        "api_call": lambda: trace["api_call"],
        "stack": lambda: trace["stack"],
    }
    table = next(iter(members)).partition("/")[0]
    with pytest.raises(CorruptTraceError, match=what):
        read.pop(table)()
    for other in read.values():
        other()  # what is intact stays readable


def test_a_stack_of_a_million_frames_is_read(path):
    size = 10**6
    change(
        path,
        {
            "stack/parent_id": np.maximum(np.arange(size) - 1, 0),
            "stack/parent_id.valid": np.arange(size) > 0,
            "stack/frame_id": np.zeros(size),
            "stack/depth": np.arange(size),
        },
        {"stack": size},
    )
    assert warpline.open(path).columns("stack", "depth")["depth"].values[-1] == size - 1


def test_unknown_tables_survive_a_rewrite(path, tmp_path):
    change(path, {"later/value": [1, 2, 3]}, {"later": 3})
    again = warpline.export(warpline.open(path), tmp_path / "again.warpline", "warpline")
    found = Container.open(again)
    assert found.meta["rows"]["later"] == 3
    assert np.load(again)["later/value"].tolist() == [1, 2, 3]
    part = warpline.export(warpline.open(path).window(0, 2), tmp_path / "p.warpline", "warpline")
    assert "later" not in Container.open(part).meta["rows"]
    assert not [name for name in Container.open(part).members if name.startswith("later")]
