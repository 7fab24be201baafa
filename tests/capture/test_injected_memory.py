"""The memory history of a recorded program is written, and the program sees what it sees alone."""

from __future__ import annotations

import json
from typing import cast

import pytest
from support.torch_memory import FakeAgent, fake_torch

from warpline.capture.session.memory import piece_files, read_piece, unwritten
from warpline.injected import memory
from warpline.injected.agent import Agent
from warpline.injected.context import Context


class Program:
    """A program with the stand-in of torch, and the part that records it."""

    def __init__(self, folder, monkeypatch):
        self.torch, self.allocator = fake_torch(monkeypatch)
        monkeypatch.setattr(memory, "_LEAST_PAUSE_S", 10**9)
        (folder / "pytorch").mkdir()
        self.folder = folder
        self.context = Context(str(folder), "", frozenset(["memory"]))
        self.agent = FakeAgent()
        self.context.agent = cast("Agent", self.agent)

    def start(self):
        memory.start(self.context)

    def call_module(self):
        for place in self.context.safe_places:
            place(False, ((), {}))
            place(True, ((), {}))

    def pieces(self):
        memory.stop()
        (files,) = piece_files(self.folder).values() or [[]]
        return [read_piece(path) for path in files]

    def notes(self):
        return [
            json.loads(line)
            for path in sorted((self.folder / "pytorch").glob("*-notes.jsonl"))
            for line in path.read_text().splitlines()
        ]


@pytest.fixture
def program(tmp_path, monkeypatch):
    yield Program(tmp_path, monkeypatch)
    memory.stop()


def actions(piece):
    return [entry["action"] for entry in piece.snapshot["device_traces"][0]]


def test_what_is_allocated_after_the_initialization_is_recorded(program):
    program.start()
    assert program.allocator.calls == []  # it does not initialize CUDA
    assert not memory.is_on()
    program.torch.cuda.init()
    assert memory.is_on()
    kept = program.allocator.allocate(100, line=7)
    program.allocator.free(program.allocator.allocate(50))
    (piece,) = program.pieces()
    assert program.allocator.calls[0] == ("all", "alloc", "python", memory._MOST_ENTRIES)
    assert program.allocator.enabled is None
    freed = ["free_requested", "free_completed", "segment_free"]
    assert actions(piece) == ["segment_alloc", "alloc"] * 2 + freed
    entries = piece.snapshot["device_traces"][0]
    assert entries[1]["frames"] == [{"filename": "/program/train.py", "line": 7, "name": "step"}]
    assert entries[0]["frames"] is entries[1]["frames"]
    assert [segment["address"] for segment in piece.snapshot["segments"]] == [kept]
    assert piece.head["missing"] == [0]
    assert piece.head["stats"] == [[], [program.allocator.stats(0)]]
    assert piece.head["devices"] == [{"name": "Fake", "uuid": "0011-22", "memory_bytes": 1 << 30}]
    (wall, monotonic), (wall_end, monotonic_end) = piece.head["clocks"]
    assert abs((wall_end - wall) - (monotonic_end - monotonic)) < 10**9
    assert unwritten(program.folder) == []
    assert program.notes() == []


def test_a_program_that_never_uses_cuda_has_no_piece(program):
    program.start()
    program.call_module()
    memory.stop()
    assert piece_files(program.folder) == {}
    assert program.torch.cuda._queued_calls == []
    program.torch.cuda.init()
    assert program.allocator.calls == []


def test_a_program_that_is_killed_leaves_a_mark(program):
    program.start()
    program.torch.cuda.init()
    assert len(unwritten(program.folder)) == 1


def test_recording_begins_with_the_first_module_after_a_delay(program):
    program.agent.is_on = False
    program.start()
    program.torch.cuda.init()
    program.allocator.allocate(10)
    program.call_module()
    assert program.allocator.calls == []
    program.agent.is_on = True
    program.call_module()
    program.agent.is_on = False
    program.call_module()
    program.allocator.allocate(20)  # a pause: the history goes on, so that all fits together
    (piece,) = program.pieces()
    assert actions(piece) == ["segment_alloc", "alloc"]
    assert piece.head["missing"] == [0]
    assert [len(part["blocks"]) for part in piece.snapshot["segments"]] == [1, 1]


def test_a_full_ring_is_written_and_nothing_is_lost(program, monkeypatch):
    monkeypatch.setattr(memory, "_NEARLY_FULL", 10)
    monkeypatch.setattr(memory, "_CHECK_S", 0)
    program.start()
    program.torch.cuda.init()
    addresses = []
    for _ in range(25):
        addresses.append(program.allocator.allocate(10))
        program.call_module()
    pieces = program.pieces()
    assert len(pieces) == 4
    found = [
        entry["addr"]
        for piece in pieces
        for entry in piece.snapshot["device_traces"][0]
        if entry["action"] == "alloc"
    ]
    assert found == addresses
    assert [piece.head["missing"] for piece in pieces] == [[0]] * 4
    assert program.agent.ranges == ["warpline:write memory events"] * 3


def test_events_are_written_from_time_to_time(program, monkeypatch):
    for name in ("_LEAST_PAUSE_S", "_PAUSES", "_CHECK_S"):
        monkeypatch.setattr(memory, name, 0)
    program.start()
    program.torch.cuda.init()
    for _ in range(3):
        program.allocator.free(program.allocator.allocate(10))
        program.call_module()
        program.call_module()  # nothing new
        assert len(unwritten(program.folder)) == 1
    (files,) = piece_files(program.folder).values()
    assert len(files) == 3
    program.allocator.allocate(20)
    pieces = program.pieces()
    assert [actions(piece).count("alloc") for piece in pieces] == [1] * 4
    assert [piece.head["missing"] for piece in pieces] == [[0]] * 4
    clocks = [piece.head["clocks"] for piece in pieces]
    assert sorted(clocks) == clocks


