"""Runs a program alone or recorded, under a limit, with its output in files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu.harm.driving import Driven, driving, session_of
from gpu.harm.levels import Level

IN_PROCESS = "gpu.harm.in_process"
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_TOLD = re.compile(rb"^(kernels|ranged) (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Recording:
    """What a recording holds, or several of a run together, or why it cannot be opened."""

    kernels: int = 0
    graph_launches: int = 0
    counted: int = 0
    lost: Mapping[str, int | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str | None = None

    def plus(self, other: Recording) -> Recording:
        """Return what two recordings of a run hold together."""
        lost = Counter({name: count or 0 for name, count in self.lost.items()})
        lost.update({name: count or 0 for name, count in other.lost.items()})
        return Recording(
            self.kernels + other.kernels,
            self.graph_launches + other.graph_launches,
            self.counted + other.counted,
            dict(lost),
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            self.error or other.error,
        )


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    Attributes:
        status: The exit status, minus the number of the signal that ended it, or None for a run
            that was still going at its limit and was killed.
        recording: None where nothing was to be recorded.
    """

    status: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    recording: Recording | None = None

    def told(self, what: str) -> int | None:
        """Return the sum of what its processes tell of kernels, None where they tell nothing."""
        numbers = [
            int(number) for name, number in _TOLD.findall(self.stdout) if name.decode() == what
        ]
        return sum(numbers) if numbers else None

    def plain_stderr(self) -> list[str]:
        """Return the lines on stderr without numbers: times, process ids and addresses vary."""
        text = self.stderr.decode(errors="replace")
        return sorted(_NUMBER.sub("#", line) for line in text.splitlines())


def command_of(words: list[str], level: Level, output: Path) -> list[str]:
    """Return the command that records a program at a level."""
    if level.is_in_process:
        if words[1] != "-m":
            raise ValueError(f"{words}: only python -m MODULE can be recorded in process")
        return [words[0], "-m", IN_PROCESS, str(output), *words[2:]]
    if level.command == "attach":
        return words
    if level.command == "launch":
        flags = ("-q", f"--session={session_of(output.parent)}", *level.flags)
        return [sys.executable, "-m", "warpline", "launch", *flags, "--", *words]
    overwrite = ("-f", "true") if level.command == "profile" else ("-f",)
    asked = [level.command, "-q", *overwrite, "-o", str(output), *level.flags, "--"]
    return [sys.executable, "-m", "warpline", *asked, *words]


def run(
    words: list[str],
    environment: Mapping[str, str],
    folder: Path,
    limit_s: float,
    level: Level | None,
) -> Run:
    """Run a program, alone if there is no level, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "run.warpline"
    command = words if level is None else command_of(words, level, output)
    begun = time.monotonic()
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        status, recording = _record(process, folder, environment, limit_s, level)
    return Run(
        status,
        (folder / "stdout").read_bytes(),
        (folder / "stderr").read_bytes(),
        time.monotonic() - begun,
        recording,
    )


def _record(
    process: subprocess.Popen[bytes],
    folder: Path,
    environment: Mapping[str, str],
    limit_s: float,
    level: Level | None,
) -> tuple[int | None, Recording | None]:
    """Wait for the program. Return its status and what was recorded."""
    if level is None:
        return _wait(process, limit_s), None
    if not level.is_driven:
        return _wait(process, limit_s), read(folder / "run.warpline")
    with driving(level.command, process, folder, environment) as driven:
        status = _wait(process, limit_s)
    return status, read_all(driven)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        # The program has a process group of its own, which a killed launcher would leave behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def read_all(driven: Driven) -> Recording:
    """Return what the recordings hold that were made while a program ran."""
    told = [f"{driven.made} recordings"]
    told += [f"refused: {why}" for why in dict.fromkeys(driven.refusals)]
    errors = [*driven.failures, *(f"{path.name} is left" for path in driven.unfinished())]
    found = Recording(warnings=tuple(told), error=errors[0] if errors else None)
    for path in driven.outputs():
        found = found.plus(read(path))
    return found


def read(path: Path) -> Recording:
    """Return what a recording holds."""
    # Imported here: the programs' environment names the core before it is loaded.
    import warpline

    try:
        trace = warpline.open(path)
        names = ("kernel", "graph_launch", "profiled_kernel")
        kernels, graph_launches, counted = (
            trace.row_count(name) if trace.has(name) else 0 for name in names
        )
    except warpline.WarplineError as error:
        return Recording(error=str(error))
    meta = trace.meta
    return Recording(kernels, graph_launches, counted, dict(meta.lost), tuple(meta.warnings))
