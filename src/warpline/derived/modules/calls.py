"""Calls of PyTorch modules: ranges of the domain ``nn.Module``, recorded by Warpline or PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import push_pop_ranges
from warpline.ops.arrays import I32, I64
from warpline.ops.join import lookup
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace import Trace

UNKNOWN = -1

_FIRST_NUMBER, _END_NUMBER = "sequence", "end_sequence"  # keys of payloads


class ModuleCalls(NamedTuple):
    """The calls of modules, in the order of their starts.

    Attributes:
        row: Shape (n,), int64, rows of the range table, ascending.
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, not before the start.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
        name: Shape (n,), int64, the module's name, rows of the string pool.
        first_number: Shape (n,), int64, the sequence number that autograd gives the next function
            created on the thread when the call begins; -1 if not recorded.
        end_number: Shape (n,), int64, the same when the call ends.
    """

    row: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    name: I64
    first_number: I64
    end_number: I64


class CalledModules(NamedTuple):
    """The modules that were called, by their first call.

    Attributes:
        names: Their names.
        of_call: Shape (calls,), int32, the module of each of `module_calls`.
        first: Shape (modules,), int64, the first call of each.
    """

    names: tuple[str, ...]
    of_call: I32
    first: I64


@derived
def called_modules(trace: Trace) -> CalledModules:
    """Return the modules that were called; processes share modules of one name."""
    names = module_calls(trace).name
    used, first, code = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    texts = tuple(trace.strings.texts(used[order].tolist()))
    return CalledModules(texts, place[code.reshape(-1)], first[order].astype(np.int64))


@derived
def module_calls(trace: Trace) -> ModuleCalls:
    """Return the calls of modules; none without ranges of the domain."""
    nothing = ModuleCalls(*(np.zeros(0, np.int64) for _ in ModuleCalls._fields))
    if not trace.has("range"):
        return nothing
    columns = trace.columns("range", "domain_id", "name_id")  # texts are known when they are loaded
    domain = trace.strings.find(MODULE_DOMAIN)
    if domain is None:
        return nothing
    is_call = push_pop_ranges(trace) & columns["name_id"].is_valid()
    is_call &= columns["domain_id"].filled(UNKNOWN) == domain
    row = np.flatnonzero(is_call)
    names = ("start_ns", "end_ns", "thread_id", "process_id")
    start, end, thread, process = (
        column.values[row].astype(np.int64) for column in trace.columns("range", *names).values()
    )
    return ModuleCalls(
        row=row,
        start_ns=start,
        end_ns=np.maximum(start, end),
        thread=thread,
        process=process,
        name=columns["name_id"].values[row].astype(np.int64),
        first_number=_payload(trace, _FIRST_NUMBER, row),
        end_number=_payload(trace, _END_NUMBER, row),
    )


def _payload(trace: Trace, key: str, row: I64) -> I64:
    """Return the integer of each range with a key, UNKNOWN without one."""
    numbers = np.full(len(row), UNKNOWN)
    if not trace.has("range_payload"):
        return numbers
    columns = trace.columns("range_payload", "range_id", "key_id", "int_value")
    wanted = trace.strings.find(key)
    if wanted is None:
        return numbers
    owner, value = columns["range_id"], columns["int_value"]
    own = (columns["key_id"].filled(UNKNOWN) == wanted) & owner.is_valid() & value.is_valid()
    found = lookup(row, owner.values[own].astype(np.int64))
    numbers[found.found] = value.values[own][found.row[found.found]]
    return numbers
