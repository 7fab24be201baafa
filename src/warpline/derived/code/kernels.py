"""The code of kernels: their instructions with the values of metrics, and sums by line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.derived.code.functions import functions
from warpline.derived.code.metrics import SAMPLES, STALLED
from warpline.derived.code.values import NO_ROW, CodeValues
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64, BoolArray, Integers
from warpline.ops.group import factorize, factorize_rows
from warpline.result.kernel_code import CodeMetric
from warpline.trace import Trace

TOO_FEW_SAMPLES = 200
FEW_NOTE = f"fewer than {TOO_FEW_SAMPLES} samples: too few to compare lines"


@frozen
class Counts:
    """Values of metrics at places in the code.

    Attributes:
        values: Values; 0 where there is none, shape (n, metrics).
        has: Where there are values, shape (n, metrics).
    """

    values: F64
    has: BoolArray

    def sums(self, codes: Integers, n_groups: int) -> Counts:
        """Return the sums over groups of places.

        Args:
            codes: Group of each place, shape (n,).
            n_groups: Number of groups.
        """
        values = np.zeros((n_groups, self.values.shape[1]))
        has = np.zeros(values.shape, np.bool_)
        np.add.at(values, codes, self.values)
        np.logical_or.at(has, codes, self.has)
        return Counts(values, has)

    def take(self, rows: I64) -> Counts:
        """Return some places."""
        return Counts(self.values[rows], self.has[rows])


@frozen
class FunctionCode:
    """The instructions of a kernel, and of separate functions that it calls.

    Attributes:
        offsets: Bytes of the instructions from the start of their function, shape (n,). Of each
            function, they ascend.
        rows: Rows of `kernel_instruction`, or `NO_ROW` for sampled ones without code, which are
            the last ones; shape (n,).
        metrics: The metrics that some instructions have, in the order in which they are shown.
        counts: Their values.
    """

    offsets: I64
    rows: I64
    metrics: tuple[CodeMetric, ...]
    counts: Counts

    @property
    def samples(self) -> int:
        """Number of samples of the kernel."""
        return sum(
            round(float(self.counts.values[:, place].sum()))
            for place, metric in enumerate(self.metrics)
            if metric.name == SAMPLES
        )


def kernel_codes(
    trace: Trace, found: CodeValues, groups: Sequence[Sequence[int]]
) -> list[FunctionCode | None]:
    """Return the code of groups of kernels, with sums of their values.

    Args:
        trace: The trace.
        found: Values at instructions.
        groups: Numbers of the kernels of each group, as in `found`. They ran the same function.

    Returns:
        The code of each group; None for those without values.
    """
    order = np.argsort(found.kernel, kind="stable")
    kernels = found.kernel[order]
    codes: list[FunctionCode | None] = []
    for group in groups:
        spans = [np.searchsorted(kernels, (kernel, kernel + 1)) for kernel in group]
        rows = np.concatenate([order[first:last] for first, last in spans] or [order[:0]])
        codes.append(_code(trace, found, rows) if len(rows) else None)
    return codes


def function_of_kernels(found: CodeValues) -> dict[int, int]:
    """Return kernel -> the function that most of its values are of."""
    pairs = factorize_rows(found.kernel, found.function)
    counts = np.bincount(pairs.codes, minlength=pairs.n_groups)
    order = np.argsort(counts, kind="stable")  # of a kernel, the last one counts
    first = pairs.first[order]
    return dict(zip(found.kernel[first].tolist(), found.function[first].tolist(), strict=True))


def _code(trace: Trace, found: CodeValues, rows: I64) -> FunctionCode:
    totals = np.bincount(found.metric[rows], found.value[rows], len(found.metrics))
    is_shown = [not of.name.startswith(STALLED) for of in found.metrics] | (totals != 0)
    rows = rows[is_shown[found.metric[rows]]]
    instructions = _instructions(trace, found, rows)
    unknown = found.instruction[rows] == NO_ROW
    offsets = found.offset[rows[unknown]]
    unknown_offsets = np.unique(offsets)
    place = np.empty(len(rows), np.int64)
    by_row = np.argsort(instructions)
    known = found.instruction[rows[~unknown]]
    place[~unknown] = by_row[np.searchsorted(instructions[by_row], known)]
    place[unknown] = len(instructions) + np.searchsorted(unknown_offsets, offsets)
    numbers = np.unique(found.metric[rows])
    metrics = tuple(found.metrics[number] for number in numbers.tolist())
    column = np.searchsorted(numbers, found.metric[rows])
    values = np.zeros((len(instructions) + len(unknown_offsets), len(metrics)))
    np.add.at(values, (place, column), found.value[rows])
    has = np.zeros(values.shape, np.bool_)
    has[place, column] = True
    has[:, [metric.has_all for metric in metrics]] = True
    return FunctionCode(
        np.concatenate([_offsets(trace)[instructions], unknown_offsets]),
        np.concatenate([instructions, np.full(len(unknown_offsets), NO_ROW)]),
        metrics,
        Counts(values, has),
    )


def _instructions(trace: Trace, found: CodeValues, rows: I64) -> I64:
    """Return the rows of the instructions of all functions that values are of.

    The function with most values is first; their instructions are in order.
    """
    of_values = factorize(found.function[rows])
    by_count = np.argsort(-np.bincount(of_values.codes), kind="stable")
    called = [number for number in of_values.uniques[by_count].tolist() if number != NO_ROW]
    parts = [np.zeros(0, np.int64)]
    for function in called:
        part = np.flatnonzero(functions(trace).of_row == function)
        parts.append(part[np.argsort(_offsets(trace)[part], kind="stable")])
    return np.concatenate(parts)


def _offsets(trace: Trace) -> I64:
    if not trace.has("kernel_instruction"):
        return np.zeros(0, np.int64)
    offsets = trace.columns("kernel_instruction", "offset_bytes")["offset_bytes"]
    return offsets.values.astype(np.int64, copy=False)
