"""A part of the timeline as one SVG image, for papers, pull requests and mail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import F64, I64
from warpline.result import source_name
from warpline.trace import Run
from warpline.units import format_bytes, format_ns, plural
from warpline.viewer.chosen import Chosen
from warpline.viewer.markup import Markup, element
from warpline.viewer.names import CATEGORIES, Names
from warpline.viewer.pack import timeline_rows
from warpline.viewer.page import assets
from warpline.viewer.rows import Events, Row

_WIDTH, _LABELS, _MARGIN = 1200, 210, 8
_PLOT = _WIDTH - _LABELS - _MARGIN
_TITLE, _RULER = 26, 22
_HEIGHTS = {"group": 20, "state": 22, "counter": 34}
_HEIGHT = 17  # of the other rows
_GAP = 2
_MOST_ROWS = 60
_LETTER = 6.4  # mean width of a letter in pixels
_LEAST_LABEL = 26  # pixels
_LEAST_TIP = 3
_TICKS = 8
_INDENT = 10
_LEGEND = 18
_LEGEND_ITEM = 180
_COLOR = re.compile(r"--wl-(part|on|pale)-([a-z0-9-]+):([^;}]+)")
_NO_XML = re.compile("[\ufffe\uffff]")
_STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#16202a}"
    ".title{font-size:13px;font-weight:600}.group{font-weight:600}.faint{fill:#55626f}"
    ".line{stroke:#e3e8ed}"
)
_OTHER_COLOR = "#7d9bb5"


class _Colors:
    """The colors of the page's light theme, by category."""

    def __init__(self) -> None:
        light = assets().styles[1].split("}", 1)[0]
        self._css: dict[tuple[str, str], str] = {
            (kind, name): value for kind, name, value in _COLOR.findall(light)
        }

    def fill(self, category: int) -> str:
        """Return the color of a category; pale for idle time."""
        name = _slug(category)
        kind = "pale" if CATEGORIES[category].kind == "idle" else "part"
        return self._css.get((kind, name), _OTHER_COLOR)

    def ink(self, category: int) -> str:
        """Return the color of a text on it."""
        is_idle = CATEGORIES[category].kind == "idle"
        return "#16202a" if is_idle else self._css.get(("on", _slug(category)), "#000")


def _slug(category: int) -> str:
    return re.sub(r"[^a-z0-9]", "-", CATEGORIES[category].name.lower())


class _Scale(NamedTuple):
    """The time of the picture and its place on the page."""

    start_ns: int
    end_ns: int

    @property
    def pixel_ns(self) -> float:
        """The time of one pixel."""
        return (self.end_ns - self.start_ns) / _PLOT

    def x(self, time_ns: I64) -> F64:
        """Return the places of times, clipped to the plot."""
        inside = np.clip(time_ns, self.start_ns, self.end_ns) - self.start_ns
        place: F64 = _LABELS + inside.astype(np.float64) / self.pixel_ns
        return place


