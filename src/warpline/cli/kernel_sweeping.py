"""``warpline kernels sweep``: a program at several points of its parameters, and its kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.cli.sweeping import Sweep
from warpline.errors import CounterError

if TYPE_CHECKING:
    import dataclasses

    from warpline import api
    from warpline.capture.counting import prepare
    from warpline.capture.flags import kernel_sweep_flags as flags
    from warpline.capture.flags.grammar import Grammar
    from warpline.capture.flags.kernel_sweep_flags import KernelSweepSettings
    from warpline.capture.launcher import program, swept
    from warpline.counters import names
    from warpline.documents import kernel_sweep as documents
    from warpline.render.sweep import kernel_look
    from warpline.render.sweep.look import Look
    from warpline.result import Document
    from warpline.sweep import points
    from warpline.sweep.running import Measure
    from warpline.sweep.state import Attempt, Definition, State
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    prepare = lazy("warpline.capture.counting.prepare")
    flags = lazy("warpline.capture.flags.kernel_sweep_flags")
    program = lazy("warpline.capture.launcher.program")
    swept = lazy("warpline.capture.launcher.swept")
    names = lazy("warpline.counters.names")
    documents = lazy("warpline.documents.kernel_sweep")
    kernel_look = lazy("warpline.render.sweep.kernel_look")
    points = lazy("warpline.sweep.points")

WORD = "sweep"
_FLOP_SET = "flop"


class KernelSweep:
    """Counters of kernels."""

    NAME = "kernels sweep"
    KIND = "kernels"
    EPILOG = (
        "Without --set, --section or --metrics, the program runs twice at each point: for"
        " times, throughputs and occupancy (set light, in one pass), and for FLOP (set flop)."
    )

    def grammar(self) -> Grammar:
        """Return the flags."""
        return flags.GRAMMAR

    def parse(self, words: Sequence[str]) -> KernelSweepSettings:
        """Return the settings that a command line makes."""
        return flags.parse(words)

    def resumed(self, settings: KernelSweepSettings, stored: Definition) -> KernelSweepSettings:
        """Return the settings of a sweep that is resumed without its command line."""
        return flags.resumed(settings, stored)

    def recorded(self, chosen: KernelSweepSettings, found: State) -> Sequence[swept.Recorded]:
        """Return what is recorded at each point: times and throughputs, then FLOP, or as asked.

        The times of a set of one pass are those of a usual run: nothing is replayed, and caches
        keep what earlier launches left there. FLOP take several passes, and do not depend on that.
        """
        if chosen.ignored and not chosen.quiet:
            ignored = ", ".join(chosen.ignored)
            talk.warning(f"ignored: {ignored} (no effect in warpline kernels sweep)")
        first = points.filled(chosen.command, found.definition.points()[0])
        executable = program.find(first[0], os.environ, "warpline kernels sweep")
        with_time = dataclasses.replace(chosen, metrics=(*chosen.metrics, names.DURATION))
        prepared = prepare.prepare(
            chosen if chosen.request.is_light else with_time, os.environ, executable
        )
        if not chosen.quiet:
            for text in prepared.warnings:
                talk.warning(text)
        if prepared.obstacle is not None:
            if chosen.has_filter:  # a timeline has all launches
                raise CounterError(prepared.obstacle.cause, hint=prepared.obstacle.cure)
            talk.warning(f"no counters: {prepared.obstacle.cause}; recording timelines instead")
            talk.hint(prepared.obstacle.cure)
            return [swept.Recorded(chosen.capture("", None), "", "timeline")]
        runs = [_counted(chosen, prepared, "", "counters")]
        if not (chosen.sets or chosen.section or chosen.metrics):
            more = prepare.prepare(
                dataclasses.replace(chosen, sets=(_FLOP_SET,)), os.environ, executable
            )
            runs.append(_counted(chosen, more, "-flop", "FLOP"))
        return runs

    def ignores_status(self, chosen: KernelSweepSettings) -> bool:
        """Return whether a run does not fail because its exit status is not 0."""
        return not chosen.check_exit_code

    def lacked_memory(self, recording: Path) -> bool:
        """Return False: counters do not say why a program failed."""
        return False

    def measure(self, chosen: KernelSweepSettings, folder: Path) -> Measure:
        """Return what measures nothing: recordings of all points are read at the end."""
        return _nothing

    def facts(self, chosen: KernelSweepSettings, found: State, folder: Path) -> Mapping[str, Any]:
        """Return what is known of the sweep, as its JSON."""
        documents.complete(found, folder, api.open)
        is_asked = flags.asked_metrics(found.definition)
        return documents.facts(found, folder, api.open, chosen.top, is_asked)

    def document(self, known: Mapping[str, Any], *, is_screen: bool) -> Document:
        """Return the document of these facts."""
        return documents.document(known, is_screen=is_screen)

    def look(self) -> Look:
        """Return what bars and plots show."""
        return kernel_look.LOOK

    def is_measured(self, point: Mapping[str, Any]) -> bool:
        """Return whether a point has kernels."""
        return bool(point["kernels"])


SWEEP = Sweep(
    KernelSweep(), "run a program with varied parameters, and compare the counters of its kernels"
)


def _counted(
    chosen: KernelSweepSettings, prepared: prepare.Prepared, ending: str, what: str
) -> swept.Recorded:
    counters = prepared.counters
    assert counters is not None
    if chosen.sample is None:
        is_one_pass = counters.passes == 1
        sample = flags.DEFAULT_SAMPLE if is_one_pass else flags.SAMPLE_OF_PASSES
        counters = dataclasses.replace(counters, sample=sample, burst=0, budget_ppm=0)
    return swept.Recorded(chosen.capture("", counters), ending, what)


def _nothing(_: Attempt) -> None:
    """Measure nothing."""
