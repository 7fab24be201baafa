"""What a thread was blocked on, by the functions of the stack in which it stopped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.host.blocking import Reason, plain_name, reason_of
from warpline.derived.host.functions import PYTHON, functions, stacks
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.ops.stacks import ancestors
from warpline.trace import Trace

NO_NAME = -1


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


def stack_reasons(trace: Trace, stack: I64) -> StackReasons:
    """Return what each stack says.

    The innermost native functions up to the first Python frame count: of these, waiting for the GIL
    goes before a CUDA API function, and that before the innermost function that waits.

    Args:
        trace: The trace.
        stack: Shape (n,), rows of `stack`; negative for none.
    """
    used = distinct_values(stack)
    used = used[used >= 0]
    reason = np.full(len(used) + 1, Reason.UNKNOWN, np.int64)  # the last is that of no stack
    name = np.full(len(used) + 1, NO_NAME, np.int64)
    names: tuple[str, ...] = ()
    if len(used):
        reasons, names = _function_reasons(trace)
        tree = stacks(trace)
        place, row = ancestors(tree, used)
        function = functions(trace).of_frame[tree.frame[row]]
        first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
        is_python = functions(trace).kind[function] == PYTHON
        count = np.cumsum(is_python)
        within_python = count - (count - is_python)[first][place] > 0
        of_frame = np.where(within_python, Reason.UNKNOWN, reasons[function])
        # The innermost frame of the most telling kind: rows are innermost first.
        rank = np.select(
            [of_frame == Reason.GIL, of_frame == Reason.CUDA, of_frame != Reason.UNKNOWN],
            [0, 1, 2],
            3,
        )
        order = np.arange(len(rank))
        chosen = np.minimum.reduceat(rank * len(rank) + order, first) % len(rank)
        reason[:-1], name[:-1] = of_frame[chosen], function[chosen]
    at = np.where(stack < 0, len(used), np.searchsorted(used, stack))
    return StackReasons(reason[at], name[at], names)
