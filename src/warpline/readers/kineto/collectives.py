"""The table collective, from operators or kernels with a collective's arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from warpline.ops.arrays import I64
from warpline.readers.kineto.device_fields import calls_of
from warpline.readers.kineto.fields import Reading, end_ns, process, start_ns, thread
from warpline.readers.kineto.kinds import Kind
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column, null_column

# PyTorch's name of an element type, in lower case -> its bytes.
_ELEMENT_BYTES: Mapping[str, int] = {
    "byte": 1,
    "char": 1,
    "bool": 1,
    "short": 2,
    "half": 2,
    "bfloat16": 2,
    "int": 4,
    "float": 4,
    "long": 8,
    "double": 8,
    "complexhalf": 4,
    "complexfloat": 8,
    "complexdouble": 16,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
}
# Records of a group's lifetime, which move no data.
_NO_COLLECTIVES = frozenset(("wait", "init", "end", "startcoalescing", "endcoalescing"))
_NAME = "Collective name"
_MOST_BYTES = 1 << 60

Values = Sequence[int | str | None]


class Collectives:
    """Rows of collective.

    The profiler writes a collective's arguments to a CPU operator and to the kernel that it
    launched. A trace without operators still has the kernels: such a row is the call that
    launched the kernel.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._make: Mapping[str, Callable[[], Values]] = {
            "operation_id": lambda: self._texts(_NAME),
            "bytes": self._bytes,
            "dtype_id": lambda: self._texts("dtype"),
            "communicator_id": self._communicators,
            "rank": self._ranks,
            "rank_count": lambda: self._integers("Group size"),
            "peer": lambda: self._integers("Dst Rank", "Src Rank"),
            "sequence": self._sequence,
            "ranks_id": lambda: self._texts("Process Group Ranks"),
        }

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns, without those that are entirely null."""
        return {name: self._column(name) for name in columns}

    def _column(self, name: str) -> ColumnData:
        spec, hosts = TABLES["collective"].column(name), self._hosts
        shared = {
            "start_ns": start_ns,
            "end_ns": end_ns,
            "process_id": process,
            "thread_id": thread,
        }
        if name in shared:
            return shared[name](self._reading, hosts, spec)
        if name == "op_id" and not self._is_of_kernels:
            ops = self._reading.events.rows(Kind.OP)
            return make_column(spec, np.searchsorted(ops, self._rows))
        if name not in self._make:
            return null_column(spec, len(self))
        values = self._make[name]()
        intern = self._reading.events.pool.intern_text
        plain = [intern(value) if isinstance(value, str) else value or 0 for value in values]
        valid = np.array([value is not None for value in values], np.bool_)
        return make_column(spec, plain, valid if spec.nullable else None)

    @cached_property
    def _rows(self) -> I64:
        """The events that carry the arguments, ascending."""
        return self._chosen[0]

    @cached_property
    def _hosts(self) -> I64:
        """The CPU event of each."""
        return self._chosen[1]

    @cached_property
    def _is_of_kernels(self) -> bool:
        return len(self._rows) > 0 and self._reading.events.kinds[self._rows[0]] == Kind.KERNEL

    @cached_property
    def _chosen(self) -> tuple[I64, I64]:
        ops = self._naming(Kind.OP)
        if len(ops):
            return ops, ops
        kernels = self._naming(Kind.KERNEL)
        calls, is_known = calls_of(self._reading, kernels)
        return kernels[is_known], calls[is_known]

    def _naming(self, kind: Kind) -> I64:
        """Return the events that name a collective."""
        events = self._reading.events
        rows = events.with_argument(events.rows(kind), _NAME)
        numbers, has_text = events.texts_of(rows, _NAME)
        rows, texts = rows[has_text], events.pool.texts(numbers[has_text])
        return rows[np.array([text.lower() not in _NO_COLLECTIVES for text in texts], np.bool_)]

    def _texts(self, *keys: str) -> list[str | None]:
        numbers, has_text = self._reading.events.texts_of(self._rows, *keys)
        texts = self._reading.events.pool.texts(numbers)
        return [text if ok else None for text, ok in zip(texts, has_text.tolist(), strict=True)]

    def _integers(self, *keys: str) -> list[int | None]:
        values, has_value = self._reading.events.integers(self._rows, *keys)
        is_told = has_value & (values >= 0)
        return [v if ok else None for v, ok in zip(values.tolist(), is_told.tolist(), strict=True)]

    def _bytes(self) -> Values:
        """Return message sizes as NCCL counts them: one rank's input, or a reduction's output."""
        dtypes, names = self._texts("dtype"), self._texts(_NAME)
        given, taken = self._integers("In msg nelems"), self._integers("Out msg nelems")
        sizes: list[int | None] = []
        for dtype, name, inwards, outwards in zip(dtypes, names, given, taken, strict=True):
            is_scattered = "scatter" in (name or "").lower()
            elements = outwards if is_scattered else inwards
            width = _element_bytes(dtype or "")
            sizes.append(None if elements is None or width is None else elements * width)
        return [None if size is None or size > _MOST_BYTES else size for size in sizes]

    def _communicators(self) -> list[str | None]:
        names, numbers = self._texts("Process Group Name"), self._integers("Process Group ID")
        return [
            name or (None if number is None else str(number))
            for name, number in zip(names, numbers, strict=True)
        ]

    def _ranks(self) -> Values:
        """Return the caller's rank: as recorded, or the position of the process in the group."""
        told = self._integers("Rank")
        info = self._reading.events.scan.top.get("distributedInfo")
        own = info.get("rank") if isinstance(info, dict) else None
        if type(own) is not int:
            return told
        groups = [_members(text) for text in self._texts("Process Group Ranks")]
        return [
            members.index(own) if rank is None and own in members else rank
            for rank, members in zip(told, groups, strict=True)
        ]

    def _sequence(self) -> Values:
        """Return the group's sequence number, otherwise the position in the group's calls."""
        told = self._integers("Seq")
        if told and all(number is not None for number in told):
            return told
        events = self._reading.events
        owners = list(
            zip(
                self._reading.dimensions.processes_of(self._hosts).tolist(),
                self._communicators(),
                strict=True,
            )
        )
        order = np.lexsort((self._hosts, events.scan.ts_ns[self._hosts])).tolist()
        seen: dict[tuple[int, str | None], int] = {}
        sequence = [0] * len(owners)
        for place in order:
            sequence[place] = seen.get(owners[place], 0)
            seen[owners[place]] = sequence[place] + 1
        return sequence


def _element_bytes(dtype: str) -> int | None:
    lowered = dtype.lower()
    if lowered.startswith(("float8", "qint8", "quint8")):
        return 1
    return _ELEMENT_BYTES.get(lowered)


def _members(text: str | None) -> list[int]:
    """Return the ranks in a text such as "[0, 1]", none if it is truncated or something else."""
    try:
        members = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return members if isinstance(members, list) else []
