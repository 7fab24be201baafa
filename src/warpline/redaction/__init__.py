"""What of a command line and an environment may be kept in a recording, which others will read.

Nothing is kept because it looks harmless by the lack of a sign: a list of what secrets look like is
never complete. Kept are the program, the names of its flags, and values that are on a list: numbers
and known words behind flags that are known to take them, and files of the project.

`flags`, `values`, `programs` and `variables` are the lists; `command_line` and `environment` go by
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
