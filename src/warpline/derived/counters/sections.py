"""Sections of a launch whose recording has none: our own sets, as far as they were collected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from warpline.counters.formulas import FORMULAS
from warpline.counters.labels import HEADINGS, LABELS
from warpline.counters.sets import LAUNCH_STATS, LIGHT, OCCUPANCY, SECTIONS, SPEED_OF_LIGHT, Section
from warpline.frozen import frozen

# As Nsight Compute calls what was requested by name.
_REST, _REST_TITLE = "CommandLine", "Command line profiler metrics"
_LIST = "breakdown:"
# What `launch_metrics` has for a section.
_OF_LAUNCH = {
    LAUNCH_STATS: (
        "launch__grid_size",
        "launch__block_size",
        "launch__thread_count",
        "launch__registers_per_thread",
        "launch__shared_mem_per_block_static",
        "launch__shared_mem_per_block_dynamic",
        "launch__waves_per_multiprocessor",
        "launch__sm_count",
    ),
    OCCUPANCY: (
        "sm__maximum_warps_per_active_cycle_pct",
        "sm__maximum_warps_avg_per_active_cycle",
        "launch__occupancy_limit_blocks",
        "launch__occupancy_limit_registers",
        "launch__occupancy_limit_shared_mem",
        "launch__occupancy_limit_warps",
    ),
}
_MOST_IMPORTANT = 4  # metrics of a section that has them by priority
_OF_PEAK = ".pct_of_peak_sustained_"
_WITHOUT_COUNTERS = ("launch__", "profiler__", "sm__maximum_warps_")


@frozen
class ShownSection:
    """A section of a launch.

    Attributes:
        identifier: Identifier, as for ``--section``.
        title: Title.
        lines: Label and name of each metric.
    """

    identifier: str
    title: str
    lines: tuple[tuple[str, str], ...]


@lru_cache(maxsize=64)  # launches most often have the same metrics
def sections_of(
    names: frozenset[str], following: frozenset[str] = frozenset()
) -> tuple[ShownSection, ...]:
    """Return the sections that show the metrics of a launch.

    A section is shown if at least half of its metrics were collected, or the most important ones,
    if they have an order: others were requested one by one. It lists the metrics that have a label,
    each in the first section that has it; the page raw has all. What belongs to no such section was
    requested by name, and is listed last.

    Args:
        names: Names of the metrics.
        following: Those that were not collected. Multiples and ratios of counters that were
            requested by name are listed with these.
    """
    wholes = [section for section in SECTIONS if _is_collected(section, names)]
    if SPEED_OF_LIGHT in wholes:  # it has all that the summary of one pass has
        wholes = [section for section in wholes if section is not LIGHT]
    found: list[ShownSection] = []
    listed: set[str] = set()
    counted: set[str] = set()
    has_parts = False  # of a throughput: the percentages that it is the maximum of
    for section in wholes:
        metrics = list(_collected(section.requests(), names))
        counted.update(map(_counter, metrics))
        has_parts = has_parts or _LIST in section.metrics
        heads = (
            *(name for name in metrics if section.is_by_priority or name in LABELS),
            *(name for name in _OF_LAUNCH.get(section, ()) if name in names),
        )
        lines = [(LABELS.get(name, name), name) for name in heads if name not in listed]
        listed.update(name for _, name in lines)
        if lines:
            heading = HEADINGS.get(section.name, section.title)
            found.append(ShownSection(section.name, heading, tuple(lines)))
    rest = sorted(
        name
        for name in names
        if _counter(name) not in counted
        and not (name in following and not _is_news(name, counted))
        and not name.startswith((_LIST, *_WITHOUT_COUNTERS))
        and not (has_parts and _OF_PEAK in name)
    )
    if rest:
        found.append(ShownSection(_REST, _REST_TITLE, tuple((name, name) for name in rest)))
    return tuple(found)


def _is_collected(section: Section, names: frozenset[str]) -> bool:
    if not names.isdisjoint(_OF_LAUNCH.get(section, ())):
        return True
    requests = section.requests()
    if section.is_by_priority:  # what does not fit in the pass is left out, from the end
        requests, least = requests[:_MOST_IMPORTANT], _MOST_IMPORTANT
    else:
        least = (len(requests) + 1) // 2
    return sum(1 for _ in _collected(requests, names)) >= least


def _collected(requests: list[tuple[str, ...]], names: frozenset[str]) -> Iterator[str]:
    """Yield the names of the metrics of a section that were collected."""
    for choices in requests:
        yield from [name for name in choices if name in names][:1]


def _counter(name: str) -> str:
    """Return the counter that a metric is a rollup or a ratio of."""
    end = name.find(".", name.find("__"))
    return name if end < 0 else name[:end]


def _is_news(name: str, counted: set[str]) -> bool:
    """Return whether a metric that follows from others is more than another name of a counter."""
    formula = FORMULAS.get(name)
    return formula is not None and not formula.is_equal and _counter(formula.source) not in counted
