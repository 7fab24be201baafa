"""Brings files of another machine here: each arrives whole, as its hash shows, or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline import progress
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.launch import Outcome, Talk, UnfinishedError
from warpline.capture.launcher.reasons import Reason
from warpline.capture.session import names
from warpline.errors import CaptureError, HostError, TargetFailedError, UsageError, WarplineError
from warpline.files import complete_file
from warpline.remote import job
from warpline.remote.ssh import Connection, Exchange

_ODD = (AttributeError, KeyError, TypeError, ValueError)  # what is not what this Warpline says


def fetch(exchange: Exchange, number: int, output: Path, title: str) -> None:
    """Write a file that is sent on request.

    Args:
        exchange: The exchange.
        number: Which file, in the order in which they were said.
        output: The file to write; an existing one is replaced.
        title: What is brought, for the progress.

    Raises:
        HostError: It does not arrive whole.
        InputError: It cannot be written.
    """
    exchange.tell(send=number)
    size = exchange.hear(size=int)["size"]
    total = hashlib.sha256()
    with (
        progress.task(title, size) as advance,
        complete_file(output) as unfinished,
    ):
        with unfinished.open("wb") as file:
            for block in exchange.read(size):
                file.write(block)
                total.update(block)
                advance(len(block))
        if exchange.hear(hash=str)["hash"] != total.hexdigest():
            raise HostError(f"{output.name} did not arrive as it was sent", hint="try again")


def bring_home(
    connection: Connection, folder: str, settings: CaptureSettings, talk: Talk
) -> Outcome:
    """Bring the recording of a job here, and remove it there.

    Args:
        connection: The connection to its machine.
        folder: The job.
        settings: The settings of the recording.
        talk: Functions that print messages.

    Raises:
        WarplineError: The program was not started. UnfinishedError: It ran, but its recording is
        not here; the hint says where it is.
    """
    host = connection.host
    ending: Ending | None = None
    try:
        request = {"do": "collect", "folder": folder}
        with connection.request(request, is_batch=True) as exchange:
            said = exchange.hear()
            outcome = said["outcome"]
            if outcome is None:
                raise _without_outcome(host, said, folder)
            ending = Ending(**(outcome.get("ending") or {}))
            if "finished" in outcome:
                output = _bring_all(exchange, said["files"], outcome, settings, talk)
            _remove(exchange, host, talk)
    except (WarplineError, OSError, *_ODD, KeyboardInterrupt) as error:
        raise _unfinished(error, host, folder, ending) from error
    if "finished" not in outcome:
        raise _failed(outcome, host, folder, ending)
    reason = outcome["reason"]
    why = Reason(*reason) if reason else None
    return Outcome(output, outcome["finished"], ending, why, outcome["pid"])


def _unfinished(
    error: BaseException, host: str, folder: str, ending: Ending | None
) -> UnfinishedError:
    """Return the error about a recording that stays there; without an ending, nothing is known."""
    if isinstance(error, UnfinishedError):
        return error
    message = error.message if isinstance(error, WarplineError) else str(error)
    if isinstance(error, _ODD):
        message = f"{host}: unexpected answer"
    hint = f"{_scp(host, folder)} copies the recording"
    if isinstance(error, KeyboardInterrupt):
        message = "interrupted; the recording is not here"
    elif ending is None:
        message, hint = f"{message}; the program may still run there", f"when it has ended, {hint}"
    ending = ending or Ending()
    if isinstance(error, KeyboardInterrupt):
        ending.asked = signal.SIGINT
    return UnfinishedError(message, hint=hint, ending=ending)


def _without_outcome(host: str, said: Mapping[str, Any], folder: str) -> UnfinishedError:
    """Return the error about a job that has not ended, or was killed."""
    if said["running"]:
        return UnfinishedError(
            f"the connection to {host} was lost; the program goes on there",
            hint=f"when it has ended, {_scp(host, folder)} copies the recording",
            ending=Ending(),
        )
    return UnfinishedError(
        f"{host}: the process that records was killed",
        hint=_recover(host, folder),
        ending=Ending(),
    )


def _failed(outcome: Mapping[str, Any], host: str, folder: str, ending: Ending) -> WarplineError:
    """Return the error of the launcher there, as it would be raised here."""
    message, hint = outcome.get("error", "the launcher failed"), outcome.get("hint")
    status = outcome.get("status", 1)
    if outcome.get("ending"):
        return UnfinishedError(f"{host}: {message}", hint=_recover(host, folder), ending=ending)
    if status in {TargetFailedError.NOT_FOUND, TargetFailedError.NOT_RUNNABLE}:
        return TargetFailedError(f"{host}: {message}", exit_code=status, hint=hint)
    kind = UsageError if status == UsageError.exit_code else CaptureError
    return kind(f"{host}: {message}", hint=hint)


def _bring_all(
    exchange: Exchange,
    files: Sequence[tuple[str, int]],
    outcome: Mapping[str, Any],
    settings: CaptureSettings,
    talk: Talk,
) -> Path:
    """Bring the recordings of a job, and return that of the whole run.

    Others are those of ``--when``; their names are that of the first one and what is added to it.
    """
    place = _reserve(outcome, settings, talk)
    try:
        for number, (name, _) in enumerate(files):
            added = name.removeprefix(job.NAME).removesuffix(names.ENDING)
            output = place.output.with_name(f"{place.output.stem}{added}{names.ENDING}")
            if number and os.path.lexists(output) and not settings.force_overwrite:
                raise UsageError(f"{output} already exists", hint="use --force-overwrite")
            fetch(exchange, number, output, f"Copying {output.name}")
            if number:
                talk.note(f"wrote {output.name}")
    finally:
        with contextlib.suppress(OSError):
            place.folder.rmdir()
    return place.output


def _reserve(outcome: Mapping[str, Any], settings: CaptureSettings, talk: Talk) -> names.Place:
    """Choose the recording's path here; %h, %p and %q are of the machine where the program ran."""
    pattern = settings.output
    if pattern is not None:
        host = _part(outcome["host"]).replace("%", "")
        pattern = "%%".join(part.replace("%h", host) for part in pattern.split("%%"))
    found = outcome["variables"].items()
    variables = {name: _part(text) for name, text in found if text is not None}
    for name in names.unset_variables(pattern or "", variables):
        talk.warn(f"environment variable {name} is not set there; using an empty value")
    return names.reserve(
        pattern,
        variables,
        pid=int(outcome["pid"]),
        overwrite=settings.force_overwrite,
        warn=talk.warn,
        exports=settings.export,
    )


def _part(text: str) -> str:
    """Return a part of a file name that another machine has chosen: it leads to no directory."""
    return text.replace("/", "_").replace("\0", "_")


def _remove(exchange: Exchange, host: str, talk: Talk) -> None:
    """Remove a job there; what could not be read stays."""
    exchange.tell(remove=True)
    kept = exchange.hear()["kept"]
    if kept is not None:
        talk.note(f"{host}:{kept} is not removed: some of it could not be read")


def _scp(host: str, folder: str) -> str:
    """Return the command that copies the recordings of a job."""
    return f"scp {shlex.quote(f'{host}:{folder}/*{names.ENDING}')} ."


def _recover(host: str, folder: str) -> str:
    """Return what to do about a recording that is unfinished there."""
    script = shlex.quote(f"{folder}/{job.RECOVER}")
    return f"ssh {host} sh {script} writes what there is; {_scp(host, folder)} copies it"
