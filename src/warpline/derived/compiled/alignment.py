"""Which calls of some code launched a sequence of GPU operations.

Triton kernels are known by their names: the longest common subsequence of the calls and the
launches is taken for granted. Between two of them, the calls of operators share what was launched,
in order: each gets a run of launches, one of which should be what it is known for: a matrix product
for ``mm``. Kernels that were launched more often than called, as in autotuning, belong to the same
call.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I8, I32, I64

OPERATOR, NOWHERE = -1, -1


class Family(IntEnum):
    """What an operator or a launch is mainly about."""

    OTHER = 0
    PRODUCT = 1
    ATTENTION = 2
    CONVOLUTION = 3
    COLLECTIVE = 4
    COPY = 5
    SET = 6
    NOTHING = 7


_FAMILIES = (
    (lazy_pattern(r"attention"), Family.ATTENTION),
    (lazy_pattern(r"conv"), Family.CONVOLUTION),
    (lazy_pattern(r"wait_tensor"), Family.NOTHING),
    (
        lazy_pattern(r"all_reduce|all_gather|reduce_scatter|all_to_all|broadcast_?$"),
        Family.COLLECTIVE,
    ),
    (lazy_pattern(r"mm(?:_|$)|linear|matmul|_dyn_quant|^dot$|mv$"), Family.PRODUCT),
    (lazy_pattern(r"^copy_$|_to_copy"), Family.COPY),
)
# Families of launches that an operator of a family is known for, the likeliest first.
_KNOWN_FOR = {
    Family.PRODUCT: (Family.PRODUCT,),
    Family.ATTENTION: (Family.ATTENTION, Family.PRODUCT),
    Family.CONVOLUTION: (Family.CONVOLUTION, Family.PRODUCT),
    Family.COLLECTIVE: (Family.COLLECTIVE,),
    Family.COPY: (Family.COPY,),
}
_OF_MANY = {Family.ATTENTION, Family.CONVOLUTION}  # whose backward functions launch several
_BESIDES = {Family.OTHER, Family.SET, Family.COPY}  # what any operator may launch as well

# Gains and losses of an assignment.
_FITS, _FITS_LESS, _AGAIN, _STRANGE, _NONE_LAUNCHED = 6, 4, 1, -6, -2
_UNLIKELY = -1  # a helper kernel before its operator's own, or a memset after it

_LARGEST_TABLE = 1 << 24


class Calls(NamedTuple):
    """The calls of some code, in order.

    Attributes:
        name: Shape (n,), int64, a number of each Triton kernel's name; OPERATOR for operators.
        family: Shape (n,), int8, members of `Family`, of operators.
    """

    name: I64
    family: I8


class Launches(NamedTuple):
    """Launched operations, in order.

    Attributes:
        name: Shape (n,), int64, numbers of names; less than OPERATOR for what has none.
        family: Shape (n,), int8, members of `Family`.
    """

    name: I64
    family: I8


def operator_family(name: str) -> Family:
    """Return what an operator is about by its name, such as ``addmm``."""
    for pattern, family in _FAMILIES:
        if pattern.search(name):
            return family
    return Family.OTHER


def align(calls: Calls, launches: Launches) -> I64:
    """Return the call that each launch belongs to, NOWHERE if none, shape (launches,)."""
    owner = np.full(len(launches.name), NOWHERE)
    named = np.flatnonzero(calls.name != OPERATOR)
    own = np.flatnonzero(np.isin(launches.name, calls.name[named]))
    pairs = common(launches.name[own], calls.name[named])
    owner[own[pairs[:, 0]]] = named[pairs[:, 1]]
    _repeat(owner, own, calls, launches)
    anchors = own[pairs[:, 0]]
    bounds = np.concatenate(([-1], anchors, [len(owner)]))
    around = np.concatenate(([-1], owner[anchors], [len(calls.name)]))
    is_free = np.ones(len(owner), np.bool_)
    is_free[own] = False
    is_operator = calls.name == OPERATOR
    for place in range(len(bounds) - 1):
        first, last = bounds[place] + 1, bounds[place + 1]
        free = first + np.flatnonzero(is_free[first:last])
        if not len(free):
            continue
        begin, end = around[place] + 1, around[place + 1]
        between = begin + np.flatnonzero(is_operator[begin:end])
        if len(between):
            shared = share(calls.family[between].tolist(), launches.family[free].tolist())
            owner[free] = between[shared]
    return owner


def _repeat(owner: I64, own: I64, calls: Calls, launches: Launches) -> None:
    """Give kernels that are left over to a neighbor of the same name."""
    left = own[owner[own] == NOWHERE]
    if not len(left):
        return
    matched = own[owner[own] != NOWHERE]
    if not len(matched):
        return
    after = np.searchsorted(matched, left)
    for neighbor in (np.maximum(after - 1, 0), np.minimum(after, len(matched) - 1)):
        call = owner[matched[neighbor]]
        fits = (owner[left] == NOWHERE) & (calls.name[call] == launches.name[left])
        owner[left[fits]] = call[fits]


def common(launched: I64, called: I64) -> I64:
    """Return places of a longest common subsequence in both, shape (n, 2), ascending.

    Of equal launches the last counts. Sequences whose table would be too large are compared in
    order only, each launch with the next call of its name.
    """
    most = min(len(launched), len(called))
    differs = np.flatnonzero(launched[:most] != called[:most])
    start = int(differs[0]) if len(differs) else most
    rest = most - start
    ends = np.flatnonzero(launched[::-1][:rest] != called[::-1][:rest])
    tail = int(ends[0]) if len(ends) else rest
    a = launched[start : len(launched) - tail]
    b = called[start : len(called) - tail]
    inner = _table(a, b) if len(a) * len(b) <= _LARGEST_TABLE else _greedy(a, b)
    head, foot = np.arange(start), np.arange(tail)
    return np.concatenate(
        (
            np.stack((head, head), 1),
            np.array(inner, np.int64).reshape(-1, 2) + start,
            np.stack((foot + len(launched) - tail, foot + len(called) - tail), 1),
        )
    )


def _table(a: I64, b: I64) -> list[tuple[int, int]]:
    """Return a longest common subsequence by a table of the lengths for all prefixes."""
    length: I32 = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for row, name in enumerate(a.tolist()):
        grown = np.maximum(length[row, 1:], length[row, :-1] + (b == name))
        np.maximum.accumulate(grown, out=length[row + 1, 1:])
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        here = length[i, j]
        if a[i - 1] == b[j - 1] and length[i - 1, j - 1] + 1 == here:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif length[i - 1, j] == here:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _greedy(a: I64, b: I64) -> list[tuple[int, int]]:
    places: dict[int, list[int]] = {}
    for place, name in reversed(list(enumerate(b.tolist()))):
        places.setdefault(name, []).append(place)
    pairs, reached = [], -1
    for place, name in enumerate(a.tolist()):
        later = places.get(name, [])
        while later and later[-1] <= reached:
            later.pop()
        if later:
            reached = later.pop()
            pairs.append((place, reached))
    return pairs


def share(operators: Sequence[int], launched: Sequence[int]) -> list[int]:
    """Return the operator that each launch belongs to: runs in order, with the largest gain.

    Args:
        operators: Members of `Family`, at least one.
        launched: Members of `Family`, at least one.
    """
    n_states = 2 * len(operators)  # of each operator, without and with what it is known for
    nothing = -(1 << 30)
    gain = [nothing] * n_states
    came: list[list[int]] = []
    for number, item in enumerate(launched):
        before, back = gain, [0] * n_states
        gain = [nothing] * n_states
        # The best way to begin an operator with this launch, and the state before it.
        entering, source = (0, -1) if number == 0 else (nothing, -1)
        for place, operator in enumerate(operators):
            closed = max(
                (2 * place, 2 * place + 1), key=lambda state: _closed(before, state, operator)
            )
            for state in (2 * place, 2 * place + 1):
                ways = [(before[state], state)]
                if state == 2 * place:
                    ways.append((entering, source))
                for value, origin in ways:
                    if value <= nothing:
                        continue
                    worth, is_known = _worth(operator, item, has_known=bool(state & 1))
                    to = 2 * place + (1 if is_known else state & 1)
                    if value + worth > gain[to]:
                        gain[to], back[to] = value + worth, origin
            # Leave this operator, or begin it only after this launch: then it launches nothing.
            left = _closed(before, closed, operator) if number else nothing
            skipped = entering + (0 if operator == Family.NOTHING else _NONE_LAUNCHED)
            entering, source = (left, closed) if left > skipped else (skipped, source)
        came.append(back)
    rest = 0
    best, state = nothing, 0
    for place in range(len(operators) - 1, -1, -1):
        for end in (2 * place + 1, 2 * place):
            value = _closed(gain, end, operators[place]) + rest
            if value > best:
                best, state = value, end
        rest += 0 if operators[place] == Family.NOTHING else _NONE_LAUNCHED
    owners = []
    for back in reversed(came):
        owners.append(state >> 1)
        state = back[state]
    return owners[::-1]


def _closed(gain: Sequence[int], state: int, operator: int) -> int:
    """Return the gain if an operator gets no more launches."""
    lacks = not state & 1 and operator in _KNOWN_FOR
    return gain[state] + (_NONE_LAUNCHED if lacks else 0)


def _worth(operator: int, item: int, *, has_known: bool) -> tuple[int, bool]:
    """Return the gain of giving a launch to an operator, and whether that is known for it."""
    known = _KNOWN_FOR.get(Family(operator))
    is_helper = item in _BESIDES
    if operator == Family.NOTHING:
        return _STRANGE, False
    if known is None:
        return (_AGAIN if is_helper else _UNLIKELY), False
    if item in known and has_known:
        is_more = operator in _OF_MANY and item == known[0]
        return (_AGAIN if is_more else _UNLIKELY if operator in _OF_MANY else _STRANGE), True
    if item in known:
        return (_FITS if item == known[0] else _FITS_LESS), True
    if not is_helper:
        return _STRANGE, False
    return (_UNLIKELY if has_known == (item == Family.SET) else 0), False
