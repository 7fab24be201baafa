"""A session: the directory with a program's raw records, until the recording is written.

``native/raw/warpline_raw.h`` describes the layout. The launcher and the in-process profile create
sessions, the agents write logs to them, and finishing converts them to a recording.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpline.capture.machine.agent import CUDA_INJECTION_VARIABLE, INJECTION_VARIABLE
from warpline.capture.session import pytorch
from warpline.capture.session.agent_config import (
    CONFIG_NAME,
    AgentConfig,
    CpuSamplesConfig,
    config_lines,
)
from warpline.capture.session.control import ControlFile, RangeMode, State
from warpline.capture.session.facts import Facts, write_facts
from warpline.capture.session.holes import check_holes, punch_hole
from warpline.capture.session.preload import LOADER, preload_variables
from warpline.capture.session.raw_numbers import LogHeader
from warpline.errors import CaptureError

LOG_ENDING = ".wlraw"
FOLDER_ENDING = ".raw"

SESSION_VARIABLE = "WARPLINE_SESSION"
OPENMP = "openmp"  # the collector
OPENMP_VARIABLE = "OMP_TOOL_LIBRARIES"
NCCL = "nccl"  # the collector
NCCL_VARIABLE = "NCCL_PROFILER_PLUGIN"
_MOST_NCCL_PATH = 254  # bytes: NCCL cuts longer names

LOG_MAGIC = b"WLRAW\r\n\x1a"
_ATTEMPTS = 1000
LOG_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Volume:
    """The amount of data in the logs of a session.

    Attributes:
        events: Events recorded.
        dropped: Events dropped for lack of space.
        bytes: Disk space of the logs.
        logs: Number of logs.
    """

    events: int
    dropped: int
    bytes: int
    logs: int


class Session:
    """A session created by this process.

    Args:
        folder: Its directory.
        control: Its control page.
        facts: The content of session.json.
        has_cuda: Whether the CUDA driver is to load the agent.
        has_openmp: Whether OpenMP runtimes are to load the agent.
        has_nccl: Whether NCCL is to load the agent as its profiler plug-in.
        preload: Names of libraries that programs are started with.
    """

    def __init__(
        self,
        folder: Path,
        control: ControlFile,
        facts: Facts,
        *,
        has_cuda: bool = False,
        has_openmp: bool = False,
        has_nccl: bool = False,
        preload: Sequence[str] = (),
    ) -> None:
        self._has_cuda = has_cuda
        self._has_openmp = has_openmp
        self._has_nccl = has_nccl
        self._preload = preload
        self.folder = folder
        self.control = control
        self.facts: dict[str, Any] = dict(facts)

    def write_facts(self, **changes: Any) -> None:
        """Change facts and rewrite session.json."""
        self.facts.update(changes)
        write_facts(self.folder, self.facts)

    def add_software(self, versions: Mapping[str, str]) -> None:
        """Add versions of what the program runs on; those known already stay."""
        software = {**versions, **self.facts.get("software", {})}
        if software != self.facts.get("software"):
            self.write_facts(software=software)

    def end(self, **changes: Any) -> None:
        """Stop recording permanently; store changes of facts, and the time if it is not in them."""
        self.control.state = State.STOPPED
        self.write_facts(**{"ended_monotonic_ns": time.monotonic_ns(), **changes})

    def variables(
        self, agent: Path, environment: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the environment variables that make programs record to this session.

        Args:
            agent: The agent.
            environment: The environment that they are added to; None for an empty one.

        Raises:
            WarplineError: A library to preload is missing.
        """
        found = {INJECTION_VARIABLE: str(agent), SESSION_VARIABLE: str(self.folder)}
        if self._has_cuda:
            found[CUDA_INJECTION_VARIABLE] = str(agent)
        environment = environment or {}
        found |= preload_variables(agent, self._preload, environment)
        if self._has_openmp:
            # The first tool that accepts is used: the user's own, if there is one.
            tools = filter(None, [environment.get(OPENMP_VARIABLE), str(agent)])
            found[OPENMP_VARIABLE] = ":".join(tools)
        # NCCL takes one plug-in: the user's own, if there is one.
        is_short = len(str(agent).encode()) <= _MOST_NCCL_PATH
        if self._has_nccl and is_short and NCCL_VARIABLE not in environment:
            found[NCCL_VARIABLE] = str(agent)
        return found | pytorch.python_variables(self.facts.get("pytorch", ()), environment)

    def sample_within(self, sampling: CpuSamplesConfig) -> None:
        """Have the agents sample CPU stacks, in programs that are started from now on.

        Raises:
            OSError: The configuration cannot be written.
        """
        with (self.folder / CONFIG_NAME).open("a", encoding="ascii") as file:
            file.write(config_lines(sampling.pairs()))
        self._preload = (*self._preload, LOADER)

    def close(self) -> None:
        """Unmap the control page; keep the directory."""
        self.control.close()

    def remove(self) -> None:
        """Unmap the control page and delete the directory, as far as possible."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def create_session(
    folder: Path,
    config: AgentConfig,
    facts: Facts,
    *,
    state: State = State.RECORDING,
    mode: RangeMode = RangeMode.NONE,
    windows_wanted: int = 0,
    is_trimmed: bool = False,
) -> Session:
    """Create a session in an empty directory made by `reserve_folder`.

    Args:
        folder: The directory; it exists and is empty.
        config: Configuration of the agents.
        facts: Content of session.json: `session_facts` and additions of the caller.
        state: Initial state of the agents.
        mode: What opens a capture range.
        windows_wanted: The agents stop after this many capture ranges; 0: no limit.
        is_trimmed: Whether only the last of it is kept.

    Raises:
        CaptureError: A file cannot be written, or not be trimmed.
    """
    try:
        if is_trimmed:
            check_holes(folder)
        write_facts(folder, facts)
        if facts.get("pytorch"):
            (folder / pytorch.FOLDER).mkdir()
        (folder / CONFIG_NAME).write_text(config.text(), encoding="ascii")
        control = ControlFile.create(folder, state=state, mode=mode, windows_wanted=windows_wanted)
    except CaptureError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise not_writable(folder, error) from error
    has_cuda = config.cuda is not None or bool(config.collect)
    return Session(
        folder,
        control,
        facts,
        has_cuda=has_cuda,
        has_openmp=OPENMP in config.collect,
        has_nccl=NCCL in config.collect,
        preload=config.preload,
    )


def not_writable(folder: Path, error: OSError) -> CaptureError:
    """Return the error for a session that cannot be written."""
    return CaptureError(
        f"cannot write to {folder}: {error.strerror or error}",
        hint=f"{'free some space, or ' if is_full(error) else ''}record to another directory",
    )


def is_full(error: OSError) -> bool:
    """Return whether an error means that there is no space: a full disk, a quota, a size limit."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def reserve_folder(output: Path) -> Path:
    """Create an empty session directory next to the recording, accessible to this user only.

    Its name is the recording's plus ``.raw``, with a number if that exists: for another session, or
    an unfinished one. Nothing is overwritten.

    Raises:
        CaptureError: The directory cannot be created.
    """
    for attempt in range(1, _ATTEMPTS):
        number = "" if attempt == 1 else f".{attempt}"
        folder = output.with_name(f"{output.name}{number}{FOLDER_ENDING}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise CaptureError(
                f"cannot create {folder}: {error.strerror}",
                hint="record to another directory",
            ) from error
        return folder
    raise CaptureError(
        f"{output.parent} has {_ATTEMPTS} unfinished recordings of {output.name}",
        hint=f"run warpline recover {output.name}{FOLDER_ENDING}, or delete the .raw directories",
    )


