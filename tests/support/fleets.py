"""Summaries of ranks, made by hand, and a simulation of ranks that meet in several groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.time_parts import BUSY, TimePart
from warpline.fleet.collectives import QUARTERS, CollectiveKind, Collectives
from warpline.fleet.summary import HostSteps, Identity, LastCall, RankSummary, RankWindows


class Meeting(NamedTuple):
    """A collective of a step: the ranks, the work of each before it, and its transfer, ns."""

    communicator: str
    ranks: tuple[int, ...]
    work_ns: tuple[int, ...]
    transfer_ns: int = 50_000


class Recorded(NamedTuple):
    """What is recorded of a rank: its steps, and its collectives by communicator, ns."""

    begin_ns: list[int]
    collectives: list[tuple[str, int, int]]


def simulate(ranks: int, steps: Sequence[Sequence[Meeting]]) -> list[Recorded]:
    """Return what is recorded of ranks that meet as told, in order."""
    at = [0] * ranks
    found = [Recorded([], []) for _ in range(ranks)]
    for meetings in steps:
        for rank in range(ranks):
            found[rank].begin_ns.append(at[rank])
        for number, meeting in enumerate(meetings):
            arrival = {
                rank: at[rank] + work
                for rank, work in zip(meeting.ranks, meeting.work_ns, strict=True)
            }
            end = max(arrival.values()) + meeting.transfer_ns
            for rank, start in arrival.items():
                # Ends differ a little, as in real recordings.
                own = end + (rank * 7 + number * 3) % 5 * 100
                found[rank].collectives.append((meeting.communicator, start, own))
                at[rank] = own
    for rank in range(ranks):
        found[rank].begin_ns.append(at[rank])
    return found


def summary(
    rank: int,
    recorded: Recorded,
    *,
    host: str = "n0",
    size: int = 1_000_000,
    clock_ns: int = 0,
    calls: tuple[LastCall, ...] = (),
    end_ns: int | None = None,
) -> RankSummary:
    """Return the summary of a rank whose clock is ahead; its work is GEMMs."""
    names = list(dict.fromkeys(name for name, _, _ in recorded.collectives))
    start = np.array([start for _, start, _ in recorded.collectives], np.int64)
    end = np.array([end for _, _, end in recorded.collectives], np.int64)
    kind = np.array([names.index(name) for name, _, _ in recorded.collectives], np.uint16)
    begin = np.array(recorded.begin_ns, np.int64)
    count = len(begin) - 1
    parts = np.zeros((count, len(TimePart)), np.int64)
    for step in range(count):
        own = (start >= begin[step]) & (start < begin[step + 1])
        parts[step, TimePart.COLLECTIVE] = int((end - start)[own].sum())
    parts[:, TimePart.GEMM] = np.diff(begin) - parts.sum(axis=1)
    number = np.zeros((count, len(BUSY)), np.int64)
    number[:, TimePart.GEMM] = 100
    work = np.zeros((count, len(BUSY)), np.int64)
    work[:, TimePart.GEMM] = parts[:, TimePart.GEMM]
    steps, none = np.arange(count), np.zeros(count, np.int64)
    return RankSummary(
        identity=Identity(
            path=f"run.rank{rank}.warpline",
            format="warpline",
            rank=rank,
            pid=100 + rank,
            host=host,
            gpu_index=0,
            gpu_name="NVIDIA H200",
            origin_utc_ns=0,
            end_ns=int(begin[-1]) + clock_ns if end_ns is None else end_ns,
            events=1000,
            lost=0,
            step_source="range:step_*",
            sends=False,
            sm_clock_hz=None,
            clock_limits=None,
        ),
        steps=HostSteps(
            *(steps, none, np.diff(begin), none, none, none + 1, none),
            *(np.diff(begin), none - 1, none + 1),
        ),
        windows=RankWindows(
            steps, begin[:-1] + clock_ns, begin[1:] + clock_ns, parts, number, work
        ),
        kinds=tuple(CollectiveKind("AllReduce", name, "", True, size) for name in names),
        collectives=Collectives(
            start + clock_ns,
            end + clock_ns,
            np.zeros((len(start), QUARTERS), np.uint8),
            kind,
            np.full(len(start), -1, np.int64),
        ),
        ranges=(),
        cpu_gaps_ns=None,
        os_calls=(),
        calls=calls,
    )
