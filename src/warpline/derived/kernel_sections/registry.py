"""The bodies of sections by name: one file each in `bodies`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpline.derived.kernel_sections.columns import Item
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.registry import Registry

Make = Callable[[Metrics], Item]


@dataclass(frozen=True)
class SectionBody:
    """The body of a section.

    Attributes:
        name: Its name, the key in JSON.
        make: Returns what it shows of launches, and which launches have the counters for it.
    """

    name: str
    make: Make


SECTION_BODIES: Registry[SectionBody] = Registry("body of a section")


def section_body(name: str) -> Callable[[Make], Make]:
    """Register the decorated function as the body of a section."""

    def register(make: Make) -> Make:
        SECTION_BODIES.add(name, SectionBody(name, make))
        return make

    return register
