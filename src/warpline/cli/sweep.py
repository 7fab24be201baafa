"""``warpline sweep``: a program at several points of its parameters, each recorded as a timeline.

Step time, throughput, memory, busy share and first finding of each point are measured in a process
of its own when its run has ended, and what memory the next points take is predicted from that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.cli.startup import lazy
from warpline.cli.sweeping import Sweep
from warpline.units import format_bytes, format_ns

if TYPE_CHECKING:
    from warpline.capture.flags import program_sweep_flags as flags
    from warpline.capture.flags.grammar import Grammar
    from warpline.capture.flags.program_sweep_flags import ProgramSweepSettings
    from warpline.capture.launcher import measuring, program, swept
    from warpline.documents import program_sweep as documents
    from warpline.render.sweep import program_look
    from warpline.render.sweep.look import Look
    from warpline.result import Document
    from warpline.sweep import points, predicting
    from warpline.sweep.running import Measure
    from warpline.sweep.state import Attempt, Definition, State
else:
    flags = lazy("warpline.capture.flags.program_sweep_flags")
    measuring = lazy("warpline.capture.launcher.measuring")
    program = lazy("warpline.capture.launcher.program")
    swept = lazy("warpline.capture.launcher.swept")
    documents = lazy("warpline.documents.program_sweep")
    program_look = lazy("warpline.render.sweep.program_look")
    predicting = lazy("warpline.sweep.predicting")
    points = lazy("warpline.sweep.points")


class ProgramSweep:
    """Timelines of a program."""

    NAME = "sweep"
    KIND = "program"
    EPILOG = (
        "Options of warpline profile say what is recorded. Once three points were measured, the"
        " memory that the next ones take is predicted from them."
    )

    def grammar(self) -> Grammar:
        """Return the flags."""
        return flags.GRAMMAR

    def parse(self, words: Sequence[str]) -> ProgramSweepSettings:
        """Return the settings that a command line makes."""
        return flags.parse(words)

    def resumed(self, settings: ProgramSweepSettings, stored: Definition) -> ProgramSweepSettings:
        """Return the settings of a sweep that is resumed without its command line."""
        return flags.resumed(settings, stored)

    def recorded(self, chosen: ProgramSweepSettings, found: State) -> Sequence[swept.Recorded]:
        """Return what is recorded at each point: a timeline."""
        first = points.filled(chosen.command, found.definition.points()[0])
        program.find(first[0], os.environ, "warpline sweep")
        return [swept.Recorded(chosen.capture(), "", "timeline")]

    def ignores_status(self, chosen: ProgramSweepSettings) -> bool:
        """Return False: a program whose exit status is not 0 failed."""
        return False

    def lacked_memory(self, recording: Path) -> bool:
        """Return whether the last call that allocates memory failed for lack of it."""
        return bool(measuring.measured(recording).get("has_failed_allocation"))

    def measure(self, chosen: ProgramSweepSettings, folder: Path) -> Measure:
        """Return what measures the recording of a run."""
        steps = chosen.step_range[0] if chosen.step_range is not None else None

        def measured(made: Attempt) -> tuple[Mapping[str, Any], str]:
            found = measuring.measured(folder / made.files[0], steps)
            return found, _in_words(found)

        return measured

    def facts(self, chosen: ProgramSweepSettings, found: State, folder: Path) -> Mapping[str, Any]:
        """Return what is known of the sweep, as its JSON."""
        product = chosen.items or flags.stored_items(found.definition)
        return documents.facts(found, product)

    def document(self, known: Mapping[str, Any], *, is_screen: bool) -> Document:
        """Return the document of these facts."""
        return documents.document(known, is_screen=is_screen)

    def look(self) -> Look:
        """Return what bars and plots show."""
        return program_look.LOOK

    def is_measured(self, point: Mapping[str, Any]) -> bool:
        """Return whether a run of a point did not fail."""
        return bool(point["is_measured"])


def _in_words(found: Mapping[str, Any]) -> str:
    """Return what was measured of a run in a few words."""
    step, peak = found.get("step_ns"), found.get(predicting.PEAK)
    parts = [f"{format_ns(step)} per step"] if step is not None else []
    parts += [f"peak {format_bytes(peak)}"] if peak is not None else []
    return ", ".join(parts) or str(found.get("note") or "nothing was measured")


_COMMAND = Sweep(
    ProgramSweep(),
    "run a program with varied parameters: step time, memory, where it runs out",
)
NAME, HELP = _COMMAND.NAME, _COMMAND.HELP
add_arguments, asks_for_help = _COMMAND.add_arguments, _COMMAND.asks_for_help
read, run = _COMMAND.read, _COMMAND.run
