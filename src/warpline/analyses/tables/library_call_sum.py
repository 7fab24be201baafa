"""library_call_sum: calls of libraries by function, with the kernels that they launched."""

from __future__ import annotations

import numpy as np

from warpline.derived.library_calls.launched import launched_kernels
from warpline.derived.texts import labelled
from warpline.ops.group import factorize_rows, group_stats, group_sums
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "library_call_sum"
TITLE = "Library call summary"
MISSING = "profile with --trace=cuda,cublas, or another library: cudnn, nccl, mpi, openmp"
FIELDS = (
    Field("library", Unit.NONE, "Library.", "Library"),
    Field("name", Unit.NONE, "Function.", "Name"),
    Field("calls", Unit.COUNT, "Number of calls.", "Num Calls"),
    Field("total_ns", Unit.NS, "CPU time in the calls.", "CPU Time (ns)"),
    Field("avg_ns", Unit.NS, "Mean CPU time of a call.", "Avg (ns)", digits=1),
    Field("max_ns", Unit.NS, "Longest call.", "Max (ns)", is_detail=True),
    Field("gpu_ns", Unit.NS, "Time of the kernels launched in the calls.", "GPU Time (ns)"),
    Field("kernels", Unit.COUNT, "Kernels launched in the calls.", "Kernels"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("library_call",),
    missing_hint=MISSING,
)
def library_call_sum(trace: Trace, arguments: Arguments) -> Result:
    """CPU and GPU time of library calls, by function.

    What it measures: For each function of cuBLAS, cuDNN, NCCL and other libraries: its calls, the
        CPU time in them, and the kernels launched in them with their GPU time.
    Why it matters: The table shows which library takes the GPU time, and which calls are
        expensive on the CPU: creating handles or searching for algorithms in every step.
    How it is computed: End minus start of each call, grouped by library and function. A kernel
        belongs to the innermost call open on the launching thread when its launch call starts.
        Largest GPU time first, then CPU time.
    Limits: Calls that these libraries make to each other are not recorded: a GEMM inside cuDNN
        counts for the cuDNN function. Kernels of a CUDA graph belong to no library call. Kernels
        need `--trace=cuda`.
    Source: Warpline; nsys has no table of library calls.
    """
    columns = trace.columns("library_call", "start_ns", "end_ns", "library_id", "name_id")
    library, name = columns["library_id"].values, columns["name_id"].values
    groups = factorize_rows(library, name)
    stats = group_stats(
        groups.codes, columns["end_ns"].values - columns["start_ns"].values, groups.n_groups
    )
    launched = launched_kernels(trace)
    gpu_ns = group_sums(groups.codes, launched.gpu_ns, groups.n_groups)
    kernels = group_sums(groups.codes, launched.kernels, groups.n_groups)
    libraries = trace.strings.texts(library[groups.first].tolist())
    names = trace.strings.texts(name[groups.first].tolist())
    rows = sorted(
        range(groups.n_groups),
        key=lambda row: (-int(gpu_ns[row]), -int(stats.sum[row]), libraries[row], names[row]),
    )
    order = np.array(rows, np.int64)
    values: dict[str, Values] = {
        "library": labelled(order, libraries),
        "name": labelled(order, names),
        "calls": Numbers(stats.count[order]),
        "total_ns": Numbers(stats.sum[order]),
        "avg_ns": Numbers(stats.mean[order]),
        "max_ns": Numbers(stats.max[order]),
        "gpu_ns": Numbers(gpu_ns[order]),
        "kernels": Numbers(kernels[order]),
    }
    return Result(NAME, TITLE, FIELDS, values, ("library", "name"))
