"""Starts and stops recordings of a program while it runs, again and again until it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

RECORD_S = 1.0
_LOOK_S = 0.01
_WRITTEN_S = 120.0  # to write a recording once the program has ended
_REFUSALS = ("error: cannot attach to process", "error: the agent cannot record process")


@dataclass
class Driven:
    """What came of the recordings that were asked for.

    Attributes:
        folder: Their directory.
        made: How many were asked for and not refused.
        refusals: Why others were refused.
        failures: What went wrong, and must not.
    """

    folder: Path
    made: int = 0
    refusals: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def next_output(self) -> Path:
        """Return the path of the next recording."""
        return self.folder / f"part{self.made + len(self.refusals)}.warpline"

    def outputs(self) -> list[Path]:
        """Return the recordings."""
        return sorted(self.folder.glob("part*.warpline"))

    def unfinished(self) -> list[Path]:
        """Return the sessions that nobody has made recordings of."""
        return sorted(self.folder.glob("part*.raw"))


def session_of(folder: Path) -> str:
    """Return the name of the session of a program that runs in a folder of its own."""
    return f"h{os.getpid()}-{folder.name}"[-64:].lstrip(".-_")


@contextlib.contextmanager
def driving(
    command: str,
    process: subprocess.Popen[bytes],
    folder: Path,
    environment: Mapping[str, str],
) -> Iterator[Driven]:
    """Record a program meanwhile, in turns of a second.

    Args:
        command: "launch", for a program that is under ``warpline launch``, or "attach".
        process: It.
        folder: Where the recordings go.
        environment: Of the commands that are run.
    """
    driven = Driven(folder)
    is_over = threading.Event()
    turn = {"launch": _start_and_stop, "attach": _attach}[command]

    def drive() -> None:
        try:
            while not is_over.wait(_LOOK_S):
                turn(driven, process.pid, is_over, environment)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is judged by it
            driven.failures.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    try:
        yield driven
    finally:
        is_over.set()
        thread.join(2 * _WRITTEN_S)
        if thread.is_alive():
            driven.failures.append("a recording did not end")


def _start_and_stop(
    driven: Driven, _: int, is_over: threading.Event, __: Mapping[str, str]
) -> None:
    """Record once by ``warpline start`` and ``stop``, by the functions behind these commands."""
    # Imported here: the programs' environment names the core before it is loaded.
    from warpline import WarplineError
    from warpline.capture.launcher import steering
    from warpline.capture.session import named

    name = session_of(driven.folder)
    if name not in named.all_names():
        return
    try:
        steering.start(name, ["-o", str(driven.next_output())], lambda _: None)
        driven.made += 1
        is_over.wait(RECORD_S)
        steering.write(name, steering.stop(name), lambda _: None)
    except named.SessionGoneError:
        return
    except WarplineError as error:
        _judge(driven, error.message, is_over, lambda: name not in named.all_names())


def _judge(
    driven: Driven, text: str, is_over: threading.Event, has_ended: Callable[[], bool]
) -> None:
    """Take an error as a refusal if the program ends just now; it is a failure otherwise."""
    end = time.monotonic() + RECORD_S
    while time.monotonic() < end and not (has_ended() or is_over.is_set()):
        time.sleep(_LOOK_S)
    (driven.refusals if has_ended() or is_over.is_set() else driven.failures).append(text)


def _attach(
    driven: Driven, pid: int, is_over: threading.Event, environment: Mapping[str, str]
) -> None:
    """Record once by ``warpline attach``."""
    words = ("attach", "-q", "-d", f"{RECORD_S:g}", "-o", str(driven.next_output()), str(pid))
    attaching = subprocess.Popen(
        [sys.executable, "-m", "warpline", *words],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, said = attaching.communicate(timeout=_WRITTEN_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(attaching.pid, signal.SIGKILL)
        attaching.communicate()
        driven.failures.append("warpline attach did not end")
        is_over.wait()
        return
    first = (said.splitlines() or [""])[0]
    if attaching.returncode == 0:
        driven.made += 1
    elif first.startswith(_REFUSALS):
        driven.refusals.append(first.partition(": ")[2].partition(": ")[2] or first)
    else:
        driven.failures.append(f"warpline attach ended with {attaching.returncode}: {first}")
