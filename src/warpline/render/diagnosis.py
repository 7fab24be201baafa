"""A diagnosis as text for a person: the verdict, where the time went, what stands out."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TextIO

from warpline.render import Options
from warpline.render.escaping import display_width, pad, shorten, visible
from warpline.render.saving import saving_text
from warpline.render.screen import without_noise
from warpline.result import (
    Breakdown,
    Check,
    Diagnosis,
    Document,
    Finding,
    Overlap,
    Part,
    PartKind,
    Phase,
    StepSummary,
)
from warpline.units import format_ns, plural

_WIDTH = 100  # where no terminal says another
_WIDEST = 120  # longer lines are hard to read
_LABEL = 20
_FILES = 3  # in the command to type next
_DEVICES = 2  # shown with all of their parts; of more, the slowest
_PHASES = 8
_DEPTH = 3
_NEARLY_ALL = 0.98  # of the phase around
_STEP = 0.9  # of the time: a phase as long is the step itself
_CANDIDATES = 3
_NAMED = 4  # steps that are not counted
_LEAST_OVERLAP = 0.005
_LEAST_TENTHS = 1  # parts of less than 0.1 % share a line
_GAP = "  "
_LEFT = len(_GAP) + _LABEL
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_COLOR_OF_SEVERITY = {"high": "\x1b[31m", "medium": "\x1b[33m", "low": "", "info": _DIM}
_COLOR_OF_STATE = {"fail": "\x1b[31m", "pass": "\x1b[32m", "can't tell": _DIM}


class _Group(NamedTuple):
    """Parts of time that share a sign in the bar."""

    name: str
    sign: str
    ascii_sign: str
    color: str


_COMPUTE = _Group("compute", "█", "#", "\x1b[32m")
_COMMUNICATION = _Group("communication", "▓", "=", "\x1b[35m")
_COPIES = _Group("copies", "▒", "-", "\x1b[36m")
_IDLE = _Group("idle", "░", ".", "\x1b[33m")
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|us|ms|s)(?!\w))")
_KINDS: tuple[PartKind, ...] = ("busy", "idle")
_GROUPS = (_COMPUTE, _COMMUNICATION, _COPIES, _IDLE)


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write a diagnosis; the document must be one."""
    assert isinstance(document, Diagnosis)
    screen = _Screen(options)
    blocks = [
        list(screen.head(document)),
        *(list(lines) for lines in screen.devices(document)),
        list(screen.overlaps(document)),
        list(screen.phases(document)),
        list(screen.findings(document)),
        list(screen.checks(document)),
        list(screen.candidates(document)),
        list(screen.last(document)),
    ]
    _write(blocks, out)


def render_checklist(document: Document, out: TextIO, options: Options) -> None:
    """Write the checklist of a diagnosis, each line with its number, threshold and reason."""
    assert isinstance(document, Diagnosis)
    screen = _Screen(options)
    _write([list(screen.head(document)), list(screen.checklist(document.checks))], out)


def _write(blocks: Sequence[Sequence[str]], out: TextIO) -> None:
    filled = ("\n".join(line.rstrip() for line in lines) for lines in blocks if lines)
    out.write("\n\n".join(filled) + "\n")


def tenths_of_percent(values: Sequence[int], total: int) -> list[int]:
    """Return shares in tenths of a per cent that sum to 1000 exactly, if the values do to `total`.

    Each is rounded down, and what is missing goes to those that lost most.
    """
    return _apportion(values, total, 1000)


def part_shares(parts: Sequence[Part], total_ns: int) -> list[int]:
    """Return the share of each part in tenths of a per cent.

    Parts of a group in the bar sum to the group's own share there.
    """
    shares = [0] * len(parts)
    sums = _group_sums(parts)
    for group, ns, share in zip(_GROUPS, sums, tenths_of_percent(sums, total_ns), strict=True):
        rows = [row for row, part in enumerate(parts) if _group(part) is group]
        inside = _apportion([parts[row].ns for row in rows], ns, share)
        for row, part_share in zip(rows, inside, strict=True):
            shares[row] = part_share
    return shares


