"""``warpline profile --host``: a program runs and is recorded there, its recording comes here."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from warpline.capture.flags.declarations import GRAMMAR
from warpline.capture.flags.grammar import Flag
from warpline.capture.flags.pytorch import NEEDS_READING
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.launch import Outcome, Talk
from warpline.capture.machine.agent import agent_library
from warpline.capture.session import names
from warpline.errors import WarplineError
from warpline.remote import job
from warpline.remote.bringing import bring_home
from warpline.remote.ssh import Connection
from warpline.units import format_bytes

_HERE = frozenset(
    ("host", "host_dir", "host_python", "output", "on_finish")
)  # flags that are for this machine
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ARRAYS = ("numpy", "polars")


def launch(settings: CaptureSettings, talk: Talk, words: Sequence[str]) -> Outcome:
    """Run and record a program on the machine that the settings name.

    Args:
        settings: The settings of the recording.
        talk: Functions that print messages.
        words: The command line that the settings were read from.

    Raises:
        WarplineError: The program was not started. UnfinishedError: It ran, but its recording is
        not here; the hint says where it is.
    """
    assert settings.host is not None  # the caller's choice
    _check(settings)
    with Connection(settings.host, settings.host_python) as connection:
        begun = _begin(connection, settings, words, talk)
        folder = str(begun["folder"])
        _run(connection, begun["run"], folder)
        return bring_home(connection, folder, settings, talk)


def _check(settings: CaptureSettings) -> None:
    """Check all that can be known before a long run."""
    agent_library()
    pattern = settings.output
    if pattern is None:
        names.check_room(Path.cwd(), _nothing)
        return
    name = names.expand(pattern, {}, pid=0, number=0)  # checks the patterns
    if "%" not in pattern:
        output = Path(names.with_ending(name)).absolute()
        names.check_room(output.parent, _nothing)
        names.check_free(output, overwrite=settings.force_overwrite, exports=settings.export)


def _nothing(_: str) -> None:
    """Say nothing: that disk space is low is said when there is something to write."""


def words_there(words: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the command line that the other machine is to read, without files of this one."""
    found = [
        word
        for flag, part in GRAMMAR.pieces(words)
        if not (isinstance(flag, Flag) and flag.attribute in _HERE)
        for word in part
    ]
    return [*found, "--", *command]


def _begin(
    connection: Connection, settings: CaptureSettings, words: Sequence[str], talk: Talk
) -> dict[str, Any]:
    needs = () if NEEDS_READING.isdisjoint(settings.pytorch) else _ARRAYS
    request = {
        "do": "begin",
        "machine": os.uname().machine,
        "needs": needs,
        "words": [job.encoded(word) for word in words_there(words, settings.command)],
        "directory": None if settings.host_dir is None else job.encoded(settings.host_dir),
        "variables": names.unset_variables(settings.output or "", {}),
    }
    with connection.request(request) as exchange:
        begun = exchange.hear()
        if exchange.copied is not None:
            talk.note(f"copied Warpline to {connection.host} ({format_bytes(exchange.copied)})")
        return begun


def _run(connection: Connection, words: Sequence[str], folder: str) -> None:
    """Run the launcher there, with the terminal and the streams of this process.

    Where there is a terminal, it is one there, too, and Ctrl-C goes there as a key. Otherwise
    signals that would end a program are passed on.
    """
    has_terminal = all(stream is not None and stream.isatty() for stream in _streams())
    options = ["-t", "-o", "LogLevel=ERROR"] if has_terminal else ["-T"]
    command = connection.words("exec " + shlex.join(words), *options)

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(WarplineError):
            request = {"do": "interrupt", "folder": folder, "signal": number}
            with connection.request(request, is_batch=True) as exchange:
                exchange.hear()

    before = {number: signal.getsignal(number) for number in _PASSED_ON}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # ssh would end by them
    stdin = None if sys.stdin is not None else subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=stdin)
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _streams() -> tuple[Any, Any, Any]:
    return sys.stdin, sys.stdout, sys.stderr
