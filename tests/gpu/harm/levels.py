"""How a program is recorded: the levels of the harm test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """One way to record.

    Attributes:
        name: The table's column.
        flags: For `warpline profile`.
        counts: The kernels that a recording of this level must contain: `all`; `ranged`, those
        within the
            ranges that the program opens; `none`; or `unknown`.
        is_in_process: Whether the program records itself, by `with warpline.profile()`.
    """

    name: str
    flags: tuple[str, ...] = ()
    counts: str = "unknown"
    is_in_process: bool = False


_SAMPLED = ("--steps=1", "--every=4")
_ALL_THERE_IS = (
    "--cuda-memory-usage=true",
    "--cuda-trace-all-apis=true",
    "--cuda-waits=cupti",
    "--cudabacktrace=all:0",
)
_RANGES = ("-c", "cudaProfilerApi", "--capture-range-end=repeat")

LEVELS = {
    level.name: level
    for level in (
        Level("default", (), "all"),
        Level("graph", ("--cuda-graph-trace=graph",)),
        Level("sampled", _SAMPLED),
        Level("graph-sampled", (*_SAMPLED, "--cuda-graph-trace=graph")),
        Level("everything", _ALL_THERE_IS, "all"),
        Level("ranges", _RANGES, "ranged"),
        Level("in-process", (), is_in_process=True),
    )
}

PLAIN = ("default", "sampled")
GRAPHS = ("default", "graph", "sampled", "graph-sampled")
EVERYTHING = (*PLAIN, "everything")
ALL = (*GRAPHS, "everything", "ranges")
