"""What blocks of GPU memory are for: parameters, gradients, activations and others.

Recorded roles of tensors decide. Other blocks follow from when they were allocated and freed: in
the forward pass, the backward pass, or the step of an optimizer. What follows from neither is
unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import allocations, place_of_rows
from warpline.derived.memory.blocks import NEVER, Blocks, replayed
from warpline.derived.memory.passes import Passes, passes_of
from warpline.derived.memory.stack_meanings import (
    MAKES_MODULE,
    MOVES_MODULE,
    OPTIMIZER,
    stack_meanings,
)
from warpline.derived.modules.places import Phase
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.schema.labels import TENSOR_KINDS
from warpline.trace import Trace
from warpline.vocabulary import Vocabulary

_NONE = -1


class MemoryKind(Vocabulary):
    """What a block is for, in the order in which kinds are stacked."""

    PARAMETER = "Parameters", "trained weights"
    BUFFER = "Buffers", "tensors of modules that are not trained"
    OF_MODULE = "Parameters or buffers", "allocated by a module's __init__ or to()"
    OPTIMIZER = "Optimizer state", "kept from step to step by an optimizer"
    GRADIENT = "Gradients", "of parameters"
    ACTIVATION = "Activations", "kept from the forward pass for the backward pass"
    INPUT = "Inputs", "of the model"
    TEMPORARY = "Temporary", "allocated and freed within a pass"
    UNKNOWN = "Unknown", "nothing was recorded that decides"


_OF_TENSOR = {
    "Parameter": MemoryKind.PARAMETER,
    "Buffer": MemoryKind.BUFFER,
    "Gradient": MemoryKind.GRADIENT,
    "Optimizer state": MemoryKind.OPTIMIZER,
    "Input": MemoryKind.INPUT,
}


class Tensors(NamedTuple):
    """The tensor with a recorded role in each of the blocks, shape (blocks,), int64.

    Attributes:
        row: Row of `tensor_block`; -1 if none is known.
    """

    row: I64


@derived
def tensors_of_blocks(trace: Trace) -> Tensors:
    """Return the tensor whose storage is a block, the first one if there were several in turn."""
    blocks = replayed(trace).blocks
    row = np.full(len(blocks), _NONE)
    if not len(blocks) or not trace.has("tensor_block") or not trace.row_count("tensor_block"):
        return Tensors(row)
    names = ("process_id", "device_id", "address", "time_ns")
    process, device, address, time = (
        column.values.astype(np.int64) for column in trace.columns("tensor_block", *names).values()
    )
    of_process, of_device = _owners(trace)
    n_blocks = len(blocks)
    keys = factorize_rows(
        np.concatenate((of_process[blocks.allocator], process)),
        np.concatenate((of_device[blocks.allocator], device)),
        np.concatenate((blocks.address, address)),
    ).codes.astype(np.int64)
    # Blocks and tensors of one place by time; a tensor is in the last block before it.
    order = np.lexsort((np.append(blocks.start_ns, time), keys))
    place = np.where(order < n_blocks, np.arange(len(order)), _NONE)
    before = order[np.maximum.accumulate(place)]
    at = np.flatnonzero((order >= n_blocks) & (np.maximum.accumulate(place) >= 0))
    block, tensor = before[at], order[at] - n_blocks
    fits = keys[block] == keys[tensor + n_blocks]
    fits &= time[tensor] <= blocks.freed_ns[block]
    block, tensor = block[fits][::-1], tensor[fits][::-1]
    row[block] = tensor
    return Tensors(row)


@derived
def kinds_of_blocks(trace: Trace) -> I8:
    """Return the kind of each block of `replayed`, shape (blocks,), members of `MemoryKind`."""
    found = replayed(trace)
    recorded = _recorded(trace)
    kind = np.full(len(found.blocks), int(MemoryKind.UNKNOWN), np.int8)
    for number, timeline in enumerate(found.timelines):
        own = found.blocks.of(number)
        inferred = _by_time(trace, found.blocks, own, passes_of(trace, timeline.process))
        kind[own] = _confirmed(inferred, recorded[own], found.blocks, own)
    known = recorded != MemoryKind.UNKNOWN
    kind[known] = recorded[known]
    return kind


@derived
def kinds_of_allocations(trace: Trace) -> I8:
    """Return the kind of the block of each event of `allocations`; -1 for frees and host memory."""
    events, blocks = allocations(trace), replayed(trace).blocks
    kind = np.full(len(events), _NONE, np.int8)
    if len(blocks):
        place = place_of_rows(trace)
        kind[place[blocks.row]] = kinds_of_blocks(trace)
    return kind


def _recorded(trace: Trace) -> I8:
    """Return the kinds that were recorded, UNKNOWN for other blocks."""
    tensor = tensors_of_blocks(trace).row
    kind = np.full(len(tensor), int(MemoryKind.UNKNOWN), np.int8)
    known = np.flatnonzero(tensor >= 0)
    if len(known):
        codes = np.array([int(_OF_TENSOR[label]) for label in TENSOR_KINDS.values()], np.int8)
        kind[known] = codes[trace.columns("tensor_block", "kind")["kind"].values[tensor[known]]]
    return kind


def _confirmed(kind: I8, recorded: I8, blocks: Blocks, own: I64) -> I8:
    """Return kinds without those that recorded roles do not confirm.

    Where gradients or optimizer state were recorded, a block without a role has that kind only if
    one of the same size at the same address had: such a block is allocated again in each step.
    """
    places = factorize_rows(blocks.address[own], blocks.bytes[own])
    kind = kind.copy()
    for each in (MemoryKind.GRADIENT, MemoryKind.OPTIMIZER):
        is_one = recorded == each
        if is_one.any():
            had = np.zeros(places.n_groups, np.bool_)
            had[places.codes[is_one]] = True
            kind[(kind == each) & ~had[places.codes]] = int(MemoryKind.UNKNOWN)
    if (recorded == MemoryKind.PARAMETER).any():
        kind[kind == MemoryKind.OF_MODULE] = int(MemoryKind.UNKNOWN)
    return kind


def _owners(trace: Trace) -> tuple[I64, I64]:
    """Return process and device of each timeline."""
    timelines = replayed(trace).timelines
    process = np.array([timeline.process for timeline in timelines], np.int64)
    return process, np.array([timeline.device for timeline in timelines], np.int64)


def _by_time(trace: Trace, blocks: Blocks, own: I64, passes: Passes) -> I8:
    """Return the kinds of blocks of one process that follow from their times and stacks."""
    start, freed = blocks.start_ns[own], blocks.freed_ns[own]
    kind = np.full(len(own), int(MemoryKind.UNKNOWN), np.int8)
    if not len(own):
        return kind
    is_existing, means = _origins(trace, blocks.row[own])
    step_start, step_end = passes.of(Phase.OPTIMIZER)
    next_step = _next(step_start, start)
    next_backward = _next(passes.of(Phase.BACKWARD)[0], start)
    in_step = passes.inside(Phase.OPTIMIZER, start)
    in_backward = passes.inside(Phase.BACKWARD, start) & ~in_step
    elsewhere = ~in_step & ~in_backward
    # An optimizer frees what it needs for a step only before the next pass begins.
    next_pass = np.minimum(next_backward, _next(passes.of(Phase.FORWARD)[0], start))
    # Without a later pass, nothing is known of blocks that are freed.
    until = np.where(in_step, next_pass, np.where(in_backward, next_step, 0))
    until[elsewhere] = np.minimum(next_backward, next_step)[elsewhere]
    soon = np.zeros(len(own), np.bool_)
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        soon |= passes.inside(phase, start) & (freed <= _end_of_pass(passes, phase, start))
    kind[soon | ((until != NEVER) & (freed < until))] = int(MemoryKind.TEMPORARY)
    outlives = (until != NEVER) & (freed > until)
    kind[(outlives | (freed == NEVER)) & in_step] = int(MemoryKind.OPTIMIZER)
    kind[outlives & in_backward & ~_stays(passes, freed, until, outlives & in_backward)] = int(
        MemoryKind.GRADIENT
    )
    kind[elsewhere & _is_saved(passes, start, freed)] = int(MemoryKind.ACTIVATION)
    kind[is_existing] = int(MemoryKind.UNKNOWN)
    lasts = freed > _first(passes.of(Phase.FORWARD)[1])
    of_module = lasts & ((means & (MOVES_MODULE | MAKES_MODULE)) > 0)
    unknown = kind == MemoryKind.UNKNOWN
    kind[unknown & of_module] = int(MemoryKind.OF_MODULE)
    of_optimizer = is_existing & ((means & OPTIMIZER) > 0) & (freed > _first(step_end))
    kind[unknown & of_optimizer] = int(MemoryKind.OPTIMIZER)
    return kind


def _stays(passes: Passes, freed: I64, step: I64, chosen: BoolArray) -> BoolArray:
    """Return which of the chosen blocks outlive others like them: workspaces of libraries.

    Gradients are freed before the next backward pass, or else all are kept.

    Args:
        passes: The passes of the process.
        freed: Shape (n,), when the blocks are freed.
        step: Shape (n,), the optimizer's step after each.
        chosen: Shape (n,), the blocks that are allocated in a backward pass and used in the step.
    """
    backward = passes.of(Phase.BACKWARD)[0]
    stays = freed > _next(backward, step)
    lasts: BoolArray = stays & bool((chosen & ~stays & (freed != NEVER)).any())
    return lasts


def _is_saved(passes: Passes, start: I64, freed: I64) -> BoolArray:
    """Return which blocks were allocated in a forward pass and kept for the backward pass.

    They are freed before the next backward pass but one begins. If a forward pass is the last one
    and had no backward pass, as in a program that ran out of memory, those still in use count.
    """
    backward, backward_end = passes.of(Phase.BACKWARD)
    forward, step_end = passes.of(Phase.FORWARD)[0], passes.of(Phase.OPTIMIZER)[1]
    if not len(backward) or not len(forward):
        return np.zeros(len(start), np.bool_)
    follows = _previous(forward, start) > np.maximum(
        _previous(backward_end, start), _previous(step_end, start)
    )
    first = np.searchsorted(backward, start, side="left")
    later = np.append(backward, (NEVER, NEVER))
    begins, again = later[first], later[first + 1]
    no_step = _next(passes.of(Phase.OPTIMIZER)[0], start) >= begins
    kept = (begins != NEVER) & (freed > begins) & ((freed <= again) | (again == NEVER)) & no_step
    broken_off = (begins == NEVER) & (freed == NEVER) & (start > backward[0])
    saved: BoolArray = follows & (kept | broken_off)
    return saved


def _origins(trace: Trace, rows: I64) -> tuple[BoolArray, I64]:
    """Return which allocations were there before recording began, and what their stacks mean."""
    existing = trace.columns("allocator_event", "is_existing")["is_existing"].filled(0)[rows] > 0
    stacks = stack_meanings(trace)
    return existing, stacks.means[stacks.code[rows]]


def _next(times: I64, at: I64) -> I64:
    """Return the first of some ascending times from each moment on, `NEVER` without one."""
    later: I64 = np.append(times, NEVER)[np.searchsorted(times, at, side="left")]
    return later


def _previous(times: I64, at: I64) -> I64:
    """Return the last of some times up to each moment, -1 without one."""
    ordered = np.sort(times)
    earlier: I64 = np.append(_NONE, ordered)[np.searchsorted(ordered, at, side="right")]
    return earlier


def _end_of_pass(passes: Passes, phase: Phase, at: I64) -> I64:
    """Return the end of the last pass of a phase that began before each moment, -1 without one."""
    start, end = passes.of(phase)
    last: I64 = np.append(_NONE, end)[np.searchsorted(start, at, side="right")]
    return last


def _first(times: I64) -> int:
    """Return the first of some times; without one, the last moment before `NEVER`."""
    return int(times[0]) if len(times) else NEVER - 1
