"""Plans: how often a kernel must run to count some metrics, and what each pass counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from warpline.counters.formulas import FORMULAS
from warpline.counters.host_process import PROFILING, Metric, Passes, RefusedError
from warpline.counters.names import Breakdown, Catalogue, source_of, split, unit_of_gpu
from warpline.counters.sets import Section
from warpline.errors import CounterError, UsageError
from warpline.frozen import frozen
from warpline.lazy import lazy

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")


# Measured on an H100 with CUPTI 13.0, and used as estimates. Kernel replay took 28 ms for 1 pass,
# 182 ms for 9 and 923 ms for 35, beside the kernel's own time.
_REPLAYED_PASS_NS = 25_000_000
_ONE_PASS_NS = 1_000_000  # a launch that is not replayed
START_NS = 35_000_000  # programming the counters and releasing them, once, for one pass

_REFUSED = "listed for the chip, but CUPTI cannot schedule it"


class Host(Protocol):
    """What knows the metrics of chips: `HostProcess`."""

    def chips(self) -> list[str]:
        """Return the names of all chips."""

    def metrics(self, chip: str, collection: str = PROFILING) -> list[Metric]:
        """Return the base metrics of a chip."""

    def sub_metrics(self, chip: str, collection: str = PROFILING) -> Mapping[str, Sequence[str]]:
        """Return what may follow the base names, by kind of metric."""

    def passes(self, chip: str, names: Sequence[str]) -> Passes:
        """Return the passes of metrics; RefusedError if they cannot be counted together."""

    def breakdown(self, chip: str, throughput: str) -> list[str] | None:
        """Return the parts of a throughput, by base name."""


@frozen
class PlannedMetric:
    """One metric of a plan.

    Attributes:
        name: Its full name.
        section: Name of the section that it belongs to; empty if it was named alone.
        passes: The passes of its session (from 1) that count something it requires; None if
            unknown.
    """

    name: str
    section: str
    passes: tuple[int, ...] | None

    @property
    def is_instrumented(self) -> bool:
        """Whether modified code counts it, instead of the hardware."""
        return "_sass_" in self.name


@frozen
class Session:
    """Metrics that are counted together.

    Attributes:
        metrics: In the order of the request.
        passes: How often the kernel must run.
        counters: For each pass, the number of hardware counters; None if unknown.
    """

    metrics: tuple[PlannedMetric, ...]
    passes: int
    counters: tuple[int, ...] | None

    def metrics_in(self, index: int) -> tuple[int, int]:
        """Return how many metrics need only this pass (from 1), and how many also others."""
        here = [metric.passes for metric in self.metrics if index in (metric.passes or ())]
        complete = here.count((index,))
        return complete, len(here) - complete


@frozen
class Plan:
    """How metrics of a chip are collected.

    Attributes:
        chip: Name of the chip.
        sessions: Usually one; metrics that cannot be counted together are in several.
        left_out: What the plan does not count, and why, in words.
    """

    chip: str
    sessions: tuple[Session, ...]
    left_out: Mapping[str, str]

    @property
    def passes(self) -> int:
        """How often the kernel must run, for all sessions."""
        return sum(session.passes for session in self.sessions)

    @property
    def launch_cost_ns(self) -> int:
        """What counting one launch takes beside the kernel's own time, as an estimate."""
        return _ONE_PASS_NS if self.passes == 1 else self.passes * _REPLAYED_PASS_NS

    @property
    def metrics(self) -> tuple[PlannedMetric, ...]:
        """All metrics of the plan."""
        return tuple(metric for session in self.sessions for metric in session.metrics)


def catalogue(host: Host, chip: str, collection: str = PROFILING) -> Catalogue:
    """Return the metrics of a chip.

    Args:
        host: What knows the chip.
        chip: Its name.
        collection: How they are collected, see `COLLECTIONS`.

    Raises:
        UsageError: The chip is unknown to CUPTI.
        CounterError: It has no metrics of it.
    """
    name = known_chip(host, chip)
    try:
        return Catalogue(name, host.metrics(name, collection), host.sub_metrics(name, collection))
    except RefusedError as error:
        raise CounterError(
            f"this CUPTI has no {collection} metrics of {name}",
            hint="use CUPTI 12.6 to 13.1, or a machine with the NVIDIA driver",
        ) from error


