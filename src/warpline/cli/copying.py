"""Recordings that are named as HOST:PATH: what a command reads are copies of them."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.hosts import Place, place_of

if TYPE_CHECKING:
    from warpline import plugins, result, units
    from warpline.remote import copies, ssh
else:
    plugins = lazy("warpline.plugins")
    result = lazy("warpline.result")
    units = lazy("warpline.units")
    copies = lazy("warpline.remote.copies")
    ssh = lazy("warpline.remote.ssh")

_LISTS = ("recordings", "before", "after")


def place_named(word: str) -> Place | None:
    """Return the file on another machine that a word names; None for a file, a table or SQL."""
    place = place_of(word) if ":" in word else None
    if place is None:
        return None
    plugins.load("analyses")  # tables have options, such as cuda_gpu_sum:base
    return None if place.host in result.ANALYSES else place


def copy_named(args: Namespace) -> None:
    """Copy the recordings of other machines that the arguments name, and name the copies.

    Where there are any, `args` has ``has_copies``.
    """
    is_quiet = getattr(args, "quiet", False)
    connections: dict[str, ssh.Connection] = {}  # one for each machine: it may ask for a password
    with contextlib.ExitStack() as stack:
        for attribute in _LISTS:
            words = getattr(args, attribute, None) or []
            for index, word in enumerate(words):
                place = place_named(word)
                if place is None:
                    continue
                if place.host not in connections:
                    connections[place.host] = stack.enter_context(ssh.Connection(place.host))
                words[index] = copy(place, connections[place.host], is_quiet=is_quiet)
                args.has_copies = True


def copy(place: Place, connection: ssh.Connection, *, is_quiet: bool) -> str:
    """Return the path of the copy of a recording on another machine."""
    found = copies.copy_of(place, connection)
    if found.is_new and not is_quiet:
        talk.note(f"copied {place} ({units.format_bytes(found.size)})")
    return str(found.path)
