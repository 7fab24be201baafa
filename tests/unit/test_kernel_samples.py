import pytest

import warpline
from warpline.errors import MissingTableError
from warpline.trace import MemorySource, Trace


def _trace(rows):
    names = ("name", "function", "module_checksum", "offset_bytes", "stall", "samples", "idle")
    table = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    table["not_issued_samples"] = table.pop("idle")
    table["short_name"] = table["name"]
    table["process_id"] = table["device_id"] = [0] * len(rows)
    return Trace(
        MemorySource({"pc_sample": table, "process": {"pid": [1]}, "device": {"gpu_index": [0]}})
    )


def test_kernels_are_ranked_by_samples_and_have_their_main_stall():
    rows = [
        ("a(int)", "_Z1ai", 1, 0, "wait", 10, 4),
        ("a(int)", "_Z1ai", 1, 16, "wait", 5, 1),
        ("a(int)", "_Z1ai", 2, 16, "barrier", 15, 15),  # of another module: one more instruction
        ("a(int)", "_Z1ai", 1, 16, "selected", 70, 0),
        ("b", "b", 1, 0, "long_scoreboard", 300, 150),
        ("c", "c", 1, 0, "selected", 100, 0),
    ]
    result = warpline.stats(_trace(rows), "kernel_samples")
    assert result.rows() == [
        ("b", 300, 0.6, "long_scoreboard", 1.0, 0.5, 1),
        ("a(int)", 100, 0.2, "barrier", 0.15, 0.8, 3),
        ("c", 100, 0.2, None, None, 1.0, 1),
    ]


def test_no_samples():
    with pytest.raises(MissingTableError, match="no program counter samples"):
        warpline.stats(_trace([]), "kernel_samples")


def test_there_is_no_timeline_to_analyze():
    samples = _trace([("b", "b", 1, 0, "wait", 300, 150)])
    with pytest.raises(MissingTableError, match="samples of code, and no timeline"):
        warpline.analyze(samples)
