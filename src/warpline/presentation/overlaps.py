"""Overlap of copies, communication and compute."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation.blocks import Block, Cell, Items, Section
from warpline.result import Breakdown, Diagnosis, Overlap
from warpline.result.shares import counted, percent
from warpline.units import format_ns

_LEAST_OVERLAP = 0.005


def overlaps(diagnosis: Diagnosis, *, most: int | None = None) -> Iterator[Block]:
    """Yield the overlap worth showing; of several GPUs, each text names its own."""
    pairs = zip(diagnosis.overlaps, diagnosis.breakdown, strict=False)
    is_one = len(diagnosis.breakdown) < 2
    texts = [
        text if is_one else f"{text} (GPU {item.device})"
        for item, whole in pairs
        for text in _texts(item, whole)
    ]
    if texts:
        yield Section("Overlap", (Items(tuple((Cell(text),) for text in texts[:most])),))


def _texts(item: Overlap, whole: Breakdown) -> Iterator[str]:
    """Yield a text for each kind of work that takes at least 0.5% of the time."""
    per = max(whole.count, 1)
    each = " per step" if whole.count else ""
    least = _LEAST_OVERLAP * sum(part.ns for part in counted(whole)[0])
    kinds = (
        ("communication", item.communication_ns, item.exposed_communication_ns),
        ("copies", item.copy_ns, item.exposed_copy_ns),
    )
    for name, ns, exposed_ns in kinds:
        if ns and ns >= least:
            overlapped = percent(ns - exposed_ns, ns)
            exposed = format_ns(exposed_ns / per)
            text = f"{name} {format_ns(ns / per)}{each}: {overlapped} overlapped with compute"
            waiting_ns = (item.waiting_ns or 0) if name == "communication" else 0
            waited = f", {format_ns(waiting_ns / per)} waiting for other ranks"
            waited = waited if waiting_ns > _LEAST_OVERLAP * ns else ""
            yield f"{text}, {exposed} exposed{waited}" if exposed_ns else f"{text}{waited}"
    if item.concurrent_ns and item.concurrent_ns >= least:
        share = percent(item.concurrent_ns, item.busy_ns)
        yield f"two or more streams busy at the same time: {share} of busy time"
