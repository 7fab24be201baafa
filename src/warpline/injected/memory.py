"""The memory of GPUs: the history of torch's caching allocator.

Torch records it itself: an entry for each allocation and free, with Python's stack, in a ring per
GPU. The ring is written to the session, as a piece, from time to time, when it is nearly full and
when the program ends; the pieces follow each other without a gap. A piece has the segments and
blocks at its end, so all that was there at its beginning follows from it.

Torch has one history. It is the program's as soon as that asks for it: ours ends before, and a
piece is made of the program's before it is cleared. Programs that ask torch for a snapshot, or
whether there is a history, get the answers that they would get without ours.

Beginning and ending belong on one thread, the main thread: torch has callbacks for it there. CUDA
is never initialized by us, which would break programs that fork. Nothing here calls CUDA: a call
may create a context on a GPU that the program does not use, or spoil a capture.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from typing import Any

from .context import Context
from .memory_pieces import write_piece

DOMAIN = "warpline"

_MOST_ENTRIES = 200_000  # in torch's ring: 150 MB
_NEARLY_FULL = 140_000
_MOST_IN_ALL = 2_000_000  # entries of a process: then no more is recorded
_CHECK_S = 0.5  # between looks at how full the ring is
_LEAST_PAUSE_S = 2.0  # between pieces; a program that is killed loses as much
_PAUSES = 50  # as long as writing a piece: the program waits for that

_NOBODY, _OURS, _PROGRAMS = "nobody", "ours", "the program's"

_RECORD = ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy")
_SNAPSHOT = "_cuda_memorySnapshot"
_IS_ON = "_cuda_isHistoryEnabled"
_COUNTED = frozenset(("alloc", "free_requested"))  # entries of events that torch's statistics count

_history: History | None = None


def start(context: Context) -> None:
    """Record from when the program initializes CUDA and recording is on; torch is imported."""
    global _history  # noqa: PLW0603 - torch has one
    if not hasattr(sys.modules["torch"]._C, _RECORD[0]):
        context.note("--pytorch=memory: this PyTorch has no CUDA: GPU memory is not recorded")
        return
    _history = History(context)
    _history.start()


def stop() -> None:
    """Write what has been recorded since the last piece, and leave torch as it was."""
    global _history
    history, _history = _history, None
    if history is not None:
        history.stop()


def is_on() -> bool:
    """Return whether there is a history now, ours or the program's."""
    return _history is not None and _history.is_on


