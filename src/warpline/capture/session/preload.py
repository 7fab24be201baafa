"""Libraries of Warpline's that a program is started with: LD_PRELOAD in its environment.

They lie beside the agent, which they load. Processes that the program starts inherit the variable,
so they are recorded, too. ld.so ignores it for static programs, and for those with the rights of
another user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from warpline.errors import AgentMissingError, CaptureError

PRELOAD_VARIABLE = "LD_PRELOAD"
LOADER = "libwarpline_preload.so"  # only loads the agent
SHIM = "libwarpline_shim.so"  # the same, and measures calls of the C library

_SANITIZER_VARIABLE = "ASAN_OPTIONS"
_SANITIZER_OPTION = "verify_asan_link_order=0"
_SEPARATORS = ": "  # ld.so has no way to write them within a path


def preload_variables(
    agent: Path, libraries: Sequence[str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that load our libraries in front of the user's own.

    Args:
        agent: The agent; the libraries are in the same directory.
        libraries: Their names; `LOADER` is left out where `SHIM` is.
        environment: The program's environment.

    Raises:
        WarplineError: A library does not exist, or LD_PRELOAD cannot have its path.
    """
    names = [name for name in dict.fromkeys(libraries) if name != LOADER or SHIM not in libraries]
    if not names:
        return {}
    paths = [str(_path_of(agent.with_name(name))) for name in names]
    paths += filter(None, [environment.get(PRELOAD_VARIABLE)])
    found = {PRELOAD_VARIABLE: ":".join(paths)}
    # A program with AddressSanitizer as a library ends at once unless that is the first one loaded.
    options = environment.get(_SANITIZER_VARIABLE)
    found[_SANITIZER_VARIABLE] = ":".join(filter(None, [options, _SANITIZER_OPTION]))
    return found


def _path_of(library: Path) -> Path:
    if not library.is_file():
        raise AgentMissingError(
            f"{library.name} is not installed, so calls of the C library cannot be recorded",
            hint="run warpline doctor: it says what to install",
        )
    if any(symbol in str(library) for symbol in _SEPARATORS):
        raise CaptureError(
            f"LD_PRELOAD cannot have a path with a space or a colon: {library}",
            hint="install warpline in another directory, or record without -t osrt",
        )
    return library
