"""Page migrations of managed memory: their category, idle time around them, and the finding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.machine import GPU, Machine

from warpline import plugins
from warpline.analyses.diagnosis.capture_quality import capture_quality
from warpline.analyses.findings.managed_memory import managed_memory
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

plugins.load("analyses")

US, MS = 1_000, 1_000_000
TO_DEVICE, TO_HOST, UNKNOWN = 11, 12, 7
NO_CALL = 1_000_000


def migrate(
    machine: Machine, start: int, end: int, kind: int, size: int = 65_536, cause: int | None = None
) -> None:
    machine.program.add(
        "memcpy", start_ns=start, end_ns=end, device_id=0, context_id=0, stream_id=0, process_id=0,
        correlation_id=NO_CALL, bytes=size, kind=kind, src_memory=UNKNOWN, dst_memory=UNKNOWN,
        migration_cause=cause,
    )  # fmt: skip


def program(
    size: int = 65_536,
    moving_ns: int = 20 * US,
    cause: int | None = None,
    gpu_faults: int = 0,
    cpu_faults: Sequence[str] = (),
) -> Trace:
    """Return two kernels of 1 ms without steps, 5 ms apart.

    Pages migrate ten times during the first kernel, five times while the CPU reads them after it,
    and five times after the second kernel. Page faults of the GPU are handled in the 40 us before
    each migration during a kernel; those of the CPU are 2 ms after the first kernel's end.
    """
    machine = Machine()
    for number in range(2):
        begun = machine.now + 6 * US
        machine.launch(MS, f"kernel_{number}")
        machine.wait()
        for place in range(10 if number == 0 else 0):
            start = begun + 50 * US + place * 90 * US
            migrate(machine, start, start + moving_ns, TO_DEVICE, size, cause)
            if gpu_faults:
                machine.program.add(
                    "um_gpu_page_fault", start_ns=start - 40 * US, end_ns=start, device_id=0,
                    process_id=0, address=place << 16, faults=gpu_faults, access=1,
                )  # fmt: skip
        for place in range(5):
            start = machine.now + 500 * US + place * 500 * US
            migrate(machine, start, start + moving_ns, TO_HOST, size, cause)
        for function in cpu_faults if number == 0 else ():
            machine.program.add(
                "um_cpu_page_fault", time_ns=machine.now + 2 * MS, process_id=0, address=0,
                function=function,
            )  # fmt: skip
        machine.work(5 * MS)
    return machine.program.trace(GPU)


def found(trace: Trace) -> list[Finding]:
    result = managed_memory(Run(trace))
    assert not isinstance(result, Skipped)
    return list(result)


def test_migrations_have_a_category() -> None:
    category = operation_categories(program())
    assert (category == TimePart.COPY_MANAGED).sum() == 20


def test_nobody_launches_migrations() -> None:
    result = capture_quality(Run(program()))
    assert not isinstance(result, Skipped)
    titles = [item.title for item in result]
    assert "Launch calls of some GPU work are missing" not in titles
    assert "The recording is part of a longer run" not in titles


def test_idle_time_around_migrations_belongs_to_the_next_launch() -> None:
    trace = program()
    parts = step_partition(Run(trace)).ns.sum(axis=0)
    assert parts[TimePart.UNKNOWN] == 0
    # Ten migrations while no kernel runs.
    assert parts[TimePart.COPY_MANAGED] == 10 * 20 * US
    # From the end of the first kernel, the CPU returns from its wait after 5 us, continues 1 us
    # later, works for 5 ms, and the next kernel starts 6 us after its launch: without the wait and
    # the five migrations, the CPU is late.
    assert parts[TimePart.LAUNCH_BOUND] + parts[TimePart.HOST_SYNC] == 5_012 * US - 100 * US
    # After the second kernel: from its end to the last migration, without the five. Nothing was
    # launched that could have run.
    assert parts[TimePart.TAIL] == (6 + 2_500 + 20 - 100) * US
    # Shares exclude that idle time, as the breakdown does.
    assert step_scope(Run(trace)).step_ns == parts.sum() - parts[TimePart.TAIL]
    assert step_scope(Run(trace)).step_ns == (1_000 + 5_012 + 1_000 + 100) * US


def test_migrations_that_take_much_of_the_time() -> None:
    (item,) = found(program())
    # 20 migrations of 20 us, of 1 + 5.012 + 1 ms and five migrations after it.
    assert item.share == pytest.approx(400 / (7_012 + 100), abs=0.001)
    assert item.severity == "medium"
    assert "for 400 us (5.6%): 20 page migrations, 1.25 MiB, 64.0 KiB at a time." in item.claim
    assert "Other GPU work runs in 200 us of that" in item.claim
    assert item.changes == ()


def test_migrations_that_take_little_and_requested_blocks_are_no_finding() -> None:
    assert found(program(moving_ns=10 * US)) == []
    assert found(program(size=2 << 20)) == []


@pytest.mark.parametrize(
    ("cause", "size", "is_found"),
    [(1, 65_536, False), (3, 2 << 20, True), (2, 4096, True), (0, 2 << 20, False), (0, 64, True)],
)
def test_the_cause_says_whether_a_migration_was_requested(
    cause: int, size: int, is_found: bool
) -> None:
    assert bool(found(program(size=size, cause=cause))) == is_found


def test_the_time_in_which_page_faults_are_handled_counts() -> None:
    (item,) = found(program(gpu_faults=7, cpu_faults=("read", "read", "other")))
    # Ten more times of 40 us, each just before a migration.
    assert item.share == pytest.approx(800 / (7_012 + 100), abs=0.001)
    assert item.title.startswith("Page faults and migrations of managed memory take 11.2%")
    assert "for 800 us (11.2%): 20 page migrations, 1.25 MiB, 64.0 KiB at a time." in item.claim
    assert "Page faults: 70 of the GPU and 3 of the CPU, mostly in read." in item.claim
    assert "Other GPU work runs in 600 us of that, and may wait for the pages." in item.claim
    of_faults = item.evidence[1]
    assert (of_faults.text, of_faults.table) == ("70 page faults of the GPU", "um_gpu_page_fault")
    assert (of_faults.count, of_faults.rows) == (10, (0, 1, 2, 3, 4))


def test_page_faults_of_the_cpu_alone_take_no_time() -> None:
    (item,) = found(program(cpu_faults=("a", "b", "c")))
    assert item.title.startswith("Page migrations of managed memory take 5.6%")
    assert "Page faults: 3 of the CPU." in item.claim
    assert found(program(moving_ns=10 * US, cpu_faults=("a",))) == []


def test_page_faults_without_migrations() -> None:
    (item,) = found(program(size=2 << 20, moving_ns=US, gpu_faults=1))
    assert "are handled, and pages migrate between host and GPU, for 400 us (5.7%)." in item.claim
    assert len(item.evidence) == 1
