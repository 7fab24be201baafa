"""PyTorch's caching allocator, replayed from the events of one GPU.

Events have the bytes that were requested. A block has at least these, in multiples of 512 bytes,
and in a segment of the pool of large blocks also the rest of the free memory that it was cut from,
if that is at most 1 MiB. Blocks in this pool are larger than 1 MiB, so that less free memory before
the next block always belongs to the block. Which free memory was chosen follows from the address.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import NamedTuple

from warpline.vocabulary import Vocabulary

NEVER = (1 << 63) - 1  # the end of a block that is not freed

_ROUNDING = 512
_MOST_UNSPLIT = 1 << 20
SMALL_SEGMENT = 2 << 20  # all segments of the pool of small blocks have this size


class Event(Vocabulary):
    """What happens in the allocator, in the order in which events of one time happen."""

    SEGMENT_ALLOCATION = "segment allocation"
    SEGMENT_MAP = "segment map"
    ALLOCATION = "allocation"
    FREE = "free"
    FREE_COMPLETED = "free completed"
    SEGMENT_RELEASE = "segment release"
    SEGMENT_UNMAP = "segment unmap"


class Change(NamedTuple):
    """By how many bytes an event changes what torch.cuda.memory_stats counts.

    Attributes:
        allocated: Of blocks in use by the program.
        active: Of blocks in use by the program or by streams.
        requested: Of what was requested for active blocks.
        reserved: Of segments.
        inactive_split: Of free parts of segments that have active blocks.
        large_split: The part of these in the pool of large blocks.
        block: The block that is allocated or freed, its place in `CachingAllocator.blocks`; -1 if
            there is none.
    """

    allocated: int = 0
    active: int = 0
    requested: int = 0
    reserved: int = 0
    inactive_split: int = 0
    large_split: int = 0
    block: int = -1


@dataclass(slots=True)
class Block:
    """A block from its allocation on. Times are in ns, `NEVER` if it does not happen.

    Attributes:
        address: Where it begins.
        bytes: Its size.
        requested: The size that was requested.
        segment: Where its segment begins; -1 if that can grow, or is unknown.
        start: When it was allocated.
        freed: When the program freed it.
        ended: When its memory could be used again.
    """

    address: int
    bytes: int
    requested: int
    segment: int
    start: int
    freed: int = NEVER
    ended: int = NEVER


@dataclass(slots=True)
class _Segment:
    """A segment that cannot grow.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        active: Addresses of its active blocks, ascending.
        used: Bytes of these.
    """

    start: int
    end: int
    active: list[int] = field(default_factory=list)
    used: int = 0

    @property
    def inactive_split(self) -> int:
        """Its free bytes; 0 if it has no active block, because then it can be released."""
        return self.end - self.start - self.used if self.active else 0

    @property
    def is_large(self) -> bool:
        """Whether it is for blocks above 1 MiB."""
        return self.end - self.start > SMALL_SEGMENT

    def has(self, address: int) -> bool:
        """Return whether an active block begins at an address."""
        place = bisect_left(self.active, address)
        return place < len(self.active) and self.active[place] == address

    def size_at(self, address: int, size: int) -> int:
        """Return the size of a block at an address for which a rounded size was requested."""
        if not self.is_large:
            return size
        after = bisect_right(self.active, address)
        end = self.active[after] if after < len(self.active) else self.end
        rest = end - address - size
        return size + rest if 0 < rest <= _MOST_UNSPLIT else size


class CachingAllocator:
    """The state of the allocator of one GPU; events change it in the order of their times.

    Attributes:
        blocks: All blocks so far, in the order of their allocation.
        unknown: Number of events that do not fit, because others were not recorded.
    """

    def __init__(self, *, rounds: bool = True, completes: bool = True) -> None:
        """Begin without segments and blocks.

        Args:
            rounds: Whether sizes are as requested; otherwise they are those of blocks.
            completes: Whether frees are followed by events for their completion.
        """
        self.blocks: list[Block] = []
        self.unknown = 0
        self._rounds, self._completes = rounds, completes
        self._starts: list[int] = []
        self._segments: dict[int, _Segment] = {}
        self._active: dict[int, int] = {}  # address to block

    def take(self, event: int, time: int, address: int, size: int) -> Change:
        """Change the state by an event.

        Args:
            event: Member of `Event`, as a number.
            time: Time in ns.
            address: Address of the block or segment.
            size: Bytes of the segment, or bytes that were requested.
        """
        return _TAKES[event](self, time, address, size)

    def allocate_segment(self, time: int, address: int, size: int) -> Change:
        """Add a segment."""
        # A segment that is still here was released, but that was not recorded.
        gone = Change()
        if address in self._segments:
            old = self._segments[address]
            self.unknown += 1
            gone = self.release_segment(time, address, old.end - old.start)
        insort(self._starts, address)
        self._segments[address] = _Segment(address, address + size)
        return gone._replace(reserved=gone.reserved + size)

    def map(self, time: int, address: int, size: int) -> Change:
        """Let a segment that can grow do so."""
        return Change(reserved=size)

    def unmap(self, time: int, address: int, size: int) -> Change:
        """Let a segment shrink."""
        return Change(reserved=-size)

    def release_segment(self, time: int, address: int, size: int) -> Change:
        """Remove a segment."""
        gone = self._segments.pop(address, None)
        if gone is None:
            self.unknown += 1
            return Change(reserved=-size)
        del self._starts[bisect_left(self._starts, address)]
        split = -gone.inactive_split
        return Change(
            reserved=-size, inactive_split=split, large_split=split if gone.is_large else 0
        )

    def allocate(self, time: int, address: int, size: int) -> Change:
        """Add a block."""
        # A block that is still here was freed, but that was not recorded.
        ended = self.complete(time, address, 0) if address in self._active else Change()
        segment = self._segment_at(address)
        rounded = max(-(-size // _ROUNDING) * _ROUNDING, _ROUNDING) if self._rounds else size
        split = large = 0
        if segment is not None:
            rounded, split = segment.size_at(address, rounded), segment.inactive_split
            insort(segment.active, address)
            segment.used += rounded
            split = segment.inactive_split - split
            large = split if segment.is_large else 0
        place = len(self.blocks)
        start = -1 if segment is None else segment.start
        self.blocks.append(Block(address, rounded, size, start, time))
        self._active[address] = place
        return Change(
            ended.allocated + rounded,
            ended.active + rounded,
            ended.requested + size,
            0,
            ended.inactive_split + split,
            ended.large_split + large,
            place,
        )

    def free(self, time: int, address: int, size: int) -> Change:
        """Let the program free a block."""
        place = self._active.get(address, -1)
        if place < 0 or self.blocks[place].freed != NEVER:
            self.unknown += 1
            return Change()
        block = self.blocks[place]
        block.freed = time
        change = Change() if self._completes else self.complete(time, address, size)
        return change._replace(allocated=-block.bytes, block=place)

    def complete(self, time: int, address: int, size: int) -> Change:
        """Let the memory of a freed block be used again."""
        place = self._active.pop(address, -1)
        if place < 0:
            self.unknown += 1
            return Change()
        block, allocated = self.blocks[place], 0
        block.ended = time
        if block.freed == NEVER:  # its free was not recorded
            self.unknown += 1
            block.freed, allocated = time, -block.bytes
        split = large = 0
        segment = self._segments.get(block.segment)
        if segment is not None and segment.has(address):
            split = segment.inactive_split
            del segment.active[bisect_left(segment.active, address)]
            segment.used -= block.bytes
            split = segment.inactive_split - split
            large = split if segment.is_large else 0
        return Change(allocated, -block.bytes, -block.requested, 0, split, large, place)

    def _segment_at(self, address: int) -> _Segment | None:
        before = bisect_right(self._starts, address) - 1
        if before < 0:
            return None
        segment = self._segments[self._starts[before]]
        return segment if address < segment.end else None


_TAKES = {
    int(Event.SEGMENT_ALLOCATION): CachingAllocator.allocate_segment,
    int(Event.SEGMENT_MAP): CachingAllocator.map,
    int(Event.ALLOCATION): CachingAllocator.allocate,
    int(Event.FREE): CachingAllocator.free,
    int(Event.FREE_COMPLETED): CachingAllocator.complete,
    int(Event.SEGMENT_RELEASE): CachingAllocator.release_segment,
    int(Event.SEGMENT_UNMAP): CachingAllocator.unmap,
}
