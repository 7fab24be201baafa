"""A session: the directory with a program's raw records, until the recording is written.

``native/raw/warpline_raw.h`` describes the layout. The launcher and the in-process profile create
sessions, the agents write logs to them, and finishing converts them to a recording.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warpline.capture.flags.call_chains import agent_keys
from warpline.capture.session.control import ControlFile, RangeMode, State
from warpline.errors import CaptureError

FACTS_NAME = "session.json"
CONFIG_NAME = "agent.conf"
LOG_ENDING = ".wlraw"
FOLDER_ENDING = ".raw"

SESSION_VARIABLE = "WARPLINE_SESSION"
INJECTION_VARIABLE = "NVTX_INJECTION64_PATH"
CUDA_INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"

_LOG_MAGIC = b"WLRAW\r\n\x1a"
_LOG_RECORDS_AT = 64  # records, dropped_records, cut_texts: LogHeader in warpline_raw.h
_ATTEMPTS = 1000

# Kinds of CUDA records that are on by default in agent.conf.
_CUDA_KINDS = (
    "cuda_kernel",
    "cuda_memcpy",
    "cuda_memset",
    "cuda_sync",
    "cuda_event",
    "cuda_overhead",
)

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class SampleConfig:
    """Which steps the agents record.

    Attributes:
        steps: Steps to record of every `every`.
        every: Steps from the start of one sample to the next; 0: chosen from `duty` and the
            duration of steps.
        duty: The fraction of steps to record, if `every` is 0.
        range_name: The NVTX range that starts a step, with * and ?; None for common names.
        range_domain: Its domain; None for any, "default" for the unnamed domain.
        by_calls: Whether cudaProfilerStart starts a step instead.
    """

    steps: int = 0
    every: int = 0
    duty: float = 0.0
    range_name: str | None = None
    range_domain: str | None = None
    by_calls: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        pairs = [
            ("sample_steps", str(self.steps)),
            ("sample_every", str(self.every)),
            ("sample_duty_ppm", str(round(self.duty * 1e6))),
            ("sample_calls", str(int(self.by_calls))),
        ]
        if self.range_name is not None:
            pairs.append(("sample_range", self.range_name))
        if self.range_domain is not None:
            pairs.append(("sample_domain", self.range_domain))
        return pairs


@dataclass(frozen=True)
class CudaConfig:
    """What the agents record of CUDA.

    Attributes:
        library_paths: Candidate paths of CUPTI, in the order to try them.
        calls: "calls" for the calls worth recording, "all" or "none".
        graph: "graph" for graph-level, "node" for node-level tracing of CUDA graphs.
        memory: Whether allocations and frees are recorded.
        waits: Source of synchronization and event records: "calls", or "cupti" for CUPTI's own.
        chains: Which calls get backtraces, from `call_chains.parse_call_chains`.
        flush_ms: Interval between flushes; at most this much is missing when a program is killed.
        detach_ms: Minimum expected pause between samples for detaching CUPTI; 0: never detach.
        is_silent: Record nothing; only detect calls of cudaProfilerStart and -Stop.
    """

    library_paths: tuple[str, ...] = ()
    calls: str = "calls"
    graph: str = "node"
    memory: bool = False
    waits: str = "calls"
    chains: Mapping[str, int] = field(default_factory=dict)
    flush_ms: int = 1000
    detach_ms: int = 0
    is_silent: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        found = [("cuda", "1"), *(("cupti_path", path) for path in self.library_paths)]
        found.append(("cuda_flush_ms", str(self.flush_ms)))
        if self.detach_ms:
            found.append(("cuda_detach_ms", str(self.detach_ms)))
        if self.is_silent:
            return [*found, ("cuda_api", "none"), *((key, "0") for key in _CUDA_KINDS)]
        memory = str(int(self.memory))
        return [
            *found,
            ("cuda_api", self.calls),
            ("cuda_graph", self.graph),
            ("cuda_memory", memory),
            ("cuda_waits", self.waits),
            *agent_keys(self.chains),
        ]


@dataclass(frozen=True)
class AgentConfig:
    """Configuration of the agents.

    Attributes:
        nvtx: Whether NVTX events are recorded.
        domain_include: Record only these NVTX domains; empty for all. "default" is the unnamed one.
        domain_exclude: Exclude these NVTX domains.
        range_name: The NVTX range that opens a capture range, or None.
        range_domain: Its domain; None for the default domain, "*" for any.
        sample: Which steps are recorded; None for all.
        block_bytes: Increment by which a log grows.
        keep_free_bytes: Logs stop growing when the file system has less space left.
        cuda: What is recorded of CUDA, or None.
    """

    nvtx: bool = True
    domain_include: tuple[str, ...] = ()
    domain_exclude: tuple[str, ...] = ()
    range_name: str | None = None
    range_domain: str | None = None
    sample: SampleConfig | None = None
    block_bytes: int = 1 << 20
    keep_free_bytes: int = 64 << 20
    cuda: CudaConfig | None = None

    def text(self) -> str:
        """Return the content of agent.conf."""
        pairs: list[tuple[str, str]] = [("version", "1"), ("nvtx", str(int(self.nvtx)))]
        pairs += [("domain_include", name) for name in self.domain_include]
        pairs += [("domain_exclude", name) for name in self.domain_exclude]
        if self.range_name is not None:
            pairs.append(("range_name", self.range_name))
        if self.range_domain is not None:
            pairs.append(("range_domain", self.range_domain))
        if self.sample is not None:
            pairs += self.sample.pairs()
        pairs.append(("block_bytes", str(self.block_bytes)))
        pairs.append(("keep_free_bytes", str(self.keep_free_bytes)))
        if self.cuda is not None:
            pairs += self.cuda.pairs()
        return "".join(
            f"{key}={quote(value, safe='', errors='surrogateescape')}\n" for key, value in pairs
        )


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
        has_cuda: Whether the agents use CUPTI.
    """

    def __init__(
        self, folder: Path, control: ControlFile, facts: Facts, *, has_cuda: bool = False
    ) -> None:
        self._has_cuda = has_cuda
        self.folder = folder
        self.control = control
        self.facts: dict[str, Any] = dict(facts)

    def write_facts(self, **changes: Any) -> None:
        """Change facts and rewrite session.json."""
        self.facts.update(changes)
        write_facts(self.folder, self.facts)

    def end(self, **changes: Any) -> None:
        """Stop recording permanently and store the time."""
        self.control.state = State.STOPPED
        self.write_facts(ended_monotonic_ns=time.monotonic_ns(), **changes)

    def variables(self, agent: Path) -> dict[str, str]:
        """Return the environment variables that make programs record to this session."""
        found = {INJECTION_VARIABLE: str(agent), SESSION_VARIABLE: str(self.folder)}
        if self._has_cuda:
            found[CUDA_INJECTION_VARIABLE] = str(agent)
        return found

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
) -> Session:
    """Create a session in an empty directory made by `reserve_folder`.

    Args:
        folder: The directory; it exists and is empty.
        config: Configuration of the agents.
        facts: Content of session.json: `session_facts` and additions of the caller.
        state: Initial state of the agents.
        mode: What opens a capture range.
        windows_wanted: The agents stop after this many capture ranges; 0: no limit.

    Raises:
        CaptureError: A file cannot be written.
    """
    try:
        write_facts(folder, facts)
        (folder / CONFIG_NAME).write_text(config.text(), encoding="ascii")
        control = ControlFile.create(folder, state=state, mode=mode, windows_wanted=windows_wanted)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise not_writable(folder, error) from error
    return Session(folder, control, facts, has_cuda=config.cuda is not None)


