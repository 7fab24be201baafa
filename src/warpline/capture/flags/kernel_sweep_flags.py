"""The flags of ``warpline kernels sweep``: those of all sweeps, and what to count."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpline.capture.flags import counter_flags, sweep_flags, values
from warpline.capture.flags.counter_checks import check
from warpline.capture.flags.counting import CountingSettings
from warpline.capture.flags.grammar import Flag, Grammar
from warpline.capture.flags.ncu import FOREIGN_FLAGS
from warpline.capture.flags.nvtx_ranges import REGEX
from warpline.capture.flags.sweep_flags import SweepOptions
from warpline.counters.names import DURATION
from warpline.sweep.state import Definition

KIND = "kernels"
DEFAULT_SAMPLE = 20
SAMPLE_OF_PASSES = 3  # repeating a launch takes long
# Flags of `warpline kernels` that say what is counted: a sweep that is resumed has the same ones.
_COUNTING = frozenset(
    {
        *("set", "section", "metrics", "disable_extra_suffixes", "sample", "kernel_name"),
        *("kernel_name_base", "kernel_id", "launch_skip", "launch_count"),
        *("launch_skip_before_match", "profile_from_start", "nvtx_include", "nvtx_exclude"),
        *("nvtx_push_pop_scope", "range_filter", "devices", "filter_mode", "target_processes"),
        *("target_processes_filter", "cache_control", "clock_control", "check_exit_code"),
    }
)
_OTHERS = frozenset({"help", "debug", "force_overwrite", "quiet"})


@dataclass
class KernelSweepSettings(CountingSettings, SweepOptions):
    """The settings of ``warpline kernels sweep``.

    Attributes:
        top: Kernels and shapes to show of each point, those with the most time first; 0 shows all.
    """

    top: int = 1

    @property
    def definition(self) -> Definition:
        """What is run."""
        return sweep_flags.definition_of(self, KIND)


_OWN = (
    Flag(("--top",), "N", "kernels and shapes to show of each point, those with the most counted"
         " time first; 0 shows all (default: 1)", values.number(0, 1_000_000),
         group=sweep_flags.PRINT),
)  # fmt: skip
_HELP = {
    "set": "set of metrics, such as basic or full; warpline kernels --list-sets lists them"
    " (default: light, and flop in a second run of the program; repeatable)",
    "section": "section of metrics; warpline kernels --list-sections lists them (repeatable)",
    "metrics": "metrics to count; breakdown:NAME stands for the parts of a throughput (repeatable)",
    "sample": f"count the first N launches of each kernel and shape; 0 counts all (default:"
    f" {DEFAULT_SAMPLE}, or {SAMPLE_OF_PASSES} if launches are repeated for several passes)",
    "check_exit_code": "no: a run whose exit status is not 0 is no failure (default: yes)",
    "force_overwrite": "overwrite an existing sweep, and plot",
}
FLAGS = sweep_flags.joined(
    _OWN,
    (flag for flag in counter_flags.FLAGS if flag.attribute in _COUNTING | _OTHERS),
    _HELP,
)
GRAMMAR = Grammar("warpline kernels sweep", FLAGS, FOREIGN_FLAGS)


def parse(words: Sequence[str]) -> KernelSweepSettings:
    """Return the settings that the command line makes.

    Raises:
        UsageError: A flag is unknown, its value is missing or invalid, two flags conflict, or the
            command does not have the parameters that are varied.
    """
    return sweep_flags.read(words, KernelSweepSettings(), GRAMMAR, _COUNTING, check)


def resumed(settings: KernelSweepSettings, stored: Definition) -> KernelSweepSettings:
    """Return the settings of a sweep that is resumed without its command line.

    Raises:
        UsageError: The stored flags are not those of this version.
    """
    return sweep_flags.resumed(settings, stored, GRAMMAR, ("top",))


def asked_metrics(definition: Definition) -> Callable[[str], bool]:
    """Return whether a metric is one that ``--metrics`` of a sweep asked for."""
    settings = KernelSweepSettings()
    GRAMMAR.read(definition.options, settings)
    words = settings.request.metrics
    if words and not settings.sets and not settings.section:
        return lambda name: name != DURATION or name in words  # time is always counted
    patterns = [re.compile(word.removeprefix(REGEX)) for word in words if word.startswith(REGEX)]
    return lambda name: (
        any(name == word or name.startswith(f"{word}.") for word in words)
        or any(pattern.search(name) for pattern in patterns)
    )
