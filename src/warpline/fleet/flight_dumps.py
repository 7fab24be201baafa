"""Reads dumps of PyTorch's flight recorder: pickles and JSON.

Process groups of NCCL, and in newer versions those of Gloo, keep the last calls of collectives in a
ring. On a time-out each rank writes its ring (``TORCH_NCCL_DUMP_ON_TIMEOUT``); ``_dump_nccl_trace``
of ``torch._C._distributed_c10d`` returns the same bytes. The layouts are 1.x (PyTorch 2.2 and 2.3)
and 2.x. Pickles are read without running them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from warpline import pickles
from warpline.derived.work.ranks import UNKNOWN, rank_in_name
from warpline.errors import CorruptTraceError, InputError, UnsupportedVersionError
from warpline.fleet.flight_calls import Calls, CallState, FlightDump, Operation, ProcessGroup

HEAD_BYTES: Final = 256
_MOST_BYTES: Final = 1 << 30
_MOST_CALLS: Final = 1_000_000
_MOST_FRAMES: Final = 64
_MOST_GROUPS: Final = 65_536
_LONGEST_TEXT: Final = 500
_MOST_NUMBER: Final = (1 << 63) - 1
_KEYS = rb"version|entries|pg_config|pg_status|comm_lib_version|nccl_version|nccl_comm_state"
_PICKLE = re.compile(rb"\x80[\x02-\x05].{0,24}?(?:" + _KEYS + rb")", re.DOTALL)
_JSON = re.compile(rb'\s*\{\s*"(?:' + _KEYS + rb')"\s*:')
_LAST_NUMBER = re.compile(r"(?:^|\D)(\d{1,9})(?:\.(?:pickle|pkl|json|bin|pt))?$")
_RANKS = re.compile(r"\[?\s*(\d{1,9}(?:\s*,\s*\d{1,9})*)?\s*,?\s*\]?")
_STATES = {state.word: state for state in CallState}
_TENSORS = ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
_P2P = ("send", "recv")
_COALESCED = "coalesced"
_HINT = "dump again with torch._C._distributed_c10d._dump_nccl_trace(), and write its bytes"
# Functions of PyTorch and of the standard library are not the program's, nor what marks those of
# PyTorch as deprecated.
_LIBRARIES = re.compile(
    r"-packages/(torch/|typing_extensions\.py)|/torch/distributed/"
    r"|/lib/python3\.\d+/(?!.*-packages/)|^<"
)


def is_dump(path: Path) -> bool:
    """Return whether a file begins like a dump of a flight recorder."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return False
    return bool(_PICKLE.match(head) or _JSON.match(head))


def rank_of_name(path: Path) -> int:
    """Return the rank in a file's name: after ``rank``, or at the end; `UNKNOWN` without."""
    named = rank_in_name(path)
    if named != UNKNOWN:
        return named
    found = _LAST_NUMBER.search(path.name)
    return int(found[1]) if found else UNKNOWN


def read_dump(path: Path) -> FlightDump:
    """Read a dump.

    Raises:
        InputError: It is no dump of a flight recorder, is damaged, or its name has no rank.
    """
    rank = rank_of_name(path)
    if rank == UNKNOWN:
        raise InputError(
            f"{path} has no rank in its name", hint="name it like PyTorch: nccl_trace_rank_3"
        )
    facts = path.stat()
    if facts.st_size > _MOST_BYTES:
        raise InputError(f"{path} is larger than a flight recorder's dump", hint=_HINT)
    content = path.read_bytes()
    is_json = not content.startswith(b"\x80")
    value = _json(content, path) if is_json else _pickle(content, path)
    return _Dump(path, value).read(rank, facts.st_mtime_ns, is_json=is_json)


def _pickle(content: bytes, path: Path) -> Any:
    return pickles.load(content, str(path), hint=_HINT, has_number_keys=True)


def _json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptTraceError(
            f"{path} is truncated or damaged: {error}".splitlines()[0], hint=_HINT
        ) from None


