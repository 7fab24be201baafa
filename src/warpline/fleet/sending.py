"""Kernels that send to single ranks and receive from them, and the calls that they come from.

NCCL has one kernel for sends and receives, and one for all those of a group of calls. So what such
a kernel does is known from the calls that its thread made since it launched the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.kernels.collective_names import operation_name
from warpline.derived.texts import number_texts
from warpline.derived.work.launches import launch_calls
from warpline.fleet.inside import in_steps
from warpline.fleet.summary import PeerCalls
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.trace import Run, Trace

UNKNOWN = -1
SENDS = ("Send", "Recv", "SendRecv")
_MOST_PEERS = 128
_LONGEST_TEXT = 200
_LEAST_MESH = 4  # ranks: if one sends to all others at once, it is no stage of a pipeline
_COLUMNS = ("communicator_id", "ranks_id", "rank", "rank_count", "peer", "bytes")


class Sent(NamedTuple):
    """What kernels of sends and receives do; shape (kernels,) each.

    Attributes:
        operation: Send, Recv, SendRecv, or AllToAll if it exchanges data with all ranks of its
            communicator; "" if no call is known.
        call: int64, a row of `collective`, one of its calls; UNKNOWN if none is known.
        bytes: int64, the largest message; UNKNOWN.
    """

    operation: Sequence[str]
    call: I64
    bytes: I64


def sent_by(trace: Trace, kernels: I64, every: I64) -> Sent:
    """Return what some kernels send and receive.

    Args:
        trace: The trace.
        kernels: Shape (n,), int64, rows of `kernel`.
        every: Rows of all kernels of collectives, with these.
    """
    count = len(kernels)
    found = Sent([""] * count, np.full(count, UNKNOWN), np.full(count, UNKNOWN))
    calls = _calls(trace)
    if not count or calls is None or not trace.has("api_call"):
        return found
    place, of_kernel = _owners(trace, kernels, every, calls)
    operation = list(found.operation)
    for chosen in np.split(of_kernel, np.flatnonzero(np.diff(place)) + 1):
        if not len(chosen):
            continue
        at = int(place[np.searchsorted(of_kernel, chosen[0])])
        operation[at] = _operation(calls, chosen)
        found.call[at] = calls.row[chosen[0]]
        found.bytes[at] = int(calls.values["bytes"][chosen].max())
    return found._replace(operation=operation)


class _Calls(NamedTuple):
    """The calls that send or receive, by thread and start."""

    row: I64
    is_send: I64
    thread: I64
    start_ns: I64
    values: dict[str, I64]


def _calls(trace: Trace) -> _Calls | None:
    if not trace.has("collective") or not trace.row_count("collective"):
        return None
    columns = trace.columns("collective", "operation_id", "thread_id", "start_ns", *_COLUMNS)
    values = {name: column.filled(UNKNOWN).astype(np.int64) for name, column in columns.items()}
    number, distinct = number_texts(values["operation_id"], len(trace.strings))
    names = [operation_name(text) for text in trace.strings.texts(distinct.tolist())]
    code = np.array([SENDS.index(name) if name in SENDS[:2] else -1 for name in names], np.int64)
    rows = np.flatnonzero(code[number] >= 0) if names else np.zeros(0, np.int64)
    if not len(rows):
        return None
    order = np.lexsort((values["start_ns"][rows], values["thread_id"][rows]))
    rows = rows[order]
    return _Calls(
        rows,
        (code[number[rows]] == 0).astype(np.int64),
        values["thread_id"][rows],
        values["start_ns"][rows],
        {name: values[name][rows] for name in _COLUMNS},
    )


def _owners(trace: Trace, kernels: I64, every: I64, calls: _Calls) -> tuple[I64, I64]:
    """Return the kernel of each call that has one: its place among `kernels`, and the call."""
    launches = launch_calls(trace)["kernel"]
    columns = trace.columns("api_call", "start_ns", "thread_id")
    known = every[launches.found[every]]
    api = launches.row[known]
    start = columns["start_ns"].values[api].astype(np.int64)
    thread = columns["thread_id"].values[api].astype(np.int64)
    order = np.lexsort((start, thread))
    known, start, thread = known[order], start[order], thread[order]
    # The first launch at or after a call, in its thread.
    after = np.zeros(len(calls.row), np.int64)
    found = np.zeros(len(calls.row), np.bool_)
    for number in np.unique(calls.thread).tolist():
        low, high = np.searchsorted(thread, [number, number + 1])
        own = np.flatnonzero(calls.thread == number)
        at = low + np.searchsorted(start[low:high], calls.start_ns[own])
        found[own], after[own] = at < high, np.minimum(at, max(high - 1, 0))
    place_of = np.full(int(every.max(initial=0)) + 1, UNKNOWN, np.int64)
    place_of[kernels] = np.arange(len(kernels))
    place = np.full(len(calls.row), UNKNOWN, np.int64)
    place[found] = place_of[known[after[found]]]
    chosen = np.flatnonzero(place >= 0)
    return place[chosen], chosen


def _operation(calls: _Calls, chosen: I64) -> str:
    is_send, peer = calls.is_send[chosen] != 0, calls.values["peer"][chosen]
    ranks = int(calls.values["rank_count"][chosen].max())
    if is_send.all() or not is_send.any():
        return SENDS[0 if is_send[0] else 1]
    sends, receives = (len(set(peer[which].tolist()) - {UNKNOWN}) for which in (is_send, ~is_send))
    to_all = min(sends, receives)
    is_all = ranks > 1 and (to_all == ranks or (to_all == ranks - 1 and ranks >= _LEAST_MESH))
    return "AllToAll" if is_all else "SendRecv"


def peers_of_rank(run: Run, process: int) -> tuple[PeerCalls, ...]:
    """Return the calls per step by which a process sends and receives, those to itself excepted."""
    trace, calls = run.trace, _calls(run.trace)
    if calls is None:
        return ()
    inside, count = in_steps(run, process, calls.start_ns, calls.thread)
    values = calls.values
    is_told = (values["peer"] >= 0) & (values["communicator_id"] >= 0)
    rows = np.flatnonzero(inside & is_told & (values["peer"] != values["rank"]))
    if not len(rows):
        return ()
    names = ("communicator_id", "ranks_id", "rank", "peer", "bytes")
    groups = factorize_rows(calls.is_send[rows], *(values[name][rows] for name in names))
    number = np.bincount(groups.codes, minlength=groups.n_groups)
    most = np.argsort(-number, kind="stable")[:_MOST_PEERS]
    found = []
    for code in most.tolist():
        row = int(rows[groups.first[code]])
        name, members = (
            trace.strings.text(int(values[key][row]))[:_LONGEST_TEXT]
            if values[key][row] >= 0
            else ""
            for key in names[:2]
        )
        found.append(
            PeerCalls(
                SENDS[0 if calls.is_send[row] else 1],
                name,
                members,
                int(values["rank"][row]),
                int(values["peer"][row]),
                int(values["bytes"][row]),
                float(number[code]) / count,
            )
        )
    return tuple(found)
