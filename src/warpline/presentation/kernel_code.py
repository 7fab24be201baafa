"""How the code of kernels is presented: the hottest lines, or listings of all code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpline.presentation.blocks import Block, Cell, Column, Fit, Line, Presentation, Row, Table
from warpline.presentation.blocks import Section as Part
from warpline.presentation.kernel_names import short_names
from warpline.result.kernel_code import (
    CodeFile,
    CodeLine,
    CodeOfLaunches,
    KernelCode,
    SourcePlace,
    Value,
)
from warpline.units import format_count, format_ratio, plural

SAMPLES, EXECUTED, STALLED = "samples", "executed", "stall_"
KERNELS = 20
_TAB = 4
_LINES, _STALLS = 10, 4
_LONGEST_PLACE = 32
_LEAST_SHARE = 0.0005  # what prints as 0.1%
_EXCESSES = (
    ("excess_sectors_global", "Excess sectors"),
    ("excess_wavefronts_shared", "Excess wavefronts"),
    ("divergent_branches", "Divergent"),
)
# The warp issued an instruction, or could have done so: another one was selected.
_NO_WAITS = ("selected", "not_selected")
_TOO_FEW = "Fewer than 200 samples: too few to compare lines."


def screen(found: CodeOfLaunches, views: Sequence[str]) -> Presentation:
    """Return what a terminal shows of each kernel: the lines with most samples, or all code.

    Where lines are unknown, instructions take their place.

    Args:
        found: The code.
        views: What to list of all code: ``sass``, ``ptx`` or ``cuda``; ``cuda`` and ``sass`` list
            each line with its instructions. None lists the lines with most samples.
    """
    names = short_names(code.name for code in found.codes)
    parts: list[Block] = [
        _part(code, names[code.name], _listing(code, views) if views else _hot(code))
        for code in found.codes
    ]
    return Presentation([*parts, *_more(found.count - len(found.codes))], ())


def _more(count: int) -> Iterator[Block]:
    if count > 0:
        yield Line(f"{plural(count, 'more kernel')} with fewer samples: see --json", is_faint=True)


def _part(code: KernelCode, name: str, blocks: Sequence[Block]) -> Part:
    shape = f" {code.shape}" if code.shape else ""
    count = f", {plural(len(code.launches), 'launch', 'launches')}" if code.launches[1:] else ""
    samples = plural(code.samples, "sample") if code.column(SAMPLES) is not None else "no samples"
    notes = [Line(text, is_faint=True) for text in (_few(code), code.note) if text]
    stalls = _stall_line(code)
    head = [Line(stalls)] if stalls else []
    return Part(f"{name}{shape}: {samples}{count}", (*head, *blocks, *notes))


def _few(code: KernelCode) -> str:
    return _TOO_FEW if code.is_too_few else ""


def _stall_line(code: KernelCode) -> str:
    """Return why warps of a kernel waited: the main reasons with their shares."""
    found = _stalls(code, code.totals)
    shown = [of for of in found[:_STALLS] if of[1] >= _LEAST_SHARE]
    texts = [f"{name} {format_ratio(share)}" for name, share in shown]
    return f"Stalls: {', '.join(texts)}" if texts else ""


def _stalls(code: KernelCode, values: Sequence[Value]) -> list[tuple[str, float]]:
    """Return reasons with their shares of samples, the largest first."""
    column = code.column(SAMPLES)
    samples = (values[column] or 0) if column is not None else 0
    if not samples:
        return []
    found = [
        (metric.name.removeprefix(STALLED), (value or 0) / samples)
        for metric, value in zip(code.metrics, values, strict=True)
        if metric.name.startswith(STALLED) and value
    ]
    return sorted(found, key=lambda of: -of[1])


class _Table:
    """Columns of samples, stalls and counts, and what else a listing has on either side.

    Args:
        code: The kernel.
        last: The last columns.
        first: The first columns.
    """

    def __init__(
        self, code: KernelCode, last: Sequence[Column], first: Sequence[Column] = ()
    ) -> None:
        self._code = code
        self._samples = code.column(SAMPLES)
        self._counts = [
            (place, label)
            for name, label in ((EXECUTED, "Executed"), *_EXCESSES)
            if (place := code.column(name)) is not None and (code.totals[place] or name == EXECUTED)
        ]
        labels = ["Samples", "Top stall"] if self._samples is not None else []
        labels += [label for _, label in self._counts]
        self._columns = (*first, *(Column(label, is_number=True) for label in labels), *last)
        self._rows: list[Row] = []

    def add(
        self, values: Sequence[Value] | None, last: Sequence[Cell], first: Sequence[Cell] = ()
    ) -> None:
        """Add a row; without values, their cells are empty."""
        cells = [Cell("")] * (len(self._columns) - len(last) - len(first))
        if values is not None:
            cells = [
                *self._sample_cells(values),
                *(self._count(values[at]) for at, _ in self._counts),
            ]
        self._rows.append(Row((*first, *cells, *last)))

    def _sample_cells(self, values: Sequence[Value]) -> list[Cell]:
        if self._samples is None:
            return []
        value, total = values[self._samples] or 0, self._code.totals[self._samples] or 0
        if not value:
            return [Cell(""), Cell("")]
        stalls = _stalls(self._code, values)
        waits = [of for of in stalls if of[0] not in _NO_WAITS] or stalls
        top = f"{waits[0][0]} {format_ratio(waits[0][1])}" if waits else ""
        return [Cell(format_ratio(value / total)), Cell(top)]

    def _count(self, value: Value) -> Cell:
        return Cell(format_count(round(value)) if value else "")

    def made(self) -> Table:
        """Return the table, with columns as wide as their texts."""
        widths = (
            max(len(row.cells[place].text) for row in self._rows)
            for place in range(len(self._columns))
        )
        columns = (
            column._replace(width=width) if column.is_number else column
            for column, width in zip(self._columns, widths, strict=True)
        )
        return Table(columns=tuple(columns), rows=tuple(self._rows))


_SOURCE = (Column("Source", width=24, fit=Fit.CUT),)
_SASS = (Column("SASS"),)
_OFFSET = (Column("Offset", is_number=True),)
_NUMBER = (Column("Line", is_number=True),)


def _weight(code: KernelCode, values: Sequence[Value]) -> tuple[float, ...]:
    """Return by what code is ranked: samples, then executed instructions."""
    places = code.column(SAMPLES), code.column(EXECUTED)
    return tuple(-(values[place] or 0) for place in places if place is not None)


def _hot(code: KernelCode) -> list[Block]:
    """Return the lines with most samples, or instructions if lines are not known."""
    lines = [
        (line, file)
        for file in code.files
        if file.kind != "PTX"
        for line in file.lines
        if line.values is not None
    ]
    if not lines:
        return _hot_instructions(code)
    lines.sort(key=lambda of: _weight(code, of[0].values or ()))
    has_text = any(line.text for line, _ in lines)
    places = [_place(code, file, line) for line, file in lines[:_LINES]]
    width = min(max(map(len, places)), _LONGEST_PLACE)
    first = Column("Line", width=width, fit=Fit.SHORTEN)
    table = _Table(code, _SOURCE if has_text else (), (first,))
    for place, (line, _) in zip(places, lines, strict=False):
        text = (Cell((line.text or "").strip()),) if has_text else ()
        table.add(line.values, text, (Cell(place),))
    rest = lines[_LINES:]
    return [table.made(), *_rest(code, [line.values or () for line, _ in rest], "line")]


def _hot_instructions(code: KernelCode) -> list[Block]:
    found = sorted(code.instructions, key=lambda of: _weight(code, of.values))
    table = _Table(code, _SASS, _OFFSET)
    for of in found[:_LINES]:
        table.add(of.values, (Cell(of.sass or of.encoding or ""),), (Cell(f"{of.offset:#x}"),))
    return [table.made(), *_rest(code, [of.values for of in found[_LINES:]], "instruction")]


def _rest(code: KernelCode, values: Sequence[Sequence[Value]], what: str) -> Iterator[Block]:
    """Yield how much is not shown."""
    place = code.column(SAMPLES)
    if place is None or not (total := code.totals[place]):
        return
    share = sum(of[place] or 0 for of in values) / total
    if share >= _LEAST_SHARE:
        flag = "sass" if what == "instruction" else "cuda"
        more = f"{plural(len(values), f'more {what}')} with {format_ratio(share)} of the samples"
        yield Line(f"{more}: see --print-source {flag}", is_faint=True)


def _place(code: KernelCode, file: CodeFile, line: CodeLine) -> str:
    """Return file and line, and where the kernel calls it if it was inlined."""
    place, caller = f"{_base(file.path)}:{line.line}", line.inlined_at
    if caller is None:
        return place
    is_same = code.files[caller.file] is file
    return f"{place} from {caller.line if is_same else _called(code, caller)}"


def _called(code: KernelCode, place: SourcePlace) -> str:
    return f"{_base(code.files[place.file].path)}:{place.line}"


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _listing(code: KernelCode, views: Sequence[str]) -> list[Block]:
    if list(views) == ["sass"]:
        table = _Table(code, (Column("Line", is_number=True), *_SASS), _OFFSET)
        for of in code.instructions:
            place = _called(code, of.place) if of.place is not None else ""
            if of.library is not None:
                place += f" ({_base(of.library[0])}:{of.library[1]})"
            cells = Cell(place), Cell(of.sass or of.encoding or "")
            table.add(of.values, cells, (Cell(f"{of.offset:#x}"),))
        return [table.made()]
    wants_ptx = "ptx" in views
    shown = [file for file in code.files if (file.kind == "PTX") == wants_ptx]
    if not shown:
        return [Line("The PTX is not in the recording.", is_faint=True)] if wants_ptx else []
    with_sass = "sass" in views
    tables: list[Block] = []
    for number, file in enumerate(shown):
        tables += [Line(file.path or "PTX"), _file(code, number, file, with_sass=with_sass)]
    return tables


def _file(code: KernelCode, place: int, file: CodeFile, *, with_sass: bool) -> Table:
    """Return all lines of a file, each followed by its instructions if asked for."""
    table = _Table(code, (Column("Source"),), _NUMBER)
    is_ptx = file.kind == "PTX"
    for line in file.lines:
        text = (line.text or "").expandtabs(_TAB)
        table.add(line.values, (Cell(text, is_code=True),), (Cell(str(line.line)),))
        for of in code.instructions if with_sass and line.values is not None else ():
            own = of.ptx_line if is_ptx else of.place and of.place.file == place and of.place.line
            if own == line.line:
                text = f"    {of.offset:#06x}  {of.sass or of.encoding or ''}"
                table.add(of.values, (Cell(text),), (Cell(""),))
    return table.made()
