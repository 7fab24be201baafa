"""What the sections of profiled kernels show beside their lines: charts and tables, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpline import plugins
from warpline.derived.kernel_sections.columns import of_launches
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import SECTION_BODIES
from warpline.documents.kernel_filters import Choice, chosen_rows
from warpline.documents.table_rows import Rows
from warpline.hardware.measured import MeasuredCeilings
from warpline.ops.arrays import I64
from warpline.trace import Trace

ORDER = (
    *("speed_of_light", "roofline", "pipes", "memory", "scheduler", "warp_states"),
    *("instructions", "launch", "occupancy", "workload", "samples"),
)

Sections = dict[str, Any]
"""The bodies of a launch by name, as in JSON: docs/kernels.schema.json describes them."""


def kernel_sections(
    trace: Trace, choice: Choice, *, measured: Sequence[MeasuredCeilings] = ()
) -> list[Sections]:
    """Return the bodies of each chosen launch, in the order of `kernel_pages.launches`.

    A body whose counters were not collected is left out. Numbers are raw: ns, bytes, counts, and
    ratios where 1 is all.

    Args:
        trace: The trace.
        choice: Which launches.
        measured: What `warpline bench` measured, for rooflines of these GPUs.
    """
    return ChosenSections(trace, choice, measured=measured).at(slice(None))


class ChosenSections:
    """The same of chosen launches at some places: each has thousands of values."""

    def __init__(
        self, trace: Trace, choice: Choice, *, measured: Sequence[MeasuredCeilings] = ()
    ) -> None:
        """Compute the columns; the arguments are those of `kernel_sections`."""
        chosen = chosen_rows(trace, Rows(trace, "profiled_kernel"), choice)
        self._rows = np.array(chosen, np.int64)
        self._bodies = SectionBodies(trace, measured)

    def at(self, places: slice | I64) -> list[Sections]:
        """Return the bodies of launches at some places."""
        return self._bodies.of_rows(self._rows[places])

    @property
    def lacks_counters(self) -> bool:
        """Whether there are launches, and none has a body: the counters were not collected."""
        return len(self._rows) > 0 and not self._bodies.have_any(self._rows)


class SectionBodies:
    """The bodies of all launches of a trace, as columns, of which parts are taken."""

    def __init__(self, trace: Trace, measured: Sequence[MeasuredCeilings] = ()) -> None:
        """Compute the columns; the arguments are those of `kernel_sections`."""
        plugins.load("section-bodies")
        metrics = Metrics(trace, measured)
        self._bodies = {name: SECTION_BODIES.get(name).make(metrics) for name in ORDER}

    def have_any(self, rows: I64) -> bool:
        """Return whether any launch, by its row in `profiled_kernel`, has a body."""
        return any(body.has[rows].any() for body in self._bodies.values())

    def of_rows(self, chosen: Sequence[int] | I64) -> list[Sections]:
        """Return the bodies of some launches, by their rows in `profiled_kernel`, in this order."""
        rows = np.array(chosen, np.int64)
        found: list[Sections] = [{} for _ in rows]
        for name, body in self._bodies.items():
            places = np.flatnonzero(body.has[rows])
            values = of_launches(body.tree, rows[places])
            for place, value in zip(places.tolist(), values, strict=True):
                found[place][name] = value
        return found