class _Dump:
    """Turns the plain data of a file into calls."""

    def __init__(self, path: Path, value: Any) -> None:
        self._path = path
        self._value: Mapping[str, Any] = value if isinstance(value, dict) else {}
        # Places by value, and by the identity of lists, which one file may repeat at no cost.
        self._every: dict[Operation, int] = {}
        self._every_of: dict[tuple[Any, ...], int] = {}
        self._operations: dict[tuple[int, ...], int] = {}
        self._stacks: dict[tuple[str, ...], int] = {}
        self._places: list[str] = []
        self._groups: dict[tuple[str, str], int] = {}
        self._stack_of: dict[int, int] = {}
        self._frame_of: dict[int, _Frame] = {}

    def read(self, rank: int, written_ns: int, *, is_json: bool) -> FlightDump:
        """Return the calls.

        Raises:
            InputError: It is no dump, or is damaged.
        """
        version = self._value.get("version")
        if not isinstance(version, str) or not re.fullmatch(r"\d{1,3}\.\d{1,3}", version):
            raise InputError(f"{self._path} is no dump of PyTorch's flight recorder", hint=_HINT)
        if int(version.split(".")[0]) not in {1, 2}:
            raise UnsupportedVersionError(
                f"{self._path} has version {version} of PyTorch's flight recorder; versions 1 and 2"
                " are read"
            )
        members = self._members()
        for key in members:
            self._groups.setdefault(key, len(self._groups))
        entries = list(self._entries())
        rows = list(self._rows(entries))
        every = tuple(self._every)
        return FlightDump(
            path=str(self._path),
            rank=rank,
            version=version,
            written_ns=written_ns,
            last_ns=max(
                (_number(entry.get(name)) for entry in entries for name in _TIMES), default=0
            ),
            is_json=is_json,
            lacks_first=bool(entries) and _number(entries[0].get("record_id")) > 0,
            groups=tuple(ProcessGroup(*key, members.get(key)) for key in self._groups),
            operations=tuple(
                tuple(every[place] for place in places) for places in self._operations
            ),
            stacks=tuple(self._stacks),
            places=tuple(self._places),
            calls=Calls.of(rows),
        )

    def _members(self) -> dict[tuple[str, str], tuple[int, ...] | None]:
        """Return the ranks of each process group, by its name and description."""
        config = self._value.get("pg_config") or {}
        if not isinstance(config, dict) or len(config) > _MOST_GROUPS:
            self._damaged("its process groups")
        found: dict[tuple[str, str], tuple[int, ...] | None] = {}
        for key, value in config.items():
            if isinstance(value, dict):
                name, ranks = value.get("name", key), value.get("ranks")
                described = _described(value.get("desc"))
            else:  # of PyTorch 2.3
                name, ranks, described = key, value, ""
            if str(name):  # Gloo has a nameless group without ranks
                found[_short(name), described] = self._ranks(ranks)
        return found

    def _ranks(self, value: Any) -> tuple[int, ...] | None:
        if isinstance(value, str):
            if not _RANKS.fullmatch(value):
                self._damaged("the ranks of a process group")
            value = [int(word) for word in re.findall(r"\d+", value)]
        if not isinstance(value, list | tuple) or not all(_is_count(rank) for rank in value):
            self._damaged("the ranks of a process group")
        return tuple(sorted(set(value))) or None

    def _entries(self) -> Iterator[Mapping[str, Any]]:
        entries = self._value.get("entries", ())
        if not isinstance(entries, list | tuple) or len(entries) > _MOST_CALLS:
            self._damaged("its list of calls")
        for place, entry in enumerate(entries):
            if not isinstance(entry, dict):
                self._damaged(f"call {place}")
            yield entry

    def _rows(self, entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, ...]]:
        """Yield a row of `Calls` for each call, coalesced operations joined."""
        together: dict[tuple[int, bool, int], list[Mapping[str, Any]]] = {}
        for entry in entries:
            is_p2p = self._is_p2p(entry)
            key = (self._group(entry), is_p2p, self._sequence(entry, is_p2p=is_p2p))
            together.setdefault(key, []).append(entry)
        for (group, is_p2p, number), parts in together.items():
            # Operations of a coalesced call are never marked as completed, its end is.
            last = parts[-1]
            made = [self._operation(entry) for entry in parts if not _is_end(entry)]
            if not made and not is_p2p:  # of early versions, which record only the end
                made = [self._operation(last)]
            state = self._state(last)
            common = (self._stack(last), state, _timed_out(last, state), self._created(parts[0]))
            joined = [tuple(made)] if not is_p2p else [(part,) for part in made]
            for operations in joined:
                place = self._operations.setdefault(operations, len(self._operations))
                yield (group, number, int(is_p2p), place, *common)

    def _is_p2p(self, entry: Mapping[str, Any]) -> bool:
        said = entry.get("is_p2p")
        return said if isinstance(said, bool) else self._name(entry).startswith(_P2P)

    def _name(self, entry: Mapping[str, Any]) -> str:
        """Return the operation without its backend: ``nccl:all_reduce`` is all_reduce."""
        name = entry.get("profiling_name")
        if not isinstance(name, str):
            self._damaged("the name of a call")
        return name[:_LONGEST_TEXT].split(":", 1)[-1]

    def _group(self, entry: Mapping[str, Any]) -> int:
        named = entry.get("process_group", entry.get("pg_id"))
        if isinstance(named, list | tuple) and named:
            key = (_short(named[0]), _described(named[1]) if len(named) > 1 else "")
        elif isinstance(named, str | int):
            key = (_short(named), "")
        else:
            self._damaged("the process group of a call")
        return self._groups.setdefault(key, len(self._groups))

    def _sequence(self, entry: Mapping[str, Any], *, is_p2p: bool) -> int:
        names = ("p2p_seq_id", "seq_id") if is_p2p else ("collective_seq_id", "seq_id")
        return self._count(next((entry[name] for name in names if name in entry), None), "number")

    def _created(self, entry: Mapping[str, Any]) -> int:
        return self._count(entry.get("time_created_ns"), "time")

    def _count(self, value: Any, what: str) -> int:
        if not _is_count(value):
            self._damaged(f"the {what} of a call")
        return int(value)

    def _state(self, entry: Mapping[str, Any]) -> CallState:
        state = _STATES.get(entry.get("state", ""))
        if state is None:
            self._damaged("the state of a call")
        # Gloo's calls have no events: they are retired when they have completed.
        if entry.get("retired") is True and str(entry["profiling_name"]).startswith("gloo:"):
            return CallState.COMPLETED
        return state

    def _operation(self, entry: Mapping[str, Any]) -> int:
        """Return the place of an operation."""
        name = self._name(entry)
        lists = [entry.get(key, ()) for key in _TENSORS]
        key = (name, *map(id, lists))
        known = self._every_of.get(key)
        if known is None:
            given, given_types, got, got_types = lists
            made = Operation(
                name,
                self._sizes(given),
                self._dtypes(given_types),
                self._sizes(got),
                self._dtypes(got_types),
            )
            known = self._every_of[key] = self._every.setdefault(made, len(self._every))
        return known

    def _sizes(self, value: Any) -> tuple[tuple[int, ...], ...]:
        if not isinstance(value, list | tuple):
            self._damaged("the sizes of a call")
        for shape in value:
            is_shape = isinstance(shape, list | tuple) and len(shape) <= _MOST_FRAMES
            if not is_shape or not all(_is_count(size) for size in shape):
                self._damaged("the sizes of a call")
        return tuple(tuple(shape) for shape in value)

    def _dtypes(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            self._damaged("the types of a call")
        return tuple(item[:_LONGEST_TEXT] for item in value)

    def _stack(self, entry: Mapping[str, Any]) -> int:
        frames = entry.get("frames", ())
        known = self._stack_of.get(id(frames))
        if known is not None:
            return known
        if not isinstance(frames, list | tuple):
            self._damaged("the stack of a call")
        shown = [self._frame(frame) for frame in frames[:_MOST_FRAMES] if isinstance(frame, dict)]
        texts = tuple(frame.text for frame in shown)
        place = self._stacks.setdefault(texts, len(self._stacks))
        if place == len(self._places):
            self._places.append(next((frame.short for frame in shown if frame.is_own), ""))
        # Of an absent list, `frames` is a constant.
        self._stack_of[id(frames)] = place
        return place

    def _frame(self, frame: Mapping[str, Any]) -> _Frame:
        known = self._frame_of.get(id(frame))
        if known is None:
            known = self._frame_of[id(frame)] = _Frame(frame)
        return known

    def _damaged(self, what: str) -> NoReturn:
        raise CorruptTraceError(f"{self._path} is damaged: {what} cannot be read", hint=_HINT)


class _Frame:
    """One function of a stack."""

    def __init__(self, frame: Mapping[str, Any]) -> None:
        file, line = _short(frame.get("filename", "")), frame.get("line")
        where = f":{line}" if _is_count(line) else ""
        name = _short(frame.get("name", ""))
        self.text = f"{file}{where} in {name}"
        self.short = f"{file.rsplit('/', 1)[-1]}{where} in {name}"
        self.is_own = file.endswith(".py") and not _LIBRARIES.search(file)


def _is_end(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry only ends a coalesced call; a name like ALLGATHER_coalesced, too."""
    name = str(entry["profiling_name"])
    return name.endswith(_COALESCED) and not entry.get("input_sizes")


def _timed_out(entry: Mapping[str, Any], state: CallState) -> int:
    return int(entry.get("retired") is True and state is not CallState.COMPLETED)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_NUMBER


def _number(value: Any) -> int:
    return value if _is_count(value) else 0


def _short(value: Any) -> str:
    return str(value)[:_LONGEST_TEXT] if isinstance(value, str | int) else ""


def _described(value: Any) -> str:
    text = _short(value)
    return "" if text == "undefined" else text