def free_space(folder: Path) -> None:
    """Give back the disk space of a session's logs, before they are deleted.

    Threads of a program that goes on keep their last log mapped until they write another one, and
    with it the space of a deleted file.
    """
    with contextlib.suppress(OSError, AttributeError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(LOG_ENDING):
                continue
            with contextlib.suppress(OSError), Path(entry.path).open("r+b", buffering=0) as file:
                begin, size = LOG_HEAD_BYTES, entry.stat().st_size
                if size > begin:
                    punch_hole(file.fileno(), begin, size - begin)


def measure(folder: Path) -> Volume:
    """Return the current size of a session's logs; unreadable logs count as empty."""
    events = dropped = size = logs = 0
    for header, file_bytes in _headers(folder):
        logs += 1
        size += file_bytes
        events += max(header.records - header.trimmed_records, 0)
        dropped += header.dropped_records
    return Volume(events, dropped, size, logs)


def _headers(folder: Path) -> Iterator[tuple[LogHeader, int]]:
    """Yield the header of each log, zeros if it is not readable, and its disk space in bytes."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(LOG_ENDING):
                continue
            with contextlib.suppress(OSError), Path(entry.path).open("rb", buffering=0) as file:
                head = file.read(ctypes.sizeof(LogHeader))
                size = entry.stat().st_blocks * 512
                is_log = len(head) == ctypes.sizeof(LogHeader) and head.startswith(LOG_MAGIC)
                yield LogHeader.from_buffer_copy(head) if is_log else LogHeader(), size
