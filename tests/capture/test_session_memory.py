"""The GPU memory that programs left in a session is in the recording."""

from __future__ import annotations

import gzip
import json

import pytest
from capture.cuda_writer import CudaLog
from capture.finished import of_process, rows
from capture.raw_writer import ORIGIN_NS, ORIGIN_UTC_NS, Log, write_session

import warpline
from warpline.capture.finishing.finish import finish
from warpline.capture.finishing.process import run_finishing
from warpline.documents import session_memory
from warpline.injected.memory_pieces import write_piece

PID = 100
UUID = bytes(range(1, 17))
GPU = {"name": "GPU", "uuid": "01020304-0506-0708-090a-0b0c0d0e0f10", "memory_bytes": 80 << 30}
FRAMES = [
    {"filename": "/x/warpline/injected/modules.py", "line": 96, "name": "call_module"},
    {"filename": "/home/me/train.py", "line": 12, "name": "forward"},
]


def entry(action, address, size, us):
    """An entry `us` after the beginning of the recording, by torch's clock."""
    time_us = ORIGIN_UTC_NS // 1000 + us
    known = {"addr": address, "size": size, "stream": 0, "frames": FRAMES, "time_us": time_us}
    return {"action": action, **known}


def snapshot(entries, live=()):
    """A snapshot with one segment for each live block."""
    segments = [
        {
            "device": 0,
            "address": address,
            "total_size": 1 << 21,
            "stream": 0,
            "segment_type": "small",
            "segment_pool_id": (0, 0),
            "frames": [],
            "blocks": [
                {
                    "address": address,
                    "size": 1 << 21,
                    "requested_size": size,
                    "state": "active_allocated",
                    "frames": FRAMES,
                }
            ],
        }
        for address, size in live
    ]
    return {"segments": segments, "device_traces": [entries]}


class Session:
    """A session that a test fills."""

    def __init__(self, folder, log):
        self.folder, self.output = folder / "x.warpline.raw", folder / "x.warpline"
        write_session(self.folder, log, pytorch=["modules", "memory"], collected=["cuda"])
        self.pytorch = self.folder / "pytorch"
        self.pytorch.mkdir()
        (self.pytorch / f"{PID}-process.jsonl").write_text('{"torch": "2.11"}\n')

    def piece(self, number, content, *, missing=0, off_ns=0, gpus=(GPU,), pid=PID):
        """Write a piece of 1 ms; `off_ns` is how much the wall clock is ahead at its end."""
        start = [ORIGIN_UTC_NS + number * 10**6, ORIGIN_NS + number * 10**6]
        end = [start[0] + 10**6 + off_ns, start[1] + 10**6]
        head = {"holder": "ours", "clocks": [start, end], "missing": [missing], "devices": gpus}
        path = self.pytorch / f"{pid}-{number}.memory.jsonl.gz"
        write_piece(path, head, content)
        return path

    def tensors(self, *lines):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.pytorch / f"{PID}-tensors.jsonl").write_text(text)

    def read(self):
        finish(self.folder, self.output)
        session_memory.add(self.output, self.folder)
        return warpline.open(self.output)


@pytest.fixture
def session(tmp_path):
    log = CudaLog(PID)
    log.collecting(0)
    log.device(uuid=UUID)
    log.context()
    return Session(tmp_path, log)


def events(trace):
    return rows(trace, "allocator_event", "time_ns", "operation", "bytes", "address")


def test_pieces_become_rows_in_the_time_of_the_recording(session):
    session.piece(0, snapshot([entry("segment_alloc", 4096, 1 << 21, 100)]))
    session.piece(1, snapshot([entry("alloc", 4096, 700, 1200)], live=[(4096, 700)]))
    trace = session.read()
    assert events(trace) == [(1_200_000, "Allocation", 700, 4096)]
    columns = ("time_ns", "operation", "process_id", "device_id")
    assert rows(trace, "segment_event", *columns) == [(100_000, "Segment allocation", 0, 0)]
    assert trace["device"]["uuid"].to_list() == [GPU["uuid"]]
    assert rows(trace, "allocator_block", "bytes", "requested_bytes") == [(1 << 21, 700)]
    assert trace.meta.warnings == ()


def test_our_own_frames_are_left_out(session):
    session.piece(0, snapshot([entry("alloc", 4096, 700, 1)], live=[(4096, 700)]))
    trace = session.read()
    assert trace["frame"]["module"].to_list() == ["/home/me/train.py"]
    assert trace["stack"]["depth"].to_list() == [0]


def test_times_follow_a_wall_clock_that_runs_faster(session):
    entries = [entry("alloc", 4096 + size, size, us) for size, us in ((1, 0), (2, 505), (3, 1010))]
    session.piece(0, snapshot(entries), off_ns=10_000)  # 1010 us of wall time in 1 ms
    assert [time for time, *_ in events(session.read())] == [0, 500_000, 1_000_000]


def test_events_before_missing_ones_are_left_out(session):
    session.piece(0, snapshot([entry("alloc", 4096, 10, 1)], live=[(4096, 10)]))
    session.piece(1, snapshot([entry("alloc", 8192, 20, 1001)], live=[(8192, 20)]), missing=2)
    session.piece(2, snapshot([entry("free_requested", 8192, 20, 2001)]))
    trace = session.read()
    assert [size for _, _, size, _ in events(trace)] == [20, 20]
    (warning,) = trace.meta.warnings
    assert warning.startswith("process 100: 2 allocations and frees of GPU memory are missing")


