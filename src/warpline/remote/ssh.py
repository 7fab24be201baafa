"""The system's ssh: one connection to a machine for all that a command does there.

The user's configuration holds: keys, agents, jumps, names. A password is asked for once, because
all that follows the first request uses its connection. ``WARPLINE_SSH`` is the command line to use
in place of ``ssh``, such as ``ssh -F file``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warpline.errors import HostError, UsageError
from warpline.remote import bootstrap
from warpline.remote.bundle import bundle
from warpline.units import format_bytes

VARIABLE = "WARPLINE_SSH"

# No forwards of the configuration, as two commands cannot have the same; no command of it either.
_PLAIN = (
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "RemoteCommand=none",
    "-o",
    "PermitLocalCommand=no",
)
_STAY_S = 60  # for as long, if this process is killed
_FAILED = 255  # ssh's own errors, not the command's
_NO_PYTHON = 97
_OLDER = 96  # than 3.11
_MOST_NOISE = 1 << 20
_ASKED = "; without a terminal, a password or passphrase comes from ssh-agent or SSH_ASKPASS only"
_BLOCK = 1 << 20
_SOCKETS = re.compile(r"[\w./-]{1,50}", re.ASCII)

# A login shell may be any: it is only asked to run sh, without characters that some would change.
_PYTHONS = (
    "python3 python3.14 python3.13 python3.12 python3.11 /usr/local/bin/python3"
    " /opt/conda/bin/python3 $HOME/miniconda3/bin/python3 $HOME/miniforge3/bin/python3"
    " $HOME/.local/bin/python3.1? $HOME/.local/share/uv/python/cpython-3.1*/bin/python3"
)
_FIND = (
    'for p in {pythons}; do command -v "$p" >/dev/null 2>&1 || continue;'
    ' "$p" -I -c "import sys; sys.version_info < (3, 11) and sys.exit({other});'
    ' exec(sys.stdin.buffer.read({size}))" && exit 0; s=$?;'
    " case $s in 2|{other}|127) ;; *) exit $s;; esac; done; exit {none}"
)


def words_of_ssh() -> list[str]:
    """Return the command line of ssh.

    Raises:
        UsageError: WARPLINE_SSH is no command line, or its program does not exist.
    """
    text = os.environ.get(VARIABLE) or "ssh"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{VARIABLE}={text}: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"{text}: command not found", hint="install OpenSSH's client")
    return words


class Connection:
    """A connection to a machine, which is made by the first request and closed with the block.

    Args:
        host: The machine, as ssh takes it; see `hosts`.
        python: The Python to use there; None for the first that is recent enough.

    Raises:
        UsageError: There is no ssh.
    """

    def __init__(self, host: str, python: str | None = None) -> None:
        self.host = host
        self.python = python
        self._ssh = words_of_ssh()
        self._folder: Path | None = None
        self._sharing: list[str] = []

    def __enter__(self) -> Self:
        if self._control("check") != 0:  # the user's own connection is used where there is one
            self._folder = Path(tempfile.mkdtemp(prefix="warpline-ssh-", dir=_short_folder()))
            self._sharing = ["-o", "ControlMaster=auto", "-o", f"ControlPath={self._folder}/c"]
            self._sharing += ["-o", f"ControlPersist={_STAY_S}"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._control("exit")
            shutil.rmtree(self._folder, ignore_errors=True)

    def words(self, command: str, *options: str) -> list[str]:
        """Return the command line that runs a command there."""
        return [*self._ssh, *self._sharing, *_PLAIN, *options, "--", self.host, command]

    @contextlib.contextmanager
    def request(self, request: Mapping[str, Any], *, is_batch: bool = False) -> Iterator[Exchange]:
        """Send a request to `there`, and yield the exchange that follows.

        Args:
            request: What `there.answer` takes.
            is_batch: Whether to fail rather than to ask for a password, and to show no messages.

        Raises:
            HostError: The machine cannot be reached, or lacks what it takes.
        """
        options = ["-T", *(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"] if is_batch else [])]
        source = Path(bootstrap.__file__).read_bytes() + b"\nmain()\n"
        token = f"warpline-{secrets.token_hex(12)}"
        header = {"token": token, "hash": bundle().hash, "request": dict(request)}
        process = subprocess.Popen(
            self.words(self._finding(len(source)), *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_batch else None,
        )
        exchange = Exchange(self, process, token)
        try:
            exchange.write(source, json.dumps(header).encode() + b"\n")
            yield exchange
        finally:
            exchange.close()

    def forward(self, port: int, port_there: int) -> None:
        """Let a port of this machine's loopback interface lead to one of the other's.

        Raises:
            HostError: It is taken.
        """
        if self._control("forward", *_forward(port, port_there)) != 0:
            raise HostError(f"cannot listen on port {port}", hint="choose another one with --port")

    def unforward(self, port: int, port_there: int) -> None:
        """Undo `forward`."""
        self._control("cancel", *_forward(port, port_there))

    def _finding(self, size: int) -> str:
        """Return the command that starts a Python, which runs `size` bytes of its input."""
        pythons = _PYTHONS if self.python is None else _quoted(self.python)
        script = _FIND.format(pythons=pythons, size=size, other=_OLDER, none=_NO_PYTHON)
        return f"exec sh -c {shlex.quote(script)}"

    def _control(self, order: str, *options: str) -> int:
        """Give an order to the connection; return the status of ssh, which says nothing."""
        words = [*self._ssh, *self._sharing, "-O", order, *options, "--", self.host]
        quiet = subprocess.DEVNULL
        return subprocess.run(
            words, check=False, stdin=quiet, stdout=quiet, stderr=quiet
        ).returncode


def _has_terminal() -> bool:
    """Return whether ssh can ask for a password."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _quoted(path: str) -> str:
    """Return a path as sh takes it, with the home directory for ~."""
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path[2:])}'
    return shlex.quote(path)


