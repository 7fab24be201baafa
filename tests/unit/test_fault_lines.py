"""Source lines of findings: where in its code a fault of a kernel shows, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from warpline.derived.code.fault_lines import FaultLine, FaultLines
from warpline.trace import MemorySource, Trace

EXCESS = "excess_sectors_global"
SECTORS = "memory_l2_theoretical_sectors_global"
OURS, HEADER = "/home/me/kernels.cu", "/usr/local/cuda/include/sm_32_intrinsics.hpp"
WAITS = "smsp__pcsamp_warps_issue_stalled_long_scoreboard"

# Address, file, line, file and line of the caller.
CODE = (
    (0x100, OURS, 10, None, None),
    (0x110, OURS, 17, None, None),
    (0x120, OURS, 17, None, None),
    (0x130, HEADER, 90, OURS, 21),
    (0x140, None, None, None, None),
)


def launched(values: dict[str, dict[int, float]]) -> dict[str, dict[str, list[Any]]]:
    """Return a launch with metrics, each with values by address."""
    return {
        "process": {"pid": [1]},
        "profiled_kernel": {
            "process_id": [0],
            "launch_number": [0],
            "name": ["kernel"],
            "mangled_name": ["_Z6kernelv"],
        },
        "kernel_metric": {
            "profiled_kernel_id": [0] * len(values),
            "name": [*values],
            "value": [None] * len(values),
        },
        "metric_instance": {
            "kernel_metric_id": [row for row, of in enumerate(values.values()) for _ in of],
            "key": [address for of in values.values() for address in of],
            "value": [value for of in values.values() for value in of.values()],
        },
        "kernel_instruction": {
            "process_id": [0] * len(CODE),
            "function": ["_Z6kernelv"] * len(CODE),
            "offset_bytes": [16 * place for place in range(len(CODE))],
            **{
                name: [row[place] for row in CODE]
                for place, name in enumerate(
                    ("address", "file", "line", "caller_file", "caller_line")
                )
            },
        },
        "source_line": {
            "module": [0, 0],
            "kind": ["cuda", "cuda"],
            "file": [OURS, OURS],
            "file_number": [0, 0],
            "line": [17, 21],
            "text": ["  sum += in[i * pitch];", "  out[i] = __ldg(&in[i]);"],
        },
    }


def ranked(
    trace: Trace, *names: str, most: int = 3
) -> list[tuple[str, int, str | None, float, float]]:
    """Return the lines with their texts."""

    def shown(line: FaultLine) -> tuple[str, int, str | None, float, float]:
        text = None if line.text < 0 else trace.strings.text(line.text)
        return trace.strings.text(line.file), line.line, text, line.value, line.ratio

    return [shown(line) for line in FaultLines(trace).ranked(0, names, most)]


def test_lines_are_ranked_by_the_excess_of_their_instructions():
    needed = {0x100: 40.0, 0x110: 400.0, 0x120: 320.0, 0x130: 140.0, 0x140: 100.0}
    ideal = {0x100: 40.0, 0x110: 100.0, 0x120: 20.0, 0x130: 40.0}
    trace = Trace(MemorySource(launched({SECTORS: needed, f"{SECTORS}_ideal": ideal})))
    first, second = ranked(trace, EXCESS)
    # 600 of 800; 100 are at an instruction without a line.
    assert first == (OURS, 17, "  sum += in[i * pitch];", 600.0, 0.75)
    # What is inlined from a header of CUDA counts where the program calls it.
    assert second == (OURS, 21, "  out[i] = __ldg(&in[i]);", 100.0, 0.125)
    assert ranked(trace, EXCESS, most=1) == [first]
    assert ranked(trace, "divergent_branches") == []


def test_reasons_are_added_up():
    stalls = {WAITS: {0x100: 5.0, 0x110: 10.0}, f"{WAITS[:-15]}barrier": {0x100: 25.0}}
    trace = Trace(MemorySource(launched(stalls)))
    assert ranked(trace, "stall_long_scoreboard")[0][1:] == (
        17,
        "  sum += in[i * pitch];",
        10.0,
        2 / 3,
    )
    both = ranked(trace, "stall_long_scoreboard", "stall_barrier")
    assert [line[1:] for line in both] == [
        (10, None, 30.0, 0.75),
        (17, "  sum += in[i * pitch];", 10.0, 0.25),
    ]


@pytest.mark.parametrize("function", ["_Z6kernelv", "_Z5otherv"])
def test_samples_of_the_whole_program_stand_for_those_of_a_launch(function):
    tables = launched({"gpu__time_duration.sum": {}})
    tables["kernel_instruction"]["module_checksum"] = [7] * len(CODE)
    tables["kernel_instruction"]["function"] = [function] * len(CODE)
    tables["pc_sample"] = {
        "process_id": [0, 0, 0],
        "device_id": [None] * 3,
        "module_checksum": [7] * 3,
        "function": [function] * 3,
        "name": ["kernel()"] * 3,
        "short_name": ["kernel"] * 3,
        "offset_bytes": [0, 16, 16],
        "stall": ["long_scoreboard", "long_scoreboard", "selected"],
        "samples": [10, 30, 99],
        "not_issued_samples": [0, 0, 0],
    }
    lines = ranked(Trace(MemorySource(tables)), "stall_long_scoreboard")
    if function == "_Z6kernelv":
        assert [line[1:2] + line[3:] for line in lines] == [(17, 30.0, 0.75), (10, 10.0, 0.25)]
    else:
        assert lines == []


def test_a_recording_without_code_has_no_lines():
    tables = launched({SECTORS: {}})
    del tables["metric_instance"], tables["kernel_instruction"], tables["source_line"]
    assert ranked(Trace(MemorySource(tables)), EXCESS) == []
