"""A session: the folder in which a program's records are kept until they are finished.

The layout is described in ``native/raw/warpline_raw.h``. The launcher and the in-process profile
make sessions; the agents write logs into them; finishing turns them into a recording.
"""

from __future__ import annotations

import contextlib
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

from warpline.capture.call_chains import agent_keys
from warpline.capture.control import ControlFile, RangeMode, State
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

# Kinds of CUDA's records that are on unless agent.conf says otherwise.
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
        steps: So many...
        every: ...of each so many; 0: chosen by `duty` from how long steps take.
        duty: The share of the steps to record, where it is chosen.
        range_name: The NVTX range that begins a step, a pattern of * and ?; None for usual names.
        range_domain: Its domain; None for any, "default" for the one without a name.
        by_calls: Whether cudaProfilerStart begins a step instead.
    """

    steps: int = 0
    every: int = 0
    duty: float = 0.0
    range_name: str | None = None
    range_domain: str | None = None
    by_calls: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Return keys and values for agent.conf."""
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
    """What the agents are to record of CUDA.

    Attributes:
        library_paths: Where CUPTI may be, what is to be tried first first.
        calls: "calls" for the calls that tell something, "all" or "none".
        graph: "graph" for graphs as a whole, "node" for what they consist of.
        memory: Whether allocations and releases are recorded.
        waits: Where waits and event records are from: "calls", or "cupti" for CUPTI's own records.
        chains: Which calls have call chains, as `call_chains.parse_call_chains` says it.
        flush_ms: At most so much is lost when a program is killed.
        detach_ms: Rests between samples that are likely to be as long are without CUPTI; 0: none.
        is_silent: Nothing is recorded; calls of cudaProfilerStart are only seen.
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
        """Return the keys and values of agent.conf."""
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
    """What the agents are to do.

    Attributes:
        nvtx: Whether NVTX events are recorded.
        domain_include: Only these NVTX domains; empty for all. The default domain is "default".
        domain_exclude: Not these NVTX domains.
        range_name: The range that opens a capture range, or None.
        range_domain: Its domain; None for the default domain, "*" for any.
        sample: Which steps are recorded; None for all.
        block_bytes: A log grows by this much.
        keep_free_bytes: Logs stop growing when the file system has less left.
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
    """How much the logs of a session hold.

    Attributes:
        events: Events recorded.
        dropped: Events lost for want of space.
        bytes: Size of the logs as they lie on the disk.
        logs: Number of logs.
    """

    events: int
    dropped: int
    bytes: int
    logs: int


class Session:
    """A session that this process has made.

    Args:
        folder: Where it is.
        control: Its control page.
        facts: What session.json holds.
        has_cuda: Whether the agents look at CUDA.
    """

    def __init__(
        self, folder: Path, control: ControlFile, facts: Facts, *, has_cuda: bool = False
    ) -> None:
        self._has_cuda = has_cuda
        self.folder = folder
        self.control = control
        self.facts: dict[str, Any] = dict(facts)

    def write_facts(self, **changes: Any) -> None:
        """Change facts, and replace session.json as a whole."""
        self.facts.update(changes)
        write_facts(self.folder, self.facts)

    def end(self, **changes: Any) -> None:
        """Stop the recording for good and note when that was."""
        self.control.state = State.STOPPED
        self.write_facts(ended_monotonic_ns=time.monotonic_ns(), **changes)

    def variables(self, agent: Path) -> dict[str, str]:
        """Return the environment variables that make programs record into this session."""
        found = {INJECTION_VARIABLE: str(agent), SESSION_VARIABLE: str(self.folder)}
        if self._has_cuda:
            found[CUDA_INJECTION_VARIABLE] = str(agent)
        return found

    def close(self) -> None:
        """Unmap the control page; the folder stays."""
        self.control.close()

    def remove(self) -> None:
        """Unmap the control page and delete the folder; what cannot be deleted stays."""
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
    """Fill an empty folder, as `reserve_folder` makes it, with a new session.

    Args:
        folder: The folder; it exists and is empty.
        config: What the agents are to do.
        facts: What session.json holds: `session_facts` and what the caller adds.
        state: What the agents do at first.
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
        raise CaptureError(
            f"{folder} cannot be written: {error.strerror}",
            hint="-o FILE puts the recording somewhere else",
        ) from error
    return Session(folder, control, facts, has_cuda=config.cuda is not None)


def session_facts(
    output: Path,
    *,
    command: Iterable[str],
    options: Facts,
    environment: Mapping[str, str],
    collected: Iterable[str],
) -> dict[str, Any]:
    """Return the facts that every session begins with.

    Args:
        output: The recording to be made.
        command: The program and its arguments, redacted.
        options: Plain values by option name.
        environment: The environment variables to keep, redacted.
        collected: What is recorded, such as "nvtx".
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
    """Make an empty folder for the session beside its recording, for this user only.

    It is called like the recording with ``.raw`` behind it, and a number if there is one already:
    another session, or one that was never finished. Nothing is overwritten.

    Raises:
        CaptureError: The folder cannot be made.
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
                f"{folder} cannot be made: {error.strerror}",
                hint="-o FILE puts the recording somewhere else",
            ) from error
        return folder
    raise CaptureError(
        f"{output.parent} holds {_ATTEMPTS} unfinished sessions of {output.name}",
        hint=f"warpline recover {output.name}{FOLDER_ENDING}",
    )


def write_facts(folder: Path, facts: Facts) -> None:
    """Replace session.json as a whole: a reader sees the old one or the new one."""
    path = folder / FACTS_NAME
    unfinished = folder / f".{FACTS_NAME}.{os.getpid()}"
    text = json.dumps(facts, indent=1, ensure_ascii=True)  # lone surrogates stay readable
    unfinished.write_text(text + "\n", encoding="ascii")
    unfinished.replace(path)


def read_facts(folder: Path) -> dict[str, Any]:
    """Return what session.json holds.

    Raises:
        CaptureError: It is absent or damaged.
    """
    path = folder / FACTS_NAME
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaptureError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CaptureError(f"{path} is damaged: {error}") from error
    if not isinstance(facts, dict):
        raise CaptureError(f"{path} is damaged: it is not an object")
    return facts


def measure(folder: Path) -> Volume:
    """Return how much the logs of a session hold now; logs that cannot be read count as empty."""
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
