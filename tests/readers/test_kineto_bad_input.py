"""Traces that are cut, damaged, or not what they seem: what is there is read, and the loss told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support import kineto_files
from support.kineto_files import call, event, kernel, write

import warpline
from warpline import api
from warpline.errors import CorruptTraceError, InputError, UnknownFormatError
from warpline.result import ANALYSES

WITH_AND_WITHOUT_CORE = pytest.mark.parametrize("with_core", [True, False])


@pytest.fixture(autouse=True)
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the native core from tests that ask for it."""
    chosen = getattr(request.node, "callspec", None)
    if chosen is not None and chosen.params.get("with_core") is False:
        monkeypatch.setattr("warpline.native.core", lambda: None)


def two_kernels(path: Path) -> bytes:
    calls = [call("cudaLaunchKernel", n, 1, n) for n in (1, 2)]
    work = [kernel(f"k{n}", 10 * n, 5, correlation=n) for n in (1, 2)]
    return write(path, [*calls, *work]).read_bytes()


@WITH_AND_WITHOUT_CORE
def test_a_trace_cut_anywhere_gives_what_stands_before_the_cut(tmp_path, with_core):
    path = tmp_path / "trace.json"
    whole = two_kernels(path)
    ends = [n + 1 for n in range(len(whole)) if whole[n : n + 3] in (b"},\n", b"}\n]")]
    for cut in range(len(whole) - len(b"]}\n"), 40, -7):
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        if not complete:
            with pytest.raises(InputError):
                warpline.open(path)
            continue
        trace = warpline.open(path)
        found = [trace.row_count(name) for name in ("api_call", "kernel")]
        assert found == [min(complete, 2), max(complete - 2, 0)]
        assert trace.meta.lost == {"events that could not be read": None}
        assert any("is truncated" in text for text in trace.meta.warnings)


@WITH_AND_WITHOUT_CORE
def test_a_cut_gzip_file_gives_what_can_be_unpacked(tmp_path, with_core):
    folder = tmp_path
    whole = kineto_files.unpack("pageable_h2d.bad", folder).read_bytes()
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(whole)[:-9000])
    full, part = warpline.open(folder / "pageable_h2d.bad.json"), warpline.open(path)
    assert 0 < part.row_count("op") <= full.row_count("op")
    assert part.meta.lost == {"events that could not be read": None}
    assert any("gzip" in text for text in part.meta.warnings)


@WITH_AND_WITHOUT_CORE
@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"", b"\n\n  "])
def test_a_byte_order_mark_and_spaces_do_not_matter(tmp_path, mark, with_core):
    path = tmp_path / "trace.json"
    whole = two_kernels(path)
    path.write_bytes(mark + whole)
    assert warpline.open(path).row_count("kernel") == 2


@WITH_AND_WITHOUT_CORE
def test_events_alone_are_a_trace(tmp_path, with_core):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([kernel("k", 1, 2), call("cudaLaunchKernel", 0, 1, 1)]))
    assert warpline.open(path).row_count("kernel") == 1


@WITH_AND_WITHOUT_CORE
@pytest.mark.parametrize(
    ("content", "error", "told"),
    [
        (b'{"traceEvents": []}', UnknownFormatError, "without trace events"),
        (b'{"a": {"traceEvents": 1}}', UnknownFormatError, "without trace events"),
        (b'{"b": [1, 2]}', UnknownFormatError, "JSON without trace events"),
        (b'[{"ph": "X", "cat": "v8", "ts": 1, "dur": 1}]', UnknownFormatError, "v8"),
        (b'{"traceEvents": [{"ph": "B", "name": "x", "ts": 1}]}', UnknownFormatError, "Chrome"),
        ('{"traceEvents": []}'.encode("utf-16"), InputError, "."),
        (b"\x1f\x8b\x08nonsense", UnknownFormatError, "unsupported file format"),
        (b"{", UnknownFormatError, "unsupported file format"),
        (b'{"schemaVersion": 1, ', InputError, "."),
    ],
)
def test_what_is_no_trace_is_refused_in_words(tmp_path, content, error, told, with_core):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(error, match=told) as caught:
        warpline.open(path)
    assert str(path) in str(caught.value)


