"""Indexing with boolean masks: the kernels around reads of how many elements a mask selects.

PyTorch counts the elements, reads the count, writes their indices, and gathers or scatters with
these. torch.where computes the same in one elementwise kernel, without a read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.result_reads import result_reads
from warpline.derived.texts import number_texts
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.trace import Trace

_LONGEST_NAME = 4096
_COUNT = lazy_pattern(r"\bcub::.{0,200}?DeviceReduce\w*Kernel")
_SELECT = lazy_pattern(r"DeviceCompactInitKernel|DeviceSelectSweepKernel|\bwrite_indices<")
_INDEX = lazy_pattern(r"index_elementwise_kernel|gpu_index_kernel")


class MaskedIndexing(NamedTuple):
    """Kernels of indexing with boolean masks.

    Attributes:
        finding: Shape (n,), int64, indices into `operations`, ascending: kernels that count the
            selected elements and find their indices.
        using: Shape (m,), int64, likewise: kernels that gather or scatter with the indices.
    """

    finding: I64
    using: I64


@derived
def masked_indexing(trace: Trace) -> MaskedIndexing:
    """Return the kernels right before and after reads that only boolean masks need."""
    work, reads, none = operations(trace), result_reads(trace), np.zeros(0, np.int64)
    kernels = work.of_table("kernel")
    if not len(reads.copy) or not len(kernels):
        return MaskedIndexing(none, none)
    ids = trace.columns("kernel", "name_id")["name_id"].values[work.row[kernels]]
    number, distinct = number_texts(ids, len(trace.strings))
    texts = [text[:_LONGEST_NAME] for text in trace.strings.texts(distinct.tolist())]
    order = np.lexsort((work.start_ns, work.stream, work.device))
    counts, selects, uses = (
        _named(pattern, texts, number, kernels, len(work))[order]
        for pattern in (_COUNT, _SELECT, _INDEX)
    )
    is_read = np.zeros(len(work), np.bool_)
    is_read[reads.copy] = True
    read = np.flatnonzero(is_read[order])
    # Where the kernels before and after each read are others; the edges of the table, too.
    after = np.append(np.flatnonzero(~selects), len(work))
    after = after[np.searchsorted(after, read + 1)]
    before = np.append(-1, np.flatnonzero(~counts))
    before = before[np.searchsorted(before, read) - 1]
    masked = after > read + 1
    read, after, before = read[masked], after[masked], before[masked]
    depth = np.zeros(len(work) + 1, np.int64)
    for low, high in ((before + 1, read), (read + 1, after)):
        np.add.at(depth, low, 1)
        np.add.at(depth, high, -1)
    used = after[after < len(work)]
    used = used[uses[used]]
    return MaskedIndexing(
        np.sort(order[np.flatnonzero(np.cumsum(depth[:-1]) > 0)]), np.sort(order[used])
    )


def _named(
    pattern: re.Pattern[str], texts: list[str], number: I32 | I64, kernels: I64, count: int
) -> BoolArray:
    """Return the operations that are kernels with a name that matches, shape (operations,)."""
    matches = np.array([pattern.search(text) is not None for text in texts], np.bool_)
    chosen = np.zeros(count, np.bool_)
    chosen[kernels] = matches[number]
    return chosen
