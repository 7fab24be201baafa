"""Where the time of each device went, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpline.render.diagnosis.lines import BOLD, DIM, GAP, Lines
from warpline.render.diagnosis.shares import (
    COMPUTE,
    GROUPS,
    IDLE,
    Group,
    apportion,
    counted,
    group_of,
    group_sums,
    part_shares,
    tenths,
    tenths_of_percent,
)
from warpline.render.escaping import display_width, pad, shorten
from warpline.result import Breakdown, Diagnosis, Part, PartKind, StepSummary
from warpline.units import format_ns, plural

_LABEL = 20
_DEVICES = 2  # shown with all of their parts; of more, the slowest
_LEAST_TENTHS = 1  # parts of less than 0.1% share a line
_LEFT = len(GAP) + _LABEL
_KINDS: tuple[PartKind, ...] = ("busy", "idle")


def devices(lines: Lines, diagnosis: Diagnosis) -> Iterator[Iterator[str]]:
    """Yield the lines of each device: of many, a line each and all parts of the slowest."""
    every = diagnosis.breakdown
    if len(every) <= _DEVICES:
        spread = diagnosis.steps if len(every) == 1 else None
        yield from (_device(lines, item, spread) for item in every)
        return
    yield _devices_at_a_glance(lines, every)
    slowest = max(every, key=lambda item: item.total_ns / max(item.count, 1))
    yield _device(lines, slowest, diagnosis.steps)


def _device(lines: Lines, item: Breakdown, steps: StepSummary | None) -> Iterator[str]:
    parts, aside = counted(item)
    total_ns = sum(part.ns for part in parts)
    title, spread = lines.clean(_device_title(item)), _spread(item, steps)
    fits = display_width(title + spread) <= lines.width
    yield lines.styled(lines.fit(title + spread if fits else title), BOLD)
    yield GAP + _bar(lines, parts, total_ns, lines.width - 2 * len(GAP))
    yield _legend(lines, parts, total_ns)
    per = max(item.count, 1)
    shares = part_shares(parts, total_ns)
    heads = (f"{'per step' if item.count else 'time':>9}", f"{'share':>7}")
    yield lines.styled(f"{GAP}{' ' * _LABEL}{GAP}{GAP.join(heads)}", DIM)
    for kind in _KINDS:
        rows = [row for row, part in enumerate(parts) if part.kind == kind]
        if rows:
            yield from _kind(lines, kind, [(parts[row], shares[row]) for row in rows], per)
    if item.origins:
        yield from lines.wrapped(f"busy with code of: {_origins(item, total_ns)}", GAP)
    if aside:
        yield from lines.wrapped(
            f"not in these shares: {format_ns(aside)} before the first operation and after the"
            " last",
            GAP,
            style=DIM,
        )


def _kind(
    lines: Lines, kind: PartKind, rows: Sequence[tuple[Part, int]], per: int
) -> Iterator[str]:
    """Yield the sum of busy or idle time and its parts; tiny ones share a line."""
    total = Part(kind, kind, sum(part.ns for part, _ in rows))
    yield from _part(lines, total, per, sum(share for _, share in rows), is_sum=True)
    small = [row for row in rows if row[1] < _LEAST_TENTHS]
    shown = [row for row in rows if row not in small] if len(small) > 1 else rows
    for part, share in shown:
        yield from _part(lines, part, per, share)
    if len(small) > 1:
        ns = sum(part.ns for part, _ in small)
        names = ", ".join(part.category for part, _ in small)
        rest = Part(f"{len(small)} others", kind, ns, names)
        yield from _part(lines, rest, per, sum(share for _, share in small))


def _part(lines: Lines, part: Part, per: int, share: int, *, is_sum: bool = False) -> Iterator[str]:
    indent = GAP if is_sum else GAP * 2
    label = pad(part.category, _LEFT - len(indent))
    label = lines.styled(label, BOLD if is_sum else group_of(part).color)
    numbers = f"{format_ns(part.ns / per):>9}{GAP}{tenths(share):>7}"
    left = _LEFT + len(GAP) + 18 + len(GAP)
    text = lines.broken(part.meaning, lines.width - left)
    yield f"{indent}{label}{GAP}{numbers}{GAP}{text[0]}"
    yield from (" " * left + line for line in text[1:])


def _bar(lines: Lines, parts: Sequence[Part], total_ns: int, width: int) -> str:
    cells = apportion(group_sums(parts), total_ns, width)
    return "".join(
        lines.styled(_sign(lines, group) * count, group.color)
        for group, count in zip(GROUPS, cells, strict=True)
        if count
    )


def _legend(lines: Lines, parts: Sequence[Part], total_ns: int) -> str:
    shares = tenths_of_percent(group_sums(parts), total_ns)
    return GAP + (GAP * 2).join(
        f"{lines.styled(_sign(lines, group), group.color)} {group.name} {tenths(share)}"
        for group, share in zip(GROUPS, shares, strict=True)
        if share or group in {COMPUTE, IDLE}
    )


def _devices_at_a_glance(lines: Lines, every: Sequence[Breakdown]) -> Iterator[str]:
    labels = [device_label(item) for item in every]
    width = min(max(map(display_width, labels)), max(lines.width - 62, 12))
    heads = ("step", *(group.name for group in GROUPS))
    sizes = [9, *(max(7, len(group.name)) for group in GROUPS)]
    texts = [f"{head:>{size}}" for head, size in zip(heads, sizes, strict=True)]
    yield lines.styled(GAP.join((pad("Devices", width), *texts)), BOLD)
    for item, label in zip(every, labels, strict=True):
        parts, _ = counted(item)
        total_ns = sum(part.ns for part in parts)
        shares = tenths_of_percent(group_sums(parts), total_ns)
        cells = [format_ns(total_ns / max(item.count, 1)), *map(tenths, shares)]
        right = (f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=True))
        name = shorten(lines.clean(label), width, lines.ellipsis)
        yield GAP.join((pad(name, width), *right))


def _sign(lines: Lines, group: Group) -> str:
    return group.sign if lines.unicode else group.ascii_sign


def device_label(item: Breakdown) -> str:
    """Return what tells a device and its process from others."""
    name = f" {item.device_name}" if item.device_name else ""
    process = "" if item.process is None else f", process {item.process}"
    rank = "" if item.rank is None else f", rank {item.rank}"
    return f"Device {item.device}{name}{rank}{process}"


def _origins(item: Breakdown, total_ns: int) -> str:
    """Return whose code ran, with shares of the time; what is below 0.1% is left out."""
    shares = {name: round(1000 * ns / total_ns) for name, ns in item.origins.items()}
    said = [f"{name} {tenths(share)}" for name, share in shares.items() if share]
    return ", ".join(said) or next(iter(item.origins))


def _device_title(item: Breakdown) -> str:
    if not item.count:
        worked_ns = sum(part.ns for part in counted(item)[0])
        return f"{device_label(item)}: {format_ns(worked_ns)} from first to last operation"
    mean = format_ns(item.total_ns / item.count)
    return f"{device_label(item)}: {plural(item.count, 'step')} of {mean}"


def _spread(item: Breakdown, steps: StepSummary | None) -> str:
    if not item.count or steps is None or steps.median_ns is None or steps.p95_ns is None:
        return ""
    return f" (median {format_ns(steps.median_ns)}, p95 {format_ns(steps.p95_ns)})"
