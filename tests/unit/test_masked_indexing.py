"""Which kernels only serve indexing with boolean masks, and what host-sync saves of them."""

from __future__ import annotations

from support.idle_programs import DEVICE, PAGEABLE, TO_HOST, Program

from warpline import plugins
from warpline.derived.idle.masked_indexing import masked_indexing
from warpline.derived.work.operations import operations
from warpline.result import RULES, Skipped
from warpline.result.changes import DropOperations
from warpline.trace import Run, Trace

plugins.load("analyses")

STEPS = 6
COUNT = "void cub::detail::reduce::DeviceReduceKernel<Policy, bool*>"
COUNT_LAST = "void cub::detail::reduce::DeviceReduceSingleTileKernel<Policy, int*>"
INIT = "void cub::detail::scan::DeviceCompactInitKernel<State>"
SELECT = "void cub::detail::select::DeviceSelectSweepKernel<Policy>"
INDICES = "void <unnamed>::write_indices<long>(long *)"
GATHER = "void at::native::index_elementwise_kernel<128, 4, gpu_index_kernel>"
MASK = "void at::native::vectorized_elementwise_kernel<4, compare_scalar_kernel>"


def stepping(after: tuple[str, ...]) -> Trace:
    """Return steps of 1000 us: a mask, its count, a read of it, and others, each of 50 us."""
    program = Program()
    for at in range(0, 1000 * STEPS, 1000):
        for place, name in enumerate((MASK, COUNT, COUNT_LAST)):
            begin = at + 10 + 50 * place
            program.launch(at + 5 * place, begin, begin + 50, name=name)
        call = program.call(at + 20, at + 200, "cudaMemcpyAsync_v3020")
        memory = {"src_memory": DEVICE, "dst_memory": PAGEABLE}
        program.copy(at + 170, at + 180, call, kind=TO_HOST, bytes=4, **memory)
        program.call(at + 202, at + 205, "cudaStreamSynchronize_v3020")
        for place, name in enumerate(after):
            begin = at + 220 + 50 * place
            program.launch(at + 206 + 5 * place, begin, begin + 50, name=name)
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        program.add("range", at, at + 1000, name=f"step_{at // 1000}", **owner)
    return program.trace()


def named(trace: Trace, places: list[int]) -> list[str]:
    work = operations(trace)
    names = trace.columns("kernel", "name_id")["name_id"].values
    return trace.strings.texts([int(names[work.row[place]]) for place in places])


def test_kernels_around_the_read_of_a_count():
    trace = stepping((INIT, SELECT, INDICES, GATHER, GATHER))
    found = masked_indexing(trace)
    assert named(trace, found.finding.tolist()) == STEPS * [
        COUNT,
        COUNT_LAST,
        INIT,
        SELECT,
        INDICES,
    ]
    assert named(trace, found.using.tolist()) == STEPS * [GATHER]  # the first only


def test_a_sum_that_is_read_selects_nothing():
    trace = stepping((MASK, SELECT, INDICES))
    assert not len(masked_indexing(trace).finding)
    assert not len(masked_indexing(trace).using)


def test_without_reads_and_without_names():
    assert not len(masked_indexing(Program().trace()).finding)


def test_host_sync_drops_them():
    trace = stepping((INIT, SELECT, INDICES, GATHER, MASK))
    found = RULES.get("host-sync").judge(Run(trace))
    assert not isinstance(found, Skipped)
    masks = masked_indexing(trace)
    (using,) = (
        change
        for change in found[0].changes
        if isinstance(change, DropOperations) and set(change.operations) == set(masks.using)
    )
    assert using.remaining.central == 0.25
    assert "6 kernels per step index with boolean masks" in found[0].claim
    assert "torch.where" in found[0].fix
