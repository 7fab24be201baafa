"""``warpline recover``: a session that nobody finished, made into a recording."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.cli import talk
from warpline.cli.output import write_text
from warpline.errors import CaptureError, WarplineError
from warpline.units import plural

if TYPE_CHECKING:
    from warpline.capture.finishing import Finished

NAME = "recover"
HELP = "finish a session whose launcher died: make its .raw folder into a recording"

_ENDING = ".raw"
_RECORDING = ".warpline"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the words of this command."""
    parser.add_argument("folder", metavar="FOLDER", help="the session's folder: NAME.warpline.raw")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the recording to write (default: the folder's name without .raw)",
    )
    parser.add_argument(
        "-f",
        "--force",
        "--force-overwrite",
        action="store_true",
        help="replace FILE if it exists, and finish a session that is still being recorded",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder when all of it was recovered"
    )


def run(args: Namespace) -> int:
    """Finish the session and print the path of the recording."""
    from warpline.capture.finishing import finish  # noqa: PLC0415 - start-up: brings the core

    folder = Path(args.folder)
    if not folder.is_dir():
        raise CaptureError(f"there is no folder {folder}", hint="name a folder that ends in .raw")
    facts = _facts(folder)
    if not args.force:
        _refuse_living(folder, facts)
    output = _output(folder, args.output)
    if output.exists() and not args.force:
        raise WarplineError(f"{output} exists", hint="-o FILE names another, -f replaces it")
    finished = finish(folder, output)
    _tell(finished)
    _leave(folder, finished, keep=args.keep)
    return write_text(str(output))


def _facts(folder: Path) -> dict[str, Any]:
    """Return what session.json holds, nothing if it cannot be read: finishing says why."""
    from warpline.capture.session import read_facts  # noqa: PLC0415 - start-up

    try:
        return read_facts(folder)
    except CaptureError:
        return {}


def _refuse_living(folder: Path, facts: dict[str, Any]) -> None:
    from warpline.capture.raw_session import launched_by  # noqa: PLC0415 - start-up

    pid = launched_by(facts)
    if pid is not None:
        raise CaptureError(
            f"{folder} is still being recorded, by process {pid}",
            hint="end that first; --force finishes what there is so far",
        )


def _output(folder: Path, named: str | None) -> Path:
    """Return where the recording goes: a free name beside the folder, unless one is given."""
    if named is not None:
        return Path(named)
    whole = folder.resolve()
    name = whole.name.removesuffix(_ENDING)
    return whole.with_name(name if name.endswith(_RECORDING) else name + _RECORDING)


def _tell(finished: Finished) -> None:
    counts = [plural(finished.ranges, "range"), plural(finished.marks, "mark")]
    if finished.kernels or finished.cuda_calls:
        counts += [plural(finished.kernels, "kernel"), plural(finished.cuda_calls, "CUDA call")]
    *first, last = counts
    of_all = plural(finished.processes, "process", "processes")
    talk.note(f"recovered {', '.join(first)} and {last} of {of_all}")
    if finished.truncated and not finished.warnings:  # which name the processes
        talk.note(f"{plural(finished.truncated, 'range')} had no end: cut where it was last seen")
    if finished.lost:
        talk.warning(f"{plural(finished.lost, 'event')} lost")
    for warning in finished.warnings:
        talk.warning(warning)


def _leave(folder: Path, finished: Finished, *, keep: bool) -> None:
    """Delete the folder if nothing in it is left to be had."""
    if keep or not finished.is_whole:
        if not keep:
            talk.note(f"{folder} is kept: not all of it could be read")
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        talk.note(f"{folder} cannot be deleted: {error.strerror}")