def not_writable(folder: Path, error: OSError) -> CaptureError:
    """Return the error for a session that cannot be written."""
    return CaptureError(
        f"cannot write to {folder}: {error.strerror or error}",
        hint=f"{'free some space, or ' if is_full(error) else ''}record to another directory",
    )


def is_full(error: OSError) -> bool:
    """Return whether an error means that there is no space: a full disk, a quota, a size limit."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def session_facts(
    output: Path,
    *,
    command: Iterable[str],
    options: Facts,
    environment: Mapping[str, str],
    collected: Iterable[str],
) -> dict[str, Any]:
    """Return the initial facts of a session.

    Args:
        output: Path of the recording.
        command: The program and its arguments, redacted.
        options: Plain values by option name.
        environment: The environment variables to store, redacted.
        collected: The traced APIs, such as "nvtx".
    """
    from warpline import __version__  # noqa: PLC0415 - the package's own version, already there

    monotonic_ns, utc_ns = time.monotonic_ns(), time.time_ns()
    return {
        "version": 1,
        "warpline": __version__,
        "command": list(command),
        "directory": str(Path.cwd()),
        "host": os.uname().nodename,
        "started_utc_ns": utc_ns,
        "started_monotonic_ns": monotonic_ns,
        "options": dict(options),
        "environment": dict(environment),
        "output": str(output),
        "launcher_pid": os.getpid(),
        "notes": [],
        "collected": list(collected),
    }


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


def write_facts(folder: Path, facts: Facts) -> None:
    """Replace session.json atomically: a reader sees the old or the new version."""
    path = folder / FACTS_NAME
    unfinished = folder / f".{FACTS_NAME}.{os.getpid()}"
    text = json.dumps(facts, indent=1, ensure_ascii=True)  # lone surrogates stay readable
    unfinished.write_text(text + "\n", encoding="ascii")
    unfinished.replace(path)


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the content of session.json.

    Raises:
        CaptureError: It is missing or damaged.
    """
    path = folder / FACTS_NAME
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CaptureError(f"{path} is damaged: {error}") from error
    if not isinstance(facts, dict):
        raise CaptureError(f"{path} is damaged: not a JSON object")
    return facts


def measure(folder: Path) -> Volume:
    """Return the current size of a session's logs; unreadable logs count as empty."""
    events = dropped = size = logs = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(LOG_ENDING):
                continue
            with contextlib.suppress(OSError), Path(entry.path).open("rb", buffering=0) as file:
                head = file.read(_LOG_RECORDS_AT + 16)
                size += entry.stat().st_blocks * 512
                logs += 1
                if len(head) == _LOG_RECORDS_AT + 16 and head.startswith(_LOG_MAGIC):
                    records, lost = struct.unpack_from("<QQ", head, _LOG_RECORDS_AT)
                    events += records
                    dropped += lost
    return Volume(events, dropped, size, logs)
