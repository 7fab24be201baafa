"""memory_phases: peak GPU memory in the forward pass, the backward pass and the optimizer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kind_sums import LABELS, kind_sums
from warpline.derived.memory.kinds import MemoryKind
from warpline.derived.memory.passes import passes_of
from warpline.derived.memory.steps import events_at, peaks_within
from warpline.derived.memory.timelines import history_notes, pids_of_timelines, timeline_places
from warpline.derived.modules.places import Phase
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "memory_phases"
TITLE = "Peak GPU memory by phase of training"
HINT = "profile with --pytorch=modules,memory"
FIELDS = (
    Field("phase", Unit.NONE, "Forward, backward, optimizer.", "Phase"),
    Field("passes", Unit.COUNT, "Number of passes.", "Passes"),
    Field("peak_bytes", Unit.BYTES, "Peak of allocated memory in any pass.", "Peak (MB)", 1e-6, 3),
    Field("reserved_bytes", Unit.BYTES, "Memory reserved then.", "Reserved (MB)", 1e-6, 3),
    Field("median_bytes", Unit.BYTES, "Median of the passes' peaks.", "Med (MB)", 1e-6, 3),
    Field("start_bytes", Unit.BYTES, "Median at the start of a pass.", "Start (MB)", 1e-6, 3),
    Field("end_bytes", Unit.BYTES, "Median at the end of a pass.", "End (MB)", 1e-6, 3),
    Field("time_ns", Unit.NS, "Time of the peak.", "Peak At (ns)"),
    Field("largest_kind", Unit.NONE, "Kind with the most bytes at the peak.", "Largest Kind"),
    Field("largest_bytes", Unit.BYTES, "Its bytes.", "Largest (MB)", 1e-6, 3),
    Field("place", Unit.NONE, "GPU index.", "Place"),
    Field("pid", Unit.ID, "Process id.", "PID", is_detail=True),
)
KEY = ("place", "pid", "phase")


class _Row(NamedTuple):
    """One phase on one GPU."""

    timeline: int
    phase: int
    passes: int
    peak_bytes: int
    reserved_bytes: int  # -1 if unknown
    median_bytes: int
    start_bytes: int
    end_bytes: int
    time_ns: int
    largest_kind: int
    largest_bytes: int


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event",),
    missing_hint=HINT,
)
def memory_phases(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Peak GPU memory in the forward pass, the backward pass and the optimizer's step.

    What it measures: For each phase, the most memory that is allocated in one of its passes, when,
        what most of it is for, and how much is allocated when passes begin and end.
    Why it matters: Only the phase with the highest peak limits the batch size. Activations raise
        the peak of the backward pass, temporary copies that of the optimizer.
    How it is computed: Passes are ranges of modules, of autograd's functions and of optimizers
        (--pytorch=modules). Without them, passes follow from the Python stacks of allocations. The
        peak of a pass includes what is allocated when it begins.
    Limits: All passes of the recording count, warm-up included. The time between passes, such as
        that of the loss, belongs to no phase. A pass without allocations is not known from stacks.
    Source: Warpline.
    """
    rows = [row for number in range(len(replayed(trace).timelines)) for row in _rows(trace, number)]
    if not rows:
        return Skipped(NAME, "no passes of a training step were recorded", HINT)

    def integers(name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows], np.int64)

    of, reserved = integers("timeline"), integers("reserved_bytes")
    columns: dict[str, Values] = {
        "phase": labelled(integers("phase"), Phase.labels()),
        "reserved_bytes": Numbers(reserved, reserved >= 0),
        "largest_kind": labelled(integers("largest_kind"), LABELS),
        "place": labelled(of, timeline_places(trace)),
        "pid": Numbers(pids_of_timelines(trace)[of]),
    }
    ordered = {
        field.name: columns.get(field.name) or Numbers(integers(field.name)) for field in FIELDS
    }
    return Result(NAME, TITLE, FIELDS, ordered, KEY, history_notes(trace))


def _rows(trace: Trace, number: int) -> list[_Row]:
    timeline = replayed(trace).timelines[number]
    passes = passes_of(trace, timeline.process)
    rows = []
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        start, end = passes.of(phase)
        began = (start <= timeline.time_ns[-1]) & (end >= timeline.time_ns[0])
        start, end = start[began], end[began]
        if not len(start):
            continue
        peaks, allocated = peaks_within(timeline, start, end), timeline.allocated_bytes
        top = int(peaks[np.argmax(allocated[peaks])])
        kinds = kind_sums(trace, number, (top,)).bytes[: len(MemoryKind), 0]
        reserved = timeline.reserved_bytes
        row = _Row(
            number,
            int(phase),
            len(start),
            int(allocated[top]),
            -1 if reserved is None else int(reserved[top]),
            int(np.median(allocated[peaks])),
            int(np.median(allocated[events_at(timeline, start)])),
            int(np.median(allocated[events_at(timeline, end)])),
            int(timeline.time_ns[top]),
            int(np.argmax(kinds)),
            int(kinds.max()),
        )
        rows.append(row)
    return rows
