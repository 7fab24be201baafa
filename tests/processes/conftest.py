"""Programs run through ``warpline profile``, compared with their own notes and with runs alone."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import recording

import warpline

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 60.0

Counts = dict[int, dict[str, int]]  # pid -> name -> ranges


@dataclass
class Recording:
    """A recording by what tests ask of it."""

    trace: warpline.Trace
    counts: Counts = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Open a recording and count its ranges."""
        found = cls(warpline.open(path))
        ranges = found.trace.columns("range", "process_id", "name_id")
        pids = found.trace["process"]["pid"].to_list()
        pairs = zip(
            ranges["process_id"].values.tolist(), ranges["name_id"].values.tolist(), strict=True
        )
        for (process, name), count in Counter(pairs).items():
            names = found.counts.setdefault(pids[process], {})
            text = found.trace.strings.texts([name])[0]
            names[text] = names.get(text, 0) + count
        return found

    @property
    def warnings(self) -> str:
        """What the recording tells its readers, as one text."""
        return "\n".join(self.trace.meta.warnings)

    @property
    def lost(self) -> int:
        """Events that it says are lost."""
        return sum(count or 0 for count in self.trace.meta.lost.values())

    def totals(self) -> dict[str, int]:
        """Ranges by name over all processes."""
        return totals(self.counts)

    def truncated(self) -> list[str]:
        """Names of the ranges that were open at an end."""
        ranges = self.trace["range"]
        return sorted(ranges.filter(ranges["is_truncated"])["name"].to_list())


@dataclass
class Run:
    """A program that has ended."""

    status: int
    stdout: bytes
    stderr: bytes
    folder: Path
    seconds: float = 0.0

    @property
    def said(self) -> str:
        """What came on standard error."""
        return self.stderr.decode()

    @property
    def recording(self) -> Recording:
        """The recording with the name that the laboratory gives."""
        return Recording.read(self.folder / "run.warpline")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        self.shown = ""
        self.pid, self._handle = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execve(command[0], list(command), dict(environment))
            finally:
                os._exit(127)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._handle, keys.encode())

    def end(self) -> int:
        """Take what is shown until the end; return the status as subprocess does."""
        end = time.monotonic() + TIMEOUT_S
        with suppress(OSError):  # a terminal that nobody has open any more cannot be read
            while select.select([self._handle], [], [], max(0.0, end - time.monotonic()))[0]:
                part = os.read(self._handle, 1 << 16)
                if not part:
                    break
                self.shown += part.decode(errors="replace")
        os.close(self._handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Laboratory:
    """Runs programs in a folder of a test's own, profiled and alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.output = folder / "run.warpline"
        self.raw = folder / "run.warpline.raw"
        source = Path(warpline.__file__).parents[1]
        paths = [str(source), str(PROGRAMS.parents[1]), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "LEDGER": str(self.ledger),
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def program(self, name: str, *arguments: str) -> list[str]:
        """Return the command of one of our programs."""
        return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]

    def profiled(self, command: Sequence[str], flags: Sequence[str] = ()) -> list[str]:
        """Return the command that profiles a command; flags that come later win."""
        words = ["-o", str(self.output), "--no-summary", *flags]
        return [sys.executable, "-m", "warpline", "profile", *words, "--", *command]

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own."""
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.folder,
            env={**self.environment, **(environment or {})},
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], given: bytes | None = None) -> Run:
        """Wait for a command."""
        began = time.monotonic()
        stdout, stderr = process.communicate(given, timeout=TIMEOUT_S)
        seconds = time.monotonic() - began
        return Run(process.returncode, stdout, stderr, self.folder, seconds)

    def profile(
        self,
        command: Sequence[str],
        *,
        flags: Sequence[str] = (),
        given: bytes | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Profile a command to its end."""
        words = self.profiled(command, flags)
        return self.alone(words, given=given, cwd=cwd, environment=environment)

    def alone(
        self,
        command: Sequence[str],
        *,
        given: bytes | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Run a command to its end as it is."""
        stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
        process = self.start(command, cwd=cwd, environment=environment, stdin=stdin)
        return self.end(process, given)

    def on_terminal(self, command: Sequence[str]) -> Terminal:
        """Start a command on a terminal of its own."""
        environment = {**self.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
        return Terminal(command, self.folder, environment)

    def recover(self, folder: Path | None = None) -> Run:
        """Run ``warpline recover``."""
        words = [sys.executable, "-m", "warpline", "recover", str(folder or self.raw)]
        return self.alone([*words, "-o", str(self.output)])

    def read(self, name: str) -> Recording:
        """Read a recording in the folder."""
        return Recording.read(self.folder / name)

    def noted(self) -> Counts:
        """What the programs noted."""
        counts: Counts = {}
        if not self.ledger.exists():
            return counts
        for line in self.ledger.read_text().splitlines():
            pid, _, name = line.partition(" ")
            names = counts.setdefault(int(pid), {})
            names[name] = names.get(name, 0) + 1
        return counts

    def tell(self, place: str) -> None:
        """Let a program go on that waits for a place."""
        Path(f"{self.ledger}.{place}").touch()

    def wait_for(self, place: str, seconds: float = 20.0) -> None:
        """Wait until a program has reached a place."""
        wait_until(Path(f"{self.ledger}.{place}").exists, place, seconds)

    def clean_up(self) -> None:
        """Kill what still runs of what was started."""
        for process in self._started:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} was not reached"
        time.sleep(0.005)


def totals(counts: Counts) -> dict[str, int]:
    """Add up the counts of all processes."""
    sums: Counter[str] = Counter()
    for names in counts.values():
        sums.update(names)
    return dict(sums)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Laboratory]:
    """A place to run programs in; skips where the native parts cannot exist."""
    pytest.importorskip("nvtx")
    recording.skip_unless_possible()
    laboratory = Laboratory(tmp_path)
    yield laboratory
    laboratory.clean_up()
