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
        results.measured_ceilings(*_named(chosen))


def timeline(chosen: CountingSettings, trace: Trace) -> in_steps.TimelineSteps | None:
    """Return the steps of a timeline: the one that is named, or that is among the reports."""
    if chosen.timeline:
        return in_steps.TimelineSteps(api.open(*chosen.timeline), trace)
    return in_steps.own_steps(trace)


class Files(NamedTuple):
    """Which measured ceilings are asked for.

    Attributes:
        ceilings: Files, or `NOMINAL`; empty for those that were saved.
        quiet: Whether to print nothing about them.
    """

    ceilings: Sequence[str]
    quiet: bool


def measured(chosen: CountingSettings | Files, trace: Trace) -> Sequence[MeasuredCeilings]:
    """Return the measured ceilings of the GPU models of the launches, and print whose they are.

    They are those of ``--ceilings``, or those that ``warpline bench --save`` has kept. Of these,
    damaged files and those of other versions are left out with a warning.
    """
    names = limits.gpu_names(trace)
    found: list[MeasuredCeilings] = []
    if chosen.ceilings:
        files = _named(chosen)
        found = [of for of in results.measured_ceilings(*files) if of.gpu_name in names]
        if files and not found and not chosen.quiet:
            talk.warning(f"--ceilings: no results of {' or '.join(names) or 'this GPU'}")
    else:
        files = []
        for path in (path for name in names for path in results.saved_files(os.environ, name)):
            try:
                results.measured_ceilings(path)
            except InputError as error:
                if not chosen.quiet:
                    talk.warning(f"measured ceilings are left out: {error}")
            else:
                files.append(path)
        found = [*results.measured_ceilings(*files)]
    if found and not chosen.quiet:
        models = ", ".join(dict.fromkeys(of.gpu_name for of in found))
        talk.note(f"measured ceilings of {models} from {', '.join(map(str, files))}")
    return found


def _named(chosen: CountingSettings | Files) -> list[Path]:
    return [Path(name) for name in chosen.ceilings if name != NOMINAL]
