"""The kernels of the operations that NCCL's profiler plug-in interface reported."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.categories import collective_kernel
from warpline.derived.texts import number_texts
from warpline.derived.work.launches import launch_calls
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import group_sums
from warpline.trace import Trace

UNKNOWN = -1
COPY_ENGINES = "CE"  # the algorithm of operations without a kernel
_FAMILIES = {"nccl", "rccl"}  # a name that both have counts as the second's


class NcclKernels(NamedTuple):
    """The kernel of each operation, in rows of `nccl_op`.

    Attributes:
        row: Shape (operations,), int64, row of `kernel`; 0 if it is not known.
        found: Shape (operations,), whether it is.
        gpu_ns: Shape (operations,), float64, the operation's share of its time. Operations that
            NCCL put into one kernel share it by their sizes.
    """

    row: I64
    found: BoolArray
    gpu_ns: F64


class NcclChoices(NamedTuple):
    """What NCCL chose for each kernel, in rows of `kernel`; UNKNOWN where nothing was reported.

    Attributes:
        algorithm: Shape (kernels,), int64, a text; UNKNOWN if its operations differ, too.
        protocol: Likewise.
        bytes: Shape (kernels,), int64, the sizes of its operations together.
    """

    algorithm: I64
    protocol: I64
    bytes: I64


@derived
def nccl_kernels(trace: Trace) -> NcclKernels:
    """Return the kernel of each operation.

    NCCL reports the operations in a kernel right after it has launched it, in the same thread. So
    it is the kernel of the last launch that this thread made before, if that is one of NCCL. A
    launch that is captured in a graph has no kernel. What NCCL reports while a graph runs comes
    from a thread of CUDA, which launches nothing.
    """
    count = trace.row_count("nccl_op")
    found = NcclKernels(np.zeros(count, np.int64), np.zeros(count, np.bool_), np.zeros(count))
    if not count or not trace.has("kernel") or not trace.has("api_call"):
        return found
    launch = _kernel_launches(trace)
    calls = trace.columns("api_call", "start_ns", "thread_id")
    start, thread = (calls[name].values[launch] for name in ("start_ns", "thread_id"))
    order = np.lexsort((start, thread))
    launch, start, thread = launch[order], start[order], thread[order]
    kernel = _kernel_of_call(trace)[launch]
    told = trace.columns("nccl_op", "time_ns", "thread_id", "bytes", "algorithm_id")
    of_thread = told["thread_id"].values
    for number in np.unique(of_thread).tolist():
        first, end = np.searchsorted(thread, [number, number + 1])
        rows = np.flatnonzero((of_thread == number) & _has_kernel(trace))
        last = np.searchsorted(start[first:end], told["time_ns"].values[rows], "right") - 1
        rows, last = rows[last >= 0], last[last >= 0]
        found.row[rows] = kernel[first:end][last]
    found.found[:] = (found.row > 0) & np.append(_is_of_nccl(trace), False)[found.row - 1]
    found.row[:] = np.where(found.found, found.row - 1, 0)
    _share(trace, found, np.where(told["bytes"].is_valid(), told["bytes"].values, 0))
    return found


@derived
def nccl_choices(trace: Trace) -> NcclChoices:
    """Return what NCCL chose for each kernel."""
    count = trace.row_count("kernel") if trace.has("kernel") else 0
    found = NcclChoices(*(np.full(count, UNKNOWN, np.int64) for _ in range(3)))
    if not count or not trace.has("nccl_op"):
        return found
    kernels = nccl_kernels(trace)
    rows = np.flatnonzero(kernels.found)
    kernel, place = np.unique(kernels.row[rows], return_inverse=True)
    columns = trace.columns("nccl_op", "algorithm_id", "protocol_id", "bytes")
    for name, values in (("algorithm_id", found.algorithm), ("protocol_id", found.protocol)):
        told = columns[name].filled(UNKNOWN)[rows].astype(np.int64)
        least, most = np.full(len(kernel), np.iinfo(np.int64).max), np.full(len(kernel), UNKNOWN)
        np.minimum.at(least, place, told)
        np.maximum.at(most, place, told)
        values[kernel] = np.where(least == most, least, UNKNOWN)
    found.bytes[kernel] = group_sums(place, columns["bytes"].filled(0)[rows], len(kernel))
    return found


def _kernel_launches(trace: Trace) -> I64:
    """Return the calls that launch or capture a kernel, rows of `api_call`."""
    names = trace.columns("api_call", "name_id")["name_id"].values
    number, distinct = number_texts(names, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    launches = np.array(["Launch" in text and "Kernel" in text for text in texts], np.bool_)
    return np.flatnonzero(launches[number]) if len(texts) else np.zeros(0, np.int64)


def _kernel_of_call(trace: Trace) -> I64:
    """Return the row of `kernel` that each call launched, from 1; 0 for none."""
    launched = launch_calls(trace)["kernel"]
    rows = np.flatnonzero(launched.found)
    kernel = np.zeros(trace.row_count("api_call"), np.int64)
    kernel[launched.row[rows]] = rows + 1
    return kernel


def _has_kernel(trace: Trace) -> BoolArray:
    """Return which operations run in a kernel. Shape (operations,)."""
    copied = trace.strings.find(COPY_ENGINES)
    algorithm = trace.columns("nccl_op", "algorithm_id")["algorithm_id"]
    number = UNKNOWN if copied is None else copied
    return np.not_equal(algorithm.filled(UNKNOWN), number) | ~algorithm.is_valid()


def _is_of_nccl(trace: Trace) -> BoolArray:
    """Return which kernels are NCCL's, by their names. Shape (kernels,)."""
    names = trace.columns("kernel", "name_id")["name_id"].values
    number, distinct = number_texts(names, len(trace.strings))
    kinds = [collective_kernel(text) for text in trace.strings.texts(distinct.tolist())]
    families = [kind.family if kind else None for kind in kinds]
    is_nccl = np.array([family in _FAMILIES for family in families], np.bool_)
    return is_nccl[number] if kinds else np.zeros(len(names), np.bool_)


def _share(trace: Trace, found: NcclKernels, size: I64) -> None:
    """Fill in the shares of the kernels' times."""
    times = trace.columns("kernel", "start_ns", "end_ns")
    rows = np.flatnonzero(found.found)
    kernels, place = np.unique(found.row[rows], return_inverse=True)
    whole = (times["end_ns"].values - times["start_ns"].values)[kernels]
    total = group_sums(place, size[rows], len(kernels))
    number = np.bincount(place, minlength=len(kernels))
    share = np.where(total[place] > 0, size[rows] / np.maximum(total[place], 1), 1 / number[place])
    found.gpu_ns[rows] = whole[place] * share
