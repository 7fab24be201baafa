"""Names of the pages of single ranks, which the pages of fleets link to."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from warpline.viewer.markup import Markup, element

_LONGEST = 100  # bytes of a recording in the name of a page of two
_END = 20  # characters of a longer one, with up to 4 bytes


def relative(path: str, folder: Path) -> str:
    """Return the path of a recording from the directory of the page."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # on another drive
        return path


def page_names(recordings: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each recording's page, with its directories where names are not unique.

    Args:
        recordings: Paths from the directory of the page, by path.
    """
    stems = {path: _stem(Path(path).name) for path in recordings}
    times = Counter(stems.values())
    return {
        path: f"{stem if times[stem] == 1 else _joined(recordings[path])}.html"
        for path, stem in stems.items()
    }


def name_of_two(before: str, after: str) -> str:
    """Return the name of the page of two recordings, with all of their directories.

    Args:
        before: A path from the directory of the page.
        after: Likewise.
    """
    return f"{'-vs-'.join(map(_short, (before, after)))}.html"


def page_beside(folder: Path, name: str, command: str) -> Markup:
    """Return a link to a page in a directory if it is there, else the command that makes it."""
    with contextlib.suppress(OSError):  # a name that is too long, or of a lost file system
        if (folder / name).is_file():
            return element("a", name, href=f"./{quote(name)}")
    return element("code", f"{command} -o {shlex.quote(name)}")


def _stem(name: str) -> str:
    """Return a name as `warpline report` shortens it for its page."""
    stem = Path(name).stem
    for suffix in (".json", ".trace", ".pt"):  # of NAME.pt.trace.json.gz
        stem = stem.removesuffix(suffix)
    return stem


def _short(recording: str) -> str:
    """Return a name of a recording that two of these fit into a file's name; unique, too."""
    name = _joined(recording)
    octets = os.fsencode(name)
    if len(octets) <= _LONGEST:
        return name
    return f"{name[-_END:]}-{hashlib.sha256(octets).hexdigest()[:12]}"


def _joined(recording: str) -> str:
    within = (part for part in Path(recording).parent.parts if part not in {"..", "/"})
    return "-".join((*within, _stem(Path(recording).name)))
