"""The control page of a session: one page shared by the launcher and all agents.

The layout is `ControlPage` in ``native/raw/warpline_raw.h``; a test compares the two. Python has no
atomic instructions and needs none here: the state is one byte of the switch word. Storing that byte
makes a concurrent compare-and-swap of the whole word fail and retry, so no update is lost.
"""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from warpline.errors import CaptureError

FILE_NAME = "control"
CONTROL_BYTES = 4096
CONTROL_MAGIC = 0x4C4E4C57
CONTROL_VERSION = 1
CONTROL_SLOTS = 256
CONTROL_STEPS = 32


class State(enum.IntEnum):
    """The state of a session's agents."""

    WAITING = 0
    RECORDING = 1
    STOPPED = 2
    TIME_WINDOW = 3


class RangeMode(enum.IntEnum):
    """What opens a capture range; with NONE, the whole run is recorded."""

    NONE = 0
    NVTX = 1
    CUDA_PROFILER_API = 2
    STEPS = 3


class DrainState(enum.IntEnum):
    """Whether the records of a process's GPU work are in its logs."""

    NOTHING = 0
    HOLDING = 1
    DRAINED = 2


class ControlSlot(ctypes.LittleEndianStructure):
    """One attached process."""

    _fields_ = (("pid", ctypes.c_uint32), ("windows_open", ctypes.c_uint32))

    pid: int
    windows_open: int


