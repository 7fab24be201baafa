"""What is copied to another machine: this package and its native libraries."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import warpline
from warpline.capture.machine.agent import agent_library
from warpline.native import LIBRARY_NAME
from warpline.remote.bootstrap import content_of, hash_of

_LIBRARIES = "libwarpline_*.so"
_LEFT_OUT = frozenset({"_native", "__pycache__"})
_SAMPLES = (".sqlite", ".md", ".pyc")  # the recordings of `warpline demo`; what Python writes


class Bundle:
    """The files of this Warpline as one blob, of which a machine keeps one copy."""

    @cached_property
    def content(self) -> bytes:
        """The files.

        Raises:
            AgentMissingError: There is no agent here.
        """
        return content_of((name, path.read_bytes()) for name, path in sorted(_files()))

    @cached_property
    def hash(self) -> str:
        """The name of the copy, by content."""
        return hash_of(self.content)

    @cached_property
    def compressed(self) -> bytes:
        """The files as they are sent."""
        return zlib.compress(self.content, 4)


@cache
def bundle() -> Bundle:
    """Return the bundle of this process."""
    return Bundle()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield each file, with its path below the copy's directory."""
    root = Path(warpline.__file__).parent
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in names:
            if not name.endswith(_SAMPLES):
                path = Path(folder, name)
                yield path.relative_to(root.parent).as_posix(), path
    agent = agent_library()
    libraries = {path.name: path for path in agent.parent.glob(_LIBRARIES)}
    libraries[agent.name] = agent
    core = os.environ.get("WARPLINE_CORE")
    if core:
        libraries[LIBRARY_NAME] = Path(core)
    for name, path in libraries.items():
        yield f"warpline/_native/{name}", path
