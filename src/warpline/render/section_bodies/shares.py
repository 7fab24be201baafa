"""Bodies that are bars: shares of a peak or of a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.render.section_bodies.drawing import Drawing, bars, table

Items = Sequence[Mapping[str, Any]]
_MOST = 10  # of the largest
_LEAST = 0.0005  # what is less shows as 0.0%


def breakdown(throughputs: Items, drawing: Drawing) -> Iterator[str]:
    """Yield the largest parts of each throughput."""
    for throughput in throughputs:
        parts = _largest(throughput["breakdown"])
        if parts:
            yield f"{throughput['name']} throughput by part, of peak"
            yield from _bars_of(parts, "label", drawing)


def pipes(items: Items, drawing: Drawing) -> Iterator[str]:
    """Yield how busy each pipe was."""
    is_elapsed = all("elapsed" in item["metric"] for item in items)
    yield f"Pipes, of peak in {'elapsed' if is_elapsed else 'active'} cycles"
    yield from _bars_of(_largest(items), "name", drawing)


def warp_states(items: Items, drawing: Drawing) -> Iterator[str]:
    """Yield what warps wait for, with the cycles per instruction where they are known."""
    has_cycles = items[0]["cycles_per_instruction"] is not None
    yield "Warp states, cycles per issued instruction" if has_cycles else "Warp states, samples"
    rows = []
    for item in _largest(items):
        cycles = item["cycles_per_instruction"]
        texts = [drawing.number(item["ratio"], "ratio")]
        texts[:0] = [] if cycles is None else [drawing.number(float(cycles))]
        rows.append((item["label"], texts, item["ratio"]))
    yield from bars(rows, drawing)


def instructions(items: Items, drawing: Drawing) -> Iterator[str]:
    """Yield the most frequent instructions, with their share of those that were counted."""
    every = sum(item["executed"] for item in items)
    yield "Executed instructions"
    rows = []
    for item in items[:_MOST]:
        share = item["executed"] / every
        texts = [drawing.number(item["executed"]), drawing.number(share, "ratio")]
        rows.append((item["opcode"], texts, share))
    yield from bars(rows, drawing)


def scheduler(items: Items, drawing: Drawing) -> Iterator[str]:
    """Yield the warps of a scheduler, from the most possible to the issued ones."""
    warps = [item for item in items if item["unit"] != "ratio" and item["value"] is not None]
    most = max((item["value"] for item in warps), default=0)
    if most:
        yield "Warps per scheduler"
        yield from bars(
            [
                (item["label"], [drawing.number(float(item["value"]))], item["value"] / most)
                for item in warps
            ],
            drawing,
        )


def workload(items: Items, drawing: Drawing) -> Iterator[str]:
    """Yield the active cycles of the units of each kind."""
    yield "Active cycles"
    rows = []
    for item in items:
        cycles = [item[of] for of in ("min", "avg", "max")]
        shown = [None if of is None else round(of) for of in cycles]
        mean, most = cycles[1:]
        imbalance = most / mean if mean and most is not None else None
        texts = [*map(drawing.number, shown), drawing.number(imbalance)]
        rows.append((item["unit"], *texts))
    yield from table(("Unit", "Minimum", "Average", "Maximum", "Max / Avg"), rows)


def _bars_of(items: Items, label: str, drawing: Drawing) -> Iterator[str]:
    rows = [
        (item[label], [drawing.number(item["ratio"], "ratio")], item["ratio"]) for item in items
    ]
    yield from bars(rows, drawing)


def _largest(items: Items) -> Items:
    """Return the first of ranked items, without those that show as 0, but at least one."""
    if all(item["ratio"] is None for item in items):
        return items[:_MOST]
    return [item for item in items[:_MOST] if (item["ratio"] or 0) >= _LEAST] or items[:1]
