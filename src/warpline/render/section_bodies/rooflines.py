"""The roofline as tables: points, ceilings and what bounds the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from warpline.render.section_bodies.drawing import Drawing, table

_SOURCES = {
    "clock": "At This Clock",
    "nominal": "Data Sheet",
    "measured": "Measured",
    "measured_clock": "Measured, At This Clock",
}
_TERA = 1e12


def roofline(of: Mapping[str, Any], drawing: Drawing) -> Iterator[str]:
    """Yield a row for each point and each ceiling, and the bound."""
    is_measured = any(point["measured_ratio"] is not None for point in of["points"])
    points = [
        (
            point["name"],
            point["level"],
            drawing.number(point["flop_per_byte"]),
            _rate(point["flop_per_s"], drawing),
            _rate(point["ceiling_flop_per_s"], drawing),
            drawing.number(point["ratio"], "ratio"),
            *([drawing.number(point["measured_ratio"], "ratio")] if is_measured else []),
            point["governed_by"] or "-",
        )
        for point in of["points"]
    ]
    if points:
        unit = "TFLOP/s" if drawing.is_scaled else "FLOP/s"
        headings = ["Memory", "FLOP/B", unit, "Ceiling", "Of Ceiling", "Governed by"]
        headings[-1:-1] = ["Of Measured"] if is_measured else []
        yield from table(("Precision", *headings), points)
    else:
        yield "No FLOP were counted."
    yield ""
    yield from _ceilings(of["ceilings"], drawing)
    if of["bound"]:
        yield f"Bound: {of['bound']}"


def _ceilings(ceilings: list[Mapping[str, Any]], drawing: Drawing) -> Iterator[str]:
    """Yield a table with a column for each source of ceilings."""
    sources = [source for source in _SOURCES if any(of["source"] == source for of in ceilings)]
    rates: dict[str, dict[str, str]] = {}
    for of in ceilings:
        is_memory = of["kind"] == "bandwidth"
        rate = of["bytes_per_s"] if is_memory else of["flop_per_s"]
        if is_memory:
            text = drawing.number(rate, "byte/s")
        else:
            text = _rate(rate, drawing) + (" TFLOP/s" if drawing.is_scaled else "")
        rates.setdefault(of["name"], {})[of["source"]] = text
    rows = [
        (name, *(by_source.get(source, "-") for source in sources))
        for name, by_source in rates.items()
    ]
    if rows:
        yield from table(("Ceiling", *(_SOURCES[source] for source in sources)), rows)


def _rate(flop_per_s: float | None, drawing: Drawing) -> str:
    if flop_per_s is None or not drawing.is_scaled:
        return drawing.number(flop_per_s)
    return drawing.number(flop_per_s / _TERA)
