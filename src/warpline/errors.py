"""The error tree.

    WarplineError                  exit 1
      UsageError                   exit 2   the command line asks for something that does not exist
      InputError                   exit 1   a file cannot be used
        UnknownFormatError                  no reader, or several, know the file
        CorruptTraceError                   the file is cut or damaged
        UnsupportedVersionError             the file is newer than this program
      CaptureError                 exit 1   a program cannot be recorded, or a session not finished
        AgentMissingError                   the library that records is not installed here
        TargetFailedError          exit 126 or 127: the program to record cannot be started
      MissingTableError            exit 1   the trace never recorded what is asked for
      SchemaError                  exit 1   our defect: a reader or analysis broke its declaration
      PluginError                  exit 1   an installed extension cannot be used

Every message says what, where and which value; ``hint`` says the next action.
"""

from __future__ import annotations


class WarplineError(Exception):
    """An error that is shown to the user as one line.

    Args:
        message: What went wrong, where, and with which value.
        hint: The next action, or None when there is none to name.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(WarplineError):
    """The command line, or a call's arguments, ask for something that does not exist."""

    exit_code = 2


class InputError(WarplineError):
    """A file cannot be used."""


class UnknownFormatError(InputError):
    """No reader recognises the file, or more than one does."""


class CorruptTraceError(InputError):
    """The file is cut or damaged."""


class UnsupportedVersionError(InputError):
    """The file was written by a version that this program does not know."""


class CaptureError(WarplineError):
    """A program cannot be recorded, or what was recorded cannot be finished."""


class AgentMissingError(CaptureError):
    """The library that records from within a program is not installed, or cannot be loaded."""


class TargetFailedError(CaptureError):
    """The program to record cannot be started.

    Args:
        message: What went wrong, where, and with which value.
        exit_code: What a shell returns for it: 126 when it cannot be run, 127 when not found.
        hint: The next action, or None when there is none to name.
    """

    NOT_RUNNABLE = 126
    NOT_FOUND = 127

    def __init__(self, message: str, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class MissingTableError(WarplineError):
    """The trace never recorded what is asked for; this differs from an empty table."""


class SchemaError(WarplineError):
    """A reader or an analysis broke its declaration: a defect of the program, not the file."""


class PluginError(WarplineError):
    """An installed extension cannot be used."""
