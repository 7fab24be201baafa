"""Run a command where perf_event_open is refused, as in containers."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_perf() -> None:
    """Let perf_event_open fail with EPERM in this process, and in all that it starts.

    Raises:
        OSError: The kernel has no seccomp filters.
    """
    number = _PERF_EVENT_OPEN[platform.machine()]
    instructions = b"".join(
        struct.pack("=HBBI", *each)
        for each in (
            (_LOAD, 0, 0, 0),  # the number of the call
            (_JUMP_IF_EQUAL, 0, 1, number),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    program = _Program(4, instructions)
    library = ctypes.CDLL(None, use_errno=True)
    for words in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SECCOMP, _FILTER, ctypes.byref(program))):
        if library.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    refuse_perf()
    os.execvp(sys.argv[1], sys.argv[1:])
