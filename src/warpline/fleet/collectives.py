"""The collectives of a rank: as columns, and in 16 bytes each, as a summary has them.

A job of thousands of ranks has tens of millions of collectives. What was read from summaries stays
as it is stored, and its columns are made when they are needed, of one rank at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from warpline.errors import InputError
from warpline.ops.arrays import F64, I32, I64, U8, U16, repeated

_MOST_KINDS = 2**16
_START_BITS = 48
_COARSE = 2**31  # durations from here on are stored in units of 1,024 ns
_COARSE_BITS = 10
QUARTERS, SHARES = 4, 255

_Words = npt.NDArray[np.uint64]


class CollectiveKind(NamedTuple):
    """What collectives of one kind have in common.

    Attributes:
        operation: Such as AllReduce.
        communicator: Its id or name, or the place of the stream if none was recorded.
        members: The ranks in it as recorded, such as ``[0, 1]``; "" if unknown.
        is_named: Whether a communicator was recorded.
        bytes: Message size; -1 if unknown.
        algorithm: Such as RING or TREE; "" if neither NCCL nor the kernel's name has it.
        label: The name that the program gave the communicator; "" if none is known.
    """

    operation: str
    communicator: str
    members: str
    is_named: bool
    bytes: int
    algorithm: str = ""
    label: str = ""


class CollectiveRows(Protocol):
    """Collectives of a rank that end on all ranks together, or its sends and receives, by start."""

    @property
    def start_ns(self) -> I64:
        """Shape (n,), int64."""

    @property
    def end_ns(self) -> I64:
        """Shape (n,), int64, exact up to 2.1 s after the start, then within 1.1 us."""

    @property
    def hidden(self) -> U8:
        """Shape (n, 4), uint8: the share of each quarter in which the GPU computed, in 255ths."""

    @property
    def kind(self) -> U16:
        """Shape (n,), uint16, places in the rank's kinds."""

    @property
    def sequence(self) -> I64:
        """Shape (n,), int64, number of the call in its communicator; -1 if unknown."""

    @property
    def total(self) -> int:
        """How many there are."""

    def taken(self, rows: I32) -> CollectiveRows:
        """Return some of them, shape (k,); they have no sequence."""


class Collectives(NamedTuple):
    """The collectives of a rank that end on all ranks together, by start.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, exact up to 2.1 s after the start, then within 1.1 us.
        hidden: Shape (n, 4), uint8: of each quarter of the time, in which share the GPU computed,
            in 255ths.
        kind: Shape (n,), uint16, places in the rank's kinds.
        sequence: Shape (n,), int64, number of the call in its communicator; -1 if unknown.
    """

    start_ns: I64
    end_ns: I64
    hidden: U8
    kind: U16
    sequence: I64

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.start_ns)

    def taken(self, rows: I32) -> Collectives:
        """Return some of them, without their numbers."""
        none = repeated(np.full(1, -1, np.int64), len(rows))
        return Collectives(
            self.start_ns[rows], self.end_ns[rows], self.hidden[rows], self.kind[rows], none
        )


def no_collectives() -> Collectives:
    """Return none."""
    no = np.zeros(0, np.int64)
    return Collectives(no, no, np.zeros((0, QUARTERS), np.uint8), np.zeros(0, np.uint16), no)


class PackedCollectives:
    """The collectives of a rank as a summary has them. Each use of a column makes it."""

    __slots__ = ("_base_ns", "_kinds", "_numbers", "_words")

    def __init__(
        self,
        words: npt.NDArray[Any],
        base_ns: int,
        numbers: dict[str, list[list[int]]],
        kinds: Sequence[CollectiveKind],
    ) -> None:
        """Take what `words_of` and `runs_of_numbers` have made.

        Raises:
            ValueError: It is something else.
        """
        first, second = words.astype(np.uint64, copy=False)
        self._words: tuple[_Words, _Words] = (first, second)
        self._base_ns, self._numbers, self._kinds = base_ns, numbers, kinds
        if len(first) and int(self.kind.max()) >= len(kinds):
            raise ValueError("unknown kind of collective")
        if any(numbers.values()):
            _sequence(self.kind, kinds, numbers)  # damaged ones raise an error now, not later

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self._words[0])

    @property
    def start_ns(self) -> I64:
        """As in `CollectiveRows`."""
        start = self._words[0] & np.uint64(2**_START_BITS - 1)
        return start.view(np.int64) + self._base_ns

    @property
    def end_ns(self) -> I64:
        """As in `CollectiveRows`."""
        return self.start_ns + _lengthened((self._words[1] >> np.uint64(32)).view(np.int64))

    @property
    def hidden(self) -> U8:
        """As in `CollectiveRows`."""
        words = (self._words[1] & np.uint64(2**32 - 1)).astype("<u4")
        return words.view(np.uint8).reshape(-1, QUARTERS)

    @property
    def kind(self) -> U16:
        """As in `CollectiveRows`."""
        return (self._words[0] >> np.uint64(_START_BITS)).astype(np.uint16)

    @property
    def sequence(self) -> I64:
        """As in `CollectiveRows`."""
        return _sequence(self.kind, self._kinds, self._numbers)

    def taken(self, rows: I32) -> PackedCollectives:
        """Return some of them, without their numbers."""
        found = object.__new__(PackedCollectives)
        found._words = self._words[0][rows], self._words[1][rows]
        found._base_ns, found._numbers, found._kinds = self._base_ns, {}, self._kinds
        return found


