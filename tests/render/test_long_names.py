"""Names of megabytes: every look at one is linear, or these tests would not end for hours."""

from __future__ import annotations

import io
import random

import pytest
from support import any_trace
from support.any_trace import AnyTrace

from warpline import api
from warpline.derived.idle.kinds import CallKind, call_kind
from warpline.derived.kernels.rules import kernel_class
from warpline.derived.ranges.autograd import _NUMBERED
from warpline.derived.steps.ranges import _STEP, _UNIT_OF_WORK, _number
from warpline.presentation.kernel_names import short_name, without_noise
from warpline.readers.kineto.dimensions import _STREAM_NAME
from warpline.readers.kineto.events import number_in
from warpline.readers.kineto.scan_python import to_ns
from warpline.readers.nsys.meta import _loss
from warpline.render import Options, screen
from warpline.render.markdown import code
from warpline.replay.waits import WaitsFor, waits_for
from warpline.schema import TABLES

LENGTH = 1_000_000


def long(unit: str, begin: str = "", end: str = "") -> str:
    """Return a name of 1 MB."""
    return begin + unit * (LENGTH // len(unit)) + end


@pytest.mark.parametrize(
    ("look", "name"),
    [
        (without_noise, long("a")),
        (without_noise, long("(a")),
        (without_noise, long("1a", "_ZN")),
        (short_name, long("f<")),
        (short_name, long("f<int>,", "g<", ">")),
        (short_name, "f<" * 58 + "g<int>," * 1000 + ">" * 58),
        (_NUMBERED.search, long("a")),
        (_STEP.search, long(" ", "step", "!")),
        (_UNIT_OF_WORK.search, long("0", "frame ", "!")),
        (_number, long("0", end="a0")),
        (call_kind, long("_ptsz", "cudaMalloc", "!")),
        (waits_for, long("_v2", "cudaFree", "!")),
        (kernel_class, long("&()")),
        (to_ns, long("0", end="!")),
        (number_in, long(" ", end="!")),
        (_STREAM_NAME.fullmatch, long("0", "stream ", "\n!")),
        (_loss, long("a ")),
        (lambda name: code(name, Options()), long("`")),
    ],
    ids=lambda _: "",
)
def test_a_long_name_is_looked_at_once(look, name):
    look(name)


def test_what_surrounds_a_name_is_still_found():
    assert without_noise("void a::b::f<(int)4, <unnamed>::G>(T)") == "f<4, G>(T)"
    assert without_noise("(anonymous namespace)::f(bool)1") == "f1"
    assert without_noise("ns::f(x)") == "f(x)"
    numbered = _NUMBERED.search("autograd: x, y, seq = 31, op_id = 4")
    assert numbered is not None
    assert numbered.group("name", "seq") == (" y", "31")
    assert all(map(_STEP.search, ("train_step", "ProfilerStep#3", "Step[7]", "iter no. 3/100 ")))
    assert not _STEP.search("stepping stone")
    assert [_number(name) for name in ("3/100", "epoch 1 step 20", "5/6/7", "x")] == [3, 20, 6, -1]
    assert call_kind("cudaMalloc_v3020_ptsz") == call_kind("cudaMalloc") == CallKind.ALLOCATOR
    assert (
        waits_for("cuStreamSynchronize_ptsz")
        == waits_for("cudaStreamSynchronize")
        == WaitsFor.STREAM
    )
    assert [number_in(text) for text in ("stream 7", " -3 ", "7 x", "\t5")] == [7, -3, None, 5]
    assert _loss("CUDA events (5) were lost") == ("CUDA events", 5)


def test_long_names_reach_the_screen(monkeypatch):
    names = ("a" * 100_000, "step " * 20_000 + "!", "<(" * 50_000, "step_1", "_ptsz" * 20_000)
    monkeypatch.setattr(any_trace, "TEXTS", names)
    trace = _trace()
    out = io.StringIO()
    screen.render(api.summary(trace), out, Options(width=60))
    api.analyze(trace)
    for table in ("cuda_gpu_kern_sum", "nvtx_sum", "cuda_api_sum", "op_sum"):
        api.run(trace, table)
    assert all(len(line) <= 60 for line in out.getvalue().splitlines())


def _trace():
    rng = random.Random(1)
    counts = dict.fromkeys(TABLES, 6) | any_trace.DIMENSION_ROWS
    tables = {}
    for name in any_trace._referred_first():
        rows = any_trace._make_rows(TABLES[name], counts, rng)
        tables[name] = any_trace._unique(TABLES[name], rows)
        counts[name] = any_trace._length(tables[name])
    return AnyTrace(tables).trace()
