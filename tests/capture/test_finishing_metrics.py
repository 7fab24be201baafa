"""Sampled metrics of GPUs in a recording: from the file of samples, whole or damaged."""

from __future__ import annotations

import math
import os
import random
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from capture.finished import rows
from capture.raw_writer import ORIGIN_NS, write_session
from capture.test_finishing_health import FAR, NEAR, SECOND, UNUSED, finished, logs, uuid

from warpline import native
from warpline.capture.finishing import metric_tables
from warpline.capture.session.sample_file import Block, SampleWriter, path_of
from warpline.derived.metrics.series import metric_series
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

MS = 1_000_000
NAMES = ["sm__cycles_active.avg", "dram__bytes_read.sum"]
FACTS = {"metrics": NAMES, "hz": 1000, "set": "general", "is_complete": True}


def block(metric: int, at_ms: int, codes: Iterable[int], scale: float = 0.5) -> Block:
    """Return samples of a millisecond each."""
    stored = array("H", codes)
    start_ns = ORIGIN_NS + at_ms * MS
    end_ns = start_ns + len(stored) * MS
    return Block(metric, len(stored), start_ns, end_ns, scale, stored.tobytes())


def constant(metric: int, at_ms: int, samples: int, value: float) -> Block:
    start_ns = ORIGIN_NS + at_ms * MS
    return Block(metric, samples, start_ns, start_ns + samples * MS, value, b"")


