"""The tables of unified memory, against what nsys 2024.2 prints for the same export."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from support.nsys_exports import PLACE, PROCESS, strings, write_export

import warpline
from warpline import api, plugins
from warpline.errors import UsageError
from warpline.render import RENDERERS, Options
from warpline.result import Document, Result, Skipped
from warpline.trace import MemorySource, Trace

BASE = 0x7F10_0000_0000
PRINTED = {
    "um_sum:rows=10": """\
Virtual Address,HtoD Migration size (MB),DtoH Migration size (MB),CPU Page Faults, GPU Page Faults,\
Migration Throughput (MB/s)
0x7F1000200000,,2.097,,,20971.520
0x7F1000400000,,2.097,,,20294.140
0x7F1000020000,0.066,,,,16384.000
0x7F1000001000,0.061,0.061,1,,8777.073
0x7F1000000000,0.008,0.004,2,3,1755.427
0x7F1000010000,0.004,,,8,1638.400
0x7F1000800000,0.004,,,,1365.332
0x7F1000801000,0.004,,,,1364.877
0x7F1000802000,0.004,,,,1364.423
0x7F1000900000,,,1,,
""",
    "um_total_sum": """\
Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,\
Total GPU PageFaults,Minimum Virtual Address,Maximum Virtual Address
0.152,4.260,4,12,0x7F1000000000,0x7F1000A00000
""",
    "um_cpu_page_faults_sum": """\
CPU Page Faults,CPU Instruction Address
3,fill(float*)
1,0x7f00dead
""",
}


def copy(start: int, end: int, size: int, kind: int, page: int, cause: int | None = 2) -> Any:
    place = {**PLACE, "contextId": 0, "streamId": 0, "correlationId": 0}
    moved = {"start": start, "end": end, "bytes": size, "copyKind": kind, "copyCount": 1}
    kinds = {"srcKind": 7, "dstKind": 7, "migrationCause": cause}
    return {**place, **moved, **kinds, "virtualAddress": BASE + page}


def tables() -> dict[str, Any]:
    """Return the tables of the export that nsys was given."""
    cpu = [(3_900_000, 0, 1), (3_950_000, 4096, 1), (3_960_000, 0, 1), (4_900_000, 0x900000, 2)]
    gpu = [
        (1_050_000, 1_120_000, 0, 3, 1),
        (1_150_000, 1_210_000, 0x10000, 8, 2),
        (1_250_000, 1_310_000, 0xA00000, 1, 3),
    ]
    return {
        "StringIds": strings("", "fill(float*)", "0x7f00dead"),
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            copy(1_100_000, 1_103_000, 4096, 11, 0),
            copy(1_103_000, 1_110_000, 61_440, 11, 4096, 3),
            copy(1_200_000, 1_202_500, 4096, 11, 0x10000),
            copy(1_300_000, 1_304_000, 65_536, 11, 0x20000, 3),
            copy(4_000_000, 4_002_000, 4096, 12, 0),
            copy(4_002_000, 4_009_000, 61_440, 12, 4096, 3),
            copy(5_000_000, 5_100_000, 2_097_152, 12, 0x200000, 1),
            copy(5_100_000, 5_203_333, 2_097_152, 12, 0x400000, 1),
            copy(6_000_000, 6_002_000, 4096, 11, 0),
            copy(7_000_000, 7_001_000, 4096, 13, 0x600000),
            *(
                copy(8_000_000 + n * 10_000, 8_003_000 + n * 10_001, 4096, 11, 0x800000 + n * 4096)
                for n in range(3)
            ),
        ],
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [
            {"start": start, "globalPid": PROCESS, "address": BASE + page, "originalFaultPc": 1}
            | {"CpuInstruction": function, "module": 0}
            for start, page, function in cpu
        ],
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [
            {"start": start, "end": end, "globalPid": PROCESS, "deviceId": 0}
            | {"address": BASE + page, "numberOfPageFaults": faults, "faultAccessType": access}
            for start, end, page, faults, access in gpu
        ],
    }


def printed(trace: Trace, table: str) -> str:
    plugins.load("renderers")
    out = io.StringIO()
    RENDERERS.get("csv").render(Document("", {}, (api.run(trace, table),)), out, Options())
    return out.getvalue()


@pytest.mark.parametrize("table", PRINTED)
def test_csv_equals_nsys(tmp_path: Path, table: str) -> None:
    trace = warpline.open(write_export(tmp_path / "um.sqlite", tables()))
    assert printed(trace, table) == PRINTED[table]


def test_an_export_of_it_says_the_same(tmp_path: Path) -> None:
    trace = warpline.open(write_export(tmp_path / "um.sqlite", tables()))
    again = warpline.open(warpline.export(trace, tmp_path / "again.sqlite", "sqlite"))
    assert {table: printed(again, table) for table in PRINTED} == PRINTED


def test_all_pages_are_listed_unless_told_otherwise(tmp_path: Path) -> None:
    trace = warpline.open(write_export(tmp_path / "um.sqlite", tables()))
    assert len(api.stats(trace, "um_sum")) == 11
    assert len(api.stats(trace, "um_sum:rows=3")) == 3
    with pytest.raises(UsageError, match="is not a number of rows"):
        api.stats(trace, "um_sum:rows=few")


def test_migrations_without_page_faults(tmp_path: Path) -> None:
    copies = {"CUPTI_ACTIVITY_KIND_MEMCPY": [copy(0, 10**9, 10**9, 11, 0), copy(0, 5, 9, 1, 0)]}
    trace = warpline.open(write_export(tmp_path / "um.sqlite", copies))
    address = "0x7F1000000000"
    assert api.stats(trace, "um_sum").rows() == [(address, 10**9, None, None, None, 1e9)]
    assert api.stats(trace, "um_total_sum").rows() == [(10**9, 0, None, None, address, address)]
    outcome = api.run(trace, "um_cpu_page_faults_sum")
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "no CPU page faults of unified memory were recorded"


def test_older_exports_have_no_addresses(tmp_path: Path) -> None:
    moved = copy(0, 1000, 4096, 12, 0)
    del moved["virtualAddress"]
    path = write_export(tmp_path / "um.sqlite", {"CUPTI_ACTIVITY_KIND_MEMCPY": [moved]})
    trace = warpline.open(path)
    assert api.stats(trace, "um_sum").rows() == [(None, None, 4096, None, None, 4.096e9)]
    assert api.stats(trace, "um_total_sum").rows() == [(0, 4096, None, None, None, None)]


def test_no_unified_memory_was_used() -> None:
    trace = Trace(
        MemorySource({"memcpy": {"start_ns": [0], "end_ns": [5], "bytes": [4], "kind": [1]}})
    )
    for table in ("um_sum", "um_total_sum"):
        outcome = api.run(trace, table)
        assert isinstance(outcome, Skipped)
        assert outcome.hint is not None
        assert "--cuda-um-cpu-page-faults=true" in outcome.hint


def test_page_faults_without_a_function() -> None:
    faults: dict[str, Any] = {"time_ns": [1, 2, 3], "address": [64] * 3}
    faults["function"] = ["b", None, "a"]
    trace = Trace(MemorySource({"um_cpu_page_fault": faults}))
    result = api.stats(trace, "um_cpu_page_faults_sum")
    assert isinstance(result, Result)
    assert result.rows() == [(1, None), (1, "a"), (1, "b")]
