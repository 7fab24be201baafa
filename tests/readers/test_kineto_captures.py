"""Real traces of the PyTorch profiler: committed dumps, and sums from another way of reading.

``WARPLINE_TRACES`` may name a folder with more traces, in which the sums are checked too.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support import kineto_files
from support.canonical_dump import dump

import warpline
from warpline import api
from warpline.derived.work.busy import device_busy_ns
from warpline.result import ANALYSES, Skipped
from warpline.trace import Trace

SNAPSHOTS = Path(__file__).parent / "snapshots"
MORE = os.environ.get("WARPLINE_TRACES", "")
TABLES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}

Capture = Callable[[str], Path]


@pytest.fixture(scope="module")
def trace_of(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Return the path of a trace in tests/data/kineto by its name."""
    folder = tmp_path_factory.mktemp("kineto")
    return lambda name: kineto_files.unpack(name, folder)


class Work(NamedTuple):
    """One operation on a device, as `json` and `decimal` read it."""

    table: str
    start_ns: int
    end_ns: int
    name: str


def more_traces() -> list[Path]:
    folder = Path(MORE)
    found = [*folder.rglob("*.json"), *folder.rglob("*.json.gz")] if MORE else []
    return sorted(found)


def true_work(path: Path) -> dict[int, list[Work]]:
    """Return the device work of a trace by device number, without any code of ours."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    document = json.loads(text.decode("utf-8", "replace"), strict=False, parse_float=Decimal)
    events = document if isinstance(document, list) else document["traceEvents"]
    found = defaultdict(list)
    for item in events:
        table = TABLES.get(str(item.get("cat", "")).lower())
        if item.get("ph") == "X" and table is not None:
            start_ns = int(Decimal(str(item["ts"])) * 1000)
            end_ns = start_ns + int(Decimal(str(item.get("dur", 0))) * 1000)
            found[item["args"]["device"]].append(Work(table, start_ns, end_ns, item["name"]))
    return found


def covered_ns(works: list[Work]) -> int:
    """Return the length of the union of intervals."""
    total, until = 0, -(1 << 63)
    for work in sorted(works, key=lambda item: item.start_ns):
        total += max(0, work.end_ns - max(until, work.start_ns))
        until = max(until, work.end_ns)
    return total


def read_work(trace: Trace) -> Iterator[tuple[int, Work]]:
    numbers = trace.columns("device", "gpu_index")["gpu_index"].values.tolist()
    for table in ("kernel", "memcpy", "memset"):
        columns = trace.columns(table, "start_ns", "end_ns", "device_id")
        values = [columns[name].values.tolist() for name in columns]
        named = table == "kernel"
        ids = trace.columns("kernel", "name_id")["name_id"].values if named else ()
        names = trace.strings.texts(ids) if named else [""] * len(values[0])
        for start_ns, end_ns, device, name in zip(*values, names, strict=True):
            yield numbers[device], Work(table, start_ns, end_ns, name)


def assert_true(path: Path) -> None:
    """Compare every operation, and the busy time of every device, to the nanosecond."""
    expected, trace = true_work(path), warpline.open(path)
    if not expected:
        assert not trace.has("kernel") or not trace.row_count("kernel")
        return
    found = defaultdict(list)
    for device, work in read_work(trace):
        found[device].append(work)
    assert set(found) == set(expected)
    first = min(work.start_ns for works in expected.values() for work in works)
    shift = first - min(work.start_ns for works in found.values() for work in works)
    for device, works in expected.items():
        moved = [
            work._replace(
                start_ns=work.start_ns - shift,
                end_ns=work.end_ns - shift,
                name=work.name if work.table == "kernel" else "",
            )
            for work in works
        ]
        assert sorted(found[device]) == sorted(moved)
    numbers = trace.columns("device", "gpu_index")["gpu_index"].values.tolist()
    busy_ns = dict(zip(numbers, device_busy_ns(trace).tolist(), strict=True))
    assert {device: busy_ns[device] for device in expected} == {
        device: covered_ns(works) for device, works in expected.items()
    }


@pytest.mark.parametrize("name", kineto_files.names())
def test_dump_is_the_committed_one(trace_of: Capture, name):
    found = dump(warpline.open(trace_of(name)))
    path = SNAPSHOTS / f"kineto.{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", kineto_files.names())
def test_operations_are_those_of_another_way_of_reading(trace_of: Capture, name):
    assert_true(trace_of(name))


@pytest.mark.skipif(not more_traces(), reason="WARPLINE_TRACES names no folder with traces")
@pytest.mark.parametrize("path", more_traces(), ids=lambda path: path.name[:40])
def test_more_traces(path):
    assert_true(path)
    trace = warpline.open(path)
    for item in ANALYSES:
        result = api.run(trace, item.name)
        assert not isinstance(result, Skipped) or result.reason


def test_content_decides_not_the_name(trace_of: Capture, tmp_path):
    path = trace_of("pageable_h2d.bad")
    hidden, packed = tmp_path / "recording", tmp_path / "other.bin"
    shutil.copyfile(path, hidden)
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    expected = dump(warpline.open(path))
    assert dump(warpline.open(hidden)) == expected
    assert dump(warpline.open(packed)) == expected


@pytest.mark.parametrize("name", ["pageable_h2d.bad", "ddp_step.rank0"])
def test_the_same_without_the_native_core(trace_of: Capture, monkeypatch, name):
    expected = dump(warpline.open(trace_of(name)))
    monkeypatch.setattr("warpline.native.core", lambda: None)
    assert dump(warpline.open(trace_of(name))) == expected


@pytest.mark.parametrize("name", ["pageable_h2d.bad", "ddp_step.rank0"])
def test_scanned_in_parts_it_is_the_same(trace_of: Capture, monkeypatch, name):
    expected = dump(warpline.open(trace_of(name)))
    monkeypatch.setattr("warpline.readers.kineto.events._SMALL_BYTES", 0)
    assert dump(warpline.open(trace_of(name))) == expected


def test_columns_do_not_depend_on_what_was_read_before(trace_of: Capture):
    path = trace_of("ddp_step.rank0")
    whole, single = warpline.open(path), warpline.open(path)
    for table in reversed(single.tables):
        spec = single.table(table).spec
        columns = whole.columns(table, *(column.name for column in spec.columns))
        for column in reversed(spec.columns):
            one, other = single.columns(table, column.name)[column.name], columns[column.name]
            assert np.array_equal(one.is_valid(), other.is_valid())
            if column.ref != "string":
                assert np.array_equal(one.values, other.values)


def test_a_folder_of_ranks_is_one_trace_on_one_clock(trace_of: Capture, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    ranks = []
    for rank in (0, 1):
        path = trace_of(f"ddp_step.rank{rank}")
        shutil.copyfile(path, folder / f"host_{rank}.17907.pt.trace.json")
        ranks.append(warpline.open(path))
    (folder / "notes.json").write_text("{}")
    merged = warpline.open(folder)
    assert merged.row_count("process") == merged.row_count("device") == 2
    assert merged.row_count("kernel") == sum(rank.row_count("kernel") for rank in ranks)
    # An all-reduce ends on both ranks at once: the clocks agree far below its length.
    table = merged.columns("kernel", "end_ns", "process_id", "short_name_id")
    names = merged.strings.texts(table["short_name_id"].values)
    is_nccl = np.array([text.startswith("nccl") for text in names])
    end_ns, process = table["end_ns"].values[is_nccl], table["process_id"].values[is_nccl]
    lag_ns = end_ns[process == 0] - end_ns[process == 1]
    assert len(lag_ns) == 8
    assert abs(float(np.median(lag_ns))) < 100_000


def test_every_kernel_finds_its_launch_and_every_collective_its_operator(trace_of: Capture):
    trace = warpline.open(trace_of("ddp_step.rank1"))
    calls = trace.columns("api_call", "correlation_id")["correlation_id"].values
    kernels = trace.columns("kernel", "correlation_id")["correlation_id"].values
    assert np.isin(kernels, calls).all()
    table: Any = trace["collective"]
    assert table["operation"].to_list() == ["allreduce"] * 8
    assert table["bytes"][0] == 12_288_000 * 2
    assert table["rank"].unique().to_list() == [1]
    assert table["sequence"].to_list() == list(range(8))
    ops = trace["op"]["name"]
    assert {ops[row] for row in table["op_id"].to_list()} == {"record_param_comms"}
