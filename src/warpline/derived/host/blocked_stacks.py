"""What a thread was blocked on, by the functions of the stack in which it stopped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.blocking import Reason, plain_name, reason_of
from warpline.derived.host.functions import PYTHON, functions, stacks
from warpline.ops.arrays import I64, Integers
from warpline.ops.stacks import with_callers
from warpline.trace import Trace

NO_NAME = -1
# The most telling reason first.
_RANK = np.full(len(Reason), 2)
_RANK[[Reason.GIL, Reason.CUDA, Reason.UNKNOWN]] = 0, 1, 3


class StackReasons(NamedTuple):
    """What stacks say.

    Attributes:
        reason: Shape (n,), int64, of Reason.
        name: Shape (n,), int64, the function that says it, else the innermost one, a position in
            `names`; NO_NAME without a stack.
        names: Functions.
    """

    reason: I64
    name: I64
    names: tuple[str, ...]


@derived
def _function_reasons(trace: Trace) -> tuple[I64, tuple[str, ...]]:
    """Return the reason of each function and its name; UNKNOWN for Python's own."""
    known = functions(trace)
    symbols = trace.strings.texts(known.symbol)
    kinds = known.kind.tolist()
    reason = [
        Reason.UNKNOWN if kind == PYTHON else reason_of(symbol)
        for kind, symbol in zip(kinds, symbols, strict=True)
    ]
    plain = [
        symbol if kind == PYTHON or of == Reason.UNKNOWN else plain_name(symbol)
        for kind, symbol, of in zip(kinds, symbols, reason, strict=True)
    ]
    return np.array(reason, np.int64), tuple(plain)


@derived
def _of_stacks(trace: Trace) -> StackReasons:
    """Return what each row of `stack` says: its innermost frame, or the stack of its caller."""
    reasons, names = _function_reasons(trace)
    tree = stacks(trace)
    name = functions(trace).of_frame[tree.frame].astype(np.int64)
    is_python = functions(trace).kind[name] == PYTHON
    reason = reasons[name]
    rank = _RANK[reason]
    for level in with_callers(tree, np.arange(len(tree)))[1:]:
        rows = level[~is_python[level]]
        rows = rows[rank[tree.parent[rows]] < rank[rows]]
        caller = tree.parent[rows]
        rank[rows], reason[rows], name[rows] = rank[caller], reason[caller], name[caller]
    return StackReasons(np.append(reason, Reason.UNKNOWN), np.append(name, NO_NAME), names)


def stack_reasons(trace: Trace, stack: Integers) -> StackReasons:
    """Return what each stack says.

    The innermost native functions up to the first Python frame count: of these, waiting for the GIL
    goes before a CUDA API function, and that before the innermost function that waits.

    Args:
        trace: The trace.
        stack: Shape (n,), rows of `stack`; -1 for none.
    """
    known = _of_stacks(trace)  # the last entry is that of no stack
    return StackReasons(known.reason[stack], known.name[stack], known.names)
