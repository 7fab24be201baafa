"""Start the program: found as a shell finds it, with its process state unchanged."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from warpline.errors import TargetFailedError

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61
_SHELL = "/bin/sh"
_EXEC_FAILED = 127
# Python ignores these signals at startup; programs expect the default action.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ)


def find(word: str, environment: Mapping[str, str], command: str = "warpline profile") -> Path:
    """Return the executable for the first word of a command.

    Args:
        word: The word.
        environment: The program's environment.
        command: The command of ours that starts it, for hints.

    Raises:
        TargetFailedError: It does not exist (127) or cannot be executed (126).
    """
    if "/" in word:
        path = Path(word)
    else:
        found = shutil.which(word, path=environment.get("PATH", os.defpath))
        if found is None:
            raise TargetFailedError(
                f"{word}: command not found",
                exit_code=TargetFailedError.NOT_FOUND,
                hint=_is_here(word, command) or _elsewhere(word, environment, command),
            )
        path = Path(found)
    if not path.exists():
        raise TargetFailedError(f"{word}: no such file", exit_code=TargetFailedError.NOT_FOUND)
    if path.is_dir():
        raise TargetFailedError(f"{word}: is a directory", exit_code=TargetFailedError.NOT_RUNNABLE)
    if not os.access(path, os.X_OK):
        raise TargetFailedError(
            f"{word}: permission denied",
            exit_code=TargetFailedError.NOT_RUNNABLE,
            hint=f"run {command} -- python {word}" if word.endswith(".py") else None,
        )
    return path


def adopt_orphans(*, is_wanted: bool = True) -> None:
    """Become the subreaper of orphaned descendants, so that they can be waited for; or cease to be.

    Without support in the kernel, init adopts them as usual.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(is_wanted), 0, 0, 0)


class Program:
    """A child process that waits before it executes the program.

    It exists before the session does, because the recording's name may contain its process id.

    Args:
        path: The executable.
        command: The command line, including its first word.
        mask: The program's initial mask of blocked signals.
        output: Where standard output and error go; None if the program inherits them.
        has_input: Whether the program inherits standard input; otherwise it is empty.
        reader: A process that may read the program's memory, even where Yama lets only ancestors.
    """

    def __init__(
        self,
        path: Path,
        command: Sequence[str],
        *,
        mask: set[int],
        output: Path | None = None,
        has_input: bool = True,
        reader: int | None = None,
    ) -> None:
        self._path = path
        environment_read, self._environment = os.pipe()
        self._failure, failure_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._environment)
            os.close(self._failure)
            if reader is not None:
                _let_read(reader)
            _become(path, command, environment_read, failure_write, mask, output, has_input)
        os.close(environment_read)
        os.close(failure_write)

    def start(self, environment: Mapping[str, str]) -> None:
        """Execute the program.

        Raises:
            TargetFailedError: The system cannot execute the file.
        """
        pairs = (
            f"{name}={value}".encode("utf-8", "surrogateescape")
            for name, value in environment.items()
        )
        with os.fdopen(self._environment, "wb") as out, contextlib.suppress(BrokenPipeError):
            out.write(b"\0".join(pairs) + b"\0")
        with os.fdopen(self._failure, "rb") as failure:
            number = failure.read()
        if number:
            os.waitpid(self.pid, 0)
            raise _refused(self._path, int(number))

    def abandon(self) -> None:
        """End the child without executing the program."""
        os.close(self._environment)
        os.close(self._failure)
        os.waitpid(self.pid, 0)


def _let_read(reader: int) -> None:
    """Let a process read the memory of this one; it stays so after exec. Without Yama, nothing."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PTRACER, reader, 0, 0, 0)


def _become(
    path: Path,
    command: Sequence[str],
    environment_read: int,
    failure_write: int,
    mask: set[int],
    output: Path | None,
    has_input: bool,  # noqa: FBT001 - in the child, in a hurry
) -> NoReturn:
    """Wait for the environment and execute the program. Runs in the child."""
    try:
        blob = b""
        while part := os.read(environment_read, 1 << 20):
            blob += part
        if not blob:  # the parent gave up, or died
            os._exit(_EXEC_FAILED)
        pairs = (pair.partition(b"=") for pair in blob.split(b"\0") if pair)
        environment = {name: value for name, _, value in pairs}
        if output is not None:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(file, 1)
            os.dup2(file, 2)
        if not has_input:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _execute(path, command, environment)
    except OSError as error:
        os.write(failure_write, str(error.errno).encode())
    finally:
        os._exit(_EXEC_FAILED)


def _execute(path: Path, command: Sequence[str], environment: Mapping[bytes, bytes]) -> None:
    try:
        os.execve(path, list(command), environment)  # noqa: S606 - this is what a launcher does
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without "#!": run it with a shell, as shells do.
        os.execve(_SHELL, [_SHELL, str(path), *command[1:]], environment)  # noqa: S606


def _refused(path: Path, number: int) -> TargetFailedError:
    hint = None
    if number == errno.ENOENT:  # the file itself exists
        hint = "install its interpreter, named in the first line (#!) or the ELF header"
    return TargetFailedError(
        f"{path}: {os.strerror(number)}", exit_code=TargetFailedError.NOT_RUNNABLE, hint=hint
    )


def _is_here(word: str, command: str) -> str | None:
    """Return a hint if a file with this name is in the current directory."""
    if not Path(word).is_file():
        return None
    return f"run {command} -- {'python ' if word.endswith('.py') else './'}{word}"


def _elsewhere(word: str, environment: Mapping[str, str], command: str) -> str | None:
    """Return a hint if the program is not found because its environment has no PATH."""
    path = None if "PATH" in environment else shutil.which(word)
    return path and f"PATH is not set; use the full path: {command} ... -- {path}"
