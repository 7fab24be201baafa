"""memory_kinds: what GPU memory is for, at the peak and from step to step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.kind_sums import LABELS, kind_sums
from warpline.derived.memory.kinds import MemoryKind
from warpline.derived.memory.steps import events_at, memory_steps, peaks_within
from warpline.derived.memory.timelines import history_notes, pids_of_timelines, timeline_places
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Run, Trace
from warpline.units import Unit

NAME = "memory_kinds"
TITLE = "GPU memory by kind"
HINT = "profile with --pytorch=memory, or open a snapshot of torch.cuda.memory"
_STEP = Field("step", Unit.ID, "Number of the step.", "Step")
FIELDS = (
    Field("kind", Unit.NONE, "What the memory is for.", "Kind"),
    Field("peak_bytes", Unit.BYTES, "Bytes at the peak of allocated memory.", "Peak (MB)", 1e-6, 3),
    Field(
        "peak_ratio", Unit.RATIO, "Share of the memory reserved at the peak.", "Peak (%)", 100.0, 1
    ),
    Field("blocks", Unit.COUNT, "Number of blocks at the peak.", "Blocks"),
    Field("most_bytes", Unit.BYTES, "Most bytes at any time.", "Most (MB)", 1e-6, 3),
    Field("kept_bytes", Unit.BYTES, "Bytes at the end of the last step.", "Kept (MB)", 1e-6, 3),
    Field("place", Unit.NONE, "GPU index.", "Place"),
    Field("pid", Unit.ID, "Process id.", "PID", is_detail=True),
)
KEY = ("place", "pid", "kind")
_BY_STEP = "step"


class _Row(NamedTuple):
    """One kind at one peak."""

    timeline: int
    step: int
    kind: int
    peak_bytes: int
    ratio: float
    blocks: int
    most_bytes: int
    kept_bytes: int


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("allocator_event",),
    arguments={_BY_STEP: "one row per step and kind, at the step's peak", **STEP_ARGUMENT},
    missing_hint=HINT,
)
def memory_kinds(trace: Trace, arguments: Arguments) -> Result:
    """GPU memory by kind: parameters, gradients, optimizer state, activations and others.

    What it measures: For each GPU and process, the bytes of each kind at the peak of allocated
        memory, the most at any time, and those that remain at the end of the last step. With
        :step, the same at the peak of each step.
    Why it matters: Kinds have different remedies. Activations shrink with the batch and with
        checkpointing, optimizer state with sharding or fewer bits, fragmented memory with
        expandable segments.
    How it is computed: --pytorch=memory records which blocks are parameters, buffers, gradients,
        optimizer state and inputs. For other blocks, allocation and free decide. Activations are
        allocated in the forward pass and in use when the backward pass begins. Gradients are
        allocated in the backward pass and in use when the optimizer's step begins. Optimizer state
        is allocated in a step and in use in the next pass. Temporary blocks are freed within their
        pass. Passes are ranges of --pytorch=modules, or follow from Python stacks. Kinds of blocks
        sum to the allocated bytes. Awaiting free is freed memory that a stream still uses.
        Fragmented is free memory in segments that are partly in use (inactive_split_bytes of
        torch.cuda.memory_stats). Cached is other reserved memory. All kinds sum to the reserved
        bytes.
    Limits: What neither roles nor passes decide is Unknown: inputs in snapshots, workspaces of
        libraries, results that the program keeps. Without roles, parameters and buffers are one
        kind. Free parts of expandable segments count as cached, as in PyTorch.
    Source: torch.cuda.memory_stats; categories of torch.profiler's memory timeline.
    """
    run, by_step = run_of(trace, arguments), _BY_STEP in arguments
    rows: list[_Row] = []
    timelines = replayed(trace).timelines
    for number in sorted(
        range(len(timelines)), key=lambda place: -int(timelines[place].allocated_bytes.max())
    ):
        rows += _of_steps(run, number) if by_step else _of_peak(run, number)
    columns = _columns(trace, rows)
    columns["step"] = Numbers(np.array([row.step for row in rows], np.int64))
    fields = (*FIELDS, _STEP) if by_step else FIELDS
    key = (*KEY, "step") if by_step else KEY
    ordered = {field.name: columns[field.name] for field in fields}
    return Result(":".join((NAME, *arguments)), TITLE, fields, ordered, key, history_notes(trace))


def _of_peak(run: Run, number: int) -> list[_Row]:
    timeline, run_steps = replayed(run.trace).timelines[number], memory_steps(run, number)
    last = len(timeline.time_ns) - 1
    kept = int(events_at(timeline, run_steps.end_ns[-1:])[0]) if len(run_steps) else last
    peak = timeline.peak
    events = tuple(sorted({peak, kept}))
    sums = kind_sums(run.trace, number, events)
    alive = kind_sums(run.trace, number, (peak,)).blocks
    at_peak, at_end = (sums.bytes[:, events.index(event)] for event in (peak, kept))
    return _rows(number, 0, at_peak, alive, sums.most, at_end)


def _of_steps(run: Run, number: int) -> list[_Row]:
    timeline, run_steps = replayed(run.trace).timelines[number], memory_steps(run, number)
    peaks = peaks_within(timeline, run_steps.start_ns, run_steps.end_ns)
    ends = events_at(timeline, run_steps.end_ns)
    rows = []
    for step, peak, end in zip(
        run_steps.number.tolist(), peaks.tolist(), ends.tolist(), strict=True
    ):
        events = tuple(sorted({peak, end}))
        sums = kind_sums(run.trace, number, events)
        at_peak, at_end = (sums.bytes[:, events.index(event)] for event in (peak, end))
        alive = kind_sums(run.trace, number, (peak,)).blocks
        rows += _rows(number, step, at_peak, alive, sums.most, at_end)
    return rows


def _rows(
    number: int,
    step: int,
    at_peak: np.ndarray,
    alive: np.ndarray,
    most: np.ndarray,
    at_end: np.ndarray,
) -> list[_Row]:
    whole = max(int(at_peak.sum()), 1)
    shown = [kind for kind in range(len(LABELS)) if most[kind] > 0 or at_peak[kind] > 0]
    return [
        _Row(
            number,
            step,
            kind,
            int(at_peak[kind]),
            int(at_peak[kind]) / whole,
            int(alive[kind]),
            int(most[kind]),
            int(at_end[kind]),
        )
        for kind in shown
    ]


def _columns(trace: Trace, rows: list[_Row]) -> dict[str, Values]:
    of = np.array([row.timeline for row in rows], np.int64)
    kind = np.array([row.kind for row in rows], np.int64)
    is_block = kind < len(MemoryKind)

    def integers(name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows], np.int64)

    return {
        "kind": labelled(kind, LABELS),
        "peak_bytes": Numbers(integers("peak_bytes")),
        "peak_ratio": Numbers(np.array([row.ratio for row in rows], np.float64)),
        "blocks": Numbers(integers("blocks"), is_block),
        "most_bytes": Numbers(integers("most_bytes")),
        "kept_bytes": Numbers(integers("kept_bytes")),
        "place": labelled(of, timeline_places(trace)),
        "pid": Numbers(pids_of_timelines(trace)[of]),
    }
