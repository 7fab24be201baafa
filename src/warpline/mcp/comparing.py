"""The tool ``compare``: two recordings, or two sets of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline import api
from warpline.errors import UsageError
from warpline.mcp import unknown
from warpline.mcp.opened import Opened
from warpline.mcp.pages import Section, page
from warpline.mcp.unknown import CANNOT_SAY

_OF_SIDE = frozenset({"title", "runs", "steps", "ranks", "kernels", "launches"})
_COLUMNS = (
    *("name", "change", "is_significant"),
    *("before_ns", "after_ns", "delta_ns", "before_count", "after_count"),
)
_GROUPS = ("kernels", "collectives", "copies", "calls", "ranges")
PARTS = ("breakdown", "findings", "phases", *_GROUPS, "memory", "environment", "cannot_say")


def compare(
    opened: Opened,
    *,
    before: Sequence[str],
    after: Sequence[str],
    steps: str | None = None,
    part: str | None = None,
    cursor: str | None = None,
) -> str:
    """Return whether a side is faster, by how much, and why; all parts of it, or one."""
    if part is not None and part not in PARTS:
        raise UsageError(f"unknown part {part[:40]!r}", hint=f"parts: {', '.join(PARTS)}")
    first, second = (opened.paths(side) for side in (before, after))
    plain = opened.answer(
        [*before, *after],
        ("compare", len(first), steps),
        lambda: api.compared(list(first), list(second), steps=steps, keep_going=True).to_dict(),
    )
    sections = [item for item in _sections(plain) if part in {None, item.name}]
    return page(_head(plain), sections, cursor)


def _head(plain: Mapping[str, Any]) -> dict[str, Any]:
    is_unclear = plain["verdict"] == "undecided"
    return {
        "verdict": CANNOT_SAY if is_unclear else plain["verdict"],
        "sentence": plain["sentence"],
        "step": plain.get("step") or CANNOT_SAY,
        **{
            side: {name: value for name, value in plain[side].items() if name in _OF_SIDE}
            for side in ("before", "after")
        },
    }


def _sections(plain: Mapping[str, Any]) -> Iterator[Section]:
    if "parts" in plain:
        yield from _of_timelines(plain)
    else:  # counters of kernels
        yield Section("kernels", plain["kernels"])
    yield _columns("environment", [item for item in plain["environment"] if _differs(item)])
    yield unknown.section(("comparison", text, None) for text in plain["limits"])


def _of_timelines(plain: Mapping[str, Any]) -> Iterator[Section]:
    yield _columns("breakdown", plain["parts"])
    yield _columns("findings", plain["findings"])
    phases = [{**item, "path": " > ".join(item["path"])} for item in plain["phases"]]
    yield _columns("phases", phases)
    for name in _GROUPS:
        yield Section(name, [_item(item) for item in plain[name]], _COLUMNS)
    yield _columns("memory", plain["memory"])


def _differs(item: Mapping[str, Any]) -> bool:
    return bool(item["effect"]) or item["before"] != item["after"]


def _item(item: Mapping[str, Any]) -> list[Any]:
    sides = [item["before"] or {"ns": 0, "count": 0}, item["after"] or {"ns": 0, "count": 0}]
    return [
        *(item[name] for name in ("name", "change", "is_significant")),
        *(round(side["ns"]) for side in sides),
        round(item["delta_ns"]),
        *(side["count"] for side in sides),
    ]


def _columns(name: str, items: Sequence[Mapping[str, Any]]) -> Section:
    columns = list(items[0]) if items else []
    return Section(name, [[item[column] for column in columns] for item in items], columns)
