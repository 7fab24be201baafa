"""Source lines of the code of kernels: sums over their instructions, and their text."""

from __future__ import annotations

import numpy as np

from warpline.cubins.library_files import is_of_library
from warpline.derived.code.kernels import Counts, FunctionCode
from warpline.derived.code.metrics import SAMPLES
from warpline.derived.code.values import NO_ROW
from warpline.frozen import frozen
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.ops.join import lookup_rows
from warpline.trace import Trace

NO_FILE = NO_TEXT = -1


@frozen
class CodeLines:
    """Sums over the instructions of each line, in the order of files and lines.

    Attributes:
        files: Text rows of files, or `NO_FILE`, shape (lines,).
        lines: Lines, or 0, shape (lines,).
        caller_files: Where the kernel calls the inlined function that the line belongs to, as text
            rows; `NO_FILE` for code that was not inlined. Of several calls that of the instruction
            with most samples, shape (lines,).
        caller_lines: Line of that call, or 0, shape (lines,).
        of_instruction: Line at which each instruction counts, shape (n,).
        counts: The sums.
    """

    files: I64
    lines: I64
    caller_files: I64
    caller_lines: I64
    of_instruction: I64
    counts: Counts


def code_lines(trace: Trace, code: FunctionCode) -> CodeLines:
    """Return the sums over source lines: those of `counted_places`."""
    files, lines = counted_places(trace, code.rows)
    caller_files, caller_lines = caller_places(trace, code.rows)
    # A call from the line itself is one of a library.
    is_elsewhere = (caller_files != files) | (caller_lines != lines)
    caller_files = np.where(is_elsewhere, caller_files, NO_FILE)
    groups = factorize_rows(files, lines)
    names = [metric.name for metric in code.metrics]
    samples = code.counts.values[:, names.index(SAMPLES) if SAMPLES in names else 0]
    # The instruction with most samples of each line comes first.
    by_samples = np.lexsort((-samples, groups.codes))
    first = by_samples[np.searchsorted(groups.codes[by_samples], np.arange(groups.n_groups))]
    return CodeLines(
        files[groups.first],
        lines[groups.first],
        caller_files[first],
        np.where(caller_files == NO_FILE, 0, caller_lines)[first],
        groups.codes.astype(np.int64),
        code.counts.sums(groups.codes, groups.n_groups),
    )


def instruction_places(trace: Trace, rows: I64) -> tuple[I64, I64]:
    """Return the text row of the file of instructions, or `NO_FILE`, and the line, or 0.

    Of inlined code, they are those of the innermost function.

    Args:
        trace: The trace.
        rows: Rows of `kernel_instruction`, or `NO_ROW`, shape (n,).
    """
    return _places(trace, rows, "file_id", "line")


def caller_places(trace: Trace, rows: I64) -> tuple[I64, I64]:
    """Return file and line of the call of the inlined code of instructions; see above."""
    return _places(trace, rows, "caller_file_id", "caller_line")


def counted_places(trace: Trace, rows: I64) -> tuple[I64, I64]:
    """Return file and line at which instructions count; see above.

    That of inlined code from libraries is the line of the program that calls it.
    """
    files, lines = instruction_places(trace, rows)
    caller_files, caller_lines = caller_places(trace, rows)
    distinct, codes = np.unique(files, return_inverse=True)
    is_of = [row != NO_FILE and is_of_library(trace.strings.raw(row)) for row in distinct.tolist()]
    moves = np.array(is_of, np.bool_)[codes] & (caller_files != NO_FILE)
    return np.where(moves, caller_files, files), np.where(moves, caller_lines, lines)


def ptx_lines(trace: Trace, rows: I64) -> I64:
    """Return the row of `source_line` with the PTX of instructions, or `NO_ROW`, shape (n,).

    Args:
        trace: The trace.
        rows: Rows of `kernel_instruction`, or `NO_ROW`, shape (n,).
    """
    found = np.full(len(rows), NO_ROW, np.int64)
    is_known = rows != NO_ROW
    if is_known.any() and trace.has("source_line"):
        column = trace.columns("kernel_instruction", "ptx_line_id")["ptx_line_id"]
        found[is_known] = column.filled(NO_ROW)[rows[is_known]]
    return found


def _places(trace: Trace, rows: I64, file: str, line: str) -> tuple[I64, I64]:
    is_known = rows != NO_ROW
    files, lines = np.full(len(rows), NO_FILE, np.int64), np.zeros(len(rows), np.int64)
    if is_known.any():
        code = trace.columns("kernel_instruction", file, line)
        files[is_known] = code[file].filled(NO_FILE)[rows[is_known]]
        lines[is_known] = code[line].filled(0)[rows[is_known]]
    return files, lines


def line_texts(trace: Trace, files: I64, lines: I64) -> I64:
    """Return the text row of lines, or `NO_TEXT` if their file is not in the recording.

    Args:
        trace: The trace.
        files: Text rows of files, or `NO_FILE`, shape (n,).
        lines: Lines, shape (n,).
    """
    found = np.full(len(files), NO_TEXT, np.int64)
    if not trace.has("source_line") or not trace.row_count("source_line"):
        return found
    source = trace.columns("source_line", "file_id", "line", "text_id")
    known = np.flatnonzero(source["file_id"].is_valid())  # PTX has no file
    of_files = source["file_id"].values[known].astype(np.int64)
    row, is_found = lookup_rows((files, lines), (of_files, source["line"].values[known]))
    found[is_found] = source["text_id"].values[known][row[is_found]]
    return found
