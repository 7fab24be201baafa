"""The summary of one rank: at most 4 kB per step, 16 bytes per collective, and a head.

A summary has what the other ranks are compared with: every step with its parts, also those that
are not representative, as the job decides together which ones count; every collective that all
ranks end together; and sums of the rank's CPU time. Times are on the rank's own clock.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from warpline.derived.time_parts import BUSY, TimePart
from warpline.errors import InputError
from warpline.fleet.collectives import (
    CollectiveKind,
    CollectiveRows,
    PackedCollectives,
    no_collectives,
    runs_of_numbers,
    words_of,
)
from warpline.ops.arrays import I64

VERSION = 2
_MOST_GEMM_NS = 2**32 - 1


class PeerCalls(NamedTuple):
    """Calls by which a rank sends to another rank, or receives from it, in the steps.

    Attributes:
        operation: ``Send`` or ``Recv``.
        communicator: Its id or name.
        members: The ranks in it as recorded; "" if unknown.
        rank: The own number in the communicator; -1 if unknown.
        peer: The number of the other rank in it.
        bytes: Message size; -1 if unknown.
        per_step: Calls per step.
    """

    operation: str
    communicator: str
    members: str
    rank: int
    peer: int
    bytes: int
    per_step: float


class HostSteps(NamedTuple):
    """The steps of the rank's process; shape (n,) each, int64, by loop and time.

    Attributes:
        number: Number of the step.
        loop: A process, or one of its threads.
        period_ns: The longest period on a device; 0 if unknown.
        setup_calls: Number of setup calls.
        is_last: 1 if no recorded step follows.
        has_work: 1 if it launched GPU work.
        is_cut: 1 if the recording began or ended within it.
        host_period_ns: From its start on the CPU to that of the next step; 0 for the last one.
        cpu_idle_ns: How long its launching threads were blocked or made no calls; -1 if unknown.
        included: 1 if the rank alone would include it.
    """

    number: I64
    loop: I64
    period_ns: I64
    setup_calls: I64
    is_last: I64
    has_work: I64
    is_cut: I64
    host_period_ns: I64
    cpu_idle_ns: I64
    included: I64


class RankWindows(NamedTuple):
    """The times of the rank's steps on its GPU, by start.

    Attributes:
        step: Shape (m,), int64, places in the steps; -1 for the whole recording, without steps.
        start_ns: Shape (m,), int64.
        end_ns: Shape (m,), int64.
        parts_ns: Shape (m, `TimePart`), int64; a row sums to the length of its window.
        number: Shape (m, busy parts), int64, operations launched in the step, by category.
        work_ns: Shape (m, busy parts), int64, sum of their durations.
    """

    step: I64
    start_ns: I64
    end_ns: I64
    parts_ns: I64
    number: I64
    work_ns: I64


class NamedTime(NamedTuple):
    """A time per step, and what it is of: the path of a range, or the name of a function."""

    path: tuple[str, ...]
    ns: float


class LastCall(NamedTuple):
    """The last call of a communicator, as the CPU made it.

    Attributes:
        communicator: Its id or name.
        members: The ranks in it as recorded; "" if unknown.
        calls: Number of calls.
        sequence: Number of the last one in the communicator; -1 if unknown.
        operation: Of the last call.
        start_ns: When the last call began.
        pending: How many of the last calls have no kernel that ended; -1 if unknown.
        open_operation: Of the first of these; "" without.
        open_bytes: Its message size; -1 if unknown.
    """

    communicator: str
    members: str
    calls: int
    sequence: int
    operation: str
    start_ns: int
    pending: int
    open_operation: str = ""
    open_bytes: int = -1


@dataclass(frozen=True)
class Identity:
    """Which rank a summary is of, and facts about its recording.

    Attributes:
        path: The recording.
        format: Name of its reader.
        rank: The rank's number; None if unknown.
        pid: Process id; None if unknown.
        host: Name of the machine; None if unknown.
        gpu_index: Index of the GPU.
        gpu_name: Its product name; None if unknown.
        origin_utc_ns: UTC time of the rank's time 0; None if unknown.
        end_ns: When the recording ended.
        events: Number of rows of the recording.
        lost: Number of dropped events as far as counted.
        step_source: What a step is: ``range:step_*``, ``periodicity`` or ``none``.
        sends: Whether the rank sends others data outside collectives.
        sm_clock_hz: Mean clock of the SMs while the GPU was not idle; None if not recorded.
        clock_limits: What limited that clock, in the words of nvidia-smi; None if unknown.
        environment: Facts about machine, software and settings, by name; empty unless jobs are
            compared.
    """

    path: str
    format: str
    rank: int | None
    pid: int | None
    host: str | None
    gpu_index: int
    gpu_name: str | None
    origin_utc_ns: int | None
    end_ns: int
    events: int
    lost: int
    step_source: str
    sends: bool
    sm_clock_hz: int | None
    clock_limits: str | None
    environment: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class RankSummary:
    """What a job's analysis knows of one rank.

    Attributes:
        identity: Which rank it is.
        steps: All steps of its process.
        windows: Their times on its GPU.
        kinds: The kinds of its collectives.
        collectives: Its collectives.
        ranges: CPU time in ranges of launching threads, the longest ones.
        cpu_gaps_ns: CPU time per step in long gaps without CUDA API calls; None if unknown.
        os_calls: Time in OS functions of launching threads, the longest ones.
        calls: The last call of each communicator.
        exchanges: Its kernels that send to single ranks or receive from them.
        peers: The calls that these come from.
        gemm_ns: Shape (all-to-alls,), int64, by start: GEMMs from its end to the next one in its
            communicator.
        doing: The ranges that its process had open at the end, the outermost first.
    """

    identity: Identity
    steps: HostSteps
    windows: RankWindows
    kinds: tuple[CollectiveKind, ...]
    collectives: CollectiveRows
    ranges: tuple[NamedTime, ...]
    cpu_gaps_ns: float | None
    os_calls: tuple[NamedTime, ...]
    calls: tuple[LastCall, ...]
    exchanges: CollectiveRows = field(default_factory=no_collectives)
    peers: tuple[PeerCalls, ...] = ()
    gemm_ns: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    doing: tuple[str, ...] = ()


def packed(summaries: Iterable[RankSummary]) -> bytes:
    """Return summaries as bytes, to send or to keep. `unpacked` reads them."""
    out = io.BytesIO()
    for summary in summaries:
        part = _packed(summary)
        out.write(len(part).to_bytes(8, "little") + part)
    return out.getvalue()


def unpacked(content: bytes) -> list[RankSummary]:
    """Return the summaries of `packed`, also of several results joined one after another.

    Raises:
        InputError: The bytes are not summaries of this version.
    """
    found, place = [], 0
    while place < len(content):
        size = int.from_bytes(content[place : place + 8], "little")
        if size > len(content) - place - 8:
            raise InputError("a rank summary is truncated", hint="make the summaries again")
        found.append(_unpacked(content[place + 8 : place + 8 + size]))
        place += 8 + size
    return found


def drained(pieces: list[bytes]) -> list[RankSummary]:
    """Return the summaries in pieces of bytes, each freed once it is read: the list ends up empty.

    Raises:
        InputError: The bytes are not summaries of this version.
    """
    found: list[RankSummary] = []
    pieces.reverse()
    while pieces:
        found += unpacked(pieces.pop())
    return found


def _packed(summary: RankSummary) -> bytes:
    words, base_ns = words_of(summary.collectives)
    sent, sent_base_ns = words_of(summary.exchanges)
    head = {
        "version": VERSION,
        "identity": asdict(summary.identity),
        "kinds": summary.kinds,
        "base_ns": base_ns,
        "exchange_base_ns": sent_base_ns,
        "numbers": runs_of_numbers(summary.collectives, summary.kinds),
        "ranges": summary.ranges,
        "cpu_gaps_ns": summary.cpu_gaps_ns,
        "os_calls": summary.os_calls,
        "calls": summary.calls,
        "peers": summary.peers,
        "doing": summary.doing,
        "parts": len(TimePart),
    }
    windows = summary.windows
    arrays: dict[str, Any] = {
        "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
        "steps": np.stack(summary.steps) if len(summary.steps.number) else _NO_STEPS,
        "windows": np.stack((windows.step, windows.start_ns, windows.end_ns)),
        "parts_ns": windows.parts_ns,
        "number": windows.number.astype(np.uint32),
        "work_ns": windows.work_ns,
        "collectives": words,
        "exchanges": sent,
        "gemm_ns": np.minimum(summary.gemm_ns, _MOST_GEMM_NS).astype(np.uint32),
    }
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


_NO_STEPS = np.zeros((len(HostSteps._fields), 0), np.int64)


def _unpacked(content: bytes) -> RankSummary:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            parts = {name: arrays[name] for name in arrays.files}
        head = json.loads(parts["head"].tobytes())
        found = _restored(head, parts) if _is_current(head) else None
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"not a rank summary of this version: {error}", hint="make the summaries again"
        ) from error
    if found is None:
        raise InputError("a rank summary of another version", hint="make the summaries again")
    return found


def _is_current(head: dict[str, Any]) -> bool:
    return bool(head["version"] == VERSION and head["parts"] == len(TimePart))


def _restored(head: dict[str, Any], arrays: dict[str, Any]) -> RankSummary:
    kinds = tuple(CollectiveKind(*kind) for kind in head["kinds"])
    known = {item.name for item in fields(Identity)}
    return RankSummary(
        identity=Identity(**{k: v for k, v in head["identity"].items() if k in known}),
        steps=HostSteps(*arrays["steps"]),
        windows=RankWindows(
            arrays["windows"][0],
            arrays["windows"][1],
            arrays["windows"][2],
            arrays["parts_ns"].reshape(-1, len(TimePart)),
            arrays["number"].astype(np.int64).reshape(-1, len(BUSY)),
            arrays["work_ns"].reshape(-1, len(BUSY)),
        ),
        kinds=kinds,
        collectives=PackedCollectives(
            arrays["collectives"], head["base_ns"], head["numbers"], kinds
        ),
        ranges=_times(head["ranges"]),
        cpu_gaps_ns=head["cpu_gaps_ns"],
        os_calls=_times(head["os_calls"]),
        calls=tuple(LastCall(*call) for call in head["calls"]),
        exchanges=PackedCollectives(arrays["exchanges"], head["exchange_base_ns"], {}, kinds),
        peers=tuple(PeerCalls(*call) for call in head["peers"]),
        gemm_ns=arrays["gemm_ns"].astype(np.int64),
        doing=tuple(head["doing"]),
    )


def _times(listed: Sequence[Sequence[Any]]) -> tuple[NamedTime, ...]:
    return tuple(NamedTime(tuple(path), ns) for path, ns in listed)
