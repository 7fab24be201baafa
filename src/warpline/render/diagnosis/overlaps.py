"""What ran at a time on a device, in words."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.render.diagnosis.shares import counted, percent
from warpline.result import Breakdown, Diagnosis, Overlap
from warpline.units import format_ns

_LEAST_OVERLAP = 0.005


def device_overlaps(diagnosis: Diagnosis) -> list[str]:
    """Return what is worth a line about each device; of several, each line names its own."""
    found = zip(diagnosis.overlaps, diagnosis.breakdown, strict=False)
    is_one = len(diagnosis.breakdown) < 2
    return [
        text if is_one else f"{text} (device {item.device})"
        for item, whole in found
        for text in _texts(item, whole)
    ]


def _texts(item: Overlap, whole: Breakdown) -> Iterator[str]:
    """Yield what is worth a line: communication and copies that take half a per cent or more."""
    per = max(whole.count, 1)
    each = " per step" if whole.count else ""
    least = _LEAST_OVERLAP * sum(part.ns for part in counted(whole)[0])
    kinds = (
        ("communication", item.communication_ns, item.exposed_communication_ns),
        ("copies", item.copy_ns, item.exposed_copy_ns),
    )
    for name, ns, exposed_ns in kinds:
        if ns and ns >= least:
            beside = percent(ns - exposed_ns, ns)
            alone = format_ns(exposed_ns / per)
            text = f"{name} {format_ns(ns / per)}{each}: {beside} of it beside computing"
            waiting_ns = (item.waiting_ns or 0) if name == "communication" else 0
            waited = f"; {format_ns(waiting_ns / per)} of it waiting for other ranks"
            waited = waited if waiting_ns > _LEAST_OVERLAP * ns else ""
            yield f"{text}, {alone} alone{waited}" if exposed_ns else f"{text}{waited}"
    if item.concurrent_ns and item.concurrent_ns >= least:
        share = percent(item.concurrent_ns, item.busy_ns)
        yield f"two or more streams at work for {share} of the busy time"
