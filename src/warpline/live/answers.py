"""Updates of a recording in progress as plain values: a line of JSON each, and the page's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpline.live.measure import Rank
from warpline.live.watch import StepTimes, Times, Update

SCHEMA_VERSION = 1
_WINDOW = ("start_ns", "end_ns", "is_settled")


def plain(update: Update) -> dict[str, Any]:
    """Return an update as ``docs/top.schema.json`` describes it."""
    second = update.second
    return {
        "schema_version": SCHEMA_VERSION,
        "name": update.name,
        "now_ns": update.now_ns,
        "is_recording": update.is_recording,
        "lost_events": update.lost,
        "damaged_logs": update.damaged_logs,
        "second": None
        if second is None
        else {
            **_window(second),
            "gpus": [
                {
                    "gpu": gpu.gpu_index,
                    "gpu_name": gpu.name,
                    "busy_ns": gpu.busy_ns,
                    "operations": gpu.operations,
                }
                for gpu in second.gpus
            ],
        },
        "times": None if update.times is None else _times(update.times),
        "steps": None if update.steps is None else _steps(update.steps),
    }


def _times(times: Times) -> dict[str, Any]:
    ranks = [
        {
            **_rank(each.rank),
            "busy_ns": each.busy_ns,
            "parts_ns": {part.label: ns for part, ns in each.parts_ns.items()},
        }
        for each in times.ranks
    ]
    return {**_window(times), "ranks": ranks}


def _steps(steps: StepTimes) -> dict[str, Any]:
    ranks = [
        {
            **_rank(each.rank),
            "count": each.steps.count,
            "per_s": each.steps.per_s,
            "median_ns": each.steps.median_ns,
            "last_ns": each.steps.last_ns,
        }
        for each in steps.ranks
    ]
    return {**_window(steps), "ranks": ranks}


def _window(part: object) -> dict[str, Any]:
    return {name: getattr(part, name) for name in _WINDOW}


def _rank(rank: Rank) -> Mapping[str, Any]:
    return {
        "pid": rank.pid,
        "process": rank.process,
        "rank": rank.number,
        "gpu": rank.gpu_index,
        "gpu_name": rank.gpu,
    }
