"""pageable-copy: its advice where the same data goes back and forth."""

from __future__ import annotations

import pytest
from support.machine import Machine

from warpline import plugins
from warpline.analyses.findings.pageable_copy import pageable_copy
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

plugins.load("analyses")

KEEP = "Keep data that the CPU does not change on the GPU from one iteration to the next."
MIB = 1 << 20


def program(sizes_back: tuple[int, ...]) -> Trace:
    """Return steps that copy 8 MiB to the GPU, run a kernel, and copy results to the host."""
    machine = Machine()
    for _ in range(6):
        machine.copy(8 * MIB, pinned=False)
        machine.launch(100_000, "stencil")
        for size in sizes_back:
            machine.copy(size, pinned=False, to_host=True)
        machine.end_step()
    return machine.trace()


def found(trace: Trace) -> Finding:
    result = pageable_copy(Run(trace))
    assert not isinstance(result, Skipped)
    (item,) = result
    return item


@pytest.mark.parametrize(
    ("sizes_back", "is_kept"),
    [
        ((8 * MIB,), True),
        ((8 * MIB, 15 * MIB), True),  # 16 of 31 MiB
        ((8 * MIB, 17 * MIB), False),  # 16 of 33 MiB
        ((4 * MIB,), False),
        ((), False),
    ],
)
def test_data_that_goes_back_and_forth_may_stay(sizes_back: tuple[int, ...], is_kept: bool) -> None:
    item = found(program(sizes_back))
    assert item.fix.startswith(KEEP) == is_kept
    assert item.fix_cuda.startswith(KEEP) == is_kept
    assert "Pin host memory once" in item.fix
    assert "cudaHostAlloc" in item.fix_cuda


def test_copies_without_steps_may_occur_once() -> None:
    machine = Machine()
    machine.copy(8 * MIB, pinned=False)
    machine.launch(100_000, "stencil")
    machine.copy(8 * MIB, pinned=False, to_host=True)
    assert not found(machine.trace()).fix_cuda.startswith(KEEP)
