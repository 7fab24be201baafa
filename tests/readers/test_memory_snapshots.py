"""Snapshots of PyTorch's allocator: what torch's statistics and its viewer say, and bad files."""

from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import memory_snapshots

import warpline
from warpline.cli import main
from warpline.derived.memory.allocations import memory_peaks
from warpline.errors import CorruptTraceError, InputError, UnknownFormatError
from warpline.trace import Trace

Open = Callable[[str], Path]


@pytest.fixture(scope="session")
def path_of(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Open:
    folder = tmp_path_factory.mktemp("memory")
    return lambda name: memory_snapshots.unpack(data_dir, name, folder)


@pytest.fixture(scope="session")
def sums(data_dir: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((data_dir / "memory" / "sums.json").read_text())
    return read


def segment_sums(trace: Trace) -> dict[str, int]:
    """Return the sums over the rows of memory_segments."""
    result = warpline.stats(trace, "memory_segments")
    fields = [field.name for field in result.fields]
    totals = dict.fromkeys(fields, 0)
    for row in result.rows():
        for name, value in zip(fields, row, strict=True):
            totals[name] += value if isinstance(value, int) else 0
    return totals


@pytest.mark.parametrize("name", memory_snapshots.NAMES)
def test_sums_are_those_of_memory_stats(name: str, path_of: Open, sums: dict[str, Any]) -> None:
    stats = sums[name]["memory_stats"]
    trace = warpline.open(path_of(name))
    found = segment_sums(trace)
    blocks = trace["allocator_block"].filter(state="Awaiting free")
    awaiting = sum(blocks["requested_bytes"].to_list())
    requested = found["allocated_bytes"] - found["rounding_bytes"] + awaiting
    current = {key: stats[f"{key}.all.current"] for key in ("reserved_bytes", "allocated_bytes")}
    assert {key: found[key] for key in current} == current
    assert found["allocated_bytes"] + found["awaiting_bytes"] == stats["active_bytes.all.current"]
    assert requested == stats["requested_bytes.all.current"]
    assert found["fragmented_bytes"] == stats["inactive_split_bytes.all.current"]
    taken = trace["segment_event"]["operation"].is_in(["Segment allocation", "Segment map"])
    reserved = trace["segment_event"].filter(taken)["bytes"].sum()
    assert reserved == stats["reserved_bytes.all.allocated"]
    failures = len(trace["segment_event"].filter(operation="Out of memory"))
    assert failures == stats["num_ooms"]


@pytest.mark.parametrize("name", memory_snapshots.NAMES)
def test_sums_are_those_of_torchs_viewer(name: str, path_of: Open, sums: dict[str, Any]) -> None:
    viewer = sums[name]["memory_viz"]
    trace = warpline.open(path_of(name))
    found = segment_sums(trace)
    requested = found["allocated_bytes"] - found["rounding_bytes"]
    assert (found["segments"], found["reserved_bytes"]) == (
        viewer["segments"],
        viewer["total_reserved"],
    )
    assert requested == viewer["total_allocated"] == viewer["flamegraph"]["active_allocated"]
    assert found["reserved_bytes"] - requested == viewer["total_free"]
    assert found["rounding_bytes"] == viewer["flamegraph"].get("active_allocated gaps", 0)
    operations = trace["segment_event"]["operation"].to_list()
    freed = trace["allocator_event"]["operation"].to_list().count("Deallocation")
    counts = {
        "frees": freed,
        "mallocs": operations.count("Segment allocation"),
        "cudaFrees": operations.count("Segment release"),
        "oom": operations.count("Out of memory"),
    }
    assert counts == viewer["trace"]


def changes(trace: Trace, *, in_use: tuple[str, ...], freed: str) -> np.ndarray:
    """Return the changes of the sum of bytes, in order of time."""
    every = []
    for table in ("allocator_event", "segment_event"):
        columns = trace[table]
        for time, operation, size in zip(
            columns["time_ns"], columns["operation"], columns["bytes"], strict=True
        ):
            if operation in in_use or operation == freed:
                every.append((time, size if operation in in_use else -size))
    return np.array([change for _, change in sorted(every, key=lambda each: each[0])])


@pytest.mark.parametrize("name", memory_snapshots.NAMES)
def test_the_timeline_is_that_of_torchs_viewer(
    name: str, path_of: Open, sums: dict[str, Any]
) -> None:
    path, stats = path_of(name), sums[name]["memory_stats"]
    trace = warpline.open(path)
    requested = np.cumsum(changes(trace, in_use=("Allocation",), freed="Free completed"))
    heights = memory_snapshots.active_timeline(memory_snapshots.load(path), 0)
    assert [0, *requested.tolist()] == heights
    assert requested.max() == stats["requested_bytes.all.peak"]
    events = trace["allocator_event"]
    last, most = events["total_reserved_bytes"][-1], events["total_reserved_bytes"].max()
    assert last == stats["reserved_bytes.all.current"]
    assert most == stats["reserved_bytes.all.peak"]
    (peak,) = memory_peaks(trace)
    assert peak.allocated_bytes == stats["allocated_bytes.all.peak"]


def cut(snapshot: dict[str, Any], first: int) -> dict[str, Any]:
    """Return a snapshot with the later part of its history, as a full ring has it."""
    return {**snapshot, "device_traces": [snapshot["device_traces"][0][first:]]}


@pytest.mark.parametrize("name", ["train", "train_expandable", "streams", "flush"])
def test_a_history_that_begins_later_has_the_same_memory(
    name: str, path_of: Open, tmp_path: Path
) -> None:
    snapshot = memory_snapshots.load(path_of(name))
    whole = memory_snapshots.active_timeline(snapshot, 0)
    for first in range(0, len(snapshot["device_traces"][0]), 97 if name == "flush" else 331):
        part = cut(snapshot, first)
        path = tmp_path / "part.pickle"
        path.write_bytes(pickle.dumps(part))
        trace = warpline.open(path)
        events = trace["allocator_event"]
        assert events["total_reserved_bytes"][-1] == sum(s["total_size"] for s in part["segments"])
        in_use = np.where(events["operation"] == "Allocation", events["bytes"], -events["bytes"])
        allocated = [
            block["requested_size"]
            for segment in part["segments"]
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        assert in_use.sum() == sum(allocated)
        requested = np.cumsum(changes(trace, in_use=("Allocation",), freed="Free completed"))
        assert requested.max() <= max(whole)


def test_stacks_are_those_of_the_file(path_of: Open) -> None:
    path = path_of("train")
    entries = [e for e in memory_snapshots.load(path)["device_traces"][0] if e["action"] == "alloc"]
    trace = warpline.open(path)
    events = trace["allocator_event"].filter(operation="Allocation")
    parents, frames = trace["stack"]["parent_id"].to_list(), trace["stack"]["frame_id"].to_list()
    shown = trace["frame"].select("symbol", "module", "line").rows()
    for entry, stack in zip(entries, events["stack_id"].to_list(), strict=True):
        found, at = [], stack
        while at is not None:
            found.append(shown[frames[at]])
            at = parents[at]
        assert found == [(f["name"], f["filename"], f["line"]) for f in entry["frames"]]


def test_a_gzip_file_is_read(path_of: Open, tmp_path: Path) -> None:
    packed = tmp_path / "any.name"
    packed.write_bytes(gzip.compress(path_of("leak").read_bytes()))
    assert segment_sums(warpline.open(packed)) == segment_sums(warpline.open(path_of("leak")))
    packed.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(CorruptTraceError, match=r"any\.name cannot be read"):
        warpline.open(packed)


def test_a_snapshot_kept_as_a_recording_is_the_same(path_of: Open, tmp_path: Path) -> None:
    path = path_of("graph")
    assert main(["export", str(path), "-o", str(tmp_path / "graph.warpline")]) == 0
    ours, kept = warpline.open(path), warpline.open(tmp_path / "graph.warpline")
    for table in ours.tables:
        assert ours[table].equals(kept[table])


class Creates:
    """Creates a file when its pickle is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_hostile_snapshot_is_one_line_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, created = tmp_path / "snapshot.pickle", tmp_path / "created"
    path.write_bytes(pickle.dumps({"segments": [Creates(created)], "device_traces": []}))
    assert main([str(path)]) == 1
    assert not created.exists()
    output = capsys.readouterr()
    assert output.out == ""
    error, hint = output.err.splitlines()
    assert error.startswith(f"error: {path}: the pickle has the opcode STACK_GLOBAL at byte ")
    assert hint == "hint: write snapshots with torch.cuda.memory._dump_snapshot"


def test_the_summary_is_about_memory(path_of: Open, capsys: pytest.CaptureFixture[str]) -> None:
    path = path_of("graph")
    assert main([str(path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "GPU 0 67.4 MiB 100.0% 11 32.0 MiB 105 ms" in lines
    assert "GPU 0, Small blocks, pool 1.0 2.00 MiB 1.02 MiB 1008 KiB 1008 KiB 1 2" in lines
    assert f"next: warpline memory {path}" in lines
    assert not any("no kernel" in line or line.startswith("processes") for line in lines)


def test_what_torch_save_writes_is_refused_with_a_hint(tmp_path: Path) -> None:
    archive, older = tmp_path / "archive.pt", tmp_path / "older.pt"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({}))
    with pytest.raises(UnknownFormatError, match=r"an archive of torch\.save"):
        warpline.open(archive)
    older.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps({}, 2))
    with pytest.raises(InputError, match=r"was written by torch\.save"):
        warpline.open(older)


@pytest.mark.parametrize("value", [[1], {"version": "2.4", "entries": []}, {}, "text", None])
def test_other_pickles_are_named(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "other.pickle"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(CorruptTraceError, match=r"other\.pickle: "):
        warpline.open(path)
