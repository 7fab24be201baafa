"""The command line: one module per command, found by being here.

A command is a module with ``NAME``, ``HELP`` (one line), ``add_arguments(parser)`` and
``run(args) -> exit status``. Everything slow to import is imported inside ``run``. Shared parts:
`parser`, `arguments`, `output` and `talk`.

Data goes to stdout, talk to stderr. Exit status: 0 done, 1 failed, 2 wrong usage,
3 findings that were asked about.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline.cli import parser, talk
from warpline.errors import WarplineError

_SIGINT, _SIGPIPE = 2, 13
_DIED = 128  # a shell's status of a process that a signal ended is this plus the signal


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; no exception leaves it.

    Args:
        argv: Words after the program's name; None takes them from the process.
    """
    # Not list(...): in this namespace that is a command.
    words = [*(sys.argv[1:] if argv is None else argv)]
    debug = "--debug" in words
    try:
        with _warnings_as_talk():
            status = parser.parse(words)()
            if sys.stdout is not None:
                sys.stdout.flush()  # a full disk shows here, or not at all
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
        talk.failure(f"{error.filename or 'output'}: {error.strerror or error}", None, debug=debug)
        status = 1
    except Exception as error:  # noqa: BLE001 - the last border: a defect must not look like data
        cause = f"internal error: {type(error).__name__}: {error}"
        talk.failure(cause, "please report it; --debug shows where it happened", debug=debug)
        status = 1
    return status


@contextlib.contextmanager
def _warnings_as_talk() -> Iterator[None]:
    """Say warnings, such as that of an extension that cannot be loaded, in our own form."""

    def say(  # the signature that the standard library asks for
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


def _forget_stdout() -> None:
    """Make sure that Python, when it ends, does not try again to write what cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
