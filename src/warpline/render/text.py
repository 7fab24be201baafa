"""Text in aligned columns, for terminals and pipes.

A pipe gets everything, as plain text, in a stream. On a terminal, tables are fitted: names are
shortened, then columns are omitted from the right, and lines below list what is missing. Control
characters in names are escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from warpline.render import RENDERERS, Options, Renderer
from warpline.render.cells import NumberCells, TextCells, blocks, used_texts
from warpline.render.escaping import display_width, pad, shorten, visible, wrap
from warpline.render.layout import GAP, Slot, fit
from warpline.result import Document, Field, Result, Texts
from warpline.units import Unit, plural

_PADDED_WIDTH = 100  # in a pipe: longer cells overflow rather than widen every row
_GROUPED_UNITS = {Unit.NS, Unit.BYTES, Unit.BYTES_PER_S, Unit.COUNT}
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write every result of the document. The caller reports skipped tables."""
    results = [section for section in document.sections if isinstance(section, Result)]
    for index, result in enumerate(results):
        if index:
            out.write("\n")
        _Table(result, options).write(out)


class _Table:
    """One result, laid out for the given options."""

    def __init__(self, result: Result, options: Options) -> None:
        self._options = options
        self._on_terminal = options.width is not None
        self._ellipsis = "…" if options.unicode else "..."
        result = result.without_empty()
        self._hidden_rows = max(0, len(result) - options.row_limit) if options.row_limit else 0
        self._result = result.head(len(result) - self._hidden_rows) if self._hidden_rows else result
        self._fields = {field.name: field for field in _names_last(self._result)}
        self._widths = self._lay_out()
        self._last = next(reversed(self._widths), None)

    def write(self, out: TextIO) -> None:
        """Write title, headings, rows and remarks."""
        out.write(self._styled(self._show(f"{self._result.title} ({self._result.name})"), _BOLD))
        out.write("\n\n")
        headings = [self._align(name, self._heading(name)) for name in self._widths]
        out.write(self._styled(GAP.join(headings), _BOLD) + "\n")
        dash = "─" if self._on_terminal and self._options.unicode else "-"
        rule = GAP.join(dash * width for width in self._widths.values())
        out.write(self._styled(rule, _DIM) + "\n")
        columns = [self._cells(name) for name in self._widths]
        for rows in blocks(len(self._result)):
            lines = map(GAP.join, zip(*(texts(rows) for texts in columns), strict=True))
            out.write("\n".join(map(str.rstrip, lines)) + "\n")
        for remark in self._remarks():
            width = self._options.width
            wrapped = [remark] if width is None else wrap(remark, width, GAP)
            out.writelines(self._styled(line, _DIM) + "\n" for line in wrapped)

    def _lay_out(self) -> dict[str, int]:
        """Return the width of each shown column, in order."""
        natural = {name: self._natural_width(name) for name in self._fields}
        if self._options.width is None:
            return natural
        details = {name for name, field in self._fields.items() if field.is_detail}
        stay = {*self._result.key, *list(natural)[:1], *list(natural)[-1:]} - details
        slots = [
            Slot(name, width, self._is_text(name), name not in stay)
            for name, width in natural.items()
        ]
        return fit(slots, self._options.width)

    def _natural_width(self, name: str) -> int:
        values = self._result.columns[name]
        if isinstance(values, Texts):
            widths = (display_width(self._show(text)) for text in used_texts(values))
            longest = max(widths, default=0)
            longest = longest if self._on_terminal else min(longest, _PADDED_WIDTH)
        else:
            longest = self._numbers(name).width()
        return max(longest, display_width(self._heading(name)))

    def _cells(self, name: str) -> Callable[[slice], list[str]]:
        """Return the function that gives the aligned cells of some rows."""
        values = self._result.columns[name]
        if isinstance(values, Texts):

            def convert(text: str) -> str:
                return self._align(name, self._show(text))

            return TextCells(self._fields[name], values, convert, convert("")).texts
        numbers, width = self._numbers(name), self._widths[name]
        return lambda rows: [text.rjust(width) for text in numbers.texts(rows)]

    def _numbers(self, name: str) -> NumberCells:
        field, values = self._fields[name], self._result.columns[name]
        assert not isinstance(values, Texts)
        is_grouped = self._on_terminal and field.unit in _GROUPED_UNITS
        return NumberCells(field, values, self._options.time_unit, is_grouped=is_grouped)

    def _is_text(self, name: str) -> bool:
        return isinstance(self._result.columns[name], Texts)

    def _heading(self, name: str) -> str:
        is_text = self._is_text(name)
        return self._show(self._fields[name].heading if is_text else self._numbers(name).heading)

    def _align(self, name: str, text: str) -> str:
        width = self._widths[name]
        if not self._is_text(name):
            return text.rjust(width)
        if self._on_terminal:
            text = shorten(text, width, self._ellipsis)
        return text if name == self._last else pad(text, width)

    def _show(self, text: str) -> str:
        return visible(text, unicode=self._options.unicode)

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if self._options.color else text

    def _remarks(self) -> list[str]:
        remarks = []
        if self._hidden_rows:
            more = f"{self._ellipsis} {plural(self._hidden_rows, 'more row')}"
            remarks.append(f"{more} (show all with --rows 0 or --format csv)")
        left_out = [self._heading(name) for name in self._fields if name not in self._widths]
        if left_out:
            remarks.append(f"{self._ellipsis} no room for {', '.join(left_out)}")
        return remarks + [f"note: {self._show(note)}" for note in self._result.notes]


def _names_last(result: Result) -> list[Field]:
    """Return the fields with the last text at the end, so that long names do not shift others."""
    fields = list(result.fields)
    texts = [field for field in fields if isinstance(result.columns[field.name], Texts)]
    if texts:
        fields.remove(texts[-1])
        fields.append(texts[-1])
    return fields


RENDERERS.add(
    "text",
    Renderer("text", "Aligned columns, fitted to the terminal.", render, limits_rows=True),
    aliases=("column",),
)