def hidden_ns(rows: CollectiveRows, until_ns: F64) -> F64:
    """Return how long the GPU computed while some collectives ran, from their starts.

    Args:
        rows: Which.
        until_ns: Shape (n,), time after the start of each at which the sum ends.
    """
    quarter = (rows.end_ns - rows.start_ns) / QUARTERS
    total, hidden = np.zeros(rows.total), rows.hidden
    for place in range(QUARTERS):
        within = np.clip(until_ns - place * quarter, 0.0, quarter)
        total += within * (hidden[:, place] / SHARES)
    return total


def words_of(rows: CollectiveRows) -> tuple[np.ndarray[Any, Any], int]:
    """Return two 64-bit words per collective, and the time that starts count from."""
    base_ns = int(rows.start_ns.min()) if len(rows.start_ns) else 0
    if len(rows.start_ns) and int(rows.start_ns.max()) - base_ns >= 2**_START_BITS:
        raise InputError(
            "collectives are more than 78 hours apart", hint="select a part of the run"
        )
    start = (rows.start_ns - base_ns).astype(np.uint64)
    first = (rows.kind.astype(np.uint64) << np.uint64(_START_BITS)) | start
    duration = _shortened(rows.end_ns - rows.start_ns).astype(np.uint64)
    hidden = rows.hidden.astype("<u1").reshape(-1, QUARTERS).copy().view("<u4").reshape(-1)
    return np.stack((first, (duration << np.uint64(32)) | hidden.astype(np.uint64))), base_ns


def _shortened(ns: I64) -> I64:
    coarse = np.minimum(ns >> _COARSE_BITS, _COARSE - 1) | _COARSE
    return np.where(ns < _COARSE, np.maximum(ns, 0), coarse)


def _lengthened(word: I64) -> I64:
    return np.where(word < _COARSE, word, (word & (_COARSE - 1)) << _COARSE_BITS)


def _communicators(kind: U16, kinds: Sequence[CollectiveKind]) -> dict[str, I64]:
    """Return the rows of each named communicator, by its name and members."""
    names = [f"{item.communicator} {item.members}" if item.is_named else "" for item in kinds]
    distinct = {name: place for place, name in enumerate(dict.fromkeys(names))}
    code = np.array([distinct[name] for name in names], np.int64)
    of_row = code[kind] if len(kind) else np.zeros(0, np.int64)
    return {name: np.flatnonzero(of_row == at) for name, at in distinct.items() if name}


def runs_of_numbers(
    rows: CollectiveRows, kinds: Sequence[CollectiveKind]
) -> dict[str, list[list[int]]]:
    """Return the call numbers of each communicator, as runs of consecutive ones: place, number."""
    found = {}
    for name, own in _communicators(rows.kind, kinds).items():
        numbers = rows.sequence[own]
        if not len(numbers) or (numbers < 0).any():  # none: a communicator of sends
            continue
        opens = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) != 1)
        if len(opens) <= 1 + len(own) // 8:  # else the order of calls is that of the kernels
            found[name] = np.stack((opens, numbers[opens]), axis=1).tolist()
    return found


def _sequence(kind: U16, kinds: Sequence[CollectiveKind], runs: dict[str, list[list[int]]]) -> I64:
    if not any(runs.values()):
        return repeated(np.full(1, -1, np.int64), len(kind))
    numbers = np.full(len(kind), -1, np.int64)
    for name, own in _communicators(kind, kinds).items():
        if not runs.get(name):
            continue
        opens, first = np.array(runs[name], np.int64).T
        run = np.searchsorted(opens, np.arange(len(own)), side="right") - 1
        numbers[own] = first[run] + np.arange(len(own)) - opens[run]
    return numbers


def fewest_kinds(kinds: Sequence[CollectiveKind]) -> tuple[tuple[CollectiveKind, ...], U16]:
    """Return distinct kinds, few enough to be stored, and the place of each given kind among them.

    Where message sizes vary too much, they are left out.
    """
    if len(set(kinds)) >= _MOST_KINDS:
        kinds = [kind._replace(bytes=-1) for kind in kinds]
    distinct = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
    return tuple(distinct), np.array([distinct[kind] for kind in kinds], np.uint16)