class ControlPage(ctypes.LittleEndianStructure):
    """The page's layout; `switch_word` has the state, the range mode and the open ranges."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("switch_word", ctypes.c_uint64),
        ("windows_done", ctypes.c_uint64),
        ("windows_wanted", ctypes.c_uint64),
        ("attached", ctypes.c_uint64),
        ("nvtx_bound", ctypes.c_uint64),
        ("cuda_bound", ctypes.c_uint64),
        ("range_misses", ctypes.c_uint64),
        ("out_of_space", ctypes.c_uint64),
        ("agent_errors", ctypes.c_uint64),
        ("unlogged_events", ctypes.c_uint64),
        ("steps_begun", ctypes.c_uint64),
        ("step_processes", ctypes.c_uint64),
        ("sample_plan", ctypes.c_uint64),
        ("first_error", ctypes.c_char * 512),
        ("slots", ControlSlot * CONTROL_SLOTS),
        ("drain_wanted", ctypes.c_uint64),
        ("drains", ctypes.c_uint32 * CONTROL_SLOTS),
        ("heartbeat_ns", ctypes.c_int64),
        ("step_ns", ctypes.c_int64 * CONTROL_STEPS),
    )


_STATE_AT = ControlPage.switch_word.offset
_MODE_AT = _STATE_AT + 1
_EPOCH_AT = _STATE_AT + 2
_OPEN_AT = _STATE_AT + 4
_SLOTS_AT = ControlPage.slots.offset


@dataclass(frozen=True)
class Counters:
    """A snapshot of the agents' counters.

    Attributes:
        windows_open: Capture ranges that are open now.
        windows_done: Capture ranges that have ended.
        attached: Processes with the agent, including forks.
        nvtx_bound: NVTX instances bound, over all processes.
        cuda_bound: Processes whose CUDA driver loaded the agent.
        range_misses: Lower bound of the ranges that did not match the capture range.
        out_of_space: Whether a log could not grow.
        agent_errors: Processes in which the agent could not start or continue writing.
        first_error: The reason in the first of them; empty for none.
        unlogged_events: Events dropped because a log could not be created.
        steps_begun: Steps started by all processes, with step sampling.
        step_processes: Processes that have started a step.
        step_ns: When the last of them began, monotonic, by number modulo `CONTROL_STEPS`.
        plan: Steps per sample and from sample to sample; (0, 0) until chosen.
    """

    windows_open: int
    windows_done: int
    attached: int
    nvtx_bound: int
    cuda_bound: int
    range_misses: int
    out_of_space: bool
    agent_errors: int
    first_error: str
    unlogged_events: int = 0
    steps_begun: int = 0
    step_processes: int = 0
    step_ns: tuple[int, ...] = (0,) * CONTROL_STEPS
    plan: tuple[int, int] = (0, 0)


class ControlFile:
    """The control page of a session, mapped.

    Args:
        mapping: The file's first page, shared and writable.
    """

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        state: State = State.RECORDING,
        mode: RangeMode = RangeMode.NONE,
        windows_wanted: int = 0,
    ) -> ControlFile:
        """Write the page of a new session and map it.

        Args:
            folder: The session directory.
            state: Initial state of the agents.
            mode: What opens a capture range.
            windows_wanted: The agents stop after this many capture ranges; 0: no limit.
        """
        page = ControlPage(
            magic=CONTROL_MAGIC,
            version=CONTROL_VERSION,
            switch_word=state | mode << 8,
            windows_wanted=windows_wanted,
        )
        path = folder / FILE_NAME
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(page).ljust(CONTROL_BYTES, b"\0"))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> ControlFile:
        """Map the page of a session; CaptureError if the file is not a control page."""
        path = folder / FILE_NAME
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != CONTROL_BYTES:
                raise CaptureError(f"{path} is not a control page")
            mapping = mmap.mmap(file.fileno(), CONTROL_BYTES)
        found = struct.unpack_from("<II", mapping)
        if found != (CONTROL_MAGIC, CONTROL_VERSION):
            mapping.close()
            raise CaptureError(f"{path} is not a control page of this version")
        return cls(mapping)

    def close(self) -> None:
        """Unmap the page; a second call does nothing."""
        self._mapping.close()

    @property
    def state(self) -> State:
        """The current state of the agents."""
        return State(self._mapping[_STATE_AT])

    @state.setter
    def state(self, state: State) -> None:
        """Set the state of the agents."""
        self._mapping[_STATE_AT] = state

    def resume(self, state: State) -> None:
        """Turn recording on after it was off; the logs mark the gap."""
        (epoch,) = struct.unpack_from("<H", self._mapping, _EPOCH_AT)
        self._put("<H", _EPOCH_AT, (epoch + 1) & 0xFFFF)
        self.state = state

    @property
    def mode(self) -> RangeMode:
        """What opens a capture range."""
        return RangeMode(self._mapping[_MODE_AT])

    def counters(self) -> Counters:
        """Return a snapshot of the agents' counters."""
        page = self._snapshot()
        return Counters(
            windows_open=page.switch_word >> 32,
            windows_done=page.windows_done,
            attached=page.attached,
            nvtx_bound=page.nvtx_bound,
            cuda_bound=page.cuda_bound,
            range_misses=page.range_misses,
            out_of_space=page.out_of_space != 0,
            agent_errors=page.agent_errors,
            first_error=page.first_error.decode("utf-8", "replace"),
            unlogged_events=page.unlogged_events,
            steps_begun=page.steps_begun,
            step_processes=page.step_processes,
            step_ns=tuple(page.step_ns),
            plan=(page.sample_plan & 0xFFFF, page.sample_plan >> 32),
        )

    def holders(self) -> dict[int, int]:
        """Return the open capture ranges of each attached process: pid -> count."""
        page = self._snapshot()
        return {slot.pid: slot.windows_open for slot in page.slots if slot.pid}

    def attached_pids(self) -> set[int]:
        """Return the processes that have a slot: attached, and not detached normally."""
        words = struct.unpack_from(f"<{2 * CONTROL_SLOTS}I", self._mapping, _SLOTS_AT)
        return set(words[::2]) - {0}

    @property
    def heartbeat_ns(self) -> int:
        """When the launcher last inspected the processes in the slots, monotonic; 0: never."""
        (found,) = struct.unpack_from("<q", self._mapping, ControlPage.heartbeat_ns.offset)
        return int(found)

    @heartbeat_ns.setter
    def heartbeat_ns(self, now_ns: int) -> None:
        """State that all processes in the slots are running, except those with a noted end."""
        self._put("<q", ControlPage.heartbeat_ns.offset, now_ns)

    def release(self, pid: int) -> None:
        """Free the slots of a dead process and close its capture ranges.

        The number of open ranges is read and written in two steps. A range that another process
        opens or closes in between is miscounted, which `is_counted_right` and `recount` correct.
        """
        page = self._snapshot()
        held = 0
        for index, slot in enumerate(page.slots):
            if slot.pid == pid:
                held += slot.windows_open
                self._put("<II", _SLOTS_AT + index * ctypes.sizeof(ControlSlot), 0, 0)
        if held:
            self._close_windows(held)

    def ask_to_drain(self) -> None:
        """Ask the agents to write the records of pending GPU work once it has ended."""
        self._put("<Q", ControlPage.drain_wanted.offset, 1)

    def holds_work(self) -> set[int]:
        """Return the processes with GPU records that are not in their logs yet."""
        page = self._snapshot()
        states = zip(page.slots, page.drains, strict=True)
        return {slot.pid for slot, state in states if slot.pid and state == DrainState.HOLDING}

    def traced_by_cuda(self) -> set[int]:
        """Return the processes in which CUDA is traced: CUPTI is attached."""
        page = self._snapshot()
        states = zip(page.slots, page.drains, strict=True)
        return {slot.pid for slot, state in states if slot.pid and state != DrainState.NOTHING}

    def is_counted_right(self) -> bool:
        """Return whether the number of open ranges is the sum over processes.

        A temporary difference may be a range that is being opened; a lasting one is a miscount. If
        more processes attached than there are slots, the sum is unknown, and True is returned.
        """
        page = self._snapshot()
        held = sum(slot.windows_open for slot in page.slots)
        return page.attached > CONTROL_SLOTS or bool(page.switch_word >> 32 == held)

    def recount(self) -> None:
        """Set the number of open ranges to the sum over processes."""
        page = self._snapshot()
        self._put("<I", _OPEN_AT, sum(slot.windows_open for slot in page.slots))

    def _close_windows(self, count: int) -> None:
        page = self._snapshot()
        left = max(0, (page.switch_word >> 32) - count)
        self._put("<I", _OPEN_AT, left)
        done = page.windows_done + 1
        self._put("<Q", ControlPage.windows_done.offset, done)
        if page.windows_wanted and done >= page.windows_wanted and not left:
            self.state = State.STOPPED

    def _snapshot(self) -> ControlPage:
        return ControlPage.from_buffer_copy(self._mapping)

    def _put(self, layout: str, offset: int, *values: int) -> None:
        struct.pack_into(layout, self._mapping, offset, *values)
