"""When the ranks of a simulated job arrive in their collectives and leave them.

All ranks repeat the step of a real recording: work between collectives, and transfers. Each piece
of work varies from rank to rank and from step to step. A collective begins on a rank when its work
is done, and ends on all ranks when the last one has arrived and the data is transferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


class Step(NamedTuple):
    """One step of a rank, from a real recording.

    Attributes:
        work_ns: Shape (collectives + 1,), work before each collective, and after the last one.
        transfer_ns: Shape (collectives,).
    """

    work_ns: F64
    transfer_ns: F64


@dataclass(frozen=True)
class Fault:
    """What is wrong with some ranks.

    Attributes:
        kind: ``slow``: all work takes `amount` times as long; ``gap``: `amount` ns without work
            or calls before the first collective; ``network``: transfers take `amount` times as
            long.
        ranks: The ranks.
        amount: How much.
        steps: The steps with the fault; None for all.
    """

    kind: str
    ranks: tuple[int, ...]
    amount: float
    steps: tuple[int, ...] | None = None

    def holds(self, step: int) -> bool:
        """Return whether a step has the fault."""
        return self.steps is None or step in self.steps


@dataclass(frozen=True)
class Job:
    """A simulated job.

    Attributes:
        ranks: Number of ranks.
        steps: Number of steps.
        seed: Of all that varies.
        jitter: Relative standard deviation of each piece of work.
        end_noise_ns: Standard deviation of the ends of a collective among ranks.
        faults: What is wrong.
        offset_ns: Clocks are off by up to this.
        drift: And too fast or too slow by up to this: 1e-4 is 100 ppm.
    """

    ranks: int
    steps: int
    seed: int = 0
    jitter: float = 0.03
    end_noise_ns: float = 400.0
    faults: tuple[Fault, ...] = ()
    offset_ns: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True)
class Timeline:
    """The times of a job, on a common clock; float64 ns.

    Attributes:
        begin_ns: Shape (ranks, steps + 1), when each step begins on the rank.
        arrival_ns: Shape (ranks, steps, collectives).
        end_ns: Likewise.
        gap_ns: Shape (ranks, steps), planted time without work before the first collective.
        offset_ns: Shape (ranks,), how far its clock is ahead at time 0.
        drift: Shape (ranks,), by how much it is faster.
    """

    begin_ns: F64
    arrival_ns: F64
    end_ns: F64
    gap_ns: F64
    offset_ns: F64
    drift: F64

    def on_clock(self, rank: int, time_ns: F64) -> F64:
        """Return times of the common clock on a rank's own clock."""
        own: F64 = time_ns + self.offset_ns[rank] + self.drift[rank] * time_ns
        return own


def timeline(step: Step, job: Job) -> Timeline:
    """Return the times of a job."""
    rng = np.random.default_rng(job.seed)
    count = len(step.transfer_ns)
    begin = np.zeros((job.ranks, job.steps + 1))
    arrival = np.zeros((job.ranks, job.steps, count))
    end, gaps = np.zeros_like(arrival), np.zeros((job.ranks, job.steps))
    at = rng.uniform(0, 0.02 * float(step.work_ns.sum()), job.ranks)
    for number in range(job.steps):
        begin[:, number] = at
        slow, gap, network = _faults(job, number)
        gaps[:, number] = gap
        vary = np.exp(job.jitter * rng.standard_normal((job.ranks, count + 1)))
        work = step.work_ns * vary * slow[:, None]
        for place in range(count):
            at = at + work[:, place] + (gap if place == 0 else 0.0)
            arrival[:, number, place] = at
            noise = np.abs(rng.normal(0.0, job.end_noise_ns, job.ranks))
            at = at.max() + step.transfer_ns[place] * network + noise
            end[:, number, place] = at
        at = at + work[:, count] + (gap if count == 0 else 0.0)
    begin[:, job.steps] = at
    return Timeline(
        begin,
        arrival,
        end,
        gaps,
        rng.uniform(-job.offset_ns, job.offset_ns, job.ranks),
        rng.uniform(-job.drift, job.drift, job.ranks),
    )


def _faults(job: Job, number: int) -> tuple[F64, F64, float]:
    slow, gap, network = np.ones(job.ranks), np.zeros(job.ranks), 1.0
    for fault in job.faults:
        if not fault.holds(number):
            continue
        rows = list(fault.ranks)
        if fault.kind == "slow":
            slow[rows] *= fault.amount
        elif fault.kind == "gap":
            gap[rows] += fault.amount
        else:
            network *= fault.amount
    return slow, gap, network
