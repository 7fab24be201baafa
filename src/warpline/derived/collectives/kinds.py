"""The operation, communicator, and message size of each collective kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.kernels.categories import collective_kernel
from warpline.derived.kernels.collective_launches import collective_of_kernel
from warpline.derived.kernels.collective_names import operation_name
from warpline.derived.texts import number_texts
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values, factorize_rows
from warpline.trace import Trace

UNKNOWN = -1


class CollectiveKinds(NamedTuple):
    """Properties of collective kernels.

    Attributes:
        operation: Shape (n,), int64, places in `operations`.
        operations: Names such as "AllReduce", ascending; "" if unknown.
        communicator: Shape (n,), int64, places in `communicators`; `UNKNOWN` if not recorded.
        communicators: Ids or names. Communicators with equal names differ in their ranks.
        members: The ranks of each communicator, as recorded: ``[0, 1]``; "" if unknown.
        sequence: Shape (n,), int64, number of the call in its communicator, or `UNKNOWN`.
        bytes: Shape (n,), int64, message size, or `UNKNOWN`.
    """

    operation: I64
    operations: tuple[str, ...]
    communicator: I64
    communicators: tuple[str, ...]
    members: tuple[str, ...]
    sequence: I64
    bytes: I64


def collective_kinds(trace: Trace, places: I64) -> CollectiveKinds:
    """Return the properties of some collective kernels.

    Args:
        trace: The trace.
        places: Shape (n,), places of kernels in `operations`.
    """
    kernel = operations(trace).row[places]
    calls = collective_of_kernel(trace)
    call = np.where(calls.found[kernel], calls.row[kernel], UNKNOWN) if len(kernel) else kernel
    operation, names = _operations(trace, kernel, call)
    communicator, texts, members = _communicators(trace, call)
    sequence = np.where(communicator >= 0, _of_calls(trace, "sequence", call), UNKNOWN)
    size = _of_calls(trace, "bytes", call)
    return CollectiveKinds(
        operation=operation,
        operations=names,
        communicator=communicator,
        communicators=texts,
        members=members,
        sequence=sequence,
        bytes=size,
    )


def _of_calls(trace: Trace, column: str, call: I64) -> I64:
    """Return a column of the calls, `UNKNOWN` where there is no call or no value."""
    values = np.full(len(call), UNKNOWN, np.int64)
    called = np.flatnonzero(call >= 0)
    if len(called):
        values[called] = trace.columns("collective", column)[column].filled(UNKNOWN)[call[called]]
    return values


def _operations(trace: Trace, kernel: I64, call: I64) -> tuple[I64, tuple[str, ...]]:
    """Return the operation of each kernel: from its call, else from its name.

    PyTorch implements all-to-all as sends and receives, so only the call shows the operation.
    """
    ids = trace.columns("kernel", "name_id")["name_id"].values[kernel] if len(kernel) else kernel
    number, distinct = number_texts(ids, len(trace.strings))
    kernels = [collective_kernel(text) for text in trace.strings.texts(distinct.tolist())]
    own = [(kind.operation if kind else None) or "" for kind in kernels]
    text = _of_calls(trace, "operation_id", call)
    texts = distinct_values(text[text >= 0])
    told = [operation_name(trace.strings.text(row)) or "" for row in texts.tolist()]
    names = tuple(sorted({*own, *told}))
    place_own = np.array([names.index(name) for name in own], np.int64)
    place_told = np.array([names.index(name) for name in told], np.int64)
    operation = place_own[number] if len(kernel) else kernel
    operation[text >= 0] = place_told[np.searchsorted(texts, text[text >= 0])]
    return operation, names


def _communicators(trace: Trace, call: I64) -> tuple[I64, tuple[str, ...], tuple[str, ...]]:
    """Return the communicator of each call. Different ranks mean different communicators."""
    name, ranks = (_of_calls(trace, column, call) for column in ("communicator_id", "ranks_id"))
    communicator = np.full(len(call), UNKNOWN, np.int64)
    named = np.flatnonzero(name >= 0)
    if not len(named):
        return communicator, (), ()
    groups = factorize_rows(name[named], ranks[named])
    communicator[named] = groups.codes
    first = named[groups.first]
    texts = tuple(trace.strings.text(row) for row in name[first].tolist())
    members = tuple(trace.strings.text(row) if row >= 0 else "" for row in ranks[first].tolist())
    return communicator, texts, members
