"""Simulates ranks that run programs of work, collectives, sends and receives.

A collective ends on all its ranks together, when the last one has arrived and the data is moved. A
receive waits for the matching send. Sends, and collectives in the background, run beside what the
rank does next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Op(NamedTuple):
    """What a rank does next.

    Attributes:
        kind: ``work``, ``meet`` (a collective), ``meet-beside`` (it runs beside what follows),
            ``join`` (waits for those), ``send``, ``recv`` or ``step``.
        ns: Of the work, or of the transfer.
        key: The communicator, or the pair of ranks and direction.
        operation: Such as AllReduce.
        bytes: Message size.
        is_gemm: Whether the work is matrix products.
    """

    kind: str
    ns: float = 0.0
    key: str = ""
    operation: str = ""
    bytes: int = -1
    is_gemm: bool = True


@dataclass
class Recorded:
    """What is recorded of a rank, ns on a common clock."""

    begin_ns: list[float] = field(default_factory=list)
    work: list[tuple[float, float, bool]] = field(default_factory=list)
    kernels: list[tuple[Op, float, float]] = field(default_factory=list)


_Ident = tuple[str, int]  # a communicator and the number of the call in it


class _State:
    """A rank while it runs."""

    def __init__(self, program: Sequence[Op], at: float) -> None:
        self.program, self.at, self.next = program, at, 0
        self.beside: list[_Ident] = []
        self.free = 0.0  # when the last collective beside ends: one runs after another
        self.calls: dict[str, int] = defaultdict(int)
        self.found = Recorded()


class _Machine:
    def __init__(self, states: Sequence[_State], members: Mapping[str, tuple[int, ...]]) -> None:
        self.states, self.members = states, members
        self.arrived: dict[_Ident, dict[int, tuple[float, Op]]] = defaultdict(dict)
        self.ended: dict[_Ident, float] = {}
        self.sent: dict[_Ident, tuple[int, float, Op]] = {}
        self.waiting: dict[_Ident, list[int]] = defaultdict(list)
        self.ready = list(range(len(states)))

    def run(self) -> None:
        while self.ready:
            rank = self.ready.pop()
            state = self.states[rank]
            while state.next < len(state.program):
                blocked = self._do(rank, state, state.program[state.next])
                if blocked is not None:
                    self.waiting[blocked].append(rank)
                    break
                state.next += 1

    def _do(self, rank: int, state: _State, op: Op) -> _Ident | None:
        """Do one thing; return what the rank waits for, if it cannot go on."""
        if op.kind == "work":
            state.found.work.append((state.at, state.at + op.ns, op.is_gemm))
            state.at += op.ns
        elif op.kind == "step":
            state.found.begin_ns.append(state.at)
        elif op.kind == "join":
            for ident in state.beside:
                if ident not in self.ended:
                    return ident
                state.at = max(state.at, self.ended[ident])
            state.beside.clear()
        elif op.kind == "send":
            self._send(rank, state, op)
        elif op.kind == "recv":
            return self._receive(state, op)
        else:
            return self._meet(rank, state, op)
        return None

    def _send(self, rank: int, state: _State, op: Op) -> None:
        ident = (op.key, state.calls[op.key])
        state.calls[op.key] += 1
        self.sent[ident] = (rank, state.at, op)
        self.ready += self.waiting.pop(ident, [])

    def _receive(self, state: _State, op: Op) -> _Ident | None:
        ident = (op.key, state.calls[op.key])
        if ident not in self.sent:
            return ident
        sender, began, sending = self.sent.pop(ident)
        end = max(began, state.at) + op.ns
        self.states[sender].found.kernels.append((sending, began, end))
        state.found.kernels.append((op, state.at, end))
        state.calls[op.key] += 1
        state.at = end
        return None

    def _meet(self, rank: int, state: _State, op: Op) -> _Ident | None:
        ident, ranks = (op.key, state.calls[op.key]), self.members[op.key]
        arrived = self.arrived[ident]
        arrived.setdefault(rank, (state.at, op))
        if len(arrived) == len(ranks) and ident not in self.ended:
            is_beside = op.kind == "meet-beside"
            begins = {
                one: max(at, self.states[one].free if is_beside else 0.0)
                for one, (at, _) in arrived.items()
            }
            end = max(begins.values()) + op.ns
            self.ended[ident] = end
            for number, (one, (_, own)) in enumerate(arrived.items()):
                # Ends differ a little, as in real recordings.
                last = end + (one * 7 + number * 3) % 5 * 100
                self.states[one].found.kernels.append((own, begins[one], last))
                if is_beside:
                    self.states[one].free = last
            self.ready += self.waiting.pop(ident, [])
        if op.kind == "meet-beside":
            state.beside.append(ident)
        elif ident not in self.ended:
            return ident
        else:
            state.at = max(state.at, self.ended[ident])
        state.calls[op.key] += 1
        return None


def run(
    programs: Sequence[Sequence[Op]],
    members: Mapping[str, tuple[int, ...]],
    begin_ns: Sequence[float],
) -> list[Recorded]:
    """Return what is recorded of ranks that run programs.

    Args:
        programs: What each rank does.
        members: The ranks of each communicator.
        begin_ns: When each rank starts.
    """
    states = [_State(program, at) for program, at in zip(programs, begin_ns, strict=True)]
    _Machine(states, members).run()
    assert all(state.next == len(state.program) for state in states), "a program never ends"
    for state in states:
        state.found.kernels.sort(key=lambda item: item[1])
    return [state.found for state in states]
