"""collective_kern_sum: collective kernels, with algorithm and protocol."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

import numpy as np

from warpline.derived.collectives.nccl_kernels import NcclChoices, nccl_choices
from warpline.derived.kernels.categories import (
    CollectiveKernel,
    collective_kernel,
    operation_categories,
)
from warpline.derived.kernels.collective_launches import collective_of_kernel
from warpline.derived.kernels.collective_names import element_type, operation_name
from warpline.derived.texts import labelled, number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "collective_kern_sum"
TITLE = "Collective kernels"
FIELDS = (
    Field("time_ratio", Unit.RATIO, "Share of the total time of this table.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Sum of durations, including waiting.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "Number of kernels.", "Instances"),
    Field("median_ns", Unit.NS, "Median duration.", "Med (ns)", digits=1),
    Field("min_ns", Unit.NS, "Shortest duration.", "Min (ns)"),
    Field("max_ns", Unit.NS, "Longest duration.", "Max (ns)"),
    Field("operation", Unit.NONE, "Operation, such as all-reduce.", "Operation"),
    Field("algorithm", Unit.NONE, "Algorithm, such as ring or tree.", "Algorithm"),
    Field("protocol", Unit.NONE, "Protocol, such as LL or Simple.", "Protocol"),
    Field("dtype", Unit.NONE, "Element type, where known.", "Type"),
    Field("family", Unit.NONE, "Library, or kind of library.", "Family"),
    Field("gpu_index", Unit.ID, "Index of the GPU, as recorded.", "GPU"),
    Field("bytes", Unit.BYTES, "Total size of messages of known size.", "Bytes"),
    Field("sized", Unit.COUNT, "Number of kernels with a known message size.", "Sized"),
)
_KEY = ("operation", "algorithm", "protocol", "dtype", "family", "gpu_index")
_UNKNOWN = CollectiveKernel()


@dataclass(frozen=True)
class _Kernels:
    """Collective kernels.

    Attributes:
        duration_ns: Shape (n,), int64.
        device: Shape (n,), int64, rows of device.
        kind: Shape (n,), int64, indices into `kinds`.
        kinds: Operation, algorithm, protocol, element type and library.
        bytes: Shape (n,), int64, message size.
        is_sized: Shape (n,), whether the message size is known.
    """

    duration_ns: I64
    device: I64
    kind: I64
    kinds: tuple[CollectiveKernel, ...]
    bytes: I64
    is_sized: BoolArray


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node for CUDA graphs",
)
def collective_kern_sum(trace: Trace, arguments: Arguments) -> Result:
    """Collective kernels, with the algorithm and protocol they used.

    What it measures: Number and duration of collective kernels by operation, algorithm, protocol,
        element type, library and GPU.
    Why it matters: It shows whether the library chose an algorithm and protocol that suit the
        messages: rings for large messages, trees or in-switch reduction (NVLS) for many ranks, LL
        for small messages. Combine many small messages into larger ones.
    How it is computed: Collective kernels are recognized by name, for NCCL, RCCL, NVSHMEM, DeepEP,
        PyTorch symmetric memory, and the all-reduces of vLLM, SGLang, TensorRT-LLM and FlashInfer.
        A kernel with another name is a collective if it was launched inside an NCCL call or a
        framework's collective. Operation, algorithm and protocol come from the name. The launching
        call provides the message size and whatever the name lacks. With `--trace=nccl`, NCCL
        itself reports algorithm, protocol and size.
    Limits: A collective kernel waits on its GPU until all ranks take part, so its duration includes
        waiting. Without `--trace=nccl`, grouped calls, which are launched at the end of the group,
        have no known size, and algorithm and protocol are those of a name: NCCL names a kernel
        after one of the functions that it can run, so RING_LL stands for every algorithm except
        TREE, with any protocol. A note marks such kernels.
    Source: Warpline.
    """
    kernels = _kernels(trace)
    rows = factorize_rows(kernels.kind, kernels.device)
    codes = rows.codes.astype(np.int64)
    stats = group_stats(codes, kernels.duration_ns, rows.n_groups)
    order = np.argsort(-stats.sum, kind="stable")
    sized = np.bincount(codes, kernels.is_sized, rows.n_groups).astype(np.int64)
    size = group_stats(codes, np.where(kernels.is_sized, kernels.bytes, 0), rows.n_groups).sum
    kinds = [kernels.kinds[place] for place in kernels.kind[rows.first][order].tolist()]
    everyone = np.arange(len(kinds))
    columns: dict[str, Values] = {
        "time_ratio": Numbers(stats.sum[order] / max(stats.sum.sum(), 1)),
        "total_ns": Numbers(stats.sum[order]),
        "instances": Numbers(stats.count[order]),
        "median_ns": Numbers(stats.median[order]),
        "min_ns": Numbers(stats.min[order]),
        "max_ns": Numbers(stats.max[order]),
        "operation": labelled(everyone, [kind.operation for kind in kinds]),
        "algorithm": labelled(everyone, [kind.algorithm for kind in kinds]),
        "protocol": labelled(everyone, [kind.protocol for kind in kinds]),
        "dtype": labelled(everyone, [kind.dtype for kind in kinds]),
        "family": labelled(everyone, [kind.family for kind in kinds]),
        "gpu_index": Numbers(_gpu_index(trace, kernels.device[rows.first][order])),
        "bytes": Numbers(size[order], sized[order] > 0),
        "sized": Numbers(sized[order]),
    }
    return Result(NAME, TITLE, FIELDS, columns, _KEY, _notes(trace, kernels))


def _kernels(trace: Trace) -> _Kernels:
    """Return the collective kernels of all GPUs."""
    listed = operations(trace)
    is_collective = operation_categories(trace) == TimePart.COLLECTIVE
    chosen = np.flatnonzero(is_collective)
    row = listed.row[chosen]
    calls = collective_of_kernel(trace)
    call = np.where(calls.found[row], calls.row[row], -1)
    names = trace.columns("kernel", "name_id")["name_id"].values[row]
    number, distinct = number_texts(names, len(trace.strings))
    named = [collective_kernel(text) or _UNKNOWN for text in trace.strings.texts(distinct.tolist())]
    kinds, kind = _with_calls(trace, named, number.astype(np.int64), call)
    size, is_sized = _sizes(trace, call)
    choices = NcclChoices(*(column[row] for column in nccl_choices(trace)))
    kinds, kind = _with_choices(trace, kinds, kind, choices)
    size = np.where(choices.bytes > 0, choices.bytes, size)
    is_sized = is_sized | (choices.bytes > 0)
    duration = listed.end_ns[chosen] - listed.start_ns[chosen]
    return _Kernels(duration, listed.device[chosen], kind, kinds, size, is_sized)


def _with_calls(
    trace: Trace, named: list[CollectiveKernel], number: I64, call: I64
) -> tuple[tuple[CollectiveKernel, ...], I64]:
    """Return the distinct kinds of kernels, and the index of each kernel's kind.

    Calls provide what names lack.

    Args:
        trace: The trace.
        named: The kind that each distinct name specifies.
        number: Shape (n,), the index of each kernel's name.
        call: Shape (n,), the row of collective that launched it, or -1.
    """
    operation, dtype = (_of_calls(trace, column, call) for column in ("operation_id", "dtype_id"))
    rows = factorize_rows(number, operation, dtype)
    whole = [
        _completed(
            named[number[first]],
            _text(trace, operation[first]),
            _text(trace, dtype[first]),
        )
        for first in rows.first.tolist()
    ]
    # Sort by content: the numbers of strings depend on the file.
    kinds = tuple(sorted({*whole}, key=_content))
    place = np.array([kinds.index(kind) for kind in whole], np.int64)
    return kinds, place[rows.codes]


def _with_choices(
    trace: Trace, kinds: tuple[CollectiveKernel, ...], kind: I64, choices: NcclChoices
) -> tuple[tuple[CollectiveKernel, ...], I64]:
    """Return the kinds with what NCCL chose, and the index of each kernel's kind."""
    rows = factorize_rows(kind, choices.algorithm, choices.protocol)
    chosen = [
        _chosen(kinds[kind[first]], *(_text(trace, c[first]) for c in choices[:2]))
        for first in rows.first.tolist()
    ]
    whole = tuple(sorted({*chosen}, key=_content))
    place = np.array([whole.index(each) for each in chosen], np.int64)
    return whole, place[rows.codes]


