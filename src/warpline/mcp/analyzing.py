"""The tool ``analyze``: where the time goes, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline import api
from warpline.errors import UsageError
from warpline.mcp import unknown
from warpline.mcp.opened import Opened
from warpline.mcp.pages import Section, page
from warpline.mcp.unknown import CANNOT_SAY, known
from warpline.result import Diagnosis

PARTS = (
    "findings",
    "breakdown",
    "libraries",
    "overlap",
    "phases",
    "checklist",
    "cannot_say",
    "excluded_steps",
)
_MOST_IDS = 5


def analyze(
    opened: Opened,
    *,
    recordings: Sequence[str],
    steps: str | None = None,
    part: str | None = None,
    cursor: str | None = None,
) -> str:
    """Return the verdict, and the parts of the analysis, or one of them."""
    if part is not None and part not in PARTS:
        raise UsageError(f"unknown part {part[:40]!r}", hint=f"parts: {', '.join(PARTS)}")
    diagnosis = opened.answer(
        recordings,
        ("analyze", steps),
        lambda: api.analyze(opened.trace(recordings), steps=steps, keep_going=True),
    )
    plain = diagnosis.to_dict()
    sections = [item for item in _sections(diagnosis, plain) if part in {None, item.name}]
    return page(_head(plain), sections, cursor)


def _head(plain: Mapping[str, Any]) -> dict[str, Any]:
    steps = plain["steps"]
    return {
        "verdict": plain["verdict"],
        "step": {
            "source": steps["source"],
            "analyzed": steps["count"],
            "median_ns": known(steps["median_ns"]),
            "p95_ns": known(steps["p95_ns"]),
            "without_profiler_ns": known(steps["unprofiled_ns"]),
        },
        "gpus": [item["name"] for item in plain["trace"]["devices"]],
        "profiler": plain["trace"]["producer"],
        "span_ns": plain["trace"]["span_ns"],
        "lost": plain["trace"]["lost"],
        "warnings": plain["warnings"],
    }


def _sections(diagnosis: Diagnosis, plain: Mapping[str, Any]) -> Iterator[Section]:
    yield Section("findings", [_finding(item) for item in plain["findings"]])
    yield Section(
        "breakdown",
        [
            [
                *(place.process, place.device, part.kind, part.category, part.ns, part.meaning),
                part.ns / place.total_ns if place.total_ns else None,
            ]
            for place in diagnosis.breakdown
            for part in place.parts
        ],
        ("process", "gpu", "kind", "category", "ns", "meaning", "share"),
    )
    yield Section(
        "libraries",
        [
            [place.process, place.device, name, ns]
            for place in diagnosis.breakdown
            for name, ns in place.origins.items()
        ],
        ("process", "gpu", "library", "busy_ns"),
    )
    columns = [*plain["overlap"][0]] if plain["overlap"] else []
    yield Section("overlap", [list(item.values()) for item in plain["overlap"]], columns)
    yield Section(
        "phases",
        [
            [" > ".join(phase.path), phase.calls, phase.total_ns, phase.self_ns, _idle(phase.parts)]
            for phase in diagnosis.phases
        ],
        ("ranges", "calls", "total_ns", "self_ns", "idle_ns"),
    )
    yield Section(
        "checklist",
        [
            [check.id, check.state.replace("unknown", CANNOT_SAY), check.found, check.wanted]
            for check in diagnosis.checks
        ],
        ("check", "state", "found", "wanted"),
    )
    yield unknown.section(_lacking(diagnosis))
    yield Section(
        "excluded_steps",
        [[item.label, item.process, item.reason] for item in diagnosis.steps.excluded],
        ("step", "process", "reason"),
    )


def _idle(parts: Sequence[Any]) -> int:
    return sum(part.ns for part in parts if part.kind == "idle")


def _finding(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: item[name] for name in ("id", "rule", "severity", "title", "claim")},
        "saving_ns_per_step": known(item["saving_ns"]),
        "saving_bounds_ns": [item["saving_low_ns"], item["saving_high_ns"]]
        if item["saving_ns"] is not None
        else CANNOT_SAY,
        "fix": item["fix"],
        "verify": item["verify"],
        "evidence": [_evidence(fact) for fact in item["evidence"]],
    }


def _evidence(fact: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"fact": fact["text"]}
    if fact["table"] is not None:
        shown["events"] = [f"{fact['table']}:{row}" for row in fact["rows"][:_MOST_IDS]]
        shown["of"] = fact["count"]
    return shown


def _lacking(diagnosis: Diagnosis) -> Iterator[tuple[str, str, str | None]]:
    for item in diagnosis.not_judged:
        yield unknown.row_of(item)
    for check in diagnosis.checks:
        if check.state == "unknown":
            yield (check.id, check.found, None)
