"""What a recording says about itself: producer, command, losses, warnings."""

from __future__ import annotations

import pytest
from support.nsys_exports import Row, call, strings

from warpline.redaction import MASK
from warpline.schema.unrecorded import Unrecorded

META = "META_DATA_EXPORT"


def diagnostic(text: str, severity: int = 1) -> Row:
    return {"timestamp": 0, "severity": severity, "text": text, "globalPid": None}


def said(opened, *texts: tuple[str, int]):
    rows = [diagnostic(text, severity) for text, severity in texts]
    return opened({"StringIds": strings("x"), "DIAGNOSTIC_EVENT": rows}).meta


def test_facts(opened):
    system = [{"name": "Hostname", "value": "node7"}, {"name": "CpuCores", "value": "8"}]
    tables = {
        "StringIds": strings("x"),
        "TARGET_INFO_SYSTEM_ENV": system,
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_001}],
        "ANALYSIS_DETAILS": [{"duration": 77, "startTime": 5, "stopTime": 82}],
    }
    meta = opened(tables).meta
    assert meta.host == "node7"
    assert meta.origin_utc_ns == 1_700_000_000_000_000_001
    assert meta.span_ns == (0, 77)
    assert meta.format == "nsys-sqlite"
    assert meta.producer is None


def test_versions_of_driver_and_cuda(opened):
    facts = {"NvDriverVersion": "580.159.04", "CudaDriverVersion": "13000", "OsDescription": ""}
    system = [{"name": name, "value": value} for name, value in facts.items()]
    meta = opened({"StringIds": strings("x"), "TARGET_INFO_SYSTEM_ENV": system}).meta
    assert meta.software == {"driver": "580.159.04", "CUDA": "13.0"}


def test_odd_versions(opened):
    odd = [
        {"name": "CudaDriverVersion", "value": "x" * 9},
        {"name": "CpuDescription", "value": "y" * 999},
    ]
    meta = opened({"StringIds": strings("x"), "TARGET_INFO_SYSTEM_ENV": odd}).meta
    assert list(meta.software) == ["CPU"]
    assert len(meta.software["CPU"]) <= 300


def test_a_duration_of_nothing_says_nothing(opened):
    details = [{"duration": 0, "startTime": 5, "stopTime": 5}]
    assert opened({"StringIds": strings("x"), "ANALYSIS_DETAILS": details}).meta.span_ns is None


def test_the_command_in_order_and_without_the_environment(opened):
    facts = {
        "PROCESS_0:ARGUMENT_10": "last",
        "PROCESS_0:ARGUMENT_2": "--token=abc",
        "PROCESS_0:COMMAND": "python3",
        "PROCESS_0:ARGUMENT_0": "train.py",
        "PROCESS_0:ARGUMENT_1": "a b",
        "PROCESS_0:ENVIRONMENT_VARIABLE": "API_TOKEN=hunter2",
    }
    rows = [{"name": name, "value": value} for name, value in facts.items()]
    meta = opened({"StringIds": strings("x"), "META_DATA_CAPTURE": rows}).meta
    assert meta.command == f"python3 train.py {MASK} --token={MASK} {MASK}"
    assert "hunter2" not in repr(meta)


def test_the_command_of_an_export_of_ours_is_as_it_was_kept(opened):
    kept = f"python scripts/a.py configs/b.yaml --data {MASK}"
    rows = [{"name": name, "value": kept} for name in ("PROCESS_0:COMMAND", "WARPLINE_COMMAND")]
    assert opened({"StringIds": strings("x"), "META_DATA_CAPTURE": rows}).meta.command == kept


def test_a_command_that_is_one_text_is_left_out(opened):
    rows = [{"name": "PROCESS_0:COMMAND", "value": "python a.py --token hunter2"}]
    assert opened({"StringIds": strings("x"), "META_DATA_CAPTURE": rows}).meta.command == MASK


def test_warnings_are_told_once_and_without_noise(opened):
    meta = said(
        opened,
        ("Not all CUDA events might have been collected.", 2),
        ("Not all NVTX events might have been collected.", 2),
        ("Scheduling information is absent. The thread activity is deduced.", 2),
        ("GPU clocks are low", 2),
        ("GPU clocks are low", 2),
        ("CUPTI failed", 3),
        ("Profiling has started.", 1),
        ("NVTX payload extension is incompatible. Provided compatibility ID 260 != 259.", 1),
        ("chatter", 4),
    )
    assert meta.warnings == (
        "GPU clocks are low",
        "CUPTI failed",
        "NVTX payload extension is incompatible. Provided compatibility ID 260 != 259.",
        "Not all events of these kinds might have been collected: CUDA, NVTX.",
    )
    assert meta.lost == {}


