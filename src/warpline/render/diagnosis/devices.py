"""The breakdown of each GPU's time, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpline.render.diagnosis.lines import BOLD, DIM, GAP, Lines
from warpline.render.escaping import display_width, pad, shorten
from warpline.result import Breakdown, Diagnosis, Part, PartKind, StepSummary
from warpline.result.shares import (
    GROUPS,
    apportion,
    counted,
    group_of,
    group_sums,
    part_shares,
    tenths,
    tenths_of_percent,
)
from warpline.units import format_ns, plural


class _Look(NamedTuple):
    """How the bar shows a group of parts."""

    sign: str
    ascii_sign: str
    color: str


_LOOKS = {
    "compute": _Look("█", "#", "\x1b[32m"),
    "communication": _Look("▓", "=", "\x1b[35m"),
    "copies": _Look("▒", "-", "\x1b[36m"),
    "idle": _Look("░", ".", "\x1b[33m"),
}

_LABEL = 20
_DEVICES = 2  # up to this many get a full breakdown; of more, only the slowest
_GLANCE = 80  # columns: narrower, the table of many GPUs abbreviates its heads
_LEAST_TENTHS = 1  # parts below 0.1% share a line
_LEAST_MEANING = 15  # columns: narrower, the meaning would break within words
_LEFT = len(GAP) + _LABEL
_KINDS: tuple[PartKind, ...] = ("busy", "idle")
# How libraries spell their names; the others are words of ours.
_LIBRARIES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cutlass": "CUTLASS",
    "cufft": "cuFFT",
    "curand": "cuRAND",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "cub": "CUB",
    "tensorrt": "TensorRT",
    "flash-attention": "FlashAttention",
    "nccl": "NCCL",
    "rccl": "RCCL",
    "nvshmem": "NVSHMEM",
    "deepep": "DeepEP",
    "rocm": "ROCm",
    "triton": "Triton",
    "xla": "XLA",
    "library": "other libraries",
    "user": "user code",
}


def devices(lines: Lines, diagnosis: Diagnosis) -> Iterator[Iterator[str]]:
    """Yield the lines of each GPU; of many, one line each and the breakdown of the slowest."""
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
    title = _device_title(item) + _spread(item, steps)
    yield from lines.wrapped(title, "", GAP, style=BOLD)
    yield GAP + _bar(lines, parts, total_ns, lines.width - 2 * len(GAP))
    yield from _legend(lines, parts, total_ns)
    per = max(item.count, 1)
    shares = part_shares(parts, total_ns)
    heads = (f"{'per step' if item.count else 'time':>9}", f"{'share':>7}")
    yield lines.styled(f"{GAP}{' ' * _LABEL}{GAP}{GAP.join(heads)}", DIM)
    for kind in _KINDS:
        rows = [row for row, part in enumerate(parts) if part.kind == kind]
        if rows:
            yield from _kind(lines, kind, [(parts[row], shares[row]) for row in rows], per)
    if item.origins:
        yield from lines.wrapped(f"Busy time by library: {_origins(item, total_ns)}", GAP, GAP * 2)
    if aside:
        yield from lines.wrapped(
            f"Excluded from shares: {format_ns(aside)} before the first and after the last"
            " operation",
            GAP,
            GAP * 2,
            style=DIM,
        )


def _kind(
    lines: Lines, kind: PartKind, rows: Sequence[tuple[Part, int]], per: int
) -> Iterator[str]:
    """Yield total busy or idle time and its parts; parts that round to 0.0% share a line."""
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
    label = lines.styled(label, BOLD if is_sum else _LOOKS[group_of(part)].color)
    numbers = f"{format_ns(part.ns / per):>9}{GAP}{tenths(share):>7}"
    left = _LEFT + len(GAP) + 18 + len(GAP)
    text = lines.broken(part.meaning, max(lines.width - left, _LEAST_MEANING))
    yield f"{indent}{label}{GAP}{numbers}{GAP}{text[0]}"
    yield from (" " * left + line for line in text[1:])


def _bar(lines: Lines, parts: Sequence[Part], total_ns: int, width: int) -> str:
    cells = apportion(group_sums(parts), total_ns, width)
    return "".join(
        lines.styled(_sign(lines, group) * count, _LOOKS[group].color)
        for group, count in zip(GROUPS, cells, strict=True)
        if count
    )


def _legend(lines: Lines, parts: Sequence[Part], total_ns: int) -> Iterator[str]:
    """Yield the legend of the bar, in as many lines as the screen needs."""
    shares = tenths_of_percent(group_sums(parts), total_ns)
    used, texts = 0, list[str]()
    for group, share in zip(GROUPS, shares, strict=True):
        if not share and group not in {"compute", "idle"}:
            continue
        label = f" {group} {tenths(share)}"
        size = len(GAP * 2) + 1 + len(label)
        if texts and used + size > lines.width + len(GAP):
            yield GAP + (GAP * 2).join(texts)
            used, texts = 0, []
        texts.append(lines.styled(_sign(lines, group), _LOOKS[group].color) + label)
        used += size
    yield GAP + (GAP * 2).join(texts)


def _devices_at_a_glance(lines: Lines, every: Sequence[Breakdown]) -> Iterator[str]:
    labels = [device_label(item) for item in every]
    is_narrow = lines.width < _GLANCE
    heads = ("step", *("comm." if is_narrow and len(group) > 7 else group for group in GROUPS))
    sizes = [9, *(max(7, len(head)) for head in heads[1:])]
    room = lines.width - sum(sizes) - len(GAP) * len(sizes)
    width = min(max(map(display_width, labels)), max(room, 12))
    texts = [f"{head:>{size}}" for head, size in zip(heads, sizes, strict=True)]
    yield lines.styled(GAP.join((pad("GPUs", width), *texts)), BOLD)
    for item, label in zip(every, labels, strict=True):
        parts, _ = counted(item)
        total_ns = sum(part.ns for part in parts)
        shares = tenths_of_percent(group_sums(parts), total_ns)
        cells = [format_ns(total_ns / max(item.count, 1)), *map(tenths, shares)]
        right = (f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=True))
        name = shorten(lines.clean(label), width, lines.ellipsis)
        yield GAP.join((pad(name, width), *right))


def _sign(lines: Lines, group: str) -> str:
    look = _LOOKS[group]
    return look.sign if lines.unicode else look.ascii_sign


def device_label(item: Breakdown) -> str:
    """Return the name of a GPU, with its rank and process where known."""
    name = f" {item.device_name}" if item.device_name else ""
    process = "" if item.process is None else f", process {item.process}"
    rank = "" if item.rank is None else f", rank {item.rank}"
    return f"GPU {item.device}{name}{rank}{process}"


def _origins(item: Breakdown, total_ns: int) -> str:
    """Return the libraries that kept the GPU busy, with shares of the time; below 0.1% omitted."""
    shares = {name: round(1000 * ns / total_ns) for name, ns in item.origins.items()}
    listed = [f"{_library(name)} {tenths(share)}" for name, share in shares.items() if share]
    return ", ".join(listed) or _library(next(iter(item.origins)))


def _library(origin: str) -> str:
    return _LIBRARIES.get(origin, origin)


def _device_title(item: Breakdown) -> str:
    if not item.count:
        worked_ns = sum(part.ns for part in counted(item)[0])
        return f"{device_label(item)}: {format_ns(worked_ns)} from first to last GPU operation"
    mean = format_ns(item.total_ns / item.count)
    if item.count == 1:
        return f"{device_label(item)}: 1 step of {mean}"
    return f"{device_label(item)}: {plural(item.count, 'step')}, mean {mean}"


def _spread(item: Breakdown, steps: StepSummary | None) -> str:
    if item.count < 2 or steps is None or steps.median_ns is None or steps.p95_ns is None:
        return ""
    return f" (median {format_ns(steps.median_ns)}, p95 {format_ns(steps.p95_ns)})"
