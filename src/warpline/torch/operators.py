"""Which operator, and which block of record_function, launched what: by thread and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_USER_SCOPE = 7  # of RecordScope: a block of record_function


@dataclass
class _Thread:
    number: int  # PyTorch's
    spans: dict[bool, list[tuple[int, int, int]]] = field(
        default_factory=lambda: {False: [], True: []}
    )


@dataclass(frozen=True)
class Launcher:
    """What was running when a call was made.

    Attributes:
        operator: Correlation id of the innermost operator; 0 without one.
        block: Correlation id of the innermost block of record_function; 0 without one.
        thread: PyTorch's number of the thread; of a thread without operators, its native id.
    """

    operator: int
    block: int
    thread: int


class Operators:
    """The operators and blocks that PyTorch recorded.

    Args:
        events: PyTorch's records, in any order.
    """

    def __init__(self, events: Iterable[Any]) -> None:
        self._threads: dict[int, _Thread] = {}
        self.block_names: dict[int, str] = {}
        for event in events:
            if not _is_span(event):
                continue
            tid = event.device_resource_id()
            thread = self._threads.setdefault(tid, _Thread(event.start_thread_id()))
            is_block = event.scope() == _USER_SCOPE
            number = event.correlation_id()
            thread.spans[is_block].append((event.start_ns(), -event.end_ns(), number))
            if is_block:
                self.block_names[number] = event.name()
        for thread in self._threads.values():
            for spans in thread.spans.values():
                spans.sort()

    def launchers(self, tids: Sequence[int], times: Sequence[int]) -> list[Launcher]:
        """Return what was running on each thread at each time (ns since 1970)."""
        rows_of: defaultdict[int, list[int]] = defaultdict(list)
        for row, tid in enumerate(tids):
            rows_of[tid].append(row)
        found = [Launcher(0, 0, tid) for tid in tids]
        for tid, rows in rows_of.items():
            thread = self._threads.get(tid)
            if thread is None:
                continue
            rows.sort(key=times.__getitem__)
            asked = [times[row] for row in rows]
            operators, blocks = (_innermost(thread.spans[kind], asked) for kind in (False, True))
            for row, operator, block in zip(rows, operators, blocks, strict=True):
                found[row] = Launcher(operator, block, thread.number)
        return found


def _is_span(event: Any) -> bool:
    return bool(
        event.device_type() == torch.autograd.DeviceType.CPU
        and event.correlation_id() > 0
        and event.linked_correlation_id() == 0
        and event.end_ns() > event.start_ns()
        and not getattr(event, "is_python_function", bool)()
        and event.start_thread_id() == event.end_thread_id()
    )


def _innermost(spans: Sequence[tuple[int, int, int]], times: Sequence[int]) -> list[int]:
    """Return the innermost span at each ascending time, 0 without one.

    Args:
        spans: (start, -end, number), ascending; they nest.
        times: Ascending.
    """
    found = []
    around: list[tuple[int, int, int]] = []
    following = 0
    for at in times:
        while following < len(spans) and spans[following][0] <= at:
            around.append(spans[following])
            following += 1
        while around and -around[-1][1] <= at:
            around.pop()
        found.append(around[-1][2] if around else 0)
    return found