def _forward(port: int, port_there: int) -> tuple[str, str]:
    return "-L", f"127.0.0.1:{port}:127.0.0.1:{port_there}"


def _short_folder() -> str | None:
    """Return a directory for a socket, whose path is short and without characters of a meaning."""
    folder = tempfile.gettempdir()
    return folder if _SOCKETS.fullmatch(folder) else "/tmp"  # noqa: S108 - mkdtemp makes it private


class Exchange:
    """A request under way: lines of facts, and files, from the other machine and to it."""

    def __init__(
        self, connection: Connection, process: subprocess.Popen[bytes], token: str
    ) -> None:
        self._connection = connection
        self._process = process
        self._token = token.encode() + b" "
        assert process.stdin is not None  # they are pipes
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout
        self.copied: int | None = None  # bytes, if Warpline was not there

    def write(self, *parts: bytes) -> None:
        """Send bytes; where nobody reads them, `hear` says why."""
        with contextlib.suppress(BrokenPipeError):
            for part in parts:
                self._to.write(part)
            self._to.flush()

    def tell(self, **facts: Any) -> None:
        """Send facts."""
        self.write(json.dumps(facts).encode() + b"\n")

    def hear(self, **kinds: type) -> dict[str, Any]:
        """Return the next facts.

        Args:
            **kinds: What these must be, of those that they must have; numbers are not negative.

        Raises:
            HostError: There are none, or they are an error.
        """
        facts: dict[str, Any] = self._next()
        if facts.get("needs"):
            content = bundle().compressed
            self.copied = len(content)
            self.tell(size=len(content))
            self.write(content)
            facts = self._next()
        if "error" in facts:
            hint = facts.get("hint")
            message = f"{self._connection.host}: {facts['error']}"
            raise HostError(message, hint=None if hint is None else str(hint))
        for name, kind in kinds.items():
            value: Any = facts.get(name)
            is_kind = isinstance(value, kind)
            if not is_kind or (kind is int and value < 0):
                raise self._broken()
        return facts

    def _next(self) -> dict[str, Any]:
        noise = 0
        while line := self._from.readline(_MOST_NOISE):
            if line.startswith(self._token):
                with contextlib.suppress(ValueError):
                    facts = json.loads(line.removeprefix(self._token))
                    if isinstance(facts, dict):
                        return facts
                break
            noise += len(line)
            if noise > _MOST_NOISE:
                break
        raise self._broken()

    def _broken(self) -> HostError:
        """Return why nothing can be heard."""
        host = self._connection.host
        self.close()
        status = self._process.returncode
        if status == _FAILED:
            asked = "" if _has_terminal() else _ASKED
            return HostError(
                f"no connection to {host}", hint=f"try {shlex.join(self._try())}{asked}"
            )
        if status == _NO_PYTHON:
            named = self._connection.python
            return HostError(
                f"{host}: {f'{named} is no' if named else 'no'} Python 3.11 or later",
                hint="name one with --host-python PATH; uv python install 3.12 needs no root",
            )
        return HostError(f"{host}: unexpected answer", hint=f"try {shlex.join(self._try())}")

    def _try(self) -> list[str]:
        return [*words_of_ssh(), self._connection.host, "python3", "--version"]

    def read(self, size: int) -> Iterator[bytes]:
        """Yield a file of so many bytes; HostError if it ends early."""
        left = size
        while left:
            block = self._from.read(min(_BLOCK, left))
            if not block:
                arrived = f"{format_bytes(size - left)} of {format_bytes(size)}"
                host = self._connection.host
                raise HostError(f"{host}: the connection was lost after {arrived}")
            left -= len(block)
            yield block

    def close(self) -> None:
        """End the exchange."""
        for pipe in (self._to, self._from):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()
