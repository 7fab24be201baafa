"""Whole runs: a program with a stand-in of torch leaves its GPU memory in the recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import launching

import warpline

TORCH = """
import sys
sys.path.insert(0, {tests!r})
from support.torch_memory import make_torch
allocator = make_torch(sys.modules[__name__])
"""
PROGRAM = """
import os, sys
import torch
torch.cuda.init()
kept = torch.allocator.allocate(700, line=12)
torch.allocator.free(torch.allocator.allocate(50))
print(torch.cuda.memory._snapshot()["device_traces"], torch.cuda.memory_stats(0))
"""


def record(folder, code, *, status=0):
    launching.needs_agent()
    package = folder / "torch"
    package.mkdir()
    tests = str(Path(__file__).parents[1])
    (package / "__init__.py").write_text(TORCH.format(tests=tests))
    path = f"import sys\nsys.path.insert(0, {str(folder)!r})\n"
    command = launching.python(folder, path + code)
    ended = launching.profile(
        folder, "-o", "run", "-q", "-t", "nvtx", "--pytorch=memory", "--", *command
    )
    assert ended.status == status, ended.err
    return warpline.open(folder / "run.warpline"), ended


def sizes(trace):
    return trace["allocator_event"].select("operation", "bytes").rows()


def test_a_program(tmp_path):
    trace, ended = record(tmp_path, PROGRAM)
    assert ended.out.startswith("[[]] {'allocation.all.allocated': 2,")
    assert sizes(trace) == [("Allocation", 700), ("Allocation", 50), ("Deallocation", 50)]
    start, end = trace.meta.span_ns
    times = trace["allocator_event"]["time_ns"]
    assert start <= times.min() <= times.max() <= end
    assert trace["allocator_block"]["requested_bytes"].to_list() == [700]
    assert trace["frame"].select("module", "line").sort("line").rows() == [
        ("/program/train.py", 1),
        ("/program/train.py", 12),
    ]


@pytest.mark.parametrize(
    ("ending", "status"), [("raise MemoryError('GPU')", 1), ("sys.exit(3)", 3)]
)
def test_however_it_ends(tmp_path, ending, status):
    trace, _ = record(tmp_path, PROGRAM + ending, status=status)
    assert len(sizes(trace)) == 3


def test_a_killed_program_is_told(tmp_path):
    trace, _ = record(tmp_path, PROGRAM + "os.kill(os.getpid(), 9)", status=-9)
    warnings = [text for text in trace.meta.warnings if "its last events of GPU memory" in text]
    assert len(warnings) == 1


def test_a_fork_that_uses_cuda_has_its_own(tmp_path):
    code = """
import os, sys, torch
pid = os.fork()
torch.cuda.init()
torch.allocator.allocate(100 if pid else 200)
if pid:
    os.waitpid(pid, 0)
"""
    trace, _ = record(tmp_path, code)
    events = trace["allocator_event"].sort("bytes")
    assert events["bytes"].to_list() == [100, 200]
    assert events["process_id"].n_unique() == 2
