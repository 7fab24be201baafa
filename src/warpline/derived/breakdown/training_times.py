"""GPU time by phase of a training step, with the time that data takes as a phase of its own."""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.module_times import phase_times
from warpline.derived.modules.places import Phase
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I64
from warpline.trace import Run
from warpline.vocabulary import Vocabulary

_BATCH_COPIES = [int(TimePart.COPY_H2D), int(TimePart.PAGEABLE_COPY)]


class StepPhase(Vocabulary):
    """A phase of a training step."""

    FORWARD = "forward", Phase.FORWARD.meaning
    BACKWARD = "backward", Phase.BACKWARD.meaning
    OPTIMIZER = "optimizer", Phase.OPTIMIZER.meaning
    DATA = "data", "waits for batches, host-to-device copies outside modules"
    OTHER = "other", "losses outside modules, gradient clipping, after the last operation"


@derived
def training_times(run: Run) -> I64:
    """Return the time of each phase and part, shape (`StepPhase`, `TimePart`), int64 ns.

    As `phase_times`, whose cells it sums: idle time in which the CPU prepared data is data in any
    phase, and so are copies to the GPU outside the other phases.
    """
    of_work = phase_times(run)
    times = np.zeros((len(StepPhase), len(TimePart)), np.int64)
    for phase in Phase:
        times[StepPhase.of(phase.label)] = of_work[phase]
    times[StepPhase.OTHER] += of_work[len(Phase) :].sum(axis=0)
    times[StepPhase.DATA, TimePart.INPUT] = times[:, TimePart.INPUT].sum()
    times[StepPhase.DATA, _BATCH_COPIES] = times[StepPhase.OTHER, _BATCH_COPIES]
    of_others = np.arange(len(StepPhase)) != int(StepPhase.DATA)
    times[of_others, TimePart.INPUT] = 0
    times[StepPhase.OTHER, _BATCH_COPIES] = 0
    return times
