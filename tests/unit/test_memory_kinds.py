"""Kinds, phases and growth of GPU memory in a simulated training where all of them are known."""

from __future__ import annotations

import pytest
from support.memory_programs import MIB, Training

import warpline
from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kinds import MemoryKind, kinds_of_blocks
from warpline.derived.memory.labels import labels_of_allocations
from warpline.trace import MemorySource, Trace


def kinds_in(trace: Trace) -> list[str]:
    return [MemoryKind.at(kind).label for kind in kinds_of_blocks(trace).tolist()]


def rows_of(trace: Trace, table: str) -> list[dict[str, object]]:
    result = warpline.stats(trace, table)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


@pytest.mark.parametrize("leaks", [False, True])
def test_every_block_has_its_kind(leaks: bool) -> None:
    training = Training(leaks=leaks)
    trace = training.run()
    expected = training.kinds
    if leaks:  # nothing tells what the last step keeps from what it would have freed
        kept = [place for place, kind in enumerate(expected) if kind == "Unknown"][-2:]
        expected = [("Activations" if at in kept else kind) for at, kind in enumerate(expected)]
    assert kinds_in(trace) == expected


def test_without_roles_phases_decide_and_nothing_is_guessed() -> None:
    training = Training(has_roles=False)
    trace = training.run()
    unknown = ("Parameters", "Inputs")
    assert kinds_in(trace) == ["Unknown" if kind in unknown else kind for kind in training.kinds]


def test_without_phases_all_is_unknown() -> None:
    events = Training(has_roles=False)
    trace = events.run(2)
    columns = trace.columns(
        "allocator_event", "time_ns", "operation", "bytes", "address", "device_id", "memory"
    )
    table = {name: column.to_list() for name, column in columns.items()}
    bare = Trace(MemorySource({"allocator_event": table}))
    assert set(kinds_in(bare)) == {"Unknown"}


def test_the_table_of_kinds_has_the_bytes_at_the_peak() -> None:
    trace = Training().run()
    rows = {row["kind"]: row for row in rows_of(trace, "memory_kinds")}
    # The peak is in the backward pass of the last block, the first one to run backward: all
    # activations, one gradient, a temporary block.
    peak = {kind: int(str(row["peak_bytes"])) / MIB for kind, row in rows.items()}
    assert peak.pop("Activations") == 32 + 512 / MIB
    assert peak == {
        "Parameters": 4, "Optimizer state": 8, "Gradients": 1, "Inputs": 2, "Temporary": 2
    }  # fmt: skip
    assert rows["Gradients"]["most_bytes"] == 4 * MIB
    assert rows["Optimizer state"]["kept_bytes"] == 8 * MIB
    assert rows["Activations"]["blocks"] == 5
    timeline = replayed(trace).timelines[0]
    total = sum(int(str(row["peak_bytes"])) for row in rows.values())
    assert total == timeline.allocated_bytes.max()
    first = [row for row in rows_of(trace, "memory_kinds:step") if row["step"] == 0]
    at_first = {row["kind"]: row["peak_bytes"] for row in first}
    assert at_first["Optimizer state"] == 0


def test_memory_from_before_the_recording_is_unknown() -> None:
    table = {
        "time_ns": [1, 2, 3], "device_id": [0] * 3, "memory": [1] * 3, "operation": [0, 0, 1],
        "bytes": [700, 512, 700], "address": [10, 20, 10],
        "total_allocated_bytes": [1700, 2212, 1512], "total_reserved_bytes": [4096] * 3,
    }  # fmt: skip
    unknown, cached = rows_of(Trace(MemorySource({"allocator_event": table})), "memory_kinds")
    assert (unknown["peak_bytes"], unknown["most_bytes"], unknown["kept_bytes"]) == (
        2212, 2212, 1512
    )  # fmt: skip
    assert (cached["kind"], cached["peak_bytes"]) == ("Cached", 4096 - 2212)


def test_the_table_of_phases_has_the_peak_of_each() -> None:
    rows = {row["phase"]: row for row in rows_of(Training().run(), "memory_phases")}
    assert [*rows] == ["forward", "backward", "optimizer"]
    assert {row["passes"] for row in rows.values()} == {8}
    kept = 4 + 8 + 2  # parameters, optimizer state, input
    assert rows["forward"]["peak_bytes"] == (kept + 32 + 1) * MIB
    assert rows["forward"]["start_bytes"] == kept * MIB
    assert rows["backward"]["peak_bytes"] == (kept + 32 + 1 + 2) * MIB + 512
    assert rows["optimizer"]["peak_bytes"] == (kept + 4 + 1) * MIB + 512
    assert rows["backward"]["largest_kind"] == "Activations"


def test_modules_are_those_of_tensors_or_those_that_ran() -> None:
    training = Training()
    trace = training.run(2)
    labels = labels_of_allocations(trace, "module")
    shown = [labels.texts[code] if code >= 0 else None for code in labels.codes.tolist()]
    assert shown[:4] == [f"GPT.blocks.{block}" for block in range(4)]
    assert shown[4] is None  # the batch
    assert shown[5] == "GPT.blocks.0"
    assert labels_of_allocations(trace, "kind").texts[0] == "Parameters"


def test_what_grows_is_found_with_its_module() -> None:
    (row, loss) = rows_of(Training(leaks=True).run(), "memory_leaks")
    assert (row["step_bytes"], row["step_blocks"]) == (8 * MIB, 1)
    assert row["module"] == "GPT.blocks.0"
    assert (row["grown_blocks"], row["steps"]) == (6, 6)  # the first end is not compared
    assert loss["step_bytes"] == 512
    assert rows_of(Training().run(), "memory_leaks") == []
    with pytest.raises(warpline.MissingTableError, match="fewer than 4 steps"):
        warpline.stats(Training().run(3), "memory_leaks")