def _chosen(
    kind: CollectiveKernel, algorithm: str | None, protocol: str | None
) -> CollectiveKernel:
    if algorithm is None or protocol is None:
        return kind
    return replace(kind, algorithm=algorithm, protocol=protocol, is_representative=False)


def _content(kind: CollectiveKernel) -> list[str]:
    return [value or "" for value in astuple(kind)[:-1]]


def _of_calls(trace: Trace, column: str, call: I64) -> I64:
    """Return a string column of the calls, -1 where empty."""
    of_call = np.full(len(call), -1, np.int64)
    is_called = np.flatnonzero(call >= 0)
    if len(is_called):
        values = trace.columns("collective", column)[column]
        rows = call[is_called]
        of_call[is_called] = np.where(values.is_valid()[rows], values.values[rows], -1)
    return of_call


def _text(trace: Trace, row: int) -> str | None:
    return trace.strings.text(row) if row >= 0 else None


def _completed(
    kind: CollectiveKernel, operation: str | None, dtype: str | None
) -> CollectiveKernel:
    """Return the kind of a kernel, completed from its call where the name lacks something."""
    family = kind.family
    if kind == _UNKNOWN and operation is not None:
        family = "nccl" if "nccl" in operation.lower() else family
    return replace(
        kind,
        operation=kind.operation or operation_name(operation),
        dtype=kind.dtype or element_type(dtype),
        family=family,
    )


def _sizes(trace: Trace, call: I64) -> tuple[I64, BoolArray]:
    """Return the message size of each kernel; for a call with several, only on the first."""
    size, is_sized = np.zeros(len(call), np.int64), np.zeros(len(call), np.bool_)
    calls, first = np.unique(call, return_index=True)
    first, calls = first[calls >= 0], calls[calls >= 0]
    if len(calls):
        column = trace.columns("collective", "bytes")["bytes"]
        known = column.is_valid()[calls]
        size[first[known]] = column.values[calls[known]]
        is_sized[first[known]] = True
    return size, is_sized


def _gpu_index(trace: Trace, device: I64) -> I64:
    if not len(device):
        return device
    return trace.columns("device", "gpu_index")["gpu_index"].values[device].astype(np.int64)


def _notes(trace: Trace, kernels: _Kernels) -> tuple[str, ...]:
    notes = list(graph_notes(trace))
    if any(kind.is_representative for kind in kernels.kinds):
        notes.append(
            "NCCL runs several algorithms and protocols in one kernel: RING_LL means any"
            " algorithm except TREE, with any protocol"
        )
    missing = len(kernels.is_sized) - int(kernels.is_sized.sum())
    if missing and kernels.is_sized.any():
        notes.append(f"the message size of {plural(missing, 'kernel')} is unknown")
    return tuple(notes)
