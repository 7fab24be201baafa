"""Names of metrics as ncu takes them, against the metrics of a chip.

sm__inst_executed.sum              one metric: base name and rollup
sm__inst_executed                  its first-level rollups: .avg, .max, .min, .sum
breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed
                                   the counters that a throughput is the maximum of
regex:^sm__pipe_.*_cycles_active$  all metrics whose base name matches, or else whose full name
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from warpline.counters.host_process import Metric
from warpline.errors import UsageError
from warpline.lazy import lazy

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")

Breakdown = Callable[[str], list[str] | None]

DURATION = "gpu__time_duration.sum"
GPU_ATTRIBUTE = "device__attribute_"  # how names of attributes of the GPU begin
# What follows from a launch and its GPU, and is in every recording of counters.
LAUNCH_FACTS = frozenset(
    {
        "profiler__replayer_passes",
        *(f"launch__{of}_{what}" for of in ("block", "grid") for what in ("size", "dim_x")),
        *(f"launch__{of}_dim_{axis}" for of in ("block", "grid") for axis in "yz"),
        *(f"launch__{name}" for name in ("context_id", "sm_count", "stream_id", "thread_count")),
        *(f"launch__registers_per_thread{rest}" for rest in ("", "_allocated")),
        *(
            f"launch__shared_mem_per_block{rest}"
            for rest in ("", "_allocated", "_driver", "_dynamic", "_static")
        ),
        *(f"launch__occupancy_limit_{by}" for by in ("blocks", "registers", "shared_mem", "warps")),
        "launch__waves_per_multiprocessor",
        "sm__maximum_warps_avg_per_active_cycle",
        "sm__maximum_warps_per_active_cycle_pct",
        "smsp__maximum_warps_avg_per_active_cycle",
    }
)

# Values of ncu that are no hardware counters: where they come from instead.
_ELSEWHERE = {
    "launch__": "from the launch",
    "device__": "a property of the GPU",
    "derived_": "computed from other metrics",
    "sm__maximum_warps_": "the theoretical occupancy, from the launch",
    "smsp__maximum_warps_": "the theoretical occupancy, from the launch",
    "profiler__": "about the profiler",
    "numa__": "about the machine",
    "nvlink__": "about the machine",
    "c2clink__": "about the machine",
    **dict.fromkeys(
        (
            "sass__",
            "memory_",
            "inst_executed",
            "thread_inst_executed",
            "smsp__branch_targets_threads_divergent",
            "smsp__sass_inst_executed_memdesc_",
        ),
        "of single instructions, counted by instrumented code",
    ),
    "smsp__pcsamp_": "from PC sampling",
}
_PREFIXES = ("regex:", "breakdown:", "group:", "pmsampling:")
_OVER_UNITS = ("avg", "max", "min", "sum")  # of which a chip has several, such as its SMs
_THROUGHPUT = "throughput"
_OF_THROUGHPUT = ".pct_of_peak_sustained_elapsed"


class Catalogue:
    """The metrics of a chip, by name.

    Args:
        chip: Its name.
        metrics: Its base metrics.
        sub_metrics: What may follow the base names, by kind of metric.
    """

    def __init__(
        self, chip: str, metrics: Iterable[Metric], sub_metrics: Mapping[str, Sequence[str]]
    ) -> None:
        self.chip = chip
        self.metrics = {metric.name: metric for metric in metrics}
        self.sub_metrics = sub_metrics

    def __contains__(self, name: str) -> bool:
        """Return whether the chip has the metric, a full name."""
        base, rollup = split(name)
        metric = self.metrics.get(base)
        return metric is not None and rollup in self.sub_metrics[metric.kind]

    def full_names(self, base: str) -> list[str]:
        """Return all names of a base metric."""
        return [base + rollup for rollup in self.sub_metrics[self.metrics[base].kind]]

    def first_level(self, base: str) -> list[str]:
        """Return the names that a base name alone stands for."""
        kind = self.metrics[base].kind
        end = _OF_THROUGHPUT if kind == _THROUGHPUT else ""
        wanted = [name for name in self.sub_metrics[kind] if name.removesuffix(end).count(".") == 1]
        return [base + rollup for rollup in wanted if rollup.endswith(end)]

    def expanded(self, word: str, breakdown: Breakdown) -> list[str]:
        """Return the full names that a word stands for.

        Args:
            word: See the module.
            breakdown: Returns the parts of a throughput, by base name; None if unknown.

        Raises:
            UsageError: The chip has no such metric.
        """
        kind, _, rest = word.partition(":")
        if kind == "regex":
            return self._matching(rest)
        if kind != "breakdown" and f"{kind}:" in _PREFIXES:
            raise UsageError(
                f"{word}: {kind}: is not supported",
                hint="name the metrics, or use regex: and breakdown:",
            )
        found = self.find(word, breakdown)
        if found is None:
            raise self._unknown(rest if kind == "breakdown" else word)
        return found

    def find(self, word: str, breakdown: Breakdown) -> list[str] | None:
        """Return the same without regular expressions; None if the chip has no such metric."""
        name = word.removeprefix("breakdown:")
        base, rollup = split(name)
        if base not in self.metrics or (rollup and name not in self):
            return None
        if name != word:
            return self._parts(base, rollup or ".avg" + _OF_THROUGHPUT, breakdown)
        return [name] if rollup else self.first_level(base)

    def over_units(self, names: Iterable[str]) -> list[str]:
        """Return full names, each followed by the others of average, maximum, minimum and sum."""
        found: dict[str, None] = {}
        for name in names:
            base, rollup = split(name)
            over, dot, rest = rollup[1:].partition(".")
            every = _OVER_UNITS if over in _OVER_UNITS else ()
            alike = (f"{base}.{other}{dot}{rest}" for other in every)
            found |= dict.fromkeys((name, *(other for other in alike if other in self)))
        return list(found)

    def matching_bases(self, pattern: str) -> list[str]:
        """Return the base names in which a regular expression is found."""
        found = compiled(pattern)
        return [name for name in self.metrics if found.search(name)]

    def _matching(self, pattern: str) -> list[str]:
        names = [name for base in self.matching_bases(pattern) for name in self.first_level(base)]
        if not names:
            found = compiled(pattern)
            every = (name for base in self.metrics for name in self.full_names(base))
            names = [name for name in every if found.search(name)]
        if not names:
            raise UsageError(
                f"no metric of {self.chip} matches {pattern!r}",
                hint=f"warpline kernels plan --chip {self.chip} --list-metrics",
            )
        return names

    def _parts(self, base: str, rollup: str, breakdown: Breakdown) -> list[str]:
        def parts_of(name: str) -> list[str]:
            metric = self.metrics.get(name)
            is_throughput = metric is not None and metric.kind == _THROUGHPUT
            return (breakdown(name) if is_throughput else None) or []

        # As in ncu, only what has no parts of its own.
        names = [part + rollup for part in parts_of(base) if not parts_of(part)]
        return [name for name in names if name in self]

    def _unknown(self, word: str) -> UsageError:
        base, rollup = split(word)
        if base in self.metrics:
            kind = self.metrics[base].kind
            known = self.sub_metrics[kind]
            near = difflib.get_close_matches(rollup, known, n=1, cutoff=0.6)
            hint = f"did you mean {base}{near[0]}?" if near else f"use {', '.join(known[:4])}, ..."
            return UsageError(f"{base} is a {kind} and has no {rollup}", hint=hint)
        near = difflib.get_close_matches(base, self.metrics, n=2, cutoff=0.8)
        hint = f"did you mean {' or '.join(name + rollup for name in near)}?"
        return UsageError(
            f"{self.chip} has no metric {word!r}",
            hint=hint if near else f"warpline kernels plan --chip {self.chip} --list-metrics",
        )


def split(name: str) -> tuple[str, str]:
    """Return the base name and the rollup: ``sm__inst_executed``, ``.sum``."""
    # A base name may begin with a domain: LTS.TriageCompute.lts__t_sectors.
    place = name.find(".", name.find("__") + 2)
    return (name, "") if place < 0 or "__" not in name else (name[:place], name[place:])


def source_of(name: str) -> str | None:
    """Return where a value of ncu comes from that is no hardware counter; None if it is one."""
    found = (source for prefix, source in _ELSEWHERE.items() if name.startswith(prefix))
    return next(found, None)


def is_fact(name: str) -> bool:
    """Return whether a recording of counters has a value of ncu without counting it."""
    return name in LAUNCH_FACTS or name.startswith(GPU_ATTRIBUTE)


def unit_of_gpu(name: str) -> str:
    """Return the part of the GPU that a metric is about: ``sm``, ``pcie``."""
    return split(name)[0].partition("__")[0].rpartition(".")[2]


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression; an invalid one raises UsageError."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"invalid regular expression {pattern!r}: {error}",
            hint="write it as in Python: regex:^sm__inst_executed",
        ) from None
