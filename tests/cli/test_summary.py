"""``warpline summary``: one screen, with numbers that can be counted by hand."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import any_traces

import warpline
from warpline import api
from warpline.presentation.kernel_names import without_noise
from warpline.render import Options, screen
from warpline.render.escaping import display_width
from warpline.schema import TABLES, dimensions, profiled_kernels
from warpline.trace import MemorySource, Trace, TraceMeta

MILLISECOND = 1_000_000


def device_work(rows, **more):
    """Return columns of device operations from (start, end, device) in ms."""
    starts, ends, devices = zip(*rows, strict=True)
    return {
        "start_ns": [start * MILLISECOND for start in starts],
        "end_ns": [end * MILLISECOND for end in ends],
        "device_id": devices,
        "context_id": devices,
        "stream_id": devices,
        "process_id": [0] * len(rows),
        **more,
    }


TWO_DEVICES = {
    "device": {"gpu_index": [0, 1], "name": ["Alpha", "Beta"]},
    "context": {"process_id": [0, 0], "device_id": [0, 1], "native_id": [1, 1], "is_green": [0, 0]},
    "stream": {"process_id": [0, 0], "context_id": [0, 1], "native_id": [7, 7]},
}
TABLES_BY_HAND = {
    **TWO_DEVICES,
    # On Alpha: 0-40 (two kernels that overlap), 50-60, a copy at 55-70: busy 60 of 100 ms.
    "kernel": device_work([(0, 30, 0), (20, 40, 0), (50, 60, 0)], name=["mul", "mul", "add"]),
    "memcpy": device_work(
        [(55, 70, 0)], kind=[1], bytes=[15_000_000], src_memory=[0], dst_memory=[2]
    ),
    # On Beta: a graph that was recorded as a whole, and one whose span is that of its nodes.
    "graph_launch": device_work([(10, 20, 1), (30, 90, 1)], level=[0, 1]),
    "range": {
        "start_ns": [0, 40 * MILLISECOND],
        "end_ns": [40 * MILLISECOND, 100 * MILLISECOND],
        "name": ["warm-up", "step"],
        "source_id": [1, 2],
    },
}


@pytest.fixture
def recording(monkeypatch):
    """Let a file name stand for a trace in memory."""

    def make(tables, **meta):
        facts = TraceMeta(**{"paths": (Path("memory.file"),), "format": "memory", **meta})
        monkeypatch.setattr(api, "open", lambda *_paths: Trace(MemorySource(tables, facts)))
        return "memory.file"

    return make


BY_HAND = """\
memory.file
  test 1.2 (memory), host node1, 2001-09-09 01:46:40 UTC, 100 ms recorded
  command: python train.py
  processes: 1000

GPUs                          share     busy     idle  kernels  copies  graphs
0 Alpha                      60.0%  60.0 ms  40.0 ms        3       1       0
1 Beta                       10.0%  10.0 ms  90.0 ms        0       0       1

Kernels                       share     busy  instances     mean      max
mul                          57.1%  40.0 ms          2  25.0 ms  30.0 ms
add                          14.3%  10.0 ms          1  10.0 ms  10.0 ms
  1 CUDA graph launch was traced at graph level: 10,000,000 ns of …aph-trace=node to see the kernels