def _apportion(values: Sequence[int], total: int, places: int) -> list[int]:
    if total <= 0:
        return [0 for _ in values]
    shares = [value * places // total for value in values]
    missing = sum(values) * places // total - sum(shares)
    lost = [value * places % total for value in values]
    for place in sorted(range(len(values)), key=lambda row: -lost[row])[:missing]:
        shares[place] += 1
    return shares


class _Screen:
    """Makes lines that fit the width of the screen."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._width = min(options.width or _WIDTH, _WIDEST)
        self._ellipsis = "…" if options.unicode else "..."

    def head(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield what this is about and the verdict."""
        yield self._style(self._fit(diagnosis.title), _BOLD)
        yield from self._wrap(diagnosis.verdict, _GAP)

    def devices(self, diagnosis: Diagnosis) -> Iterator[Iterator[str]]:
        """Yield the lines of each device: of many, a line each and all parts of the slowest."""
        every = diagnosis.breakdown
        if len(every) <= _DEVICES:
            spread = diagnosis.steps if len(every) == 1 else None
            yield from (self._device(item, spread) for item in every)
            return
        yield self._devices_at_a_glance(every)
        slowest = max(every, key=lambda item: item.total_ns / max(item.count, 1))
        yield self._device(slowest, diagnosis.steps)

    def overlaps(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield what ran at a time."""
        lines = [
            (item, text)
            for item, whole in zip(diagnosis.overlaps, diagnosis.breakdown, strict=False)
            for text in _overlap_lines(item, whole)
        ][: 3 * _DEVICES]
        if lines:
            yield self._style("At the same time", _BOLD)
        for item, text in lines:
            device = f" (device {item.device})" if len(diagnosis.breakdown) > 1 else ""
            yield from self._wrap(f"{text}{device}", _GAP)

    def phases(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield the ranges whose work and idle time took longest."""
        every = diagnosis.phases
        has_steps = any(item.count for item in diagnosis.breakdown)
        if not has_steps:
            every = tuple(_without_tail(item) for item in every)
        per = max(sum(item.count for item in diagnosis.breakdown), 1)
        whole = sum(part.ns for item in diagnosis.breakdown for part in _counted(item)[0])
        shown = _longest_phases(every, whole)
        if not shown:
            return
        hidden = len(diagnosis.phases) - len(shown)
        title = "Phases" + (f", {len(shown)} of {len(diagnosis.phases)}" if hidden else "")
        width = max(_LABEL, min(self._width - 54, max(map(_phase_width, shown))))
        heads = ("per step" if has_steps else "time", "share", "idle")
        line = _GAP.join((pad(title, width + len(_GAP)), f"{heads[0]:>9}", f"{heads[1]:>7}"))
        yield self._style(f"{line}{_GAP}{heads[2]:>7}{_GAP}most of it", _BOLD)
        for item in shown:
            name = item.path[-1] if item.path else "outside of all ranges"
            label = "  " * max(len(item.path) - 1, 0) + self._clean(name)
            label = shorten(label, width, self._ellipsis)
            idle_ns = sum(part.ns for part in item.parts if part.kind == "idle")
            most = max(item.parts, key=lambda part: part.ns, default=None)
            numbers = (
                f"{format_ns(item.total_ns / per):>9}",
                f"{_percent(item.total_ns, whole):>7}",
                f"{_percent(idle_ns, item.total_ns):>7}",
                most.category if most else "",
            )
            yield _GAP + _GAP.join((pad(label, width), *numbers))

    def findings(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield each finding: what it is, what was seen, what to do."""
        if not diagnosis.findings:
            return
        yield self._style("Findings", _BOLD)
        step = " per step" if any(item.count for item in diagnosis.breakdown) else ""
        for item in diagnosis.findings:
            yield from self._finding(item, step)

    def checks(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield how the checklist went, and the lines that fail."""
        if not diagnosis.checks:
            return
        states = [check.state for check in diagnosis.checks]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in ("pass", "fail", "can't tell")
        )
        yield f"{self._style('Checklist', _BOLD)}  {counts}"
        for check in diagnosis.checks:
            if check.state == "fail":
                text = f"{check.name}: {check.found}; wanted: {check.wanted}"
                yield from self._wrap(text, _GAP, _GAP * 2)

    def checklist(self, checks: Sequence[Check]) -> Iterator[str]:
        """Yield the whole checklist."""
        width = max((display_width(check.name) for check in checks), default=0)
        left = 10 + len(_GAP) + width + len(_GAP)
        for check in checks:
            state = self._style(f"{check.state:10}", _COLOR_OF_STATE[check.state])
            found = f"{check.found}; wanted: {check.wanted}"
            text = self._lines(found, self._width - left)
            yield f"{state}{_GAP}{pad(check.name, width)}{_GAP}{text[0]}"
            reason = self._lines(check.reason, self._width - left)
            yield from (" " * left + line for line in text[1:])
            yield from (" " * left + self._style(line, _DIM) for line in reason)

    def candidates(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield the kernels that are worth a run with hardware counters."""
        shown = diagnosis.counter_candidates[:_CANDIDATES]
        if not shown:
            return
        yield self._style("Kernels worth a run with hardware counters", _BOLD)
        for item in shown:
            share = f"{item.share * 100:.1f} %"
            name = self._cut(without_noise(self._clean(item.name)), self._width - 26)
            yield f"{_GAP}{share:>6}{_GAP}{plural(item.instances, 'time'):>12}{_GAP}{name}"
        # A command is there to be copied: it is not cut.
        yield f"{_GAP}for the first: {self._clean(shown[0].command)}"

    def last(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield what was not counted, what could not be judged, and what to type next."""
        excluded = diagnosis.steps.excluded
        if excluded:
            # Ranks leave out the same steps for the same reasons.
            every = [*dict.fromkeys(f"{x.label or x.index} ({x.reason})" for x in excluded)]
            more = len(every) - _NAMED
            rest = f" and {plural(more, 'more step')}" if more > 0 else ""
            text = f"not counted: {', '.join(every[:_NAMED])}{rest}"
            yield from self._wrap(text, "", _GAP, _DIM)
        for item in diagnosis.not_judged:
            yield from self._wrap(f"{item.name}: cannot tell: {item.reason}", "", _GAP, _DIM)
        paths = [str(path) for path in diagnosis.meta["paths"]]
        files = [self._clean(shlex.quote(path)) for path in paths[:_FILES]]
        more_files = ["..."] if len(paths) > _FILES else []
        recordings = " ".join(files + more_files)
        yield f"next: warpline analyze --checklist {recordings}"
        yield f"      warpline stats -r steps,phases,step_differences {recordings}"

    def _device(self, item: Breakdown, steps: StepSummary | None) -> Iterator[str]:
        parts, aside = _counted(item)
        total_ns = sum(part.ns for part in parts)
        title, spread = self._clean(_device_title(item)), _spread(item, steps)
        fits = display_width(title + spread) <= self._width
        yield self._style(self._fit(title + spread if fits else title), _BOLD)
        yield _GAP + self._bar(parts, total_ns, self._width - 2 * len(_GAP))
        yield self._legend(parts, total_ns)
        per = max(item.count, 1)
        shares = part_shares(parts, total_ns)
        heads = (f"{'per step' if item.count else 'time':>9}", f"{'share':>7}")
        yield self._style(f"{_GAP}{' ' * _LABEL}{_GAP}{_GAP.join(heads)}", _DIM)
        for kind in _KINDS:
            rows = [row for row, part in enumerate(parts) if part.kind == kind]
            if rows:
                yield from self._kind(kind, [(parts[row], shares[row]) for row in rows], per)
        if item.origins:
            yield from self._wrap(f"busy with code of: {_origins(item, total_ns)}", _GAP)
        if aside:
            yield from self._wrap(
                f"not in these shares: {format_ns(aside)} before the first operation and after the"
                " last",
                _GAP,
                style=_DIM,
            )

    def _kind(self, kind: PartKind, rows: Sequence[tuple[Part, int]], per: int) -> Iterator[str]:
        """Yield the sum of busy or idle time and its parts; tiny ones share a line."""
        total = Part(kind, kind, sum(part.ns for part, _ in rows))
        yield from self._part(total, per, sum(share for _, share in rows), is_sum=True)
        small = [row for row in rows if row[1] < _LEAST_TENTHS]
        shown = [row for row in rows if row not in small] if len(small) > 1 else rows
        for part, share in shown:
            yield from self._part(part, per, share)
        if len(small) > 1:
            ns = sum(part.ns for part, _ in small)
            names = ", ".join(part.category for part, _ in small)
            rest = Part(f"{len(small)} others", kind, ns, names)
            yield from self._part(rest, per, sum(share for _, share in small))

    def _part(self, part: Part, per: int, share: int, *, is_sum: bool = False) -> Iterator[str]:
        indent = _GAP if is_sum else _GAP * 2
        label = pad(part.category, _LEFT - len(indent))
        label = self._style(label, _BOLD if is_sum else _group(part).color)
        numbers = f"{format_ns(part.ns / per):>9}{_GAP}{_tenths(share):>7}"
        left = _LEFT + len(_GAP) + 18 + len(_GAP)
        text = self._lines(part.meaning, self._width - left)
        yield f"{indent}{label}{_GAP}{numbers}{_GAP}{text[0]}"
        yield from (" " * left + line for line in text[1:])

    def _bar(self, parts: Sequence[Part], total_ns: int, width: int) -> str:
        cells = _apportion(_group_sums(parts), total_ns, width)
        return "".join(
            self._style(self._sign(group) * count, group.color)
            for group, count in zip(_GROUPS, cells, strict=True)
            if count
        )

    def _legend(self, parts: Sequence[Part], total_ns: int) -> str:
        shares = tenths_of_percent(_group_sums(parts), total_ns)
        return _GAP + (_GAP * 2).join(
            f"{self._style(self._sign(group), group.color)} {group.name} {_tenths(share)}"
            for group, share in zip(_GROUPS, shares, strict=True)
            if share or group in {_COMPUTE, _IDLE}
        )

    def _devices_at_a_glance(self, every: Sequence[Breakdown]) -> Iterator[str]:
        labels = [_device_label(item) for item in every]
        width = min(max(map(display_width, labels)), max(self._width - 62, 12))
        heads = ("step", *(group.name for group in _GROUPS))
        sizes = [9, *(max(7, len(group.name)) for group in _GROUPS)]
        texts = [f"{head:>{size}}" for head, size in zip(heads, sizes, strict=True)]
        yield self._style(_GAP.join((pad("Devices", width), *texts)), _BOLD)
        for item, label in zip(every, labels, strict=True):
            parts, _ = _counted(item)
            total_ns = sum(part.ns for part in parts)
            shares = tenths_of_percent(_group_sums(parts), total_ns)
            cells = [format_ns(total_ns / max(item.count, 1)), *map(_tenths, shares)]
            right = (f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=True))
            name = shorten(self._clean(label), width, self._ellipsis)
            yield _GAP.join((pad(name, width), *right))

    def _finding(self, item: Finding, step: str) -> Iterator[str]:
        mark = self._style(f"{item.severity:6}", _COLOR_OF_SEVERITY[item.severity])
        indent = _GAP + " " * (4 + 6 + 1)
        yield f"{_GAP}{item.id:4}{mark} {self._style(self._fit(item.title), _BOLD)}"
        yield from self._wrap(item.claim, indent)
        if saving := saving_text(item, step):
            yield from self._wrap(f"Saves: {saving}", indent, indent + "       ")
        yield from self._wrap(f"Do: {item.fix}", indent, indent + "    ")

    def _sign(self, group: _Group) -> str:
        return group.sign if self._options.unicode else group.ascii_sign

    def _wrap(
        self, text: str, first: str, later: str | None = None, style: str = ""
    ) -> Iterator[str]:
        rest = first if later is None else later
        lines = self._lines(text, self._width - len(rest))
        for place, line in enumerate(lines):
            yield self._style(f"{rest if place else first}{line}", style)

    def _lines(self, text: str, width: int) -> list[str]:
        # A number and its unit stay together. No clean text holds the character that glues them.
        glued = _UNIT.sub("\xa0", self._clean(text))
        wrapped = textwrap.wrap(
            glued, max(width, 20), break_long_words=False, break_on_hyphens=False
        )
        return [line.replace("\xa0", " ") for line in wrapped] or [""]

    def _cut(self, name: str, width: int) -> str:
        """Shorten the name of a kernel at its end: the first arguments tell most."""
        if len(name) <= width or not name.isascii():
            return shorten(name, width, self._ellipsis)
        return name[: width - len(self._ellipsis)] + self._ellipsis

    def _fit(self, text: str) -> str:
        return shorten(self._clean(text), self._width, self._ellipsis)

    def _clean(self, text: str) -> str:
        return visible(text, unicode=self._options.unicode)

    def _style(self, text: str, code: str) -> str:
        return f"{code}{text}{_RESET}" if self._options.color and code else text


def _group(part: Part) -> _Group:
    if part.kind == "idle":
        return _IDLE
    if part.category == "collective":
        return _COMMUNICATION
    is_copy = part.category.startswith("copy-") or part.category == "memset"
    return _COPIES if is_copy else _COMPUTE


def _group_sums(parts: Sequence[Part]) -> list[int]:
    """Return the time of each of `_GROUPS`."""
    return [sum(part.ns for part in parts if _group(part) is group) for group in _GROUPS]


def _counted(item: Breakdown) -> tuple[Sequence[Part], int]:
    """Return the parts that shares are of, and the time that is left aside.

    Without steps that is the time before the first operation of a sample, or of a part that was
    chosen, and after the last.
    """
    if item.count:
        return item.parts, 0
    parts = [part for part in item.parts if part.category != "tail"]
    return (parts, item.total_ns - sum(part.ns for part in parts)) if parts else (item.parts, 0)


def _tenths(share: int) -> str:
    return f"{share // 10}.{share % 10} %"


def _percent(ns: int, total_ns: int) -> str:
    return _tenths(round(1000 * ns / total_ns)) if total_ns else "-"


def _device_label(item: Breakdown) -> str:
    name = f" {item.device_name}" if item.device_name else ""
    process = "" if item.process is None else f", process {item.process}"
    rank = "" if item.rank is None else f", rank {item.rank}"
    return f"Device {item.device}{name}{rank}{process}"


def _origins(item: Breakdown, total_ns: int) -> str:
    """Return whose code ran, with shares of the time; what is below 0.1 % is left out."""
    shares = {name: round(1000 * ns / total_ns) for name, ns in item.origins.items()}
    said = [f"{name} {_tenths(share)}" for name, share in shares.items() if share]
    return ", ".join(said) or next(iter(item.origins))


def _device_title(item: Breakdown) -> str:
    if not item.count:
        worked_ns = sum(part.ns for part in _counted(item)[0])
        return f"{_device_label(item)}: {format_ns(worked_ns)} from first to last operation"
    mean = format_ns(item.total_ns / item.count)
    return f"{_device_label(item)}: {plural(item.count, 'step')} of {mean}"


def _spread(item: Breakdown, steps: StepSummary | None) -> str:
    if not item.count or steps is None or steps.median_ns is None or steps.p95_ns is None:
        return ""
    return f" (median {format_ns(steps.median_ns)}, p95 {format_ns(steps.p95_ns)})"


def _overlap_lines(item: Overlap, whole: Breakdown) -> Iterator[str]:
    """Yield what is worth a line: communication and copies that take half a per cent or more."""
    per = max(whole.count, 1)
    each = " per step" if whole.count else ""
    least = _LEAST_OVERLAP * sum(part.ns for part in _counted(whole)[0])
    kinds = (
        ("communication", item.communication_ns, item.exposed_communication_ns),
        ("copies", item.copy_ns, item.exposed_copy_ns),
    )
    for name, ns, exposed_ns in kinds:
        if ns and ns >= least:
            beside = _percent(ns - exposed_ns, ns)
            alone = format_ns(exposed_ns / per)
            text = f"{name} {format_ns(ns / per)}{each}: {beside} of it beside computing"
            waiting_ns = (item.waiting_ns or 0) if name == "communication" else 0
            waited = f"; {format_ns(waiting_ns / per)} of it waiting for other ranks"
            waited = waited if waiting_ns > _LEAST_OVERLAP * ns else ""
            yield f"{text}, {alone} alone{waited}" if exposed_ns else f"{text}{waited}"
    if item.concurrent_ns and item.concurrent_ns >= least:
        share = _percent(item.concurrent_ns, item.busy_ns)
        yield f"two or more streams at work for {share} of the busy time"


def _without_tail(item: Phase) -> Phase:
    parts = tuple(part for part in item.parts if part.category != "tail")
    tail_ns = item.total_ns - sum(part.ns for part in parts)
    return replace(item, total_ns=item.total_ns - tail_ns, parts=parts)


def _longest_phases(phases: Sequence[Phase], whole_ns: int) -> list[Phase]:
    """Return the phases that took longest, none deep inside others, in the order of the model.

    A phase that is nearly all of the one around it says nothing new, unless that is the step.
    """
    total_ns = {item.path: item.total_ns for item in phases}

    def is_new(item: Phase) -> bool:
        around_ns = total_ns.get(item.path[:-1], 0) if len(item.path) > 1 else 0
        return item.total_ns < _NEARLY_ALL * around_ns or not around_ns < _STEP * whole_ns

    outer = [
        row
        for row, item in enumerate(phases)
        if len(item.path) <= _DEPTH and item.total_ns and (len(item.path) < 2 or is_new(item))
    ]
    longest = sorted(outer, key=lambda row: -phases[row].total_ns)[:_PHASES]
    return [phases[row] for row in sorted(longest)]


def _phase_width(item: Phase) -> int:
    name = item.path[-1] if item.path else "outside of all ranges"
    return 2 * max(len(item.path) - 1, 0) + display_width(name)
