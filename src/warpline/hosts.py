"""Names of other machines and of files on them, as ssh and scp take them."""

from __future__ import annotations

import os

from warpline.errors import UsageError
from warpline.frozen import frozen
from warpline.lazy import lazy_pattern

# What a name and a user need. Anything else could mean something to ssh, or to a command
# that its configuration makes of a name, such as ProxyCommand.
_USER = r"[A-Za-z0-9_.][A-Za-z0-9_.+-]*@"
_NAME = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\])"
_HOST = lazy_pattern(rf"(?:{_USER})?{_NAME}")
_PLACE = lazy_pattern(rf"(?P<host>(?:{_USER})?{_NAME}):(?P<path>(?!:|//)[^\0]+)")


@frozen
class Place:
    """A file on another machine.

    Attributes:
        host: The machine, with the user if one is named.
        path: The file, as it was given; relative to the home directory there.
    """

    host: str
    path: str

    def __str__(self) -> str:
        """Return it as it was given."""
        return f"{self.host}:{self.path}"


def checked_host(word: str) -> str:
    """Return the machine that a word names, as ssh takes it.

    Raises:
        UsageError: It names none, such as an option of ssh.
    """
    if not _HOST.fullmatch(word):
        raise UsageError(
            f"--host {word}: expected [USER@]HOST, as for ssh",
            hint="other options of ssh belong in ~/.ssh/config, or in WARPLINE_SSH",
        )
    return _bare(word)


def place_of(word: str) -> Place | None:
    """Return the file on another machine that a word names; None if it names none.

    ``HOST:PATH``, as for scp: a file of this machine that has the name is meant first, ``./a:b`` is
    always one, and ``C:`` is a drive.
    """
    found = _PLACE.fullmatch(word)
    if found is None or os.path.lexists(word):
        return None
    host = found["host"]
    if len(host) == 1 and found["path"][0] in "\\/":
        return None
    return Place(_bare(host), found["path"])


def _bare(host: str) -> str:
    """Return a machine without the brackets that an address of IPv6 has where a path follows."""
    return host.replace("[", "").replace("]", "")
