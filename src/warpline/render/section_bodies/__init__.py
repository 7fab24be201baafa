"""The charts and tables of sections as text: what `--print-details body` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from warpline.render.section_bodies.drawing import Drawing
from warpline.render.section_bodies.memory import memory_chart, memory_tables
from warpline.render.section_bodies.occupancy import occupancy
from warpline.render.section_bodies.rooflines import roofline
from warpline.render.section_bodies.samples import samples
from warpline.render.section_bodies.shares import (
    breakdown,
    instructions,
    pipes,
    scheduler,
    warp_states,
    workload,
)

__all__ = ["BODIES", "Drawing", "body_texts"]

_Body = Callable[[Any, Drawing], Iterator[str]]
# Identifier of a section -> the member of JSON that it shows, and how.
BODIES: Mapping[str, tuple[str, _Body]] = {
    "Light": ("memory", memory_chart),
    "SpeedOfLight": ("speed_of_light", breakdown),
    "PmSampling": ("samples", samples),
    "ComputeWorkloadAnalysis": ("pipes", pipes),
    "MemoryWorkloadAnalysis_Chart": ("memory", memory_chart),
    "MemoryWorkloadAnalysis_Tables": ("memory", memory_tables),
    "SchedulerStats": ("scheduler", scheduler),
    "WarpStateStats": ("warp_states", warp_states),
    "InstructionStats": ("instructions", instructions),
    "Occupancy": ("occupancy", occupancy),
    "WorkloadDistribution": ("workload", workload),
}
# Several sections are about the roofline. The first one has all its points.
_ROOFLINE = "SpeedOfLight_"


def body_texts(
    identifiers: Sequence[str], sections: Mapping[str, Any], drawing: Drawing
) -> list[str]:
    """Return the body of each section of a launch, with an empty line after it; empty without one.

    Args:
        identifiers: The sections, in their order.
        sections: What they show, as in JSON.
        drawing: How to draw.
    """
    found, has_roofline = [], False
    for identifier in identifiers:
        name, body = BODIES.get(identifier, ("", None))
        if identifier.startswith(_ROOFLINE) and not has_roofline:
            name, body, has_roofline = "roofline", roofline, True
        shown = sections.get(name)
        lines = [] if body is None or not shown else [*body(shown, drawing)]
        found.append("".join(f"    {line}".rstrip() + "\n" for line in lines) + "\n" * bool(lines))
    return found
