"""The flags of ``warpline profile`` about the machine where the program runs."""

from __future__ import annotations

from warpline.capture.flags import values
from warpline.capture.flags.grammar import Flag, Given
from warpline.capture.flags.settings import CaptureSettings
from warpline.hosts import checked_host

_GROUP = "another machine"


def _host(settings: CaptureSettings, flag: Given) -> None:
    settings.host = checked_host(flag.value)


HOST_FLAGS = (
    Flag(
        ("--host",),
        "[USER@]HOST",
        "run and record the program on this machine, by ssh; the recording is copied here",
        _host,
        group=_GROUP,
    ),
    Flag(
        ("--host-dir",),
        "DIR",
        "directory in which the program starts there (default: the home directory)",
        values.text,
        group=_GROUP,
    ),
    Flag(
        ("--host-python",),
        "PATH",
        "Python 3.11 or later that runs Warpline there (default: the first that is found)",
        values.text,
        group=_GROUP,
    ),
)