def test_entries_that_the_ring_has_dropped_are_counted(program, monkeypatch):
    monkeypatch.setattr(memory, "_MOST_ENTRIES", 20)
    program.start()
    program.torch.cuda.init()
    for _ in range(25):
        program.allocator.allocate(10)
    (piece,) = program.pieces()
    assert len(actions(piece)) == 20
    assert piece.head["missing"] == [15]


def test_a_long_pause_and_too_many_events_end_it(program, monkeypatch):
    monkeypatch.setattr(memory, "_NEARLY_FULL", 20)
    monkeypatch.setattr(memory, "_CHECK_S", 0)
    program.start()
    program.torch.cuda.init()
    program.agent.is_on = False
    for _ in range(25):
        program.allocator.allocate(10)
        program.call_module()
    assert program.allocator.enabled is None
    assert len(program.pieces()) == 2  # what was there when the pause began, and then
    assert ["in a long pause" in note for note in program.notes()] == [True]


# What the program itself asks of torch


def test_a_snapshot_is_as_without_a_history(program):
    program.start()
    program.torch.cuda.init()
    program.allocator.allocate(10)
    snapshot = program.torch.cuda.memory._snapshot()
    assert snapshot["device_traces"] == [[]]
    assert [segment["blocks"][0]["frames"] for segment in snapshot["segments"]] == [[]]
    assert not program.torch._C._cuda_isHistoryEnabled()
    program.torch.cuda.memory._record_memory_history(enabled=None)  # does nothing alone
    (piece,) = program.pieces()
    assert actions(piece) == ["segment_alloc", "alloc"]
    assert piece.snapshot["device_traces"][0][0]["frames"]


def test_a_history_of_the_program_is_the_programs(program):
    program.start()
    program.torch.cuda.init()
    record, snapshot = (
        program.torch.cuda.memory._record_memory_history,
        program.torch.cuda.memory._snapshot,
    )
    first = program.allocator.allocate(10)
    record(max_entries=500)
    assert program.allocator.calls[-1] == ("all", "all", "all", 500)
    assert program.torch._C._cuda_isHistoryEnabled()
    second = program.allocator.allocate(20)
    assert [entry["addr"] for entry in snapshot()["device_traces"][0]] == [second] * 2
    record(enabled=None)
    assert not program.torch._C._cuda_isHistoryEnabled()
    third = program.allocator.allocate(30)
    pieces = program.pieces()
    assert [piece.head["holder"] for piece in pieces] == ["ours", "the program's", "ours"]
    found = [piece.snapshot["device_traces"][0][1]["addr"] for piece in pieces]
    assert found == [first, second, third]
    assert [piece.head["missing"] for piece in pieces] == [[0]] * 3
    assert ["memory history itself" in note for note in program.notes()] == [True]


def test_what_the_programs_history_does_not_have_is_missing(program):
    program.start()
    program.torch.cuda.init()
    program.torch.cuda.memory._record_memory_history(enabled="state")
    program.allocator.allocate(10)
    program.torch.cuda.memory._record_memory_history(enabled=None)
    program.allocator.allocate(20)
    assert [piece.head["missing"] for piece in program.pieces()] == [[0], [1], [0]]


def test_a_history_that_was_on_before_is_the_programs(program):
    program.torch.cuda.is_ready = True
    program.torch.cuda.memory._record_memory_history(max_entries=9)
    program.start()
    program.allocator.allocate(10)
    assert program.torch._C._cuda_isHistoryEnabled()
    (piece,) = program.pieces()
    assert piece.head["holder"] == "the program's"
    assert program.allocator.enabled == "all"
    assert len(program.allocator.calls) == 1


def test_errors_of_the_programs_calls_are_the_programs(program):
    program.start()
    program.torch.cuda.init()
    program.allocator.error = ValueError("expected state to be one of")
    with pytest.raises(ValueError, match="expected state"):
        program.torch.cuda.memory._record_memory_history("what")
    program.allocator.error = None
    program.allocator.allocate(10)  # nobody's
    program.call_module()
    program.allocator.free(program.allocator.allocate(10))
    assert [piece.head["missing"] for piece in program.pieces()] == [[0], [1]]


def test_another_allocator_has_no_history(program):
    program.allocator.error = RuntimeError("does not yet support recordHistory.\nBacktrace")
    program.start()
    program.torch.cuda.init()
    program.call_module()
    assert len(program.allocator.calls) == 1
    assert program.notes() == [
        "--pytorch=memory: GPU memory is not recorded: does not yet support recordHistory"
    ]


def test_torch_is_left_as_it_was(program):
    before = dict(vars(program.torch._C))
    program.start()
    program.torch.cuda.init()
    assert vars(program.torch._C) != before
    memory.stop()
    assert vars(program.torch._C) == before
    assert program.context.safe_places == []


def test_torch_without_cuda_has_no_memory(program):
    del program.torch._C._cuda_record_memory_history
    program.start()
    assert program.notes() == [
        "--pytorch=memory: this PyTorch has no CUDA: GPU memory is not recorded"
    ]


def test_a_file_that_cannot_be_written_is_noted(program):
    program.start()
    program.torch.cuda.init()
    program.context.session = program.folder / "gone"
    memory.stop()
    assert program.allocator.enabled is None
