"""Writes a table of a presentation as text: labels, then numbers, then a text that may wrap."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation import Column, Fit, Row, Table
from warpline.render.diagnosis.bars import color_of
from warpline.render.diagnosis.lines import BOLD, DIM, GAP, Lines
from warpline.render.escaping import display_width, pad, shorten

_GLANCE = 80  # columns: narrower, headings are abbreviated
_LEAST_LABEL = 12


def table_lines(lines: Lines, table: Table, indent: str) -> Iterator[str]:
    """Yield the headings, if there are any, and the rows.

    Args:
        lines: The screen.
        table: The table.
        indent: Before each row. Rows below a title are indented, too.
    """
    layout = _Layout(lines, table, GAP if table.title else indent)
    if any(column.heading for column in table.columns):
        yield lines.styled(layout.heads(), DIM if indent else BOLD)
    for row in table.rows:
        yield from layout.row(row)


class _Layout:
    """The widths of the columns: a label, numbers, and a last text, each of them optional.

    Numbers have fixed widths. The label gets what the numbers and the last text leave.
    """

    def __init__(self, lines: Lines, table: Table, indent: str) -> None:
        self._lines, self._table, self._indent = lines, table, indent
        self._has_sums = any(row.is_sum for row in table.rows)
        columns = list(table.columns)
        self._label = None if columns[0].is_number else columns.pop(0)
        self._last = None if not columns or columns[-1].is_number else columns.pop()
        self._heads = [self._heading(column) for column in columns]
        widths = (max(column.width, len(self._heading(column))) for column in columns)
        self._widths = list(widths)
        numbers = sum(width + len(GAP) for width in self._widths)
        if self._label is not None:
            self._label_width = self._width_of(self._label, lines.width - len(indent) - numbers)
            numbers += self._label_width + len(GAP)
        self._left = len(indent) + numbers  # of the last text
        self._has_last = self._last is not None and self._has_room(self._last)

    def heads(self) -> str:
        """Return the headings; a title stands in place of the label's, without indentation."""
        parts = self._numbers(self._heads)
        indent = "" if self._table.title else self._indent
        if self._label is not None:
            title = self._table.title or self._label.heading
            parts.insert(0, pad(title, self._label_width + len(self._indent) - len(indent)))
        if self._last is not None and self._has_last:
            parts.append(self._last.heading)
        return (indent + GAP.join(parts)).rstrip()

    def row(self, row: Row) -> Iterator[str]:
        """Yield the lines of a row: more than one if its last text wraps."""
        texts = [self._lines.clean(cell.text) for cell in row.cells]
        label = [] if self._label is None else [self._label_of(row, texts.pop(0))]
        last = texts.pop() if self._last is not None else ""
        line, *more = self._broken(last)
        yield self._indent + GAP.join([*label, *self._numbers(texts), line])
        yield from (" " * self._left + each for each in more)

    def _heading(self, column: Column) -> str:
        is_short = column.short and self._lines.width < _GLANCE
        return column.short if is_short else column.heading

    def _width_of(self, label: Column, room: int) -> int:
        """Return the width of the label, given the room for it and the last text."""
        if label.fit is Fit.KEEP:
            return label.width
        if self._last is not None:
            room -= len(GAP) + self._last.width
        depth = (row.depth if self._table.is_tree else 0 for row in self._table.rows)
        texts = (self._lines.clean(row.cells[0].text) for row in self._table.rows)
        longest = max(map(display_width, map(str.__add__, map(GAP.__mul__, depth), texts)))
        return max(label.width, min(longest, max(room, _LEAST_LABEL)))

    def _has_room(self, last: Column) -> bool:
        """Return whether the last text is shown: whole, or in the way its column says."""
        if last.fit is not Fit.DROP:
            return True
        texts = (last.heading, *(row.cells[-1].text for row in self._table.rows))
        return self._left + max(map(len, texts)) <= self._lines.width

    def _label_of(self, row: Row, text: str) -> str:
        depth = int(self._has_sums and not row.is_sum) + (row.depth if self._table.is_tree else 0)
        label, width = GAP * depth + text, self._label_width
        if self._label is not None and self._label.fit is Fit.SHORTEN:
            label = shorten(label, width, self._lines.ellipsis)
        style = BOLD if row.is_sum else "" if row.part is None else color_of(row.part)
        return GAP * depth + self._lines.styled(pad(label, width)[len(GAP * depth) :], style)

    def _numbers(self, texts: list[str]) -> list[str]:
        return [f"{text:>{width}}" for text, width in zip(texts, self._widths, strict=True)]

    def _broken(self, text: str) -> list[str]:
        """Return the last text in lines."""
        if self._last is None or not self._has_last:
            return [""]
        room = self._lines.width - self._left
        if self._last.fit is Fit.WRAP:
            return self._lines.broken(text, max(room, self._last.width))
        width = max(room - len(GAP), self._last.width)
        return [self._lines.cut(text, width) if self._last.fit is Fit.CUT else text]
