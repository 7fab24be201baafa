"""The code of a kernel as it is shown: instructions, source files and PTX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import numpy as np

from warpline.derived.code.kernels import TOO_FEW_SAMPLES, Counts, FunctionCode
from warpline.derived.code.lines import (
    NO_FILE,
    NO_TEXT,
    CodeLines,
    caller_places,
    code_lines,
    counted_places,
    instruction_places,
    line_texts,
    ptx_lines,
)
from warpline.derived.code.metrics import SAMPLES
from warpline.derived.code.values import NO_ROW
from warpline.documents.sass import NO_CODE, Sass, encodings
from warpline.frozen import frozen
from warpline.ops.arrays import I64, Integers
from warpline.result.kernel_code import (
    CodeFile,
    CodeInstruction,
    CodeLine,
    KernelCode,
    SourcePlace,
    Value,
)
from warpline.trace import Trace

PTX = "PTX"

_NO_LINES = "source lines are unknown: compile with -lineinfo"
_NEAR_LINES = 20  # shown before and after those that have instructions
_KINDS = {".py": "Python", ".ptx": PTX}


@frozen
class Named:
    """Mangled name, name, grid and block (empty if unknown) and IDs of launches of a kernel."""

    function: str
    name: str
    shape: str
    launches: tuple[int, ...]


def page_of(trace: Trace, code: FunctionCode, named: Named, sass: Sass) -> KernelCode:
    """Return the code of a kernel as it is shown.

    Args:
        trace: The trace.
        code: Its instructions.
        named: Its name and launches.
        sass: Its text.
    """
    texts, why_not = sass
    lines = code_lines(trace, code)
    files = _Files(trace, lines)
    has_lines = bool((lines.files != NO_FILE).any())
    notes = [why_not] if why_not else []
    if not has_lines and why_not != NO_CODE:
        notes.append(_NO_LINES)
    ptx = _ptx(trace, code)
    has_samples = SAMPLES in {metric.name for metric in code.metrics}
    return KernelCode(
        named.function,
        named.name,
        named.shape,
        named.launches,
        "; ".join(notes) or None,
        code.samples,
        has_samples and code.samples < TOO_FEW_SAMPLES,
        code.metrics,
        _values(code.counts.sums(np.zeros(len(code.offsets), np.int64), 1))[0],
        list(_instructions(trace, code, files, texts)),
        (*files.shown(), *([ptx] if ptx.lines else [])),
    )


class _Files:
    """The source files of a kernel, those with most lines of instructions first.

    Args:
        trace: The trace.
        lines: Lines of the kernel.
    """

    def __init__(self, trace: Trace, lines: CodeLines) -> None:
        self._trace, self._lines = trace, lines
        named = np.concatenate([lines.files, lines.caller_files])
        rows, counts = np.unique(named[named != NO_FILE], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        self._rows = rows[order].tolist()
        self._places: Mapping[int, int] = {row: place for place, row in enumerate(self._rows)}

    def place(self, row: int, line: int) -> SourcePlace | None:
        """Return a line of a file; None without a file."""
        return None if row == NO_FILE else SourcePlace(self._places[row], line)

    def shown(self) -> Iterator[CodeFile]:
        """Yield the files with their lines."""
        lines = self._lines
        values = _values(lines.counts)
        for row in self._rows:
            of_file = np.flatnonzero(lines.files == row)
            called = lines.caller_lines[lines.caller_files == row]
            known = dict(zip(lines.lines[of_file].tolist(), of_file.tolist(), strict=True))
            near = _near(np.concatenate([lines.lines[of_file], called]))
            texts = line_texts(self._trace, np.full(len(near), row), near)
            path = self._trace.strings.text(row)
            shown = []
            for line, text in zip(near.tolist(), texts.tolist(), strict=True):
                at = known.get(line)
                if at is None and text == NO_TEXT:
                    continue
                caller = None
                if at is not None:
                    caller = self.place(int(lines.caller_files[at]), int(lines.caller_lines[at]))
                words = None if text == NO_TEXT else self._trace.strings.text(text)
                shown.append(CodeLine(line, words, caller, None if at is None else values[at]))
            yield CodeFile(path, _KINDS.get(PurePath(path).suffix, "CUDA C++"), shown)


def _ptx(trace: Trace, code: FunctionCode) -> CodeFile:
    """Return the PTX with sums by line; without lines if it is not known."""
    of_instruction = ptx_lines(trace, code.rows)
    known = np.flatnonzero(of_instruction != NO_ROW)
    if not len(known):
        return CodeFile("", PTX, [])
    rows, codes = np.unique(of_instruction[known], return_inverse=True)
    values = _values(code.counts.take(known).sums(codes, len(rows)))
    source = trace.columns("source_line", "line", "text_id", "file_number", "module")
    # Lines of a file are neighbors in the table.
    near = _near(rows, len(source["line"]))
    same = [source[name].values[near] == source[name].values[rows[0]] for name in _OF_FILE]
    near = near[np.logical_and.reduce(same)]
    at = dict(zip(rows.tolist(), values, strict=True))
    texts = trace.strings.texts(source["text_id"].values[near].tolist())
    numbers = source["line"].values[near].tolist()
    found = zip(near.tolist(), numbers, texts, strict=True)
    return CodeFile("", PTX, [CodeLine(line, text, None, at.get(row)) for row, line, text in found])


_OF_FILE = ("module", "file_number")


def _near(lines: Integers, end: int | None = None) -> I64:
    """Return numbers and those near them, ascending, from 1, or from 0 below an end."""
    distinct = np.unique(lines).astype(np.int64)
    near = distinct[:, np.newaxis] + np.arange(-_NEAR_LINES, _NEAR_LINES + 1)
    found = np.unique(near)
    return found[found > 0] if end is None else found[(found >= 0) & (found < end)]


def _instructions(
    trace: Trace,
    code: FunctionCode,
    files: _Files,
    texts: Sequence[str] | None,
) -> Iterator[CodeInstruction]:
    places = [
        zip(*(column.tolist() for column in columns), strict=True)
        for columns in (
            instruction_places(trace, code.rows),
            caller_places(trace, code.rows),
            counted_places(trace, code.rows),
        )
    ]
    ptx = ptx_lines(trace, code.rows)
    ptx_numbers: list[int | None] = [None] * len(ptx)
    if (ptx != NO_ROW).any():
        numbers = trace.columns("source_line", "line")["line"].values[ptx]
        ptx_numbers = [
            number if row != NO_ROW else None
            for row, number in zip(ptx.tolist(), numbers.tolist(), strict=True)
        ]
    encoded = encodings(trace, code.rows)
    values = _values(code.counts)
    for place, (offset, inner, caller, counted) in enumerate(
        zip(code.offsets.tolist(), *places, strict=True)
    ):
        in_library = None if inner == counted else (trace.strings.text(inner[0]), inner[1])
        yield CodeInstruction(
            offset,
            encoded[place],
            None if texts is None or encoded[place] is None else texts[place],
            files.place(*counted),
            None if caller == counted else files.place(*caller),
            in_library,
            ptx_numbers[place],
            values[place],
        )


def _values(counts: Counts) -> list[list[Value]]:
    """Return values with exact integers as such, and None where there is none."""
    whole = np.rint(counts.values)
    is_whole = bool((whole == counts.values).all())
    rows = (whole.astype(np.int64) if is_whole else counts.values).tolist()
    return [
        [value if has else None for value, has in zip(*pair, strict=True)]
        for pair in zip(rows, counts.has.tolist(), strict=True)
    ]