ODD: dict[str, Any] = {
    "pid": "x",
    "tid": [1],
    "ts": 1e300,
    "dur": -5,
    "name": None,
    "cat": 7,
    "args": 3,
}
ARGUMENTS: dict[str, Any] = {
    "device": 1 << 70,
    "stream": "abc",
    "context": -1,
    "correlation": 1.5,
    "grid": [1, "x", 3],
    "block": [[1], 2, 3],
    "bytes": -(1 << 63),
    "wait_on_stream": 1 << 62,
    "Collective name": ["a"],
    "In msg nelems": 1 << 62,
    "Process Group Ranks": "[1, [2",
    "Device Id": 1e18,
    "Bytes": -(1 << 63),
    "dtype": "Long",
    "Addr": (1 << 64) - 1,
}


def every_kind() -> list[dict[str, Any]]:
    names = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "cuda_event", "cuda_runtime")
    host = ("cpu_op", "user_annotation", "python_function", "overhead", "Trace")
    events = [event(name, f"{name} Event Sync", 5, 2, args={}) for name in (*names, *host)]
    memory = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 3, "pid": 1}
    return [*events, {**memory, "tid": 1, "args": {}}, {**memory, "ph": "C", "args": {"v": 1}}]


@WITH_AND_WITHOUT_CORE
@pytest.mark.parametrize("odd", [*ODD, *ARGUMENTS])
def test_odd_values_never_end_in_a_traceback(tmp_path, odd, with_core):
    events = [*every_kind(), *every_kind()]
    for item in events[: len(events) // 2]:
        if odd in ODD:
            item[odd] = ODD[odd]
        else:
            item["args"] |= {"In msg nelems": 1 << 62, odd: ARGUMENTS[odd]}
    trace = warpline.open(write(tmp_path / "trace.json", events))
    for table in trace.tables:
        trace[table]
    for analysis in ANALYSES:
        api.run(trace, analysis.name)


TOPS: dict[str, Any] = {
    "deviceProperties": [3, {"id": 1 << 70, "name": 7}, {"id": True}, {"id": 2, "numSms": "x"}],
    "distributedInfo": {"rank": 1 << 70, "world_size": [1]},
    "baseTimeNanoseconds": 1 << 80,
    "schemaVersion": {"a": 1},
    "host_name": ["x"],
    "WARNING": [1, None, "w" * 5000],
    "cuda_runtime_version": -1,
}


@WITH_AND_WITHOUT_CORE
@pytest.mark.parametrize("member", TOPS)
def test_odd_members_beside_the_events_do_no_harm(tmp_path, member, with_core):
    events = [event("cpu_op", "a", 1, 1)]
    trace = warpline.open(write(tmp_path / "trace.json", events, **{member: TOPS[member]}))
    for table in trace.tables:
        trace[table]
    api.summary(trace)


@pytest.mark.parametrize("with_core", [True])
def test_a_file_that_changes_while_it_is_read_is_told(tmp_path, monkeypatch, with_core):
    monkeypatch.setattr("warpline.readers.kineto.events._SMALL_BYTES", 0)
    path = write(tmp_path / "trace.json", [event("cpu_op", "a", 1, 1), kernel("k", 1, 1)])
    trace = warpline.open(path)
    write(path, [event("cpu_op", "a", 1, 1)])
    with pytest.raises(CorruptTraceError, match="changed"):
        trace.columns("op", "input_strides_id")


def test_an_empty_folder_is_no_trace(tmp_path: Path):
    with pytest.raises(InputError, match="directory"):
        warpline.open(tmp_path)
