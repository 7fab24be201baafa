"""The Python stacks of allocations: what PyTorch does in them, and the line of the program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.stacks import Stacks, ancestors
from warpline.trace import Trace

# What frames mean, as bits.
FORWARD, BACKWARD, OPTIMIZER, MOVES_MODULE, MAKES_MODULE = 1, 2, 4, 8, 16

_ZERO_GRAD = 32  # in the optimizer's class, but not its step
_NONE = -1
_MODULE = lazy_pattern(r".*/torch/nn/modules/module\.py$")
_OPTIMIZERS = lazy_pattern(r".*/torch/optim/.*\.py$")
_MEANS = (  # file, function, meaning
    (_MODULE, lazy_pattern(r"_(?:wrapped_)?call_impl$"), FORWARD),
    (_MODULE, lazy_pattern(r"(?:.*\.)?_apply$"), MOVES_MODULE),
    (lazy_pattern(r".*/torch/nn/.*\.py$"), lazy_pattern(r"(?:.*\.)?__init__$"), MAKES_MODULE),
    (
        lazy_pattern(r".*/torch/autograd/(?:graph|__init__|function)\.py$"),
        lazy_pattern(r"(?:.*\.)?(?:_engine_run_backward|backward|grad|apply)$"),
        BACKWARD,
    ),
    (
        lazy_pattern(r".*/torch/utils/checkpoint\.py$"),
        lazy_pattern(r"(?:.*\.)?(?:unpack_hook|backward)$"),
        BACKWARD,
    ),
    (_OPTIMIZERS, lazy_pattern(r"(?:.*\.)?zero_grad$"), _ZERO_GRAD),
    (_OPTIMIZERS, lazy_pattern(r""), OPTIMIZER),
)
# Frames that call on behalf of the program.
_PASSES_ON = lazy_pattern(
    r"(?:^|.*/)(?:torch|functorch|contextlib\.py|functools\.py|threading\.py)(?:/|$)|<"
)


class BlockStacks(NamedTuple):
    """The stack of each row of `allocator_event`.

    Attributes:
        code: Shape (rows,), int64, a place in the other arrays; the last one is of no stack.
        means: Shape (stacks + 1,), int64, bits: what its frames mean.
        is_known: Shape (stacks + 1,), bool, whether there are Python frames.
        line: Shape (stacks + 1,), int64, places in `lines`; -1 for none.
        lines: Innermost lines of the program outside PyTorch: ``train.py:12 step``.
    """

    code: I64
    means: I64
    is_known: BoolArray
    line: I64
    lines: tuple[str, ...]


@derived
def stacks_of_allocations(trace: Trace) -> BlockStacks:
    """Return the stacks of the rows of `allocator_event`."""
    stack_id = trace.columns("allocator_event", "stack_id")["stack_id"]
    if not trace.has("stack") or not stack_id.is_valid().any():
        none = np.zeros(1, np.int64)
        return BlockStacks(
            np.zeros(len(stack_id), np.int64), none, np.zeros(1, np.bool_), none + _NONE, ()
        )
    used = np.unique(stack_id.values[stack_id.is_valid()])
    code = np.searchsorted(used, stack_id.values).astype(np.int64)
    code[~stack_id.is_valid()] = len(used)
    columns = trace.columns("stack", "parent_id", "depth", "frame_id")
    tree = Stacks(*(columns[name].values for name in ("parent_id", "depth", "frame_id")))
    place, row = ancestors(tree, used)
    return _summed_up(trace, code, len(used), place, tree.frame[row].astype(np.int64))


def _summed_up(trace: Trace, code: I64, n_stacks: int, place: I64, frame: I64) -> BlockStacks:
    """Return the stacks, given the stack and the frame of each of their frames, innermost first."""
    frames, of_frame = np.unique(frame, return_inverse=True)
    files, names, lines = _frames(trace, frames)
    meaning = np.array([_meaning(*each) for each in zip(files, names, strict=True)], np.int64)
    is_python = np.array([file.endswith(".py") or file.startswith("<") for file in files], np.bool_)
    own = is_python & np.array([not _PASSES_ON.match(file) for file in files], np.bool_)
    means, known = np.zeros(n_stacks + 1, np.int64), np.zeros(n_stacks + 1, np.bool_)
    np.bitwise_or.at(means, place, meaning[of_frame])
    known[place[is_python[of_frame]]] = True
    means[(means & _ZERO_GRAD) > 0] &= ~OPTIMIZER
    shown = np.full(n_stacks + 1, _NONE)
    # Frames are innermost first: the first one of the program, or the first of all, is shown.
    for chosen in (is_python, own):
        at = np.flatnonzero(chosen[of_frame])[::-1]
        shown[place[at]] = of_frame.reshape(-1)[at]
    texts = [
        f"{file}:{line} {name}" if line >= 0 else f"{file} {name}"
        for file, name, line in zip(files, names, lines, strict=True)
    ]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    of_text = np.array([*(numbers[text] for text in texts), _NONE], np.int64)
    return BlockStacks(code, means, known, of_text[shown], tuple(numbers))


def _frames(trace: Trace, frames: I64) -> tuple[list[str], list[str], list[int]]:
    """Return file, function and line of frames; -1 for an unknown line."""
    columns = trace.columns("frame", "symbol_id", "module_id", "line")
    names, files = (
        trace.strings.texts(columns[name].values[frames].tolist())
        for name in ("symbol_id", "module_id")
    )
    return files, names, columns["line"].filled(_NONE)[frames].tolist()


def _meaning(file: str, function: str) -> int:
    """Return what a frame means, as bits."""
    if "torch/" not in file:
        return 0
    path, found = f"/{file}", 0
    for of_file, of_function, bit in _MEANS:
        if of_file.match(path) and of_function.match(function):
            found |= bit
    return found
