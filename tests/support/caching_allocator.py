"""A small model of PyTorch's caching allocator, which counts what torch.cuda.memory_stats counts.

It searches free blocks, splits and merges them as torch does, and records a history with requested
bytes: what a replay has to find out again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MIB = 1 << 20
STATS = ("allocated", "active", "requested", "reserved", "inactive_split")
SEGMENT_OPERATIONS = {"segment_alloc": 0, "segment_free": 1, "segment_map": 2, "free_completed": 4}


@dataclass(eq=False)
class Piece:
    """A block, free or not, in a chain of all blocks of a segment."""

    address: int
    size: int
    is_small: bool
    is_expandable: bool
    requested: int = 0
    state: str = "free"
    before: Piece | None = None
    after: Piece | None = None

    @property
    def is_split(self) -> bool:
        return self.before is not None or self.after is not None


@dataclass
class Model:
    """The allocator; `entries` are (action, address, bytes), `stats` those after each entry."""

    expandable: bool = False
    entries: list[tuple[str, int, int]] = field(default_factory=list)
    stats: list[tuple[int, ...]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATS, 0))
    _next: int = 1 << 40
    _ends: dict[bool, Piece] = field(default_factory=dict)

    def malloc(self, requested: int) -> Piece:
        """Allocate, from a free block that fits best or from a new segment."""
        size = max(512, -(-requested // 512) * 512)
        is_small = size <= MIB
        fits = [
            piece
            for piece in self.pieces
            if piece.state == "free" and piece.is_small == is_small and piece.size >= size
        ]
        best = min(fits, key=lambda piece: (piece.size, piece.address), default=None)
        piece = best or self._grow(size, is_small)
        rest, was_split = piece.size - size, piece.is_split
        if rest >= 512 if is_small or piece.is_expandable else rest > MIB:
            left = Piece(piece.address + size, rest, is_small, piece.is_expandable)
            left.before, left.after = piece, piece.after
            if left.after:
                left.after.before = left
            piece.after, piece.size = left, size
            self.pieces.append(left)
            split = -size if was_split else rest
        else:
            split = -piece.size if was_split else 0
        piece.state, piece.requested = "used", requested
        split = 0 if piece.is_expandable else split
        self._note("alloc", piece.address, requested, piece.size, piece.size, requested, 0, split)
        return piece

    def free(self, piece: Piece, *, pending: bool = False) -> None:
        """Free a block; a pending one is still in use by a stream."""
        piece.state = "pending"
        self._note("free_requested", piece.address, piece.requested, -piece.size)
        if not pending:
            self.complete(piece)

    def complete(self, piece: Piece) -> None:
        """Make the memory of a freed block free, and merge it with free neighbors."""
        address, size, requested, split = piece.address, piece.size, piece.requested, 0
        piece.state = "free"
        for other in (piece.before, piece.after):
            if other is not None and other.state == "free":
                split -= other.size
                first, second = (other, piece) if other is piece.before else (piece, other)
                piece.address = first.address
                piece.before, piece.after = first.before, second.after
                piece.size = first.size + second.size
                if piece.before:
                    piece.before.after = piece
                if piece.after:
                    piece.after.before = piece
                self.pieces.remove(other)
        split += piece.size if piece.is_split else 0
        split = 0 if piece.is_expandable else split
        self._note("free_completed", address, requested, 0, -size, -requested, 0, split)

    def empty_cache(self) -> None:
        """Return segments without blocks in use to the driver."""
        for piece in [piece for piece in self.pieces if piece.state == "free"]:
            if not piece.is_split and not piece.is_expandable:
                self.pieces.remove(piece)
                self._note("segment_free", piece.address, piece.size, 0, 0, 0, -piece.size)

    def _grow(self, size: int, is_small: bool) -> Piece:
        if self.expandable:
            return self._extend(size, is_small)
        got = (
            2 * MIB
            if is_small
            else 20 * MIB
            if size < 10 * MIB
            else -(-size // (2 * MIB)) * 2 * MIB
        )
        piece = Piece(self._next, got, is_small, False)
        self._next += got  # segments touch each other
        self.pieces.append(piece)
        self._note("segment_alloc", piece.address, got, 0, 0, 0, got)
        return piece

    def _extend(self, size: int, is_small: bool) -> Piece:
        page = 2 * MIB if is_small else 20 * MIB
        last = self._ends.get(is_small)
        end = last.address + last.size if last else (1 << 41) + (int(is_small) << 40)
        free = last.size if last and last.state == "free" else 0
        got = -(-(size - free) // page) * page
        new = Piece(end, got, is_small, True)
        self._note("segment_map", end, got, 0, 0, 0, got)
        if free and last:
            last.size += got
            return last
        new.before = last
        if last:
            last.after = new
        self.pieces.append(new)
        self._ends[is_small] = new
        return new

    def _note(self, action: str, address: int, size: int, *changes: int) -> None:
        for name, change in zip(STATS, changes, strict=False):
            self.counts[name] += change
        self.entries.append((action, address, size))
        self.stats.append(tuple(self.counts[name] for name in STATS))
        self._ends = {
            kind: max(
                (p for p in self.pieces if p.is_expandable and p.is_small == kind),
                key=lambda p: p.address,
            )
            for kind in {p.is_small for p in self.pieces if p.is_expandable}
        }


def run(seed: int, steps: int = 300, *, expandable: bool = False) -> Model:
    """Return a model after random allocations and frees."""
    chance, model = random.Random(seed), Model(expandable)
    used: list[Piece] = []
    pending: list[Piece] = []
    for _ in range(steps):
        what = chance.random()
        if what < 0.5 or not used:
            size = int(2 ** chance.uniform(0, 25))
            used.append(model.malloc(size))
        elif what < 0.9:
            piece = used.pop(chance.randrange(len(used)))
            model.free(piece, pending=chance.random() < 0.2)
            if piece.state == "pending":
                pending.append(piece)
        elif what < 0.97 and pending:
            model.complete(pending.pop(0))
        elif what > 0.98:
            model.empty_cache()
    return model


def tables(model: Model, begin: int = 0) -> dict[str, dict[str, list[object]]]:
    """Return the history as tables; entries before `begin` only as what exists at that time."""
    events: list[tuple[str, int, int, bool]] = []
    live: dict[int, int] = {}
    pending: list[int] = []
    segments: dict[int, int] = {}
    for action, address, size in model.entries[:begin]:
        if action == "alloc":
            live[address] = size
        elif action == "free_requested":
            pending.append(address)
        elif action == "free_completed":
            pending.remove(address)
            del live[address]
        elif action in ("segment_alloc", "segment_map"):
            segments[address] = size
        elif action == "segment_free":
            del segments[address]
    events += [
        ("segment_map" if address >= 1 << 41 else "segment_alloc", address, size, True)
        for address, size in segments.items()
    ]
    events += [("alloc", address, size, True) for address, size in sorted(live.items())]
    events += [("free_requested", address, live[address], True) for address in pending]
    events += [(*entry, False) for entry in model.entries[begin:]]
    blocks: dict[str, list[object]] = {
        name: [] for name in ("time_ns", "operation", "bytes", "address", "is_existing")
    }
    others: dict[str, list[object]] = {name: [] for name in blocks}
    for time, (action, address, size, is_existing) in enumerate(events):
        is_block = action in ("alloc", "free_requested")
        code = int(action == "free_requested") if is_block else SEGMENT_OPERATIONS[action]
        row = (time, code, size, address, is_existing)
        for column, value in zip((blocks if is_block else others).values(), row, strict=True):
            column.append(value)
    for table in (blocks, others):
        table["process_id"] = table["device_id"] = [0] * len(table["time_ns"])
    blocks["memory"] = [1] * len(blocks["time_ns"])
    return {"allocator_event": blocks, "segment_event": others}
