"""The modules that memory belongs to.

A tensor with a recorded role is of its module. Another block is of the module that was running on
the allocating thread or, where the thread is not recorded, on any thread of its process: autograd's
thread works while the one that called it waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import FRAMEWORK, allocations, place_of_rows
from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kinds import tensors_of_blocks
from warpline.derived.memory.operators import calls_of_allocations
from warpline.derived.memory.passes import passes_of
from warpline.derived.modules.calls import called_modules
from warpline.derived.modules.places import Phase, places_at, spans_of_phases
from warpline.derived.operators.labels import modules_of_calls
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.trace import Trace

_NONE = -1


class ModuleNames(NamedTuple):
    """The module of each event of `allocations`.

    Attributes:
        codes: Shape (events,), int64, positions in `texts`; -1 for none.
        texts: Names of modules; may repeat.
    """

    codes: I64
    texts: tuple[str, ...]


@derived
def modules_of_allocations(trace: Trace) -> ModuleNames:
    """Return the module of each event of `allocations`."""
    codes = np.full(len(allocations(trace)), _NONE)
    texts: tuple[str, ...] = ()
    for found in (_running(trace), _around_calls(trace), _of_tensors(trace)):
        known = np.flatnonzero(found.codes >= 0)
        codes[known] = found.codes[known] + len(texts)
        texts += found.texts
    return ModuleNames(codes, texts)


def _around_calls(trace: Trace) -> ModuleNames:
    """Return the modules around the operators that allocated."""
    codes = np.full(len(allocations(trace)), _NONE)
    if not trace.has("op") or not trace.row_count("op"):
        return ModuleNames(codes, ())
    inside, of_calls = calls_of_allocations(trace), modules_of_calls(trace)
    codes[inside.found] = of_calls.codes[inside.row[inside.found]]
    return ModuleNames(codes, of_calls.texts)


def _of_tensors(trace: Trace) -> ModuleNames:
    """Return the recorded modules of tensors."""
    codes, row = np.full(len(allocations(trace)), _NONE), tensors_of_blocks(trace).row
    known = np.flatnonzero(row >= 0)
    if not len(known):
        return ModuleNames(codes, ())
    module = trace.columns("tensor_block", "module_id")["module_id"]
    known = known[module.is_valid()[row[known]]]
    ids, of_block = np.unique(module.values[row[known]], return_inverse=True)
    codes[place_of_rows(trace)[replayed(trace).blocks.row[known]]] = of_block.reshape(-1)
    return ModuleNames(codes, tuple(trace.strings.texts(ids.tolist())))


def _running(trace: Trace) -> ModuleNames:
    """Return the modules that ran when blocks were allocated."""
    events, spans = allocations(trace), spans_of_phases(trace)
    codes = np.full(len(events), _NONE)
    rows = np.flatnonzero((events.allocator == FRAMEWORK) & (events.change_bytes > 0))
    if not len(rows) or not len(spans.start_ns):
        return ModuleNames(codes, ())
    columns = trace.columns("allocator_event", "thread_id", "process_id")
    thread = columns["thread_id"].filled(_NONE)[events.row[rows]]
    process = columns["process_id"].values[events.row[rows]]
    of_thread = trace.columns("thread", "process_id")["process_id"].values
    for number in distinct_values(spans.thread).tolist():
        here = (thread == number) | ((thread == _NONE) & (process == of_thread[number]))
        at = rows[here & (codes[rows] == _NONE)]
        time = events.time_ns[at]
        places = places_at(trace, time, np.full(len(at), number))
        passes = passes_of(trace, int(of_thread[number]))
        sure = ~places.is_between | passes.inside(Phase.BACKWARD, time)
        codes[at] = np.where(sure, places.module, _NONE)
    return ModuleNames(codes, called_modules(trace).names)
