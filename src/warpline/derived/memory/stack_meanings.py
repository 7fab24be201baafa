"""What PyTorch does in the Python stacks of allocations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.stacks import Stacks, ancestors
from warpline.trace import Trace

# What frames mean, as bits.
FORWARD, BACKWARD, OPTIMIZER, MOVES_MODULE, MAKES_MODULE = 1, 2, 4, 8, 16

_ZERO_GRAD = 32  # in the optimizer's class, but not its step
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


class StackMeanings(NamedTuple):
    """What the stack of each row of `allocator_event` means.

    Attributes:
        code: Shape (rows,), int64, a place in the other arrays; the last one is of no stack.
        means: Shape (stacks + 1,), int64, bits: what its frames mean.
        is_known: Shape (stacks + 1,), bool, whether there are Python frames.
    """

    code: I64
    means: I64
    is_known: BoolArray


@derived
def stack_meanings(trace: Trace) -> StackMeanings:
    """Return what the stacks of the rows of `allocator_event` mean."""
    stack_id = trace.columns("allocator_event", "stack_id")["stack_id"]
    if not trace.has("stack") or not stack_id.is_valid().any():
        code, none = np.zeros(len(stack_id), np.int64), np.zeros(1, np.int64)
        return StackMeanings(code, none, none > 0)
    used = np.unique(stack_id.values[stack_id.is_valid()])
    code = np.searchsorted(used, stack_id.values).astype(np.int64)
    code[~stack_id.is_valid()] = len(used)
    columns = trace.columns("stack", "parent_id", "depth", "frame_id")
    tree = Stacks(*(columns[name].values for name in ("parent_id", "depth", "frame_id")))
    place, row = ancestors(tree, used)
    frames, of_frame = np.unique(tree.frame[row], return_inverse=True)
    files, names = _files_and_functions(trace, frames)
    meaning = np.array([_meaning(*each) for each in zip(files, names, strict=True)], np.int64)
    is_python = np.array([file.endswith(".py") or file.startswith("<") for file in files], np.bool_)
    means, known = np.zeros(len(used) + 1, np.int64), np.zeros(len(used) + 1, np.bool_)
    of_frame = of_frame.reshape(-1)
    np.bitwise_or.at(means, place, meaning[of_frame])
    known[place[is_python[of_frame]]] = True
    means[(means & _ZERO_GRAD) > 0] &= ~OPTIMIZER
    return StackMeanings(code, means, known)


def _files_and_functions(trace: Trace, frames: I32) -> tuple[list[str], list[str]]:
    columns = trace.columns("frame", "symbol_id", "module_id")
    files, names = (
        trace.strings.texts(columns[name].values[frames].tolist())
        for name in ("module_id", "symbol_id")
    )
    return files, names


def _meaning(file: str, function: str) -> int:
    """Return what a frame means, as bits."""
    if "torch/" not in file:
        return 0
    path, found = f"/{file}", 0
    for of_file, of_function, bit in _MEANS:
        if of_file.match(path) and of_function.match(function):
            found |= bit
    return found
