"""Which metrics of GPUs are sampled while a program runs, as flags ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from warpline.counters.sampled_sets import SampledSet

ALL, VISIBLE, NONE, HELP = "all", "cuda-visible", "none", "help"
LEAST_HZ, MOST_HZ = 10, 200_000


@dataclass(frozen=True)
class MetricsRequest:
    """What to sample.

    Attributes:
        devices: `ALL`, `VISIBLE`, or numbers as nvidia-smi has them, with commas.
        metrics: The metrics.
        hz: Samples per second.
    """

    devices: str
    metrics: SampledSet
    hz: int

    @property
    def is_checked(self) -> bool:
        """Whether the program waits until it is known that all of it can be sampled."""
        return self.metrics.is_strict or self.devices not in {ALL, VISIBLE}
