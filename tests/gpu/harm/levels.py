"""How a program is recorded: the levels of the harm test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """One way to record.

    Attributes:
        name: The table's column.
        flags: For the command.
        command: `profile`; `kernels`, which counts or samples kernels and records no timeline;
            `launch` and `attach`, whose recordings are started and stopped while the program runs.
        counts: The kernels that a recording of this level must contain: `all`; `ranged`, those
            within the ranges that the program opens; `none`; or `unknown`.
        is_in_process: Whether the program records itself, by `with warpline.profile()`.
    """

    name: str
    flags: tuple[str, ...] = ()
    counts: str = "unknown"
    command: str = "profile"
    is_in_process: bool = False

    @property
    def is_driven(self) -> bool:
        """Whether recordings are started and stopped while the program runs."""
        return self.command in {"launch", "attach"}


_SAMPLED = ("--steps=1", "--every=4")
_ALL_THERE_IS = (
    "--cuda-memory-usage=true",
    "--cuda-trace-all-apis=true",
    "--cuda-waits=cupti",
    "--cudabacktrace=all:0",
    "--python-backtrace=cuda",
)
_FAULTS = ("--cuda-um-cpu-page-faults=true", "--cuda-um-gpu-page-faults=true")
_HOST = (
    *("-t", "cuda,nvtx,osrt,python-gil,cublas-verbose,cudnn,cufft,cusolver,cusparse"),
    *("-s", "process-tree", "--cpuctxsw=process-tree", "--python-sampling=true"),
)
_RANGES = ("-c", "cudaProfilerApi", "--capture-range-end=repeat")

_NINE_PASSES = "sm__throughput.avg.pct_of_peak_sustained_elapsed"

LEVELS = {
    level.name: level
    for level in (
        Level("default", (), "all"),
        Level("graph", ("--cuda-graph-trace=graph",)),
        Level("sampled", _SAMPLED),
        Level("graph-sampled", (*_SAMPLED, "--cuda-graph-trace=graph")),
        Level("everything", _ALL_THERE_IS, "all"),
        Level("faults", _FAULTS, "all"),
        Level("metrics", ("--gpu-metrics-devices=cuda-visible",), "all"),
        Level("osrt", ("-t", "cuda,nvtx,osrt", "--osrt-backtrace-threshold=1000"), "all"),
        Level("host", _HOST, "all"),
        Level("ranges", _RANGES, "ranged"),
        Level("in-process", (), is_in_process=True),
        Level("launched", command="launch"),
        Level("attached", command="attach"),
        Level("pytorch", ("--pytorch=all",), "all"),
        Level("pytorch-ops", ("--pytorch=functions-trace-shapes",), "all"),
        Level("pytorch-memory", ("--pytorch=memory", "--cuda-memory-usage=true"), "all"),
        Level("counted", ("--set=light", "--overhead=100"), command="kernels"),
        Level("replayed", ("--metrics=" + _NINE_PASSES, "--sample=1"), command="kernels"),
        Level("source", ("--source",), command="kernels"),
    )
}

STEERED = ("launched", "attached")
COUNTERS = ("counted", "replayed", "source")  # the levels of warpline kernels
PYTORCH = ("pytorch", "pytorch-ops", "pytorch-memory")
PLAIN = ("default", "sampled", *STEERED, *COUNTERS)
GRAPHS = ("default", "graph", "sampled", "graph-sampled", *STEERED, *COUNTERS)
EVERYTHING = (*PLAIN, "everything", "metrics", "osrt", "host")
ALL = (*GRAPHS, "everything", "metrics", "osrt", "host", "ranges")
