"""Named sessions: programs under ``warpline launch``, found by name from another shell.

Each has a directory, which only its user can enter, in ``$XDG_RUNTIME_DIR/warpline`` or, without
that variable, in ``/tmp/warpline-UID``: the page that programs stand by for, and a socket on which
the launcher answers. A request and its answer are one line of JSON each.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline.errors import CaptureError, UsageError

SOCKET_NAME, _NEW_NAME = "socket", "new"
MOST_BYTES = 1 << 20  # of a request or an answer
MOST_LINKS = 4  # with a request
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ANSWER_S = 5.0
_SET_UP_S = 60.0
_MOST_PATH = 100  # of sun_path's 108 bytes

Message = Mapping[str, Any]


class SessionGoneError(CaptureError):
    """The launcher of a session does not answer any more."""


def check_name(name: str) -> str:
    """Return the name of a session; UsageError if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--session {name!r}: expected letters, digits, '.', '_' or '-', at most 64",
            hint="use a name such as s1",
        )
    return name


def create_folder(name: str | None, program: str) -> Path:
    """Create the directory of a new session; one whose launcher is dead is replaced.

    Args:
        name: Its name; None for one made of the program's name and a number.
        program: The name of the program.

    Raises:
        UsageError: The name is in use.
        CaptureError: The directory cannot be created.
    """
    root = _root(is_made=True)
    if name is not None:
        _remove_dead(root / name)
        folder = _made(root / name)
        if folder is None:
            raise UsageError(
                f"a session named {name} is running",
                hint=f"choose another name, or run warpline shutdown --session={name}",
            )
        return folder
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", program).strip(".-_")[:40] or "program"
    for number in range(1, 10_000):
        path = root / f"{stem}-{number}"
        _remove_dead(path)
        folder = _made(path)
        if folder is not None:
            return folder
    raise CaptureError(f"{root} has too many sessions", hint="delete the directory")


def all_names() -> list[str]:
    """Return the names of the sessions whose launcher answers."""
    root = _root()
    if not root.is_dir():
        return []
    return [
        path.name for path in sorted(root.iterdir()) if path.is_dir() and not _remove_dead(path)
    ]


def choose(name: str | None) -> str:
    """Return the name of a session that is running: the one that is given, or the only one.

    Raises:
        UsageError: There is none, or there are several and none is named.
    """
    names = all_names()
    if name is not None and check_name(name) not in names:
        raise UsageError(f"no session named {name}", hint=_hint_of(names))
    if name is None and len(names) > 1:
        raise UsageError(
            f"{len(names)} sessions are running: {', '.join(names)}", hint="add --session=NAME"
        )
    if not names:
        raise UsageError("no session is running", hint=_hint_of(names))
    return name or names[0]


def ask(
    name: str,
    request: Message,
    *,
    seconds: float | None = _ANSWER_S,
    links: Sequence[socket.socket] = (),
) -> dict[str, Any]:
    """Send a request to the launcher of a session and return its answer.

    Args:
        name: The session.
        request: What to do, under "do", and its arguments.
        seconds: How long to wait for the answer; None for as long as it takes.
        links: Sockets that the launcher gets with it, at most `MOST_LINKS`.

    Raises:
        SessionGoneError: The launcher ended meanwhile.
        CaptureError: It refused, or did not answer in time.
    """
    try:
        with connected(_root() / name) as link:
            link.settimeout(seconds)
            line = json.dumps(request).encode() + b"\n"
            socket.send_fds(link, [line[:1]], [each.fileno() for each in links])
            link.sendall(line[1:])
            answer = read_line(link)
    except TimeoutError:
        raise CaptureError(
            f"session {name} does not answer", hint="try again, or press Ctrl-C in its shell"
        ) from None
    except OSError as error:
        raise SessionGoneError(f"session {name} has ended ({error.strerror or error})") from error
    if answer is None:
        raise SessionGoneError(f"session {name} has ended")
    if "error" in answer:
        raise CaptureError(str(answer["error"]), hint=answer.get("hint"))
    return answer


def read_line(link: socket.socket) -> dict[str, Any] | None:
    """Return the object in the next line from a socket; None if it sends none."""
    received = b""
    while not received.endswith(b"\n"):
        part = link.recv(1 << 16)
        received += part
        if not part or len(received) > MOST_BYTES:
            return None
    return parsed(received)


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def listening(folder: Path) -> socket.socket:
    """Return a socket that listens in the directory of a session.

    It gets its name when it listens: before, it refuses connections, as that of a dead launcher.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with _short(folder) as path:
        link.bind(f"{path}/{_NEW_NAME}")
    link.listen(16)
    (folder / _NEW_NAME).rename(folder / SOCKET_NAME)
    link.settimeout(0)
    return link


def connected(folder: Path) -> socket.socket:
    """Return a socket that is connected to the launcher of a session; OSError if there is none."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        link.settimeout(_ANSWER_S)
        with _short(folder) as path:
            link.connect(f"{path}/{SOCKET_NAME}")
    except BaseException:
        link.close()
        raise
    return link


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a path of a directory that fits into the address of a socket."""
    if len(os.fsencode(folder)) + len(SOCKET_NAME) < _MOST_PATH:
        yield str(folder)
        return
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _root(*, is_made: bool = False) -> Path:
    """Return the directory of all sessions of this user.

    Raises:
        CaptureError: It belongs to somebody else, or others may write to it.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(given) / "warpline" if given else Path(tempfile.gettempdir()) / _own_name()
    try:
        if is_made:
            root.mkdir(mode=0o700, exist_ok=True)
        facts = root.lstat()
    except FileNotFoundError:
        if not is_made:
            return root
        raise CaptureError(f"cannot create {root}", hint="set XDG_RUNTIME_DIR") from None
    except OSError as error:
        raise CaptureError(
            f"cannot create {root}: {error.strerror}",
            hint="set XDG_RUNTIME_DIR to a directory of yours",
        ) from error
    is_ours = facts.st_uid == os.getuid() and stat.S_ISDIR(facts.st_mode)
    if not is_ours or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CaptureError(
            f"{root} is not a directory of this user alone",
            hint="set XDG_RUNTIME_DIR, or remove it",
        )
    return root


def _own_name() -> str:
    return f"warpline-{os.getuid()}"


def _made(path: Path) -> Path | None:
    """Create a directory; None if it exists."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return None
    except OSError as error:
        raise CaptureError(f"cannot create {path}: {error.strerror}") from error
    return path


def _remove_dead(path: Path) -> bool:
    """Delete the directory of a session whose launcher is gone. Return whether nobody answers."""
    try:
        connected(path).close()
    except OSError as error:
        if error.errno == errno.ECONNREFUSED or _is_old(path):
            shutil.rmtree(path, ignore_errors=True)
        return error.errno in {errno.ECONNREFUSED, errno.ENOENT}
    return False


def _is_old(path: Path) -> bool:
    """Return whether a directory without socket was left behind: a new one is being set up."""
    with contextlib.suppress(OSError):
        return not (path / SOCKET_NAME).exists() and time.time() - path.stat().st_mtime > _SET_UP_S
    return False


def _hint_of(names: list[str]) -> str:
    if names:
        return f"running: {', '.join(names)}"
    return "start one: warpline launch -- python train.py (--start records it at once)"