Ranges                    instances    total   median      max
step                              1  60.0 ms  60.0 ms  60.0 ms
warm-up                           1  40.0 ms  40.0 ms  40.0 ms
"""


def test_numbers_are_those_counted_by_hand(run, recording):
    name = recording(
        TABLES_BY_HAND,
        producer="test 1.2",
        host="node1",
        command="python train.py",
        origin_utc_ns=10**18,
        span_ns=(0, 100 * MILLISECOND),
        unread={"FOO": 3},
        lost={"ranges": None},
    )
    done = run(name)
    lines = [
        line for line in done.out.splitlines() if not line.startswith(("  1 CUDA graph", "    "))
    ]
    expected = [
        line for line in BY_HAND.splitlines() if not line.startswith(("  1 CUDA graph", "    "))
    ]
    squeezed = [re.sub(" +", " ", line) for line in lines]
    assert squeezed[: len(expected)] == [re.sub(" +", " ", line) for line in expected]
    assert "Host-to-Device, Pageable to Device 15.0 ms 1 14.3 MiB 1.00 GB/s" in squeezed
    assert "not read: FOO 3" in lines
    assert "lost: ranges" in lines
    assert "recorded: kernel 3, memcpy 1, graph_launch 2, range 2" in lines
    assert lines[-1] == "next: warpline analyze memory.file"
    assert done.err.splitlines() == [
        "warning: dropped while recording: ranges",
        "note: 1 table of the file not read: FOO (3 rows)",
    ]


def test_a_part_is_measured_within_its_time(run, recording):
    done = run(recording(TABLES_BY_HAND), "--filter-nvtx", "step", "-f", "csv")
    tables = [list(csv.DictReader(io.StringIO(text))) for text in done.out.split("\n\n")]
    devices = next(table for table in tables if "GPU" in table[0])
    assert [(row["Name"], row["Busy (%)"], row["Idle (ns)"]) for row in devices] == [
        ("Alpha", "33.3", "40000000"),
    ]


def test_the_title_says_which_part(run, bad):
    words = ("--filter-nvtx", "step_2", "--exclude", "data")
    title = "pageable_h2d.bad.sqlite --filter-nvtx step_2 --exclude data"
    assert run(bad, *words).out.splitlines()[0] == title
    assert json.loads(run(bad, *words, "-f", "json").out)["title"] == title


def test_json_carries_the_same_sections(run, bad):
    found = json.loads(run(bad, "-f", "json").out)
    names = [table["name"] for table in found["tables"]]
    assert names[:2] == ["process_sum", "device_sum"]
    device = found["tables"][1]["rows"][0]
    # Counted with sqlite3: kernels, copies and memory sets of this recording never overlap.
    assert device["busy_ns"] == 14902625 + 86546193 + 391165 + 39454
    assert (device["kernels"], device["copies"], device["memsets"]) == (120, 12, 48)


def test_graphs_recorded_as_wholes_make_a_device_busy(run, recording):
    tables = {"graph_launch": device_work([(0, 30, 0), (40, 50, 0)], level=[0, 0])}
    done = run(recording(tables))
    assert "0 80.0% 40.0 ms 10.0 ms 2" in re.sub(" +", " ", done.out).splitlines()
    lines = done.out.splitlines()
    hint = lines[lines.index("kernel_sum: no kernel events were recorded") + 1]
    assert "--cuda-graph-trace=node" in hint


def many(count):
    """Return a trace with more of everything than a screen shows."""
    devices = range(count)
    times = [(device, device + 10, device) for device in devices]
    names = [f"name {device} " + "x" * 150 for device in devices]
    host = {"start_ns": [0] * count, "end_ns": [MILLISECOND] * count, "name": names}
    return {
        "process": {"pid": list(devices), "name": names},
        "thread": {"process_id": list(devices), "tid": list(devices)},
        "device": {"gpu_index": list(devices), "name": names},
        "context": {
            "process_id": list(devices),
            "device_id": list(devices),
            "native_id": [1] * count,
            "is_green": [0] * count,
        },
        "stream": {
            "process_id": list(devices),
            "context_id": list(devices),
            "native_id": [7] * count,
        },
        "kernel": device_work(times, name=names),
        "memcpy": device_work(times, kind=[device % 12 for device in devices], bytes=[1] * count),
        "memset": device_work(times),
        "graph_launch": device_work(times, level=[1] * count),
        "range": {**host, "process_id": list(devices), "source_id": list(devices)},
        "api_call": {**host, "process_id": list(devices)},
    }


@pytest.mark.parametrize("columns", ["40", "80", "100"])
def test_it_is_one_screen_however_much_there_is(run, recording, monkeypatch, columns):
    name = recording(
        many(40),
        lost=dict.fromkeys("abc", 1),
        unread=dict.fromkeys("def", 1),
        damaged={"mark": "cut"},
        command="c" * 300,
        host="h" * 300,
    )
    monkeypatch.setattr("warpline.render.screen._WIDTH", int(columns))
    lines = run(name).out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= int(columns)
    assert any(line.startswith("GPUs, 4 of 40") for line in lines)
    assert any(line.startswith("Kernels, 5 of 40") for line in lines)


def test_real_recordings_fit_with_all_that_is_said(run, bad, fixed):
    for files in ([bad], [fixed], [bad, fixed]):
        done = run(*files)
        assert done.status == 0
        assert len((done.out + done.err).splitlines()) <= 40


def test_modules_of_a_pytorch_program_are_recommended_until_they_are_recorded(run, recording, bad):
    told = "      warpline profile --pytorch=all PROGRAM, for time by module\n"
    assert run(bad).out.endswith(told)
    kernel = device_work([(0, 1, 0)], name=["void at::native::elementwise_kernel<4>"])
    range_ = {"start_ns": [0], "end_ns": [1], "domain": ["nn.Module"], "name": ["GPT"]}
    path = recording({**TABLES_BY_HAND, "kernel": kernel, "range": {**range_, "source_id": [1]}})
    out = run(path).out
    assert out.endswith(
        f"next: warpline analyze {path}\n      warpline stats -r modules,module_sum {path}\n"
    )
    alone = recording({"range": TABLES_BY_HAND["range"] | {"domain": ["nn.Module"] * 2}})
    assert run(alone).out.endswith(f"      warpline stats -r layers {alone}\n"), "no GPU work"
    assert "--pytorch" not in run(recording(TABLES_BY_HAND)).out, "not PyTorch"


def test_without_devices_or_anything_else(run, recording):
    done = run(recording({}))
    assert done.status == 0
    assert (
        "device_sum: no kernel or memcpy or memset or graph launch events were recorded" in done.out
    )
    others = (*dimensions.TABLES, *profiled_kernels.TABLES)  # those of reports without a timeline
    never = [name for name, spec in TABLES.items() if spec not in others]
    found = json.loads(run(recording({}), "-f", "json").out)
    states = next(table for table in found["tables"] if table["name"] == "recording")["rows"]
    assert [(row["state"], row["table"]) for row in states] == [
        ("never recorded", name) for name in never
    ]


def test_hostile_names_cannot_draw_on_the_screen(run, recording):
    hostile = "\x1b[2J\nevil\u202e"
    tables = {**TABLES_BY_HAND, "kernel": device_work([(0, 1, 0)], name=[hostile])}
    done = run(recording(tables, command=hostile, host=hostile, producer=hostile))
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "\\x1b[2J\\nevil\\u202e" in done.out


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "void at::native::reduce_kernel<(int)4, at::Op<float>>(T3)",
            "reduce_kernel<4, Op<float>>(T3)",
        ),
        ("void (anonymous namespace)::f<(bool)1>(float *)", "f<1>(float *)"),
        ("<unnamed>::g(int)", "g(int)"),
        ("nvjet_sm90_tst_256x128", "nvjet_sm90_tst_256x128"),
        ("avoid void", "avoid void"),
        ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_", "reduce_kernel<...>"),
        ("_ZN12_GLOBAL__N_14fillEPfi", "fill"),
        ("_Z5saxpyifPfS_", "saxpy"),
        ("_ZN1aclEv", "_ZN1aclEv"),
        ("_Z99saxpy", "_Z99saxpy"),
        ("_ZSt4fillv", "_ZSt4fillv"),
        ("_Zoom", "_Zoom"),
        ("", ""),
    ],
)
def test_kernels_are_named_without_what_all_share(name, shown):
    assert without_noise(name) == shown


@settings(max_examples=25)
@given(any_traces(), st.sampled_from([None, 20, 40, 100, 300]), st.booleans())
def test_any_trace_fits_the_screen(any_trace, width, unicode):
    for trace in (any_trace.trace(), any_trace.trace().window(0, 50)):
        out = io.StringIO()
        screen.render(warpline.summary(trace), out, Options(width=width, unicode=unicode))
        lines = out.getvalue().splitlines()
        assert len(lines) <= 40 or width == 20  # prose wraps
        assert unicode or out.getvalue().isascii()
        assert max(map(display_width, lines[:-1])) <= (width or 100)


def test_prose_wraps_on_a_narrow_screen(bad):
    document = api.summary(warpline.open(bad))
    out = io.StringIO()
    screen.render(document, out, Options(width=60))
    lines = out.getvalue().splitlines()
    assert all(display_width(line) <= 60 for line in lines if not line.startswith("next:"))
    facts = " ".join(line.strip() for line in lines[1:3])
    assert facts.startswith("Nsight Systems 2025.3.2 (nsys-sqlite 3.20.3), ")
    assert facts.endswith("118 ms recorded")


def test_many_items_of_a_list_are_counted():
    held = screen._Screen(Options(width=40))
    assert held._list("names", ["one", "two"]) == "names: one, two"
    found = held._list("names", [f"item{number}" for number in range(100_000)])
    assert found == "names: item0, item1 and 99998 more"
