"""nccl_sum: NCCL's operations by size, with algorithm, protocol and bandwidth."""

from __future__ import annotations

import numpy as np

from warpline.derived.collectives.nccl_kernels import nccl_kernels
from warpline.derived.collectives.ring import ring_factor
from warpline.derived.kernels.collective_names import element_type
from warpline.derived.texts import labelled
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "nccl_sum"
TITLE = "NCCL operations by size"
MISSING = "profile with --trace=cuda,nccl; NCCL reports its operations from version 2.24 on"
FIELDS = (
    Field("operation", Unit.NONE, "Operation, such as AllReduce.", "Operation"),
    Field("bytes", Unit.BYTES, "Message size.", "Bytes"),
    Field("dtype", Unit.NONE, "Element type.", "Type"),
    Field("ranks", Unit.COUNT, "Ranks in the communicator.", "Ranks"),
    Field("algorithm", Unit.NONE, "Algorithm, such as RING, TREE or NVLS.", "Algorithm"),
    Field("protocol", Unit.NONE, "Protocol: LL, LL128 or SIMPLE.", "Protocol"),
    Field("channels", Unit.COUNT, "Channels.", "Channels"),
    Field("operations", Unit.COUNT, "Number of operations.", "Operations"),
    Field("timed", Unit.COUNT, "Those whose kernel is known.", "Timed"),
    Field("total_ns", Unit.NS, "Time of their kernels, including waiting.", "GPU Time (ns)"),
    Field("median_ns", Unit.NS, "Median time of one.", "Med (ns)", digits=1),
    Field("min_ns", Unit.NS, "Shortest time of one.", "Min (ns)", digits=1),
    Field(
        "algorithm_bytes_per_s",
        Unit.BYTES_PER_S,
        "Message size divided by the median time.",
        "Algorithm Bandwidth (B/s)",
        digits=0,
    ),
    Field(
        "bus_bytes_per_s",
        Unit.BYTES_PER_S,
        "What a ring moves over each rank's link in the median time, per second.",
        "Bus Bandwidth (B/s)",
        digits=0,
    ),
)
_COLUMNS = (
    "name_id",
    "bytes",
    "dtype_id",
    "rank_count",
    "algorithm_id",
    "protocol_id",
    "channels",
)
_KEY = ("operation", "bytes", "dtype", "ranks", "algorithm", "protocol", "channels")


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=("nccl_op",), missing_hint=MISSING)
def nccl_sum(trace: Trace, arguments: Arguments) -> Result:
    """NCCL's operations by size, with the algorithm and protocol that NCCL chose.

    What it measures: For each operation, message size, element type, number of ranks, algorithm,
        protocol and number of channels: how often it ran, the time of its kernels, and bandwidth.
    Why it matters: It shows from which size on a message reaches the bandwidth of the links, and
        whether NCCL chose what suits it: LL for small messages, SIMPLE for large ones, NVLS
        where the switches reduce. Kernels' names do not say that. Join small messages.
    How it is computed: NCCL's profiler plug-in interface reports the operations in a kernel right
        after its launch; the kernel is that of the last launch in the same thread. Operations in
        one kernel share its time by their sizes. Bus bandwidth is what a ring
        moves over each link: 2 (n - 1) / n times the message for an all-reduce, n - 1 times for an
        all-gather or a reduce-scatter, whose size is one rank's part.
    Limits: A kernel waits for all ranks, so its time includes waiting; the table collective_sizes
        leaves that out where all ranks were recorded. Operations in CUDA graphs have no time: NCCL
        reports them when the graph is captured, or, with network transfers, each time that it
        runs. The number of ranks is known from NCCL 2.27 on.
    Source: Warpline. Bus bandwidth is defined as in nccl-tests.
    """
    keys = [_codes(trace, name) for name in _COLUMNS]
    kernels = nccl_kernels(trace)
    groups = factorize_rows(*keys)
    count = groups.n_groups
    timed = np.flatnonzero(kernels.found)
    took = np.rint(kernels.gpu_ns[timed]).astype(np.int64)
    times = group_stats(groups.codes.astype(np.int64)[timed], took, count)
    operation, size, dtype, ranks, algorithm, protocol, channels = (k[groups.first] for k in keys)
    texts = [_texts(trace, codes) for codes in (operation, dtype, algorithm, protocol)]
    order = _order(times.sum, texts, (size, ranks, channels))
    has_time = times.count > 0
    is_rated = has_time & (size > 0)
    rate = size * 1e9 / np.where(has_time & (times.median > 0), times.median, 1)
    factor = np.array(
        [ring_factor(name or "", n) for name, n in zip(texts[0], ranks.tolist(), strict=True)]
    )
    values: dict[str, Values] = {
        "operation": labelled(order, texts[0]),
        "bytes": Numbers(size[order], size[order] >= 0),
        "dtype": labelled(order, [element_type(text) for text in texts[1]]),
        "ranks": Numbers(ranks[order], ranks[order] >= 0),
        "algorithm": labelled(order, texts[2]),
        "protocol": labelled(order, texts[3]),
        "channels": Numbers(channels[order], channels[order] >= 0),
        "operations": Numbers(np.bincount(groups.codes, minlength=count)[order]),
        "timed": Numbers(times.count[order]),
        "total_ns": Numbers(times.sum[order], has_time[order]),
        "median_ns": Numbers(times.median[order], has_time[order]),
        "min_ns": Numbers(times.min[order], has_time[order]),
        "algorithm_bytes_per_s": Numbers(rate[order], is_rated[order]),
        "bus_bytes_per_s": Numbers((rate * factor)[order], (is_rated & (factor > 0))[order]),
    }
    return Result(NAME, TITLE, FIELDS, values, _KEY, _notes(len(groups.codes) - len(timed)))


def _codes(trace: Trace, name: str) -> I64:
    """Return a column of the operations, -1 where it is null."""
    column = trace.columns("nccl_op", name)[name]
    return np.where(column.is_valid(), column.values.astype(np.int64), -1)


def _order(total_ns: I64, texts: list[list[str | None]], numbers: tuple[I64, ...]) -> I64:
    """Return the order of the rows: largest time first, then by their keys."""

    def key(row: int) -> tuple[int, list[str], list[int]]:
        own = [text[row] or "" for text in texts]
        return -int(total_ns[row]), own, [int(column[row]) for column in numbers]

    return np.array(sorted(range(len(total_ns)), key=key), np.int64)


def _texts(trace: Trace, numbers: I64) -> list[str | None]:
    return [trace.strings.text(number) if number >= 0 else None for number in numbers.tolist()]


def _notes(untimed: int) -> tuple[str, ...]:
    return (f"the kernel of {plural(untimed, 'operation')} is not known",) if untimed else ()