class History:
    """Torch's history of allocations, whoever asked for it.

    Args:
        context: The parts' context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._torch: Any = sys.modules["torch"]
        self._replaced: list[tuple[str, Any]] = []
        self._holder = _NOBODY
        self._caller = 0  # the thread on which torch is called for us
        self._is_over = False
        self._pieces = 0
        self._entries = 0
        # The events of each GPU before the next piece, as torch counts them; None before the first.
        self._counts: dict[int, int] | None = None
        self._stats: list[dict[str, Any]] = []
        self._clocks: list[int] = []
        self._checked_s = 0.0
        self._due_s = 0.0  # when to write the next piece
        self._was_recording = True
        self._place = context.guarded("memory", self.safe_place)
        self._when_ready = context.guarded("memory", self._begin_if_wanted)

    def start(self) -> None:
        """Watch the program's use of the history, and begin once CUDA is there."""
        self._context.agent.name("torch", "memory")  # the agent's session begins with a name
        self._watch()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_in_fork)
        self._context.safe_places.append(self._place)
        cuda = self._torch.cuda
        if cuda.is_initialized() and getattr(self._torch._C, _IS_ON)():
            self._follow(_PROGRAMS)
        else:
            cuda._lazy_call(self._when_ready)

    def stop(self) -> None:
        """Write the last piece, and leave torch as it was."""
        if self.is_on:
            self._context.guarded("memory", self._take)()
        self._context.guarded("memory", self._end_ours)()
        self._is_over = True
        if self._place in self._context.safe_places:
            self._context.safe_places.remove(self._place)
        queued = getattr(self._torch.cuda, "_queued_calls", [])
        queued[:] = [call for call in queued if call[0] is not self._when_ready]
        for name, ours in reversed(self._replaced):
            if getattr(self._torch._C, name) is ours:
                setattr(self._torch._C, name, ours.__wrapped__)
        self._replaced.clear()

    @property
    def is_on(self) -> bool:
        """Whether there is a history that will be written."""
        return self._holder != _NOBODY and not self._is_over

    def safe_place(self, _is_end: bool, _module: Any, _inputs: Any) -> None:  # noqa: FBT001 - a hot path
        """Begin if recording has begun; write a piece if the ring is nearly full."""
        if self._is_over or threading.current_thread() is not threading.main_thread():
            return
        if self._holder == _NOBODY:
            if self._torch.cuda.is_initialized():
                self._begin_if_wanted()
            return
        now_s = time.monotonic()
        if self._holder != _OURS or now_s - self._checked_s < _CHECK_S:
            return
        self._checked_s = now_s
        is_recording = bool(self._context.agent.is_recording())
        entries = self._expected_entries()
        is_full, is_due = entries > _NEARLY_FULL, now_s > self._due_s and entries > 0
        begins_pause, self._was_recording = self._was_recording and not is_recording, is_recording
        if is_full or begins_pause or (is_recording and is_due):
            self._next_piece(goes_on=is_recording or not is_full)

    def _begin_if_wanted(self) -> None:
        if self._is_over or self._holder != _NOBODY or not self._context.agent.is_recording():
            return
        if threading.current_thread() is threading.main_thread():
            self._begin_ours()

    def _begin_ours(self) -> None:
        record = self._torch.cuda.memory._record_memory_history
        try:
            self._call(
                record, enabled="all", context="alloc", stacks="python", max_entries=_MOST_ENTRIES
            )
        except RuntimeError as error:  # of another allocator
            self._is_over = True
            why = str(error).partition("\n")[0].rstrip(".")
            self._context.note(f"--pytorch=memory: GPU memory is not recorded: {why}")
            return
        self._follow(_OURS)

    def _end_ours(self) -> None:
        """End our history, which clears it."""
        if self._holder != _OURS:
            return
        self._holder = _NOBODY
        if threading.current_thread() is threading.main_thread():
            self._call(self._torch.cuda.memory._record_memory_history, enabled=None)

    def _follow(self, holder: str) -> None:
        """Take note that a history has begun."""
        self._holder = holder
        self._unwritten.touch()
        self._due_s = time.monotonic() + _LEAST_PAUSE_S
        self._clocks = _clocks()
        self._stats = self._device_stats()
        if self._counts is None:
            self._counts = dict(enumerate(map(_events, self._stats)))

    def _next_piece(self, *, goes_on: bool) -> None:
        """Write a piece while the program runs.

        Args:
            goes_on: Whether recording goes on, if it has not become too much.
        """
        goes_on &= self._entries < _MOST_IN_ALL
        began_s, range_ = time.monotonic(), self._range
        self._context.agent.push(range_, -1)
        try:
            self._take(goes_on=goes_on)
        finally:
            self._context.agent.pop(range_, -1)
        now_s = time.monotonic()
        self._due_s = now_s + max(_LEAST_PAUSE_S, _PAUSES * (now_s - began_s))
        if not goes_on:
            self._end_ours()
            self._is_over = True
            why = "after many events" if self._entries >= _MOST_IN_ALL else "in a long pause"
            self._context.note(
                f"--pytorch=memory: process {os.getpid()} stopped recording GPU memory {why}:"
                f" {self._entries:,} events are recorded"
            )

    @functools.cached_property
    def _range(self) -> int:
        """The range of the time that a piece takes while the program runs."""
        return int(self._context.agent.name(DOMAIN, "write memory events"))

    def _take(self, *, goes_on: bool = False) -> None:
        """Write the history to a file of the session.

        Args:
            goes_on: Whether to go on with an empty ring: at once, other threads may be allocating.
        """
        holder, began, stats = self._holder, self._clocks, self._stats
        counted = list(map(_events, self._device_stats()))
        snapshot = self._call(self._torch.cuda.memory._snapshot)
        ended = _clocks()
        if goes_on:
            self._end_ours()
            self._begin_ours()
        head = {
            "holder": holder,
            "clocks": [began, ended],
            "missing": self._missing(snapshot, counted),
            "devices": self._devices(len(snapshot["device_traces"])),
            "stats": [stats, self._device_stats()],
        }
        path = self._context.file(f"{self._pieces}.memory.jsonl.gz")
        self._pieces += 1
        self._entries += write_piece(path, head, snapshot)
        if not goes_on:
            self._unwritten.unlink(missing_ok=True)

    def _missing(self, snapshot: Any, counted: list[int]) -> list[int]:
        """Return how many allocations and frees of each GPU are not in the history.

        Torch's statistics count them. None is missing where the program has reset these.
        """
        missing, counts = [], self._counts or {}
        for device, entries in enumerate(snapshot["device_traces"]):
            found = sum(entry["action"] in _COUNTED for entry in entries)
            before = counts.get(device, 0)
            count = counted[device] if device < len(counted) else 0
            lost = max(count - before - found, 0)
            counts[device] = before + found + lost if count >= before else count
            missing.append(lost)
        self._counts = counts
        return missing

    def _expected_entries(self) -> int:
        """Return about how many entries the fullest ring has: three for most allocations."""
        before = self._counts or {}
        counts = enumerate(map(_events, self._device_stats()))
        events = (count - before.get(device, 0) for device, count in counts)
        return max(events, default=0) * 3 // 2

    def _device_stats(self) -> list[dict[str, Any]]:
        """Return torch's statistics of each GPU; none before CUDA is initialized."""
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return []
        return [dict(cuda.memory_stats(device)) for device in range(cuda.device_count())]

    def _devices(self, count: int) -> list[dict[str, Any]]:
        """Return what identifies each GPU."""
        found = []
        for device in range(count):
            properties = self._torch.cuda.get_device_properties(device)
            found.append(
                {
                    "name": str(properties.name),
                    "uuid": str(getattr(properties, "uuid", "")),
                    "memory_bytes": int(properties.total_memory),
                }
            )
        return found

    @property
    def _unwritten(self) -> Any:
        return self._context.file("memory.unwritten")

    def _leave_in_fork(self) -> None:
        """Forget what the parent has recorded: CUDA that it initialized is of no use here."""
        self._is_over |= self._holder != _NOBODY
        self._holder, self._pieces, self._entries = _NOBODY, 0, 0

    # The program's own use

    def _watch(self) -> None:
        """Replace the functions of torch that all others for the history and snapshots call."""
        for name in _RECORD:
            self._replace(name, self._record)
        self._replace(_SNAPSHOT, self._program_snapshot)
        self._replace(_IS_ON, self._is_on)

    def _replace(self, name: str, around: Any) -> None:
        original = getattr(self._torch._C, name, None)
        if original is None:
            return

        def replacement(*words: Any, **named: Any) -> Any:
            if self._caller == threading.get_ident():  # called by us
                return original(*words, **named)
            return around(original, *words, **named)

        replacement.__wrapped__ = original  # type: ignore[attr-defined]
        replacement.__name__, replacement.__doc__ = name, original.__doc__
        setattr(self._torch._C, name, replacement)
        self._replaced.append((name, replacement))

    def _call(self, function: Any, *words: Any, **named: Any) -> Any:
        """Call a function of torch that calls one that is replaced."""
        self._caller = threading.get_ident()
        try:
            return function(*words, **named)
        finally:
            self._caller = 0

    def _record(self, original: Any, *words: Any, **named: Any) -> Any:
        """The program begins or ends its history: `enabled` is the first parameter."""
        if self._is_over:
            return original(*words, **named)
        enabled = words[0] if words else named.get("enabled")
        if not enabled and self._holder == _OURS:
            return None  # there is none, as far as the program knows
        had = self._holder
        if had == _OURS or (had == _PROGRAMS and not enabled):
            self._context.guarded("memory", self._take)()
        self._context.guarded("memory", self._end_ours)()
        result = original(*words, **named)  # its errors are the program's
        if enabled:
            self._context.note(
                "the program records torch's memory history itself: meanwhile GPU memory is"
                " recorded as it asked for, so part of it may be missing"
            )
            if had != _PROGRAMS:
                self._context.guarded("memory", self._follow)(_PROGRAMS)
        else:
            self._holder = _NOBODY
            self._when_ready()
        return result

    def _program_snapshot(self, original: Any, *words: Any, **named: Any) -> Any:
        """Return the snapshot that the program asks for, without what is in it by our history."""
        snapshot = original(*words, **named)
        if self._holder == _OURS:
            self._context.guarded("memory", _without_history)(snapshot)
        return snapshot

    def _is_on(self, original: Any) -> Any:
        return False if self._holder == _OURS else original()


def _without_history(snapshot: Any) -> None:
    """Remove from a snapshot what it has of a history."""
    no_frames: list[Any] = []
    for segment in snapshot["segments"]:
        for part in (segment, *segment["blocks"]):
            if "frames" in part:
                part["frames"] = no_frames
    traces = snapshot.get("device_traces")
    if traces is not None:
        snapshot["device_traces"] = [[] for _ in traces]
    if "external_annotations" in snapshot:
        snapshot["external_annotations"] = []


def _events(stats: dict[str, Any]) -> int:
    """Return how many allocations and frees there have been, by torch's statistics of a GPU."""
    return sum(int(stats.get(f"allocation.all.{what}", 0)) for what in ("allocated", "freed"))


def _clocks() -> list[int]:
    """Return the wall time and the monotonic time of one moment, in ns."""
    before = time.monotonic_ns()
    wall = time.time_ns()
    return [wall, (before + time.monotonic_ns()) // 2]
