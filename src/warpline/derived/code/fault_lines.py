"""The source lines at which a fault of a launch shows most."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np

from warpline.derived.code.lines import NO_FILE, counted_places, line_texts
from warpline.derived.code.values import CodeValues, launch_values, sampled_kernels, sampled_values
from warpline.frozen import frozen
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.trace import Trace


@frozen
class FaultLine:
    """A source line, and how much of a fault shows there.

    Attributes:
        file: Text row of the file.
        line: Line.
        text: Text row of the line, or `lines.NO_TEXT`.
        value: What its instructions have of the metrics.
        ratio: Part of all that the launch has, at most 1.
    """

    file: int
    line: int
    text: int
    value: float
    ratio: float


class FaultLines:
    """Ranks the source lines of launches by metrics of their instructions.

    Values are those of the launch. Where it has none, they are samples of the same function while
    the whole program ran.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def ranked(self, launch: int, names: Collection[str], most: int) -> list[FaultLine]:
        """Return the lines with most of some metrics, added up; those with none are left out.

        Args:
            launch: Row of `profiled_kernel`.
            names: Names of metrics of code.
            most: Number of lines.
        """
        values, rows = self._values(launch, names)
        if not len(rows):
            return []
        files, lines = counted_places(self._trace, values.instruction[rows])
        amounts = values.value[rows]
        total = amounts.sum()
        known = np.flatnonzero((files != NO_FILE) & (lines > 0))
        if not len(known) or not total > 0:
            return []
        groups = factorize_rows(files[known], lines[known])
        sums = np.bincount(groups.codes, amounts[known], groups.n_groups)
        order = np.lexsort((lines[known][groups.first], -sums))[:most]
        order = order[sums[order] > 0]
        first = known[groups.first[order]]
        texts = line_texts(self._trace, files[first], lines[first])
        found = (files[first], lines[first], texts, sums[order], np.minimum(sums[order] / total, 1))
        return [FaultLine(*row) for row in zip(*(of.tolist() for of in found), strict=True)]

    def _values(self, launch: int, names: Collection[str]) -> tuple[CodeValues, I64]:
        """Return the values to use, and the rows of some metrics of a launch."""
        rows = self._launched.rows(launch, names)
        if not len(rows) and self._sampled is not None:
            kernel = self._sampled_as.get(self._mangled_name(launch), -1)
            return self._sampled.values, self._sampled.rows(kernel, names)
        return self._launched.values, rows

    @cached_property
    def _launched(self) -> _ByKernel:
        return _ByKernel(launch_values(self._trace))

    @cached_property
    def _sampled(self) -> _ByKernel | None:
        return _ByKernel(sampled_values(self._trace)) if self._trace.has("pc_sample") else None

    @cached_property
    def _sampled_as(self) -> dict[int, int]:
        """Kernel that was sampled, by the text row of its mangled name."""
        kernels = sampled_kernels(self._trace)
        names = self._trace.columns("pc_sample", "function_id")["function_id"].values
        return {name: kernel for kernel, name in enumerate(names[kernels.first].tolist())}

    def _mangled_name(self, launch: int) -> int:
        column = self._trace.columns("profiled_kernel", "mangled_name_id")["mangled_name_id"]
        return int(column.filled(NO_FILE)[launch])


class _ByKernel:
    """Values at instructions, found by their kernel."""

    def __init__(self, values: CodeValues) -> None:
        self.values = values
        self._order = np.argsort(values.kernel, kind="stable")
        self._kernels = values.kernel[self._order]
        self._places = {metric.name: place for place, metric in enumerate(values.metrics)}

    def rows(self, kernel: int, names: Collection[str]) -> I64:
        """Return the rows of some metrics of a kernel that are at instructions."""
        start, end = np.searchsorted(self._kernels, [kernel, kernel + 1])
        rows = self._order[start:end].astype(np.int64)
        wanted = [self._places[name] for name in names if name in self._places]
        return rows[np.isin(self.values.metric[rows], wanted)]
