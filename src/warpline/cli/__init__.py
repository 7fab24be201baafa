"""The command line: each command is a module of this package.

A command is a module with ``NAME``, ``HELP`` (one line), ``add_arguments(parser)`` and
``run(args) -> exit status``. What is slow to import is deferred with `startup.lazy`. Shared
modules: `parser`, `arguments`, `output`, `stdout`, `messages` and `talk`.

Data goes to stdout, messages to stderr. Exit status: 0 success, 1 failure, 2 usage error,
3 findings at or above ``--fail-on``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline import installation
from warpline.cli import parser, talk
from warpline.errors import WarplineError

_SIGINT, _SIGPIPE = 2, 13
_DIED = 128  # a shell reports a process killed by a signal as this plus the signal


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; raises nothing.

    Args:
        argv: Arguments after the program name; None means `sys.argv`.
    """
    # Not list(...): here, `list` is a command.
    words = [*(sys.argv[1:] if argv is None else argv)]
    debug = "--debug" in words
    try:
        with _warnings_as_talk():
            installation.check()
            status = parser.parse(words)()
            if sys.stdout is not None:
                sys.stdout.flush()  # the last chance to notice a full disk
    except KeyboardInterrupt:
        status = _DIED + _SIGINT
    except BrokenPipeError:
        _forget_stdout()
        status = _DIED + _SIGPIPE
    except WarplineError as error:
        talk.failure(error.message, error.hint, debug=debug)
        status = error.exit_code
    except OSError as error:
        _forget_stdout()
        talk.failure(_system_message(error), None, debug=debug)
        status = 1
    except Exception as error:  # noqa: BLE001 - a defect must not look like data
        cause = f"internal error: {type(error).__name__}: {error}"
        talk.failure(cause, "please report it with the traceback of --debug", debug=debug)
        status = 1
    return status


@contextlib.contextmanager
def _warnings_as_talk() -> Iterator[None]:
    """Print Python warnings, such as those about broken extensions, in the form of `talk`."""

    def say(  # with the signature of warnings.showwarning
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        talk.warning(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def _system_message(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.filename:
        return f"{error.filename}: {reason}"
    return f"cannot write standard output: {reason}"


def _forget_stdout() -> None:
    """Redirect stdout to the null device, so that Python does not retry the write at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