class Written:
    """A session with a file of samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = write_session(
            folder / "x.warpline.raw",
            *logs(),
            collected=["cuda"],
            ended_monotonic_ns=ORIGIN_NS + 10 * SECOND,
        )
        self.path = path_of(self.session)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def gpu(self, number: int, raw: bytes, **facts: Any) -> SampleWriter:
        writer = SampleWriter(self._descriptor, number)
        writer.facts({"uuids": [uuid(raw)], "name": "Fake GPU", **FACTS, **facts})
        return writer

    def trace(self) -> Trace:
        return finished(self.folder)[0]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def values(trace: Trace) -> Mapping[tuple[int, str], list[float]]:
    return {(one.device, one.name): one.value.tolist() for one in metric_series(trace)}


def test_blocks_of_several_gpus(written: Written) -> None:
    far = written.gpu(0, FAR)
    near = written.gpu(1, NEAR, metrics=NAMES[::-1])
    far.blocks([block(0, 1000, [1, 2, 3]), constant(1, 1000, 3, 7.25)])
    near.blocks([block(0, 900, [4, 5]), block(1, 900, [6, 65535], scale=2.0)])
    far.blocks([block(0, 1003, [9, 8]), block(1, 1003, [1, 1])])
    trace = written.trace()
    names = ("start_ns", "end_ns", "device_id", "metric_id", "samples", "scale", "first_code_id")
    assert rows(trace, "counter_block", *names) == [
        (900 * MS, 902 * MS, 0, 0, 2, 2.0, 0),
        (900 * MS, 902 * MS, 0, 1, 2, 0.5, 2),
        (1000 * MS, 1003 * MS, 1, 0, 3, 0.5, 4),
        (1000 * MS, 1003 * MS, 1, 1, 3, 7.25, None),
        (1003 * MS, 1005 * MS, 1, 0, 2, 0.5, 7),
        (1003 * MS, 1005 * MS, 1, 1, 2, 0.5, 9),
    ]
    assert trace["metric"]["name"].to_list() == NAMES
    assert values(trace) == {
        (0, NAMES[1]): [2.0, 2.5],
        (0, NAMES[0]): [12.0, 131070.0],
        (1, NAMES[0]): [0.5, 1.0, 1.5, 4.5, 4.0],
        (1, NAMES[1]): [7.25, 7.25, 7.25, 0.5, 0.5],
    }
    assert trace.meta.warnings == ()
    assert trace.meta.lost == {}


def test_a_table_that_would_be_too_long_is_cut(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_tables, "_MOST_ROWS", 5)
    written.gpu(0, FAR).blocks([block(0, 1000, [1, 2, 3]), block(0, 1003, [4, 5, 6])])
    trace = written.trace()
    assert values(trace) == {(1, NAMES[0]): [0.5, 1.0, 1.5]}
    assert trace.meta.warnings[0].startswith("GPU metrics end early: a table is limited to")


def test_only_constant_values_need_no_codes(written: Written) -> None:
    written.gpu(0, FAR).blocks([constant(1, 5, 100, 0.0)])
    trace = written.trace()
    assert trace.row_count("counter_code") == 0
    assert values(trace) == {(1, NAMES[1]): [0.0] * 100}


def test_how_a_gpu_was_sampled_is_told(written: Written) -> None:
    facts = {"cpu_ns": 2 * SECOND, "left_out": {"a.b": "the GPU does not have it"}}
    written.gpu(0, FAR, **facts).blocks([constant(0, 1000, 1000, 1.0), constant(0, 2000, 1000, 2)])
    sampled, left_out = written.trace()["diagnostic"]["text"].to_list()
    assert sampled == (
        "GPU 1: 2 metrics sampled 1,000 times a second (set general), from 1.00 s to 3.00 s; the"
        " process for it used 1.00 CPU cores"
    )
    assert left_out == "GPU 1: not sampled: a.b (the GPU does not have it)"


def test_missing_samples_are_no_missing_events_of_the_program(written: Written) -> None:
    writer = written.gpu(0, FAR, missing_ns=300 * MS, gaps=2)
    writer.blocks([constant(0, 1000, 350, 1.0), constant(0, 1650, 350, 1.0)])
    trace = written.trace()
    assert trace.meta.lost == {}
    (warning,) = trace.meta.warnings
    assert warning == (
        "300 samples of the metrics of GPU 1 were dropped (30.0% of the time): use a lower"
        " --gpu-metrics-frequency"
    )


def test_a_gpu_without_samples_has_a_cause(written: Written) -> None:
    for number, raw in enumerate((NEAR, FAR)):
        written.gpu(number, raw, cause="busy", cure="wait")
    trace = written.trace()
    assert trace.meta.warnings == ("GPU metrics were not sampled: busy; wait.",)
    assert not {"counter", "counter_block", "metric"} & {*trace.tables}


def test_causes_of_some_gpus_name_them(written: Written) -> None:
    written.gpu(0, NEAR).blocks([constant(0, 1, 5, 1.0)])
    written.gpu(1, FAR, cause="busy", cure="wait")
    assert written.trace().meta.warnings == ("GPU metrics of GPU 1 were not sampled: busy; wait.",)


def test_what_was_read_through_nvml_instead(written: Written) -> None:
    writer = written.gpu(0, FAR, cause="busy", cure="wait", source="gpm", hz=10)
    writer.values(ORIGIN_NS + 5, [1.5, math.nan])
    writer.values(ORIGIN_NS + 100 * MS, [2.5, 8.0])
    trace = written.trace()
    assert rows(trace, "counter", "time_ns", "device_id", "metric_id", "value") == [
        (5, 1, 0, 1.5),
        (100 * MS, 1, 0, 2.5),
        (100 * MS, 1, 1, 8.0),
    ]
    assert trace.meta.warnings == (
        "GPU metrics were not sampled: busy; wait. NVML was read 10 times a second instead.",
    )


def test_gpus_that_the_program_did_not_use(written: Written) -> None:
    written.gpu(0, UNUSED).blocks([constant(0, 1, 5, 1.0)])
    trace = written.trace()
    assert not trace.has("counter_block")
    (warning,) = trace.meta.warnings
    assert warning.startswith("metrics of 1 GPU are left out: the program did not use it")


def test_sampling_that_ended_early(written: Written) -> None:
    writer = written.gpu(0, FAR, is_complete=False)
    writer.blocks([constant(0, 1000, 500, 1.0)])
    assert written.trace().meta.warnings == (
        "metrics of GPU 1 end after 1.50 s: the process for it was killed",
    )
    writer.facts({"failure": "cuptiX failed (7)"})
    assert written.trace().meta.warnings == (
        "metrics of GPU 1 end after 1.50 s: cuptiX failed (7)",
    )


def test_clocks_that_drift(written: Written) -> None:
    written.gpu(0, FAR, lags_ns=[5000, 200_005_000]).blocks([constant(0, 1, 5, 1.0)])
    assert written.trace().meta.warnings == ("times of the metrics of GPU 1 drifted by 200 ms",)


def test_a_file_that_nothing_was_written_to(written: Written) -> None:
    assert written.trace().meta.warnings == (
        "GPU metrics were not sampled: the process for it did not start",
    )


def test_a_cut_file_loses_its_last_record(written: Written) -> None:
    writer = written.gpu(0, FAR)
    writer.blocks([block(0, 1000, [1, 2, 3]), block(0, 1003, [4, 5])])
    written.path.write_bytes(written.path.read_bytes()[:-1])
    trace = written.trace()
    assert values(trace) == {(1, NAMES[0]): [0.5, 1.0, 1.5]}
    assert "gpu_metrics.samples: the last samples are incomplete" in trace.meta.warnings


def test_a_damaged_record_loses_no_other(written: Written) -> None:
    writer = written.gpu(0, FAR)
    writer.blocks([block(0, 1000, [1])])
    start = written.path.stat().st_size
    writer.blocks([block(0, 1001, [2])])
    end = written.path.stat().st_size
    writer.blocks([block(0, 1002, [3])])
    data = bytearray(written.path.read_bytes())
    data[end - 1] ^= 1
    written.path.write_bytes(bytes(data))
    assert values(written.trace()) == {(1, NAMES[0]): [0.5, 1.5]}
    written.path.write_bytes(bytes(data[:start] + data[end:]))
    assert values(written.trace()) == {(1, NAMES[0]): [0.5, 1.5]}


def test_any_damage_gives_a_recording(tmp_path: Path) -> None:
    written = Written(tmp_path)
    writer = written.gpu(0, FAR)
    writer.blocks([block(0, 1000, [1, 2]), block(1, 1000, [3, 4])])
    writer.values(ORIGIN_NS, [1.0, 2.0])
    whole = written.path.read_bytes()
    chance = random.Random(24)
    for _ in range(50):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        written.path.write_bytes(bytes(data[: chance.randrange(len(data) + 1)]))
        metric_series(written.trace())


@pytest.mark.parametrize(
    "facts",
    [
        {"uuids": 7},
        {"uuids": [None]},
        {"metrics": "sm"},
        {"metrics": [1, None]},
        {"metrics": []},
        {"hz": "fast", "missing_ns": [], "cpu_ns": math.inf},
        {"left_out": [1], "set": None, "lags_ns": [1], "failure": 5},
        {"lags_ns": ["a", "b"], "cause": 1, "cure": 2},
    ],
)
def test_facts_of_other_types(written: Written, facts: Mapping[str, Any]) -> None:
    written.gpu(0, FAR, **facts).blocks([block(0, 1000, [1, 2])])
    metric_series(written.trace())


@pytest.mark.parametrize(
    "wrong",
    [
        Block(9, 1, ORIGIN_NS, ORIGIN_NS + MS, 1.0, b""),
        Block(0, 1, ORIGIN_NS, ORIGIN_NS + MS, math.nan, b""),
        Block(0, 5000, ORIGIN_NS, ORIGIN_NS + MS, 1.0, b""),
        Block(0, 0, ORIGIN_NS, ORIGIN_NS + MS, 1.0, b""),
        Block(0, 2, ORIGIN_NS, ORIGIN_NS + MS, 1.0, b"1"),
        Block(0, 1, ORIGIN_NS, ORIGIN_NS - 1, 1.0, b""),
        Block(0, 1, -(2**63), 2**63 - 1, 1.0, b""),
    ],
)
def test_impossible_blocks_are_left_out(written: Written, wrong: Block) -> None:
    written.gpu(0, FAR).blocks([block(0, 1000, [1, 2]), wrong])
    assert values(written.trace()) == {(1, NAMES[0]): [0.5, 1.0]}
