"""Step sampling: which steps of a long run are recorded.

The flags set it, agent.conf passes it to the agents, and finishing describes it in the recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOW_S = 0.5  # length of a time window, recorded while there are no steps


@dataclass(frozen=True)
class Sampling:
    """The requested sampling.

    Attributes:
        steps: Steps to record of every `every`; 0: chosen from the duration of steps.
        every: Steps from the start of one sample to the next; 0: chosen from `duty` and the
            duration of steps.
        duty: The fraction of steps to record.
        range_name: The NVTX range that starts a step, with * and ?; None for common names.
        range_domain: Its domain; None for any, "default" for the unnamed domain.
        by_calls: Whether cudaProfilerStart starts a step instead.
        is_once: Whether there is one sample, of the first `steps` steps after the start of
            recording, whose end is the end of the recording.
    """

    steps: int = 0
    every: int = 0
    duty: float = 0.0
    range_name: str | None = None
    range_domain: str | None = None
    by_calls: bool = False
    is_once: bool = False

    @classmethod
    def of(
        cls,
        steps: int | None,
        every: int | None,
        duty: float | None,
        *,
        step_range: tuple[str, str | None] | None,
        by_calls: bool,
    ) -> Sampling:
        """Return the sampling that the flags request; the flags must not conflict.

        `steps` alone is one sample.
        """
        is_once = steps is not None and every is None and duty is None
        if duty is None:
            steps, every = steps or 1, every or (steps or 1)
            duty = steps / every
        elif steps is not None:
            every = math.ceil(steps / duty)
        name, domain = step_range or (None, None)
        if name is not None and domain is None:
            domain = "default"
        return cls(steps or 0, every or 0, duty, name, domain, by_calls, is_once)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the keys and values for agent.conf."""
        pairs = [
            ("sample_steps", str(self.steps)),
            ("sample_every", str(self.every)),
            ("sample_duty_ppm", str(round(self.duty * 1e6))),
            ("sample_calls", str(int(self.by_calls))),
            ("sample_once", str(int(self.is_once))),
        ]
        if self.range_name is not None:
            pairs.append(("sample_range", self.range_name))
        if self.range_domain is not None:
            pairs.append(("sample_domain", self.range_domain))
        return pairs
