"""The error tree.

    WarplineError                  exit 1
      UsageError                   exit 2   an argument is invalid, or names something unknown
      InputError                   exit 1   a file cannot be used
        UnknownFormatError                  no reader, or more than one, recognizes the file
        CorruptTraceError                   the file is truncated or damaged
        UnsupportedVersionError             the file is newer than this version of Warpline
      CaptureError                 exit 1   a program cannot be recorded, or a session not finished
        AgentMissingError                   the recording library is not installed
        TargetFailedError          exit 126 or 127: the program to record cannot be started
      CounterError                 exit 1   hardware counters cannot be planned
      BenchmarkError               exit 1   a benchmark can measure nothing
      HostError                    exit 1   another machine cannot be reached or used
      InstallationError            exit 1   this installation lacks what is asked of it
      MissingTableError            exit 1   the requested events were never recorded
      SchemaError                  exit 1   a bug: a reader or analysis violates its declaration
      PluginError                  exit 1   an installed extension cannot be used

A message names the problem, the place and the value. ``hint`` is the next action.
"""

from __future__ import annotations


class WarplineError(Exception):
    """An error that the command line shows as one line.

    Python tracebacks show the hint as a note below the message.

    Args:
        message: What went wrong, where, and with which value.
        hint: The next action, or None.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"Hint: {hint}")


class UsageError(WarplineError):
    """An argument, of the command line or of a call, is invalid or names something unknown."""

    exit_code = 2


class InputError(WarplineError):
    """A file cannot be used."""


class UnknownFormatError(InputError):
    """No reader recognizes the file, or more than one does."""


class CorruptTraceError(InputError):
    """The file is truncated or damaged."""


class UnsupportedVersionError(InputError):
    """The file was written in a version that this version of Warpline does not support."""


class CaptureError(WarplineError):
    """A program cannot be recorded, or its recording cannot be finished."""


class AgentMissingError(CaptureError):
    """The library that records within a program is not installed or cannot be loaded."""


class TargetFailedError(CaptureError):
    """The program to record cannot be started.

    Args:
        message: What went wrong, where, and with which value.
        exit_code: The exit status of a shell in this case: 126 if the program cannot be executed,
            127 if it is not found.
        hint: The next action, or None.
    """

    NOT_RUNNABLE = 126
    NOT_FOUND = 127

    def __init__(self, message: str, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class CounterError(WarplineError):
    """Hardware counters cannot be planned: CUPTI is absent, does not work, or refuses."""


class BenchmarkError(WarplineError):
    """A benchmark of a GPU can measure nothing: there is no GPU, driver or library that works."""


class HostError(WarplineError):
    """Another machine cannot be reached or used: by ssh, or for lack of what it takes there."""


class InstallationError(WarplineError):
    """This installation of Warpline lacks what is asked of it."""


class MissingTableError(WarplineError):
    """The requested events were never recorded. An empty table is not an error."""


class SchemaError(WarplineError):
    """A reader or an analysis violates its declaration: a bug in the program, not in the file."""


class PluginError(WarplineError):
    """An installed extension cannot be used."""