def test_blocks_from_before_the_recording_are_there(session):
    session.piece(0, snapshot([entry("free_requested", 4096, 10, 1)], live=[(8192, 20)]))
    trace = session.read()
    found = rows(trace, "allocator_event", "operation", "address", "is_existing")
    assert sorted(found) == [
        ("Allocation", 4096, True),
        ("Allocation", 8192, True),
        ("Deallocation", 4096, False),
    ]


def test_tensors_are_rows_each_time_that_they_were_seen(session):
    session.piece(0, snapshot([]))
    session.tensors(
        ["tensor", 0, "Parameter", "GPT.head.weight", "GPT.head"],
        ["tensor", 1, "Gradient", "GPT.head.weight", "GPT.head"],
        ["tensor", 2, "Input", "input 0", None],
        ["tensor", 3, "Whatever", "odd", None],
        ["seen", ORIGIN_NS + 5, "modules", [[0, 0, 4096, 64]]],
        ["seen", ORIGIN_NS + 6, "AdamW gradients", [[1, 0, 8192, 64]]],
        ["seen", ORIGIN_NS + 7, "inputs", [[2, 0, 512, 8], [3, 0, 512, 8], [2, 9, 512, 8]]],
        ["same", ORIGIN_NS + 9, "AdamW gradients"],
        ["same", ORIGIN_NS + 9, "never seen"],
        ["seen", ORIGIN_NS + 9, "inputs", [[2, 0, -1, 8]]],
        ["seen", "?"],
        7,
    )
    columns = ("time_ns", "device_id", "address", "bytes", "kind", "name", "module")
    assert rows(session.read(), "tensor_block", *columns) == [
        (5, 0, 4096, 64, "Parameter", "GPT.head.weight", "GPT.head"),
        (6, 0, 8192, 64, "Gradient", "GPT.head.weight", "GPT.head"),
        (7, 0, 512, 8, "Input", "input 0", None),
        (9, 0, 8192, 64, "Gradient", "GPT.head.weight", "GPT.head"),
    ]


def test_gpus_are_found_by_uuid_and_added_if_new(session):
    other = {"name": "Other", "uuid": "ff" * 16, "memory_bytes": 1}
    content = snapshot([entry("alloc", 4096, 10, 1)])
    content["device_traces"].append([entry("alloc", 4096, 20, 2)])
    session.piece(0, content, gpus=(other, GPU))
    trace = session.read()
    assert rows(trace, "allocator_event", "bytes", "device_id") == [(10, 1), (20, 0)]
    assert rows(trace, "device", "gpu_index", "name") == [(0, "GPU"), (1, "Other")]


def test_a_process_that_recorded_nothing_else_is_added(session):
    session.piece(0, snapshot([entry("alloc", 4096, 10, 1)]), pid=777)
    trace = session.read()
    assert trace["process"]["pid"].to_list() == [100, 777]
    assert trace["allocator_event"]["process_id"].to_list() == [1]


def test_what_was_not_written_is_told(session):
    (session.pytorch / f"{PID}-memory.unwritten").touch()
    trace = session.read()
    assert trace.meta.warnings == (
        "process 100 ended before it wrote its last events of GPU memory",
    )
    assert not trace.has("allocator_event")


def _cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def _without_frames(path):
    lines = gzip.decompress(path.read_bytes()).splitlines()
    path.write_bytes(gzip.compress(b"\n".join(lines[:-2])))


def _other_types(path):
    lines = gzip.decompress(path.read_bytes()).splitlines()
    lines[1] = b'{"device": 0, "entries": [{"frames": 0, "action": 7}]}'
    path.write_bytes(gzip.compress(b"\n".join(lines)))


def _no_list(path):
    path.write_bytes(gzip.compress(b"[1]\n"))


@pytest.mark.parametrize("damage", [_cut, _without_frames, _other_types, _no_list])
def test_a_damaged_piece_is_told(session, damage):
    damage(session.piece(0, snapshot([entry("alloc", 4096, 10, 1)], live=[(4096, 10)])))
    trace = session.read()
    assert [text.startswith("GPU memory of process 100") for text in trace.meta.warnings] == [True]
    assert "\n" not in trace.meta.warnings[0]


def test_finishing_adds_it(session):
    session.piece(0, snapshot([entry("alloc", 4096, 10, 1)], live=[(4096, 10)]))
    finished = run_finishing(session.folder, session.output, lambda _: None)
    assert finished["damaged_logs"] == 0
    assert events(warpline.open(session.output)) == [(1000, "Allocation", 10, 4096)]


def test_a_session_without_it_is_left_alone(tmp_path):
    log = of_process()
    folder = write_session(tmp_path / "x.warpline.raw", log, collected=["cuda"])
    finish(folder, tmp_path / "x.warpline")
    before = (tmp_path / "x.warpline").read_bytes()
    assert not session_memory.add(tmp_path / "x.warpline", folder)
    assert (tmp_path / "x.warpline").read_bytes() == before
    assert isinstance(log, Log)
