"""What the counters of kernels are judged by, beside themselves: a timeline, measured ceilings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warpline.capture.flags.counting import CountingSettings
from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import InputError

if TYPE_CHECKING:
    from warpline import api
    from warpline.derived.kernel_limits import ceilings as limits
    from warpline.documents import kernel_steps as in_steps
    from warpline.hardware import measured as results
    from warpline.hardware.measured import MeasuredCeilings
    from warpline.trace import Trace
else:
    api = lazy("warpline.api")
    limits = lazy("warpline.derived.kernel_limits.ceilings")
    in_steps = lazy("warpline.documents.kernel_steps")
    results = lazy("warpline.hardware.measured")

NOMINAL = "nominal"  # of --ceilings: measured ones are not looked for


def check(chosen: CountingSettings) -> None:
    """Raise an InputError if a file cannot be used: before a program runs, not after it."""
    for name in chosen.timeline:
        if not Path(name).exists():
            raise InputError(f"{name}: no such file", hint="name a recording")
    if chosen.ceilings:
        results.measured_ceilings(*_named(chosen.ceilings))


def timeline(chosen: CountingSettings, trace: Trace) -> in_steps.TimelineSteps | None:
    """Return the steps of a timeline: the one that is named, or that is among the reports."""
    if chosen.timeline:
        return in_steps.TimelineSteps(api.open(*chosen.timeline), trace)
    return in_steps.own_steps(trace)


class Results(NamedTuple):
    """Results of `warpline bench` that apply to a trace.

    Attributes:
        measured: Measured ceilings of the GPU models of its launches.
        files: The files that they are from.
        faults: Which files were left out, and why.
    """

    measured: Sequence[MeasuredCeilings]
    files: Sequence[Path]
    faults: Sequence[str]

    def tell(self) -> None:
        """Print whose ceilings are used, and which are not."""
        for fault in self.faults:
            talk.warning(fault)
        if self.measured:
            models = ", ".join(dict.fromkeys(of.gpu_name for of in self.measured))
            talk.note(f"measured ceilings of {models} from {', '.join(map(str, self.files))}")


def measured(asked: Sequence[str], trace: Trace) -> Results:
    """Return the measured ceilings of the GPU models of the launches.

    Damaged files and those of other versions are left out, unless they are named.

    Args:
        asked: Files of ``--ceilings``, or `NOMINAL` for none; empty for those that
            ``warpline bench --save`` has kept.
        trace: The trace.
    """
    names = limits.gpu_names(trace)
    if asked:
        files = _named(asked)
        found = [of for of in results.measured_ceilings(*files) if of.gpu_name in names]
        said = f"--ceilings: no results of {' or '.join(names) or 'this GPU'}"
        return Results(found, files if found else [], [said] if files and not found else [])
    usable: list[Path] = []
    faults: list[str] = []
    for path in (path for name in names for path in results.saved_files(os.environ, name)):
        try:
            results.measured_ceilings(path)
        except InputError as error:
            faults.append(f"measured ceilings are left out: {error}")
        else:
            usable.append(path)
    return Results(results.measured_ceilings(*usable), usable, faults)


def _named(asked: Sequence[str]) -> list[Path]:
    return [Path(name) for name in asked if name != NOMINAL]
