"""``warpline recover``: write the recording of a session whose launcher was killed."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.cli.stdout import write_text
from warpline.errors import CaptureError
from warpline.files import check_output
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.capture.finishing import finish, raw_session
    from warpline.capture.finishing.finish import Finished
    from warpline.capture.session import facts as session_facts
    from warpline.capture.session import memory, operators
    from warpline.documents import session_memory, session_operators
else:
    finish = lazy("warpline.capture.finishing.finish")
    raw_session = lazy("warpline.capture.finishing.raw_session")
    session_facts = lazy("warpline.capture.session.facts")
    memory = lazy("warpline.capture.session.memory")
    operators = lazy("warpline.capture.session.operators")
    session_memory = lazy("warpline.documents.session_memory")
    session_operators = lazy("warpline.documents.session_operators")

NAME = "recover"
HELP = "recover an unfinished recording from its .raw directory"

_ENDING = ".raw"
_RECORDING = ".warpline"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "folder", metavar="DIRECTORY", help="unfinished recording: NAME.warpline.raw"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file (default: the directory's name without .raw)",
    )
    parser.add_argument(
        "-f",
        "--force",
        "--force-overwrite",
        action="store_true",
        help="overwrite FILE; also recover while the program is still being recorded",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the directory after a complete recovery"
    )


def run(args: Namespace) -> int:
    """Write the recording and print its path."""
    folder = Path(args.folder)
    if not folder.is_dir():
        raise CaptureError(
            f"no such directory: {folder}", hint="name a directory that ends in .raw"
        )
    facts = _facts(folder)
    if not args.force:
        _refuse_living(folder, facts)
    output = _output(folder, args.output)
    check_output(output, overwrite=args.force)
    finished = finish.finish(folder, output)
    if operators.has_operators(folder):  # what adds them imports numpy
        session_operators.add(output, folder)
    if memory.has_memory(folder):
        session_memory.add(output, folder)
    _tell(finished)
    _leave(folder, finished, keep=args.keep)
    return write_text(str(output))


def _facts(folder: Path) -> dict[str, Any]:
    """Return the content of session.json; empty if unreadable, which `finish` reports."""
    try:
        return session_facts.read_facts(folder)
    except CaptureError:
        return {}


def _refuse_living(folder: Path, facts: dict[str, Any]) -> None:

    pid = raw_session.launched_by(facts)
    if pid is not None:
        raise CaptureError(
            f"process {pid} is still recording to {folder}",
            hint="stop it first, or use --force to recover the events recorded so far",
        )


def _output(folder: Path, named: str | None) -> Path:
    """Return the recording's path: next to the directory unless -o is given."""
    if named is not None:
        return Path(named)
    whole = folder.resolve()
    name = whole.name.removesuffix(_ENDING)
    return whole.with_name(name if name.endswith(_RECORDING) else name + _RECORDING)


def _tell(finished: Finished) -> None:
    counts = [plural(finished.ranges, "range"), plural(finished.marks, "mark")]
    if finished.kernels or finished.cuda_calls:
        counts += [plural(finished.kernels, "kernel"), plural(finished.cuda_calls, "CUDA API call")]
    if finished.counted_kernels:
        counts.append(plural(finished.counted_kernels, "profiled kernel"))
    if finished.pc_samples:
        counts.append(f"program counter samples in {plural(finished.pc_samples, 'row')}")
    *first, last = counts
    of_all = plural(finished.processes, "process", "processes")
    talk.note(f"recovered {', '.join(first)} and {last} from {of_all}")
    if finished.truncated and not finished.warnings:  # warnings name the processes
        talk.note(f"{plural(finished.truncated, 'range')} without an end, cut at the last event")
    if finished.lost:
        talk.warning(f"{plural(finished.lost, 'event')} dropped")
    for warning in finished.warnings:
        talk.warning(warning)


def _leave(folder: Path, finished: Finished, *, keep: bool) -> None:
    """Delete the directory after a complete recovery."""
    if keep or not finished.is_whole:
        if not keep:
            talk.note(f"kept {folder}: some of it could not be read")
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        talk.note(f"cannot delete {folder}: {error.strerror}")
