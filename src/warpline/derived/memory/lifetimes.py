"""Which blocks are in use when, numbered by allocations and frees: exact at every one of them."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.allocations import Pool, allocations, until_next
from warpline.frozen import frozen
from warpline.ops.arrays import I64
from warpline.trace import Trace

NOT_RECORDED = -1


@frozen
class Lifetimes:
    """The blocks of one pool over its states.

    State 0 is before the first allocation or free of the pool, state n is after the n-th.

    Attributes:
        pool: The pool.
        event: Shape (states,), int64, positions in `allocations`; -1 for state 0.
        time_ns: Shape (states,), int64, when each state begins; that of state 0 is the next one's.
        allocated_bytes: Shape (states,), int64, bytes in use.
        rest_bytes: Shape (states,), int64, the part of them that is in no block: allocated before
            the recording, and not freed in it.
        reserved_bytes: Shape (states,), int64, bytes reserved from the driver; None if unknown.
        allocation: Shape (blocks,), int64, positions in `allocations`; -1 for blocks that were
            allocated before the recording.
        start: Shape (blocks,), int64, the first state in which a block is in use, ascending.
        end: Shape (blocks,), int64, the first state in which it is not; the number of states if
            it is in use at the end.
        bytes: Shape (blocks,), int64.
    """

    pool: Pool
    event: I64
    time_ns: I64
    allocated_bytes: I64
    rest_bytes: I64
    reserved_bytes: I64 | None
    allocation: I64
    start: I64
    end: I64
    bytes: I64

    @property
    def peak(self) -> int:
        """The first state with the most bytes in use; not 0, which nothing was recorded of."""
        return 1 + int(np.argmax(self.allocated_bytes[1:]))

    def in_use(self, state: int) -> I64:
        """Return the blocks that are in use in a state."""
        return np.flatnonzero((self.start <= state) & (self.end > state))


@derived
def lifetimes(trace: Trace, number: int) -> Lifetimes:
    """Return the blocks of a pool, by its position in `Allocations.pools`."""
    events, until = allocations(trace), until_next(trace)
    own = np.flatnonzero(events.pool == number)
    count = len(own)
    state = np.zeros(len(events) + 1, np.int64)  # of each event; the last is of no event
    state[own] = np.arange(1, count + 1)
    state[-1] = count + 1
    change = events.change_bytes[own]
    is_allocation = change > 0
    made = own[is_allocation]
    freed = own[~is_allocation & (change < 0)]
    earlier = freed[~np.isin(freed, until[made])]
    earlier = earlier[events.has_address[earlier]]
    start = np.concatenate((np.zeros(len(earlier), np.int64), state[made]))
    end = np.concatenate((state[earlier], state[until[made]]))
    size = np.concatenate((-events.change_bytes[earlier], events.change_bytes[made]))
    allocated = events.allocated_bytes[own]
    if events.is_counted[own].all():  # sums begin at 0, as if nothing had been in use
        allocated = allocated + int(-events.change_bytes[earlier].sum())
    known = _sums(start, end, size, count + 1)
    rest = allocated - known[1:]
    has_reserved = events.has_reserved[own]
    reserved = events.reserved_bytes[own] if len(own) and has_reserved.all() else None
    return Lifetimes(
        pool=events.pools[number],
        event=np.append(NOT_RECORDED, own),
        time_ns=events.time_ns[np.append(own[:1], own)],
        allocated_bytes=np.append(known[0] + rest[0], allocated),
        rest_bytes=np.append(rest[:1], rest),
        reserved_bytes=None if reserved is None else np.append(reserved[:1], reserved),
        allocation=np.concatenate((np.full(len(earlier), NOT_RECORDED), made)),
        start=start,
        end=end,
        bytes=size,
    )


def _sums(start: I64, end: I64, size: I64, states: int) -> I64:
    """Return the bytes of blocks in each state."""
    change = np.zeros(states + 1, np.int64)
    np.add.at(change, start, size)
    np.add.at(change, end, -size)
    return np.cumsum(change)[:states]
