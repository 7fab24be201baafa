"""The calls of collectives that one rank's flight recorder holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I32, I64, U8


class CallState(IntEnum):
    """How far a call is, as PyTorch says it."""

    SCHEDULED = 0
    STARTED = 1
    COMPLETED = 2

    @property
    def word(self) -> str:
        """PyTorch's word for it."""
        return self.name.lower()


class Operation(NamedTuple):
    """What was called, with which tensors.

    Attributes:
        name: Such as ``all_reduce`` or ``send 0->1``, without the backend.
        input_sizes: The shape of each tensor.
        input_dtypes: Their types, as PyTorch calls them; none before PyTorch 2.4.
        output_sizes: As `input_sizes`.
        output_dtypes: As `input_dtypes`.
    """

    name: str
    input_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    output_sizes: tuple[tuple[int, ...], ...]
    output_dtypes: tuple[str, ...]


class ProcessGroup(NamedTuple):
    """A process group, as one rank knows it.

    Attributes:
        name: Its name, or its number before PyTorch 2.4.
        description: Such as ``default_pg``; "" if unknown.
        members: Numbers of its ranks, ascending; None if not recorded.
    """

    name: str
    description: str
    members: tuple[int, ...] | None


class Calls(NamedTuple):
    """Calls in the order in which they were made; operations of one coalesced call are one row.

    Attributes:
        group: Shape (n,), int32, places in the groups.
        number: Shape (n,), int64, number of the call in its group: of collectives, or of sends and
            receives.
        is_p2p: Shape (n,), uint8, 1 for sends and receives.
        operations: Shape (n,), int32, places in the operations.
        stack: Shape (n,), int32, places in the stacks.
        state: Shape (n,), uint8, `CallState`.
        timed_out: Shape (n,), uint8, 1 if PyTorch has given up waiting for it.
        created_ns: Shape (n,), int64, UTC time of the call, in ns since 1970.
    """

    group: I32
    number: I64
    is_p2p: U8
    operations: I32
    stack: I32
    state: U8
    timed_out: U8
    created_ns: I64

    @classmethod
    def of(cls, rows: Sequence[tuple[int, ...]]) -> Calls:
        """Return rows as columns."""
        table = np.array(rows, np.int64).reshape(-1, len(cls._fields))
        types = (*(np.int32, np.int64, np.uint8, np.int32), *(np.int32, np.uint8, np.uint8))
        columns = [table[:, place].astype(kind) for place, kind in enumerate((*types, np.int64))]
        return cls(*columns)


@dataclass(frozen=True, eq=False)
class FlightDump:
    """What one rank's flight recorder holds.

    Attributes:
        path: The file.
        rank: The rank's number, from the file's name.
        version: Of PyTorch's layout.
        written_ns: The file's date, in ns since 1970: when it was written, unless it was copied.
        last_ns: The latest time that a call was made, or seen to start or to complete, likewise; 0
            without calls.
        is_json: Whether it is the JSON form, which has no stacks.
        lacks_first: Whether earlier calls were overwritten.
        groups: Process groups that the rank knows.
        operations: Distinct operations; several for coalesced ones.
        stacks: Distinct stacks of Python functions, innermost first: ``train.py:88 in step``.
        places: For each stack, the innermost function that is not PyTorch's; "" if unknown.
        calls: The calls.
    """

    path: str
    rank: int
    version: str
    written_ns: int
    last_ns: int
    is_json: bool
    lacks_first: bool
    groups: tuple[ProcessGroup, ...]
    operations: tuple[tuple[Operation, ...], ...]
    stacks: tuple[tuple[str, ...], ...]
    places: tuple[str, ...]
    calls: Calls
