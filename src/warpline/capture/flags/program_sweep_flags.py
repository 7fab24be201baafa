"""The flags of ``warpline sweep``: those of all sweeps, and those of ``warpline profile``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from warpline.capture.flags import declarations, parsing, sweep_flags, values
from warpline.capture.flags.grammar import Flag, Given, Grammar
from warpline.capture.flags.nsys import FOREIGN_FLAGS
from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.flags.sweep_flags import SweepOptions
from warpline.sweep import items
from warpline.sweep.state import Definition

KIND = "program"
# Flags of `warpline profile` that have no meaning here: of one recording, its end, or its screen.
_NOT_HERE = frozenset(
    {
        *("output", "duration", "stop_on_exit", "kill", "show_output", "stats", "export"),
        *("keep_last", "when"),
        *("stop_on_range_end", "no_summary", "command_file"),
    }
)
_OTHERS = frozenset({"help", "debug", "force_overwrite", "quiet"})


@dataclass
class ProgramSweepSettings(CaptureSettings, SweepOptions):
    """The settings of ``warpline sweep``.

    Attributes:
        items: What a step processes, as a product of parameters; None if that is not said.
    """

    items: str | None = None

    @property
    def definition(self) -> Definition:
        """What is run."""
        return sweep_flags.definition_of(self, KIND)

    def capture(self) -> CaptureSettings:
        """Return the settings of a recording, whose command line has parameters in braces."""
        names = (field.name for field in fields(CaptureSettings))
        found = CaptureSettings(**{name: getattr(self, name) for name in names})
        if "cuda_memory_usage" not in self.given:
            found.cuda_memory_usage = "cuda" in self.trace
        return found


def _items(settings: ProgramSweepSettings, flag: Given) -> None:
    items.parsed(flag.value)
    settings.items = flag.value


_OWN = (
    Flag(("--items",), "PRODUCT", "what a step processes, such as '{batch}*{context}': adds items"
         " per second", _items, group=sweep_flags.PRINT),
    Flag(("--skip-oom",), "", "do not run points that are predicted to run out of GPU memory",
         values.boolean, is_switch=True, group=sweep_flags.POINTS),
    Flag(("--find-border",), "", "then find where GPU memory runs out, to 5%: also run values"
         " between the largest that fits and the smallest that does not",
         values.boolean, is_switch=True, group=sweep_flags.POINTS),
)  # fmt: skip
_HELP = {
    "force_overwrite": "overwrite an existing sweep, and plot",
    "cuda_memory_usage": "record GPU memory allocations and frees (default: true)",
    "step_range": "NVTX range that starts a step; accepts * and ? (default: names such as step_12,"
    " train_step, iteration 7, or repeating launches)",
}
_RECORDING = [
    replace(flag, group=flag.group or "recording") if flag.attribute not in _OTHERS else flag
    for flag in declarations.FLAGS
    if flag.attribute not in _NOT_HERE
]
FLAGS = sweep_flags.joined(_OWN, _RECORDING, _HELP)
GRAMMAR = Grammar("warpline sweep", FLAGS, FOREIGN_FLAGS)
_STORED = frozenset({"items", *(flag.attribute for flag in _RECORDING)} - _OTHERS)


def parse(words: Sequence[str]) -> ProgramSweepSettings:
    """Return the settings that the command line makes.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, two flags conflict, or the
            command does not have the parameters that are varied.
    """
    return sweep_flags.read(words, ProgramSweepSettings(), GRAMMAR, _STORED, _check)


def _check(settings: ProgramSweepSettings) -> None:
    # --step-range also names the steps that are compared, so it is not without effect here.
    step_range, settings.step_range = settings.step_range, None
    parsing.check(settings)
    settings.step_range = step_range
    sweep_flags.check_border(settings)
    if settings.items is not None:
        items.check(settings.items, settings.vary)


def resumed(settings: ProgramSweepSettings, stored: Definition) -> ProgramSweepSettings:
    """Return the settings of a sweep that is resumed without its command line.

    Raises:
        UsageError: The stored flags are not those of this version.
    """
    return sweep_flags.resumed(settings, stored, GRAMMAR)


def stored_items(definition: Definition) -> str | None:
    """Return what ``--items`` of a sweep was."""
    settings = ProgramSweepSettings()
    GRAMMAR.read(definition.options, settings)
    return settings.items