def known_chip(host: Host, chip: str) -> str:
    """Return the name of a chip as CUPTI writes it; UsageError if it is unknown."""
    known = host.chips()
    for name in known:
        if name.lower() == chip.lower():
            return name
    near = difflib.get_close_matches(chip.upper(), known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"CUPTI knows {', '.join(known)}"
    raise UsageError(f"unknown chip {chip!r}", hint=hint)


def plan(
    host: Host, chip: str, sections: Iterable[Section] = (), words: Iterable[str] = ()
) -> Plan:
    """Plan sections and metrics.

    Args:
        host: What knows the chip.
        chip: Its name.
        sections: Sections; metrics that the chip lacks are left out.
        words: Further metrics, in the notation of `names`.

    Raises:
        UsageError: An unknown chip, or a word that names no metric of it.
        CounterError: CUPTI refuses.
    """
    metrics = catalogue(host, chip)
    left_out: dict[str, str] = {}
    section_of: dict[str, str] = {}

    def parts_of(throughput: str) -> list[str] | None:
        return host.breakdown(metrics.chip, throughput)

    for section in sections:
        names = _of_section(section, metrics, parts_of, left_out)
        if section.is_by_priority:
            names = _one_pass(host, metrics.chip, names, left_out)
        for name in names:
            section_of.setdefault(name, section.name)
    for word in _counters_of(words, metrics):
        source = source_of(word)
        if source is not None and split(word)[0] not in metrics.metrics:
            left_out[word] = f"no counter: {source}"
            continue
        names = metrics.expanded(word, parts_of)
        section_of |= {name: "" for name in names if name not in section_of}
        if not names:
            left_out[word] = "no parts are known"
    try:
        sessions = _sessions(host, metrics.chip, section_of)
    except RefusedError:
        for name in _refused(host, metrics.chip, list(section_of)):
            del section_of[name]
            left_out[name] = _REFUSED
        sessions = _sessions(host, metrics.chip, section_of)
    return Plan(metrics.chip, tuple(sessions), left_out)


def _counters_of(words: Iterable[str], metrics: Catalogue) -> Iterator[str]:
    """Yield words, and in place of what follows from counters of the chip these."""
    for word in words:
        counters = FORMULAS[word].counters if word in FORMULAS else []
        is_known = bool(counters) and all(counter in metrics for counter in counters)
        yield from counters if is_known else [word]


def _of_section(
    section: Section, metrics: Catalogue, parts_of: Breakdown, left_out: dict[str, str]
) -> list[str]:
    """Return the metrics of a section that the chip has."""
    names: dict[str, None] = {}
    for request in section.requests():
        for word in request:
            found = metrics.find(word, parts_of)
            if found is not None:
                names |= dict.fromkeys(found if section.is_exact else metrics.over_units(found))
                break
        else:
            left_out[request[0]] = f"not on {metrics.chip}"
    return list(names)


def _one_pass(host: Host, chip: str, names: Sequence[str], left_out: dict[str, str]) -> list[str]:
    """Return the metrics that fit in one pass, the first ones first."""
    chosen: list[str] = []
    for name in names:
        try:
            passes = host.passes(chip, [*chosen, name]).count
        except RefusedError:
            left_out[name] = _REFUSED
            continue
        if passes == 1:
            chosen.append(name)
        else:
            left_out[name] = "needs another pass"
    return chosen


def _refused(host: Host, chip: str, names: Sequence[str]) -> list[str]:
    """Return the metrics that are refused even alone: one of them fails all others with it."""
    refused = []
    for name in names:
        try:
            host.passes(chip, [name])
        except RefusedError:
            refused.append(name)
    return refused


def _sessions(host: Host, chip: str, section_of: Mapping[str, str]) -> list[Session]:
    """Return the fewest sessions that count everything."""
    sessions = []
    rest = list(section_of)
    while rest:
        passes = _passes(host, chip, rest)
        together = rest if passes is not None else _together(host, chip, rest)
        passes = passes or host.passes(chip, together)
        of_metric = passes.of_metric or [None] * len(together)
        metrics = tuple(
            PlannedMetric(name, section_of[name], _from_one(indices))
            for name, indices in zip(together, of_metric, strict=True)
        )
        sessions.append(Session(metrics, passes.count, passes.counters))
        counted = set(together)
        rest = [name for name in rest if name not in counted]
    return sessions


def _from_one(indices: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if indices is None else tuple(index + 1 for index in indices)


def _together(host: Host, chip: str, names: Sequence[str]) -> list[str]:
    """Return the metrics that can be counted together with the first ones.

    CUPTI 12.8 and later count either the work of a program's context or a whole device, such as its
    links. Metrics of one part of the GPU are alike.
    """
    of_unit = {unit_of_gpu(name): name for name in reversed(names)}
    chosen: list[str] = []
    for name in reversed(of_unit.values()):
        if _passes(host, chip, [*chosen, name]) is not None:
            chosen.append(name)
    units = set(map(unit_of_gpu, chosen))
    return [name for name in names if unit_of_gpu(name) in units]


def _passes(host: Host, chip: str, names: Sequence[str]) -> Passes | None:
    """Return the passes of metrics; None if they cannot be counted together."""
    try:
        return host.passes(chip, names)
    except RefusedError as error:
        if error.is_unsupported and len(names) > 1:
            return None
        raise
