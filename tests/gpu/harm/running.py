"""Runs a program alone or recorded, under a limit, with its output in files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu.harm.levels import Level

IN_PROCESS = "gpu.harm.in_process"
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_TOLD = re.compile(rb"^(kernels|ranged) (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Recording:
    """What a recording holds, or why it cannot be opened."""

    kernels: int = 0
    graph_launches: int = 0
    counted: int = 0
    lost: Mapping[str, int | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str | None = None


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
        status = _wait(process, limit_s)
    return Run(
        status,
        (folder / "stdout").read_bytes(),
        (folder / "stderr").read_bytes(),
        time.monotonic() - begun,
        None if level is None else read(output),
    )


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        # The program has a process group of its own, which a killed launcher would leave behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


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
