"""What runs on the other machine, within the copy of Warpline: it answers one request."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.errors import HostError, WarplineError
from warpline.lazy import lazy
from warpline.remote.bootstrap import Speech

if TYPE_CHECKING:
    from warpline.remote import job
else:
    job = lazy("warpline.remote.job")

_BLOCK = 1 << 20
_ARRAYS = ("numpy", "polars", "rich")  # what reading a recording takes
# As at the end of `bootstrap`.
_RUN = (
    "import sys, importlib.machinery as m; sys.path.insert(0, {!r});"
    " sys.meta_path.insert(0, m.PathFinder); from warpline.{} import {} as main; main()"
)


def answer(request: Mapping[str, Any], speech: Speech) -> None:
    """Answer a request, such as ``{"do": "look", "path": ...}``."""
    answers = {
        "begin": _begin,
        "interrupt": _interrupt,
        "collect": _collect,
        "look": _look,
        "view": _view,
    }
    try:
        answers[request["do"]](request, speech)
    except WarplineError as error:
        speech.say(error=error.message, hint=error.hint, status=error.exit_code)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        speech.say(error=f"{named}{error.strerror or error}")


def python_words(module: str, function: str, *words: str) -> list[str]:
    """Return the command line of a Python that calls a function of this copy.

    The copy is not named by a variable of the environment: programs would inherit that.
    """
    folder = str(Path(__file__).parents[2])
    return [sys.executable, "-I", "-c", _RUN.format(folder, module, function), *words]


def _begin(request: Mapping[str, Any], speech: Speech) -> None:
    """Prepare a job, and say how it is run."""
    lacking = _lacking(request["needs"])
    if lacking:
        raise HostError(
            f"{sys.executable} does not have {' and '.join(lacking)}, which --pytorch requires",
            hint="name a Python that has them with --host-python",
        )
    folder = job.prepare(request)
    recover = shlex.join(python_words("__main__", "run", "recover", str(job.unfinished_in(folder))))
    (folder / job.RECOVER).write_text(f"exec {recover}\n", encoding="utf-8")
    speech.say(folder=str(folder), run=python_words("cli.elsewhere", "main", str(folder)))


def _lacking(modules: Sequence[str]) -> list[str]:
    return [name for name in modules if importlib.util.find_spec(name) is None]


def _interrupt(request: Mapping[str, Any], speech: Speech) -> None:
    """Send a signal to the launcher of a job."""
    job.interrupt(Path(request["folder"]), request["signal"])
    speech.say()


def _collect(request: Mapping[str, Any], speech: Speech) -> None:
    """Say how a job ended, send its recordings, and remove it once they have arrived."""
    folder = Path(request["folder"])
    result = job.result_of(folder)
    files = job.recordings_in(folder) if result["outcome"] else []
    sizes = [[path.name, path.stat().st_size] for path in files]
    speech.say(**result, files=sizes)
    while heard := speech.hear():
        if "send" in heard:
            _send(files[heard["send"]], speech)
        else:
            job.remove(folder)
            speech.say(kept=str(folder) if folder.exists() else None)


def _look(request: Mapping[str, Any], speech: Speech) -> None:
    """Say what a file is, and send it if it is asked for."""
    path = _path(request["path"])
    found = path.stat()
    speech.say(path=str(path), size=found.st_size, mtime_ns=found.st_mtime_ns)
    if speech.hear():
        _send(path, speech)


def _path(text: str) -> Path:
    """Return a file by its path, which is relative to the home directory."""
    path = Path.home() / Path(job.decoded(text)).expanduser()
    if not path.exists():
        raise HostError(f"{path}: no such file")
    if not path.is_file():
        raise HostError(f"{path} is not a file", hint="name a recording")
    return path


def _send(path: Path, speech: Speech) -> None:
    """Send a file: the size, the bytes, then their hash."""
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
        speech.say(size=left)
        total = hashlib.sha256()
        while left and (block := file.read(min(_BLOCK, left))):
            total.update(block)
            speech.said.write(block)
            left -= len(block)
    if left:
        sys.exit(f"{path} became shorter")  # what is said now would be taken for its bytes
    speech.say(hash=total.hexdigest())


def _view(request: Mapping[str, Any], speech: Speech) -> None:
    """Serve a recording to this machine only, until the local machine goes."""
    path = _path(request["path"])
    lacking = _lacking(_ARRAYS)
    if lacking:
        speech.say(lacking=lacking, python=sys.executable)
        return
    words = ["view", str(path), "--no-browser", "--quiet"]
    server = subprocess.Popen(
        python_words("__main__", "run", *words, *request["words"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    with server:
        try:
            _tell_of(server, speech)
        finally:
            server.send_signal(signal.SIGINT)


def _tell_of(server: subprocess.Popen[bytes], speech: Speech) -> None:
    """Say the URL of a server, and wait until it ends, or the connection, whoever ends that."""
    assert server.stdout is not None  # it is a pipe
    while speech.heard not in select.select([speech.heard, server.stdout], [], [])[0]:
        line = server.stdout.readline()
        if not line:
            return
        speech.say(url=line.decode().strip())