def picture(run: Run, chosen: Chosen) -> str:
    """Return the SVG of a time range: valid XML that needs no other file.

    Args:
        run: The trace, and the choice of its steps.
        chosen: The time range.
    """
    names = Names(run.trace.strings)
    rows = _in_view(tuple(timeline_rows(run, names)), chosen)
    painter = _Painter(names, _Scale(chosen.start_ns, chosen.end_ns))
    y = float(_TITLE + _RULER)
    parts: list[Markup] = []
    for row in rows[:_MOST_ROWS]:
        height = _HEIGHTS.get(row.kind, _HEIGHT)
        parts.extend(painter.row(row, rows, y, height))
        y += height + _GAP
    bottom = y
    notes = []
    if len(rows) > _MOST_ROWS:
        notes.append(f"{plural(len(rows) - _MOST_ROWS, 'row')} more in this time range")
    legend = list(painter.legend(y + 4))
    y += _LEGEND * -(-len(painter.shares) // (_PLOT // _LEGEND_ITEM)) + 8
    for note in notes:
        parts.append(_text(_LABELS, y + 12, note, class_="faint"))
        y += _LEGEND
    title = f"{source_name(run.trace.meta.paths)} · {chosen.title}"
    head = [
        element("title", title),
        Markup(f"<style>{_STYLE}</style>"),
        element("rect", width=str(_WIDTH), height=_number(y), fill="#ffffff"),
        _text(_MARGIN, 17, _short(title, _WIDTH), class_="title"),
    ]
    ruler = list(_ruler(chosen, bottom))
    drawing = element(
        "svg",
        head,
        ruler,
        parts,
        legend,
        xmlns="http://www.w3.org/2000/svg",
        width=str(_WIDTH),
        height=_number(y),
        viewBox=f"0 0 {_WIDTH} {_number(y)}",
        role="img",
    )
    return _NO_XML.sub("\ufffd", drawing) + "\n"


def _in_view(rows: Sequence[Row], chosen: Chosen) -> list[Row]:
    """Return the rows with events in the time range, and their groups.

    Rows in collapsed groups and counters that are always 0 are left out, as on the page at first.
    """
    by_id = {row.id: row for row in rows}

    def ancestors(row: Row) -> Iterator[Row]:
        above = by_id.get(row.parent or "")
        while above is not None:
            yield above
            above = by_id.get(above.parent or "")

    wanted: set[str] = set()
    for row in rows:
        if any(above.is_collapsed for above in ancestors(row)) or not len(row.events):
            continue
        first, last = _inside(row, chosen.start_ns, chosen.end_ns)
        value = row.events.value
        if first < last and (value is None or value.max() > 0):
            wanted |= {row.id, *(above.id for above in ancestors(row))}
    return [row for row in rows if row.id in wanted]


def _inside(row: Row, start_ns: int, end_ns: int) -> tuple[int, int]:
    """Return the events ``[first, last)`` of a row that overlap a time range.

    A sample of a counter is valid until the next.
    """
    last = int(np.searchsorted(row.events.start_ns, end_ns))
    if row.kind == "counter":
        first = int(np.searchsorted(row.events.start_ns, start_ns, side="right")) - 1
        return max(first, 0), last
    ends = np.searchsorted(row.events.end_ns, [start_ns, start_ns + 1])
    # An instant at the start is inside.
    first = int(ends[0 if row.kind == "mark" else 1])
    return first, max(first, last)


class _Painter:
    """Draws rows, and adds up the time by category of the state rows."""

    def __init__(self, names: Names, scale: _Scale) -> None:
        content = names.content()
        self._texts: Sequence[str] = content["texts"]
        self._labels: Sequence[str | None] = content["labels"]
        self._categories = names.categories()
        self._scale, self._colors = scale, _Colors()
        self.shares: dict[int, float] = {}

    def row(self, row: Row, rows: Sequence[Row], y: float, height: int) -> Iterator[Markup]:
        """Yield the label of a row and its events."""
        depth = _depth(row, {one.id: one for one in rows})
        x = _MARGIN + _INDENT * depth
        is_group = row.kind == "group"
        label = "" if row.depth else _short(row.label, _LABELS - x)
        style = {"class_": "group"} if is_group else {}
        yield _text(x, y + height - 5, label, **style)
        if is_group:
            return
        yield element(
            "line",
            class_="line",
            x1=str(_LABELS),
            x2=str(_LABELS + _PLOT),
            y1=_number(y + height + 1),
            y2=_number(y + height + 1),
        )
        first, last = _inside(row, self._scale.start_ns, self._scale.end_ns)
        events = row.events.taken(slice(first, last)).loaded()
        if row.kind == "counter":
            yield from self._counter(row, events, y, height)
        else:
            yield from self._events(row, events, y, height)

    def _events(self, row: Row, events: Events, y: float, height: int) -> Iterator[Markup]:
        left, right = self._scale.x(events.start_ns), self._scale.x(events.end_ns)
        category = self._categories[events.name]
        if row.kind == "state":
            for each in np.unique(category).tolist():
                ns = float((right - left)[category == each].sum()) * self._scale.pixel_ns
                self.shares[each] = self.shares.get(each, 0.0) + ns
        is_wide = right - left >= 1
        if row.kind == "mark":
            is_wide[:] = True
        yield from self._narrow(
            left[~is_wide], right[~is_wide], category[~is_wide], y=y, height=height
        )
        for place in np.flatnonzero(is_wide).tolist():
            name = int(events.name[place])
            length = int(events.end_ns[place] - events.start_ns[place])
            x, width = float(left[place]), max(float(right[place] - left[place]), 1.0)
            yield self._event(name, length, (x, width), y, height)

    def _event(
        self, name: int, length_ns: int, place: tuple[float, float], y: float, height: int
    ) -> Markup:
        x, width = place
        category = int(self._categories[name])
        has_tip = width >= _LEAST_TIP
        shape = element(
            "rect",
            element("title", f"{self._texts[name]}: {format_ns(length_ns)}") if has_tip else None,
            x=_number(x),
            y=_number(y),
            width=_number(width - 0.3 if width > 2 else width),
            height=str(height),
            fill=self._colors.fill(category),
        )
        if width < _LEAST_LABEL:
            return shape
        said = _short(self._labels[name] or self._texts[name], width - 4)
        ink = self._colors.ink(category)
        return Markup(shape + _text(x + 3, y + height - 5, said, style=f"fill:{ink}"))

    def _narrow(
        self, left: F64, right: F64, category: I64, *, y: float, height: int
    ) -> Iterator[Markup]:
        """Yield bars for events below a pixel: as high as their share of its time."""
        if not len(left):
            return
        pixel = np.minimum(((left + right) / 2 - _LABELS).astype(np.int64), _PLOT - 1)
        width = len(CATEGORIES)
        shares = np.bincount(pixel * width + category, right - left, _PLOT * width)
        touched = np.bincount(pixel, minlength=_PLOT)
        shares = shares.reshape(_PLOT, width)
        main, total = shares.argmax(axis=1), shares.sum(axis=1)
        first = np.zeros(_PLOT, np.int64)
        first[pixel[::-1]] = category[::-1]
        for place in np.flatnonzero(touched).tolist():
            share = min(float(total[place]), 1.0)
            tall = max(share * height, 1.0)
            own = int(main[place]) if share > 0 else int(first[place])
            yield element(
                "rect",
                x=str(_LABELS + place),
                y=_number(y + height - tall),
                width="1",
                height=_number(tall),
                fill=self._colors.fill(own),
            )

    def _counter(self, row: Row, events: Events, y: float, height: int) -> Iterator[Markup]:
        value, whole = events.value, row.events.value
        if value is None or whole is None or not len(value):
            return
        highest = float(whole.max())
        # One step per pixel: the highest value that begins in it.
        pixel = (self._scale.x(events.start_ns) - _LABELS).astype(np.int64).clip(0, _PLOT - 1)
        places, starts = np.unique(pixel, return_index=True)
        tops = np.maximum.reduceat(np.maximum(value, 0.0), starts)
        bottom = y + height
        ends = np.append(places[1:], _PLOT).tolist()
        path = _steps(places.tolist(), ends, (height - 12) * tops / highest, bottom)
        yield element("path", d=path, fill="#2a72c2", fill_opacity="0.2", stroke="#2a72c2")
        peak = format_bytes(float(value.max())) if row.unit == "bytes" else f"{value.max():g}"
        yield _text(_LABELS + 3, y + 9, f"peak {peak}", class_="faint")

    def legend(self, y: float) -> Iterator[Markup]:
        """Yield the categories of the state rows, longest first, each with its time."""
        columns = _PLOT // _LEGEND_ITEM
        order = sorted(self.shares, key=lambda each: -self.shares[each])
        for number, each in enumerate(order):
            x = _LABELS + _LEGEND_ITEM * (number % columns)
            at = y + _LEGEND * (number // columns)
            said = f"{TimePart.at(each).label} {format_ns(round(self.shares[each]))}"
            square = {"x": str(x), "y": _number(at), "width": "11", "height": "11"}
            yield element("rect", fill=self._colors.fill(each), **square)
            yield _text(x + 15, at + 10, said)


def _steps(first: Sequence[int], last: Sequence[int], tall: F64, bottom: float) -> str:
    """Return the path of a step curve above a bottom line."""
    path = f"M{_LABELS + first[0]} {_number(bottom)}"
    for begin, end, top in zip(first, last, tall.tolist(), strict=True):
        level = _number(bottom - top)
        path += f"L{_LABELS + begin} {level}H{_LABELS + end}"
    return f"{path}V{_number(bottom)}Z"


def _depth(row: Row, by_id: dict[str, Row]) -> int:
    depth = 0
    while row.parent is not None and row.parent in by_id:
        row, depth = by_id[row.parent], depth + 1
    return depth


def _ruler(chosen: Chosen, bottom: float) -> Iterator[Markup]:
    """Yield the ticks, with times from the origin of the time range."""
    scale = _Scale(chosen.start_ns, chosen.end_ns)
    step = _tick_ns(chosen.end_ns - chosen.start_ns)
    yield _text(_MARGIN, _TITLE + 13, chosen.origin, class_="faint")
    first = -(-(chosen.start_ns - chosen.origin_ns) // step)
    last = (chosen.end_ns - chosen.origin_ns) // step
    unit_ns, unit = next(each for each in _UNITS if step >= each[0] or each[0] == 1)
    for number in range(first, last + 1):
        time_ns = number * step
        x = float(scale.x(np.array([time_ns + chosen.origin_ns]))[0])
        ends = {"x1": _number(x), "x2": _number(x), "y1": str(_TITLE + 16)}
        yield element("line", class_="line", y2=_number(bottom), **ends)
        if x <= _WIDTH - 40:
            yield _text(x + 2, _TITLE + 13, f"{time_ns / unit_ns:g} {unit}", class_="faint")


_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))


def _tick_ns(length_ns: int) -> int:
    """Return a distance of ticks: 1, 2 or 5 times a power of 10."""
    least = max(length_ns / _TICKS, 1.0)
    power = 10 ** int(np.floor(np.log10(least)))
    return next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= least)


def _text(x: float, y: float, said: str, **attributes: str) -> Markup:
    return element("text", said, x=_number(x), y=_number(y), **attributes)


def _short(said: str, pixels: float) -> str:
    """Return the beginning of a text that fits."""
    most = max(int(pixels / _LETTER), 1)
    return said if len(said) <= most else f"{said[: most - 1]}…"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