LONG_ERROR = """Import failed with an unexpected exception: Status: AnalysisFailed
Error {
  Type: RuntimeError
  Props {
    Items {
      Type: ErrorText
      Value: "Wrong event order has been detected when adding events to the collection:\\nnew event"
    }
  }
}"""


@pytest.mark.parametrize(
    ("text", "severity", "reason"),
    [
        (
            "Failed to import CUDA events: bad record.",
            3,
            "Failed to import CUDA events: bad record",
        ),
        ("An error occurred while importing CUPTI data", 1, None),
        ("Import of GPU events: inconsistent clock", 3, "Import of GPU events: inconsistent clock"),
        (
            LONG_ERROR,
            3,
            "Wrong event order has been detected when adding events to the collection",
        ),
        ("CUPTI failed", 3, ""),
        ("NVTX injection initialized successfully.", 1, ""),
    ],
)
def test_an_import_that_failed_is_told_as_that(opened, text, severity, reason):
    meta = said(opened, (text, severity), ("GPU clocks are low", 2))
    if reason == "":
        assert meta.unrecorded == ()
        return
    (cause,) = meta.unrecorded
    assert cause.text == f"nsys could not import the CUDA events: {reason or text}"
    assert meta.warnings == (cause.text, "GPU clocks are low")
    assert Unrecorded.from_sentence("cuda", cause.text) == cause


def test_an_import_error_beside_cuda_events_is_a_warning(opened):
    rows = [diagnostic("Failed to import CUDA events of one thread", 3)]
    calls = [call(1, 2)]
    tables = {"StringIds": strings("cudaFree"), "CUPTI_ACTIVITY_KIND_RUNTIME": calls}
    meta = opened({**tables, "DIAGNOSTIC_EVENT": rows}).meta
    assert meta.unrecorded == ()
    assert meta.warnings == ("Failed to import CUDA events of one thread",)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (
            "Process 5, Thread 6, lost 42 CPU profiling records (e.g. samples).",
            {"CPU profiling records": 42},
        ),
        ("17 GPU events were discarded as their timestamps are bad.", {"GPU events": 17}),
        ("FTrace: some events (9) were lost. Try again.", {"some events": 9}),
        ("Number of CUPTI events dropped: 12", {"Number of CUPTI events": 12}),
        ("Number of CUPTI events produced: 12, CUPTI buffers: 50.", {}),
        ("0 GPU events were discarded", {}),
    ],
)
def test_losses_are_counted(opened, text, lost):
    assert said(opened, (text, 1)).lost == lost


def test_losses_of_a_kind_add_up(opened):
    texts = [("Thread 1, lost 2 records here", 2), ("Thread 2, lost 3 records here", 2)]
    meta = said(opened, *texts)
    assert meta.lost == {"records": 5}
    assert meta.warnings == ()


def test_unread_tables_are_counted_and_descriptive_ones_are_not(opened):
    tables = {
        "StringIds": strings("x"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2)],
        "VULKAN_API": [{"start": 1, "end": 2}] * 3,
        "MPI_COLLECTIVES_EVENTS": [],
        "ENUM_X": [{"id": 1}],
        "TARGET_INFO_NIC_INFO": [{"id": 1}],
    }
    assert opened(tables).meta.unread == {"VULKAN_API": 3}


@pytest.mark.parametrize("window", ["5", "5 x", "9 5", "1 2 3", "1 " + "9" * 5000])
def test_times_of_recording_that_cannot_be_read_are_told(opened, window):
    facts = {"WARPLINE_WINDOW_NS": window, "WARPLINE_LOST:kernel": "9" * 5000}
    rows = [{"name": name, "value": value} for name, value in facts.items()]
    meta = opened({"StringIds": strings("x"), "META_DATA_CAPTURE": rows}).meta
    assert meta.windows_ns is None
    assert meta.lost == {"kernel": None}
    assert "cannot be read" in meta.warnings[0]
