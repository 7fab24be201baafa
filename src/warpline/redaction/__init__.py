"""Redaction of command lines and environments before they are stored in a recording.

Recordings are shared, and a list of secret formats is never complete. So redaction uses allow
lists: it keeps the program, the names of its flags, and listed values, which are numbers and known
words after flags that are known to take them, and files of the project.

`flags`, `values`, `programs` and `variables` are the lists; `command_line` and `environment` apply
them. Only the standard library is imported here.
"""

from warpline.redaction.command_line import join_command, redact_command, run_as_typed
from warpline.redaction.environment import redact_environment
from warpline.redaction.known_secrets import MASK
from warpline.redaction.project import Project

__all__ = [
    "MASK",
    "Project",
    "join_command",
    "redact_command",
    "redact_environment",
    "run_as_typed",
]
