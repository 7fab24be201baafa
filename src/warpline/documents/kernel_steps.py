"""What a repair of a kernel gives the whole step, by a simulation of the program's timeline.

Counters show how much faster a kernel can be, a timeline whether the step depends on it. All
launches of the kernel and shape in the timeline are re-timed by the predicted ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from warpline.comparison.matching import normalized
from warpline.derived.steps.times import steps as steps_of
from warpline.derived.steps.work import NO_STEP, step_of_operations
from warpline.derived.work.operations import operations
from warpline.errors import MissingTableError
from warpline.estimate import Estimate
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.ops.tiling import by_group
from warpline.replay.prediction import Baseline
from warpline.result.changes import ScaleOperations
from warpline.result.kernel_findings import KernelFinding, KernelInSteps, StepSaving
from warpline.trace import Run, Trace

_SHAPE = tuple(f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz")
_NAMES = ("mangled_name_id", "name_id")

_Key = tuple[str, *tuple[int | None, ...]]


class _Work(NamedTuple):
    """The launches of a kernel and shape in the timeline: as operations, and in a mean step."""

    operations: I64
    in_steps: KernelInSteps


class TimelineSteps:
    """The steps of a timeline, to price what findings about kernels give them.

    Kernels are those with the same name, grid and block. Names are compared mangled where both have
    them, otherwise without what demanglers write differently. Kernels of CUDA graphs count, too.

    Args:
        timeline: A recording of the same program with its kernels and their times.
        counters: The trace with the profiled launches.
        steps: Name of the ranges that are steps; None detects steps.

    Raises:
        MissingTableError: The timeline has no kernels.
    """

    def __init__(self, timeline: Trace, counters: Trace, steps: str | None = None) -> None:
        if not timeline.has("kernel") or not timeline.row_count("kernel"):
            has_graphs = timeline.has("graph_launch") and timeline.row_count("graph_launch") > 0
            hint = "profile again with --cuda-graph-trace=node: it has whole CUDA graphs"
            if not has_graphs:
                hint = "record one: warpline profile -o run PROGRAM"
            raise MissingTableError("the timeline has no kernels", hint=hint)
        self._run = Run(timeline, steps)
        self._whole = Baseline(self._run)
        run_steps = steps_of(self._run)
        has_steps = bool(run_steps.included[run_steps.window_step].any())
        source = run_steps.source if has_steps else None
        self._absent = KernelInSteps(0, 0, round(self._whole.step_ns.central), source)
        self._work = self._by_key()
        self._counted = _Kernels(counters, "profiled_kernel")

    def of_launch(self, row: int) -> KernelInSteps:
        """Return the share of a step that the kernel of a profiled launch has."""
        found = self._found(row)
        return self._absent if found is None else found.in_steps

    def priced_launches(
        self, rows: Sequence[int], findings: Sequence[tuple[KernelFinding, ...]]
    ) -> list[tuple[KernelFinding, ...]]:
        """Return the findings of profiled launches with what each of them gives the step.

        A step has all launches of a kernel and shape, so they are re-timed together: as the
        launch with the median duration is, among those of `rows`. Findings that it does not have
        stay as they are.

        Args:
            rows: The launches.
            findings: Those of each.
        """
        of_kernels: dict[tuple[_Key, ...], list[int]] = {}
        for place, row in enumerate(rows):
            if findings[place]:
                of_kernels.setdefault(self._counted.of_row(row), []).append(place)
        priced = list(findings)
        for places in of_kernels.values():
            # All findings of a launch but those after a repair begin with its duration.
            places.sort(key=lambda place: max(item.before_ns for item in findings[place]))
            middle = places[(len(places) - 1) // 2]
            savings = {
                (item.rule, item.title): item.step
                for item in self.priced(rows[middle], findings[middle])
            }
            for place in places:
                priced[place] = tuple(
                    replace(item, step=savings.get((item.rule, item.title)))
                    for item in findings[place]
                )
        return priced

    def priced(self, row: int, findings: Sequence[KernelFinding]) -> tuple[KernelFinding, ...]:
        """Return the findings of a profiled launch with what each of them gives the step.

        Excesses are removed one after another, as in the kernel. Findings stay as they are if the
        kernel is not in the timeline, and in steps where it does not run.
        """
        found = self._found(row)
        if found is None:
            return tuple(findings)
        made: list[ScaleOperations] = []
        priced = []
        for item in findings:
            is_next = item.outcome == "expected"
            before = Baseline(self._run, made) if made and is_next else self._whole
            saving = _saving(item, before, found)
            priced.append(replace(item, step=saving))
            if is_next and item.likely_ns is not None:
                factor = item.likely_ns / max(item.before_ns, 1)
                made.append(ScaleOperations(found.operations, Estimate(factor, factor, factor)))
        return tuple(priced)

    def _found(self, row: int) -> _Work | None:
        return next(
            (self._work[key] for key in self._counted.of_row(row) if key in self._work), None
        )

    def _by_key(self) -> dict[_Key, _Work]:
        trace = self._run.trace
        work, kernels = operations(trace), _Kernels(trace, "kernel")
        places = work.of_table("kernel")
        codes = kernels.codes[work.row[places]]
        parts: dict[_Key, list[I64]] = {}
        for own in by_group(codes):
            for key in kernels.keys[int(codes[own[0]])]:
                parts.setdefault(key, []).append(places[own])
        return {
            key: self._work_of(np.sort(np.concatenate(pieces))) for key, pieces in parts.items()
        }

    def _work_of(self, own: I64) -> _Work:
        """Return the launches of a kernel and shape, as operations, with their part of a step."""
        work, counted, number = operations(self._run.trace), own, 1
        if self._absent.source is not None:
            run_steps, step = steps_of(self._run), step_of_operations(self._run)[own]
            counted = own[(step != NO_STEP) & run_steps.included[step]]
            number = int(run_steps.included.sum())
        time_ns = int((work.end_ns[counted] - work.start_ns[counted]).sum())
        in_steps = replace(
            self._absent, launches=len(counted) / number, time_ns=round(time_ns / number)
        )
        return _Work(own, in_steps)


def own_steps(trace: Trace) -> TimelineSteps | None:
    """Return the steps of a trace that has both, profiled launches and a timeline, merged."""
    has_both = trace.has("kernel") and trace.row_count("kernel") > 0
    return TimelineSteps(trace, trace) if has_both else None


def _saving(item: KernelFinding, before: Baseline, work: _Work) -> StepSaving:
    """Return what a finding gives the step, in which earlier ones have been repaired."""
    now_ns = max(item.before_ns, 1)
    likely_ns = item.low_ns if item.likely_ns is None else item.likely_ns
    factors = sorted(ns / now_ns for ns in (item.low_ns, likely_ns, item.high_ns))
    predicted = before.predict([ScaleOperations(work.operations, Estimate(*factors))])
    low, central, high = (max(round(ns), 0) for ns in predicted.saving_ns)
    if item.likely_ns is None:
        return StepSaving(None, 0, high, work.in_steps.step_ns)
    return StepSaving(central, low, high, work.in_steps.step_ns)


class _Kernels:
    """The kernels and shapes of a table.

    Attributes:
        codes: Shape (rows,), which of them each row is.
        keys: What identifies each: the mangled name and the shape, then the other name.
    """

    def __init__(self, trace: Trace, table: str) -> None:
        loaded = trace.columns(table, *_NAMES, *_SHAPE)
        columns = [loaded[name].filled(-1).astype(np.int64) for name in (*_NAMES, *_SHAPE)]
        found = factorize_rows(*columns)
        self.codes = found.codes
        self.keys: list[tuple[_Key, ...]] = []
        of_each = (column[found.first].tolist() for column in columns)
        for mangled, name, *shape in zip(*of_each, strict=True):
            names = [trace.strings.text(mangled)] if mangled >= 0 else []
            names += [normalized(trace.strings.text(name))] if name >= 0 else []
            self.keys.append(tuple((text, *shape) for text in dict.fromkeys(names)))

    def of_row(self, row: int) -> tuple[_Key, ...]:
        """Return what identifies the kernel and shape of a row."""
        return self.keys[int(self.codes[row])]
