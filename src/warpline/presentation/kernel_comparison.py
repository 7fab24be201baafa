"""How a comparison of profiled kernels is presented: verdict, times, then metrics and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Fit,
    Head,
    Items,
    Line,
    Presentation,
    Row,
    Section,
    Table,
)
from warpline.presentation.comparison import environment_items, limits_section, signed_ns
from warpline.presentation.kernel_names import short_names
from warpline.result.comparison import FindingDifference
from warpline.result.kernel_comparison import (
    CountedSide,
    KernelComparison,
    KernelDifference,
    MetricChange,
)
from warpline.units import (
    format_bytes,
    format_change,
    format_count,
    format_ns,
    format_ratio,
    plural,
)

_LEAST = 0.01  # relative difference of a metric that is shown; of a ratio, in points


def screen(comparison: KernelComparison) -> Presentation:
    """Return what a terminal shows."""
    return _presentation(comparison, rows=12, kernels=3)


def markdown(comparison: KernelComparison) -> Presentation:
    """Return what Markdown shows, for a pull request."""
    return _presentation(comparison, rows=30, kernels=10, has_warnings=True)


def _presentation(
    comparison: KernelComparison, *, rows: int, kernels: int, has_warnings: bool = False
) -> Presentation:
    names = short_names(name for item in comparison.kernels for name in _names(item))
    detailed = [item for item in comparison.kernels if item.before and item.after]
    blocks = (
        Head(
            title=comparison.title,
            ended="",
            verdict=comparison.sentence,
            advice="",
            warnings=comparison.warnings if has_warnings else (),
        ),
        Line(
            f"Before: {_side(comparison.before)}. After: {_side(comparison.after)}.", is_faint=True
        ),
        *_times(comparison.kernels, rows, names),
        *(section for item in detailed[:kernels] for section in _kernel(item, names)),
        *environment_items(comparison.environment),
        *limits_section(comparison.limits),
    )
    return Presentation(blocks, (*comparison.before.paths, *comparison.after.paths))


def _names(item: KernelDifference) -> Sequence[str]:
    return [name for side in (item.before, item.after) if side for name in side.names]


def _side(side: CountedSide) -> str:
    launches = plural(side.launches, "profiled launch", "profiled launches")
    runs = f" in {plural(side.runs, 'run')}" if side.runs > 1 else ""
    return f"{launches} of {plural(side.kernels, 'kernel')}{runs}"


def _times(
    items: Sequence[KernelDifference], most: int, names: Mapping[str, str]
) -> Iterator[Block]:
    """Yield the table of kernels: the time of a launch before and after."""
    if not items:
        return
    shown = items[:most]
    counts = [_counts(item) for item in shown]
    columns = (
        Column("change", width=9),
        Column("before", width=8, is_number=True),
        Column("after", width=8, is_number=True),
        Column("difference", short="diff", width=8, is_number=True),
        Column("launches", width=max(8, *map(len, counts)), is_number=True),
        Column("kernel", width=20, fit=Fit.CUT),
    )
    rows = tuple(
        Row(
            (
                Cell(item.change),
                *(Cell(format_ns(of.time_ns) if of else "-") for of in (item.before, item.after)),
                Cell(_relative(item)),
                Cell(count),
                Cell(_title(item, names), is_code=True),
            )
        )
        for item, count in zip(shown, counts, strict=True)
    )
    more = f", {len(shown)} of {len(items)}" if len(items) > len(shown) else ""
    title = f"Time of a launch{more}"
    yield Section(title, (Table(columns=columns, rows=rows, look="numbers"),))


def _counts(item: KernelDifference) -> str:
    old, new = (str(of.launches) if of else "0" for of in (item.before, item.after))
    return old if old == new else f"{old} to {new}"


def _relative(item: KernelDifference) -> str:
    return "" if item.ratio is None else format_change(item.ratio - 1)


def _title(item: KernelDifference, names: Mapping[str, str]) -> str:
    """Return the name, and what differs: another name, another shape."""
    old, new = item.before, item.after
    shown = new or old
    assert shown is not None
    said = names[shown.names[0]]
    if old is None or new is None:
        return f"{said} [{', '.join(shown.shapes)}]"
    if (was := names[old.names[0]]) != said:
        said += f" (was {was})"
    shapes = [", ".join(of.shapes) for of in (old, new)]
    return f"{said} [{shapes[0] if shapes[0] == shapes[1] else ' -> '.join(shapes)}]"


def _kernel(item: KernelDifference, names: Mapping[str, str]) -> Iterator[Section]:
    """Yield what changed in a kernel, if anything did."""
    blocks: list[Block] = []
    if item.low is not None and item.high is not None:
        bounds = f"{format_change(item.low - 1)} to {format_change(item.high - 1)}"
        blocks.append(
            Line(
                f"{_relative(item)} (95% interval {bounds}), {signed_ns(item.delta_ns)} per launch."
            )
        )
    rows = tuple(
        Row((Cell(of.label), Cell(_value(of, of.before)), Cell(_value(of, of.after))))
        for of in item.metrics
        if _differs(of)
    )
    if rows:
        columns = (
            Column("metric", width=24),
            Column("before", width=10, is_number=True),
            Column("after", width=10, is_number=True),
        )
        blocks.append(Table(columns=columns, rows=rows, look="numbers"))
    found = tuple((Cell(_finding(of)),) for of in item.findings if of.change != "same")
    if found:
        blocks.append(Items(found))
    if blocks:
        yield Section(_title(item, names), tuple(blocks))


def _finding(of: FindingDifference) -> str:
    known = [format_ns(ns) for ns in (of.before_saving_ns, of.after_saving_ns) if ns]
    saving = f", estimated saving {' -> '.join(known)} per launch" if known else ""
    return f"{of.change}: {of.title} ({of.rule}){saving}"


def _differs(of: MetricChange) -> bool:
    if of.before is None or of.after is None:
        return False
    scale = 1 if of.unit == "ratio" else max(abs(of.before), abs(of.after))
    return abs(of.after - of.before) > _LEAST * scale


def _value(of: MetricChange, value: float | None) -> str:
    if value is None:
        return "-"
    if of.unit == "ratio":
        return format_ratio(value)
    return format_bytes(value) if of.unit == "B" else format_count(round(value))
