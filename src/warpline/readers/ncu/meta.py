"""Facts about a report as a whole."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from warpline.lazy import lazy
from warpline.readers.ncu.report import Report
from warpline.readers.ncu.wire import Message
from warpline.trace.meta import TraceMeta

if TYPE_CHECKING:
    from warpline import redaction
else:
    redaction = lazy("warpline.redaction")

FORMAT = "ncu-rep"
READ_VERSION = 7  # of the format, since Nsight Compute 2021 at the latest
_TARGET = "Nsight Compute Target"
_NS_PER_S = 10**9


def meta_of(report: Report) -> TraceMeta:
    """Return the facts about a report.

    Raises:
        CorruptTraceError: Its session is damaged.
    """
    with report.damage("the session"):
        versions: dict[str, str] = {}
        system: dict[str, str] = {}
        command = begin = None
        for session in report.sessions:
            versions.update((_text(of, 1), _text(of, 2)) for of in session.messages(8))
            for machine in (*session.messages(4), *session.messages(3)):
                system.update(_system(machine))
            command = session.raw(11) or command
            begin = session.integer(2) or begin
    tool = versions.pop(_TARGET, None)
    return TraceMeta(
        paths=(report.path,),
        format=FORMAT,
        producer="Nsight Compute" + (f" {tool.split()[0]}" if tool else ""),
        format_version=str(report.version),
        command=None if command is None else _redacted(command.decode("utf-8", "replace")),
        host=next((host.decode("utf-8", "replace") for _, host, _ in report.processes), None),
        origin_utc_ns=begin * _NS_PER_S if begin and begin < _NS_PER_S * 8 else None,
        unread=_unread(report),
        warnings=_warnings(report, is_complete=command is not None),
        software={**system, **{_NAMES.get(name, name): text for name, text in versions.items()}},
    )


_NAMES = {"CUDA Version": "CUDA"}


def _text(message: Message, number: int) -> str:
    return (message.raw(number) or b"").decode("utf-8", "replace")


def _system(machine: Message) -> dict[str, str]:
    name, release, processor = (_text(machine, number) for number in (1, 2, 3))
    facts = {"operating system": f"{name} {release}".strip(), "CPU": processor}
    return {key: value for key, value in facts.items() if value}


def _redacted(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its other half
        words = command.split()
    return redaction.join_command(redaction.redact_command(words))


def _unread(report: Report) -> dict[str, int]:
    """Return kinds of results that are not read, and how many there are."""
    counts = Counter(entry.kind for entry in report.entries)
    kinds = [kind for kind in counts if kind not in ("kernel", "module")]
    return {f"{kind} results": counts[kind] for kind in kinds}


def _warnings(report: Report, *, is_complete: bool) -> tuple[str, ...]:
    warnings = []
    if report.version != READ_VERSION:
        warnings.append(
            f"the report has format version {report.version}; only version {READ_VERSION} is tested"
        )
    if not is_complete:
        warnings.append("the report has no command line at its end; launches may be missing")
    return tuple(warnings)
