"""How much of a resource's peak a kernel can use.

These are the constants of predictions. Those here were chosen, not measured; a calibration of the
device (a copy, a loop of FMAs, a random gather) replaces them by other `Ceilings`.
"""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.frozen import frozen
from warpline.ops.arrays import F64


@frozen
class Ceiling:
    """Largest share of a peak that kernels reach: the best, most, and poor ones."""

    best: float
    likely: float
    poor: float


@frozen
class Ceilings:
    """The constants of predictions.

    Attributes:
        of_resources: Ceilings of resources by name.
        of_others: Ceiling of all others.
        start_ns: Time to start a kernel and to drain its last blocks: at best, likely, at worst.
        overlap: Exponent p of the norm by which resources add up to the kernel's time: 1 if they
            are used one after another, infinite if they overlap perfectly.
        busy: Share of the busiest resource from which on it governs the time, not latency.
        source: Where the numbers come from.
    """

    of_resources: dict[str, Ceiling]
    of_others: Ceiling
    start_ns: Ceiling
    overlap: float
    busy: float
    source: str

    def best(self) -> F64:
        """Return the best share of each resource, shape (resources,)."""
        return np.array([self._of(resource.name).best for resource in RESOURCES])

    def likely(self) -> F64:
        """Return the likely share of each resource, shape (resources,)."""
        return np.array([self._of(resource.name).likely for resource in RESOURCES])

    def poor(self) -> F64:
        """Return the poor share of each resource, shape (resources,)."""
        return np.array([self._of(resource.name).poor for resource in RESOURCES])

    def _of(self, name: str) -> Ceiling:
        return self.of_resources.get(name, self.of_others)


CHOSEN = Ceilings(
    of_resources={
        # Large copies reach about 0.9 of 3.35 TB/s, short and mixed kernels less.
        "dram": Ceiling(0.93, 0.88, 0.75),
        # Depends on tiles and operand paths of code that is not written yet.
        "tensor": Ceiling(0.90, 0.35, 0.10),
    },
    of_others=Ceiling(1.0, 0.92, 0.85),
    start_ns=Ceiling(1_000, 2_000, 5_000),
    overlap=4.0,
    busy=0.6,
    source="judgement, checked on seven pairs of kernels on an H100",
)
