"""The first code on the other machine: it receives Warpline, once, and hands over to `there`.

Its text is sent to a Python that need not know Warpline, so it imports only the standard library.
What it says are lines of a token and a JSON object: login shells may print other lines before.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.machinery
import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

_BLOCK = 1 << 20


class Speech:
    """What is said to the local machine, and heard from it.

    Args:
        token: Begins each line that is said.
        heard: What the local machine sends.
        said: What it receives.
    """

    def __init__(self, token: str, heard: BinaryIO, said: BinaryIO) -> None:
        self.token = token
        self.heard = heard
        self.said = said

    def say(self, **facts: Any) -> None:
        """Say facts, in a line."""
        self.said.write(f"{self.token} {json.dumps(facts)}\n".encode())
        self.said.flush()

    def hear(self) -> dict[str, Any]:
        """Return the facts of the next line; empty if the local machine has gone."""
        line = self.heard.readline()
        return dict(json.loads(line)) if line.endswith(b"\n") else {}


def content_of(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Return files, by relative path, as one blob: their names and sizes, then their content."""
    pairs = list(files)
    names = json.dumps([[name, len(data)] for name, data in pairs]).encode()
    return b"\n".join([names, b"".join(data for _, data in pairs)])


def hash_of(content: bytes) -> str:
    """Return the name of a blob."""
    return hashlib.sha256(content).hexdigest()[:32]


def unpack(content: bytes, folder: Path) -> None:
    """Write the files of a blob; ValueError if one would be elsewhere."""
    names, _, data = content.partition(b"\n")
    start = 0
    for name, size in json.loads(names):
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(name)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[start : start + size])
        start += size


def cache() -> Path:
    """Return the directory for what Warpline keeps on a machine."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    base = Path(chosen) if chosen and Path(chosen).is_absolute() else Path.home() / ".cache"
    return base / "warpline"


def received(header: Mapping[str, Any], speech: Speech) -> Path | None:
    """Return the directory of Warpline, which is asked for where it is not there.

    None if the local machine sends none.
    """
    folder = cache() / str(header["hash"])
    if folder.is_dir():
        return folder
    speech.say(needs=True, machine=os.uname().machine)
    size = speech.hear().get("size")
    if size is None:
        return None
    content = zlib.decompress(speech.heard.read(size))
    if hash_of(content) != header["hash"]:
        raise ValueError("what was received is not what was sent")
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}")
    try:
        unpack(content, unfinished)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():  # or another command was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def main() -> None:
    """Answer one request."""
    header = json.loads(sys.stdin.buffer.readline())
    speech = Speech(header["token"], sys.stdin.buffer, sys.stdout.buffer)
    try:
        folder = received(header, speech)
    except (OSError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        return speech.say(
            error=f"cannot copy Warpline to {cache()}: {why}",
            hint="free some space there, or set XDG_CACHE_HOME there to another directory",
        )
    if folder is None:
        return None
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, importlib.machinery.PathFinder)  # before those of another Warpline
    there = importlib.import_module("warpline.remote.there")
    with contextlib.suppress(BrokenPipeError):
        there.answer(header["request"], speech)
    return None
