"""CPU time in page faults: the kernel gives a thread the memory that it touches.

The first touch of fresh memory takes the kernel about half a microsecond per page of 4 KiB, most of
it to clear the page. Samples show it where they have the kernel's functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.functions import KERNEL, UNRESOLVED, functions, stack_ids, stacks
from warpline.derived.host.samples import CPU_SAMPLES, has_samples, weights
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.tiling import Grouped, cut
from warpline.trace import Trace

# The kernel's functions that handle faults, on x86-64 and on Arm; `__handle_mm_fault.isra.0`.
_HANDLERS = lazy_pattern(
    r"_*(?:(?:asm_)?exc_page_fault|(?:async_)?page_fault|do_(?:user_addr|page|translation)_fault"
    r"|do_mem_abort|el[01](?:t_\d+)?_(?:da|ia|abort)|handle_mm_fault)(?:\.\w+)*\Z"
)
_OF_KERNEL = "[kernel"  # [kernel], [kernel.kallsyms]
_FEWEST = 10  # samples: fewer say nothing about shares


class FaultSamples(NamedTuple):
    """CPU samples that have a thread, by thread and time.

    Attributes:
        time_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        ns: Shape (n,), int64, the time that each stands for.
        is_fault: Shape (n,), bool, whether the thread was in a page fault.
    """

    time_ns: I64
    thread: I64
    ns: I64
    is_fault: BoolArray

    def share(self, rows: I64 | BoolArray) -> float | None:
        """Return the share of some of the samples that is in page faults; None for too few."""
        ns = self.ns[rows]
        if len(ns) < _FEWEST or not ns.sum():
            return None
        return float(ns[self.is_fault[rows]].sum()) / float(ns.sum())


@derived
def fault_samples(trace: Trace) -> FaultSamples | None:
    """Return the CPU samples of threads; None if the kernel's functions are not known."""
    handles = _handlers(trace)
    if handles is None or not has_samples(trace, CPU_SAMPLES):
        return None
    columns = trace.columns(CPU_SAMPLES, "time_ns", "thread_id")
    rows = np.flatnonzero(columns["thread_id"].is_valid())
    thread, time = columns["thread_id"].values.astype(np.int64), columns["time_ns"].values
    rows = rows[np.lexsort((time[rows], thread[rows]))]
    # A stack consists of its frame and of those of its callers, which are other rows.
    tree = stacks(trace)
    faults, up = handles[functions(trace).of_frame[tree.frame]], tree.parent.astype(np.int64)
    up = np.where(tree.depth > 0, up, np.arange(len(up)))
    for _ in range(int(tree.depth.max(initial=0)).bit_length()):
        faults |= faults[up]
        up = up[up]
    is_fault = np.append(faults, False)[stack_ids(trace, CPU_SAMPLES)[rows]]  # -1: no stack
    return FaultSamples(time[rows], thread[rows], weights(trace, CPU_SAMPLES)[rows], is_fault)


def fault_share(trace: Trace, spans: Grouped) -> float | None:
    """Return the share of the CPU time in some times that threads were in page faults.

    None for too few samples.

    Args:
        trace: The trace.
        spans: Times by thread; those of a thread may not overlap.
    """
    samples = fault_samples(trace)
    if samples is None:
        return None
    moments = Grouped(samples.time_ns, samples.time_ns + 1, samples.thread)
    order = np.lexsort((spans.start_ns, spans.group))
    inside = cut(moments, Grouped(*(column[order] for column in spans)))
    return samples.share(inside.span)


def fault_shares(trace: Trace) -> F64:
    """Return the share of each thread's CPU time in page faults; NaN if unknown."""
    count = trace.row_count("thread") if trace.has("thread") else 0
    shares, samples = np.full(count, np.nan), fault_samples(trace)
    if samples is None:
        return shares
    number = np.bincount(samples.thread, minlength=count)
    sums = np.bincount(samples.thread, samples.ns, count)
    in_faults = np.bincount(samples.thread, samples.ns * samples.is_fault, count)
    known = (number >= _FEWEST) & (sums > 0)
    shares[known] = in_faults[known] / sums[known]
    return shares


def _handlers(trace: Trace) -> BoolArray | None:
    """Return which functions handle page faults; None if no function of the kernel has a name."""
    known = functions(trace)
    modules = trace.strings.texts(known.module)
    in_kernel = np.array([module.startswith(_OF_KERNEL) for module in modules], np.bool_)
    of_kernel = np.flatnonzero(in_kernel | (known.kind == KERNEL))
    names = trace.strings.texts(known.symbol[of_kernel])
    if not any(name != UNRESOLVED for name in names):
        return None
    handles = np.zeros(len(known), np.bool_)
    handles[of_kernel] = [_HANDLERS.match(name) is not None for name in names]
    return handles
