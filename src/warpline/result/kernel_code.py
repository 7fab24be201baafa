"""The code of kernels: instructions and source lines, with samples and counts of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpline.frozen import frozen

Value = int | float | None
"""The value of a metric; None where the metric has none."""


@frozen
class CodeMetric:
    """A metric that has a value for each of some instructions.

    Attributes:
        name: Name, such as `stall_long_scoreboard`.
        label: Label of its column.
        unit: What is counted.
        has_all: Whether every instruction has a value: without a count it is 0. The others are of
            memory accesses or branches only.
    """

    name: str
    label: str
    unit: str
    has_all: bool = False


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of one of the files of a kernel.

    Attributes:
        file: Place of the file among those of the kernel.
        line: Line, from 1.
    """

    file: int
    line: int


@dataclass(frozen=True, slots=True)
class CodeInstruction:
    """A machine instruction.

    Attributes:
        offset: Bytes from the start of the function.
        encoding: Its bits in hexadecimal; None if the code was not recorded.
        sass: Its text; None without nvdisasm.
        place: Source line at which the instruction counts; None if unknown. Of inlined code, in the
            innermost function that is not in a library.
        inlined_at: The nearest call of inlined code that is not in a library; None for code that
            was not inlined.
        library: Path and line in the library that the code was inlined from; None for the
            program's own code.
        ptx_line: Line of the PTX; None if unknown.
        values: Values of the metrics.
    """

    offset: int
    encoding: str | None
    sass: str | None
    place: SourcePlace | None
    inlined_at: SourcePlace | None
    library: tuple[str, int] | None
    ptx_line: int | None
    values: Sequence[Value]


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of a source file.

    Attributes:
        line: Line, from 1.
        text: The line; None if the file was not recorded.
        inlined_at: The nearest call of the inlined function that the line is in; of several calls
            that with most samples; None for code that was not inlined.
        values: Sums over the instructions of the line; None for a line without instructions.
    """

    line: int
    text: str | None
    inlined_at: SourcePlace | None
    values: Sequence[Value] | None


@frozen
class CodeFile:
    """A file that code of a kernel comes from.

    Attributes:
        path: Path; empty for PTX.
        kind: ``CUDA C++``, ``Python`` or ``PTX``.
        lines: Lines with instructions, and those near them if the file was recorded.
    """

    path: str
    kind: str
    lines: Sequence[CodeLine]


@frozen
class KernelCode:
    """The code of one kernel, with sums over its launches.

    Attributes:
        function: Mangled name.
        name: Name.
        shape: Grid and block, as ``(2048, 1, 1) x (256, 1, 1)``; empty if launches differ, or are
            unknown.
        launches: IDs of the launches; empty for samples of the whole program.
        note: Why SASS or lines are missing, and what to do; None if neither is.
        samples: Number of samples.
        is_too_few: Whether there are too few samples to compare lines.
        metrics: The metrics.
        totals: Sums over all instructions.
        instructions: All instructions by offset.
        files: Files, the PTX last.
    """

    function: str
    name: str
    shape: str
    launches: tuple[int, ...]
    note: str | None
    samples: int
    is_too_few: bool
    metrics: tuple[CodeMetric, ...]
    totals: Sequence[Value]
    instructions: Sequence[CodeInstruction]
    files: Sequence[CodeFile]

    def column(self, name: str) -> int | None:
        """Return the place of a metric; None if the kernel does not have it."""
        names = [metric.name for metric in self.metrics]
        return names.index(name) if name in names else None


@frozen
class CodeOfLaunches:
    """The code of kernels, that with most samples first.

    Attributes:
        codes: The code.
        count: Number of kernels, with those that are not among `codes`.
        places: Place in `codes` of each launch, in the order of launches; None for one without
            code.
    """

    codes: tuple[KernelCode, ...]
    count: int
    places: tuple[int | None, ...]
