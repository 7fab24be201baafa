"""The resources of a GPU that may limit a kernel, and the metrics of their use."""

from __future__ import annotations

from warpline.frozen import frozen

_OF_PEAK = "pct_of_peak_sustained_elapsed"


@frozen
class Resource:
    """A part of the GPU that has a peak rate.

    Attributes:
        name: Name, as changes refer to it.
        label: What users read.
        metrics: Percentage of the peak over the time of the kernel; the first that was collected.
        group: Resources of a group are used one after another by the same work, so only the busiest
            of them counts.
        is_on_sm: Whether each SM has its own, so that idle SMs leave theirs unused.
    """

    name: str
    label: str
    metrics: tuple[str, ...]
    group: str
    is_on_sm: bool = True


def _on_sm(name: str, label: str, counter: str, group: str | None = None) -> Resource:
    return Resource(name, label, (f"{counter}.avg.{_OF_PEAK}",), group or name)


def _l2(name: str, counter: str, rollup: str = "avg") -> Resource:
    return Resource(name, "L2", (f"{counter}.{rollup}.{_OF_PEAK}",), "memory", is_on_sm=False)


def _pipe(name: str, label: str, counter: str) -> Resource:
    return _on_sm(name, label, f"sm__{counter}")


_L1 = "L1 and shared memory"

RESOURCES = (
    Resource(
        "dram",
        "DRAM",
        (f"gpu__dram_throughput.avg.{_OF_PEAK}", f"dram__throughput.avg.{_OF_PEAK}"),
        "memory",
        is_on_sm=False,
    ),
    _l2("l2", "lts__throughput", "max"),
    _l2("l2-requests", "lts__xbar2lts_cycles_active"),
    _l2("l2-replies", "lts__lts2xbar_cycles_active"),
    # Averages hide hot addresses: one slice may be busy all the time.
    Resource(
        "atomics",
        "atomics in L2",
        (f"lts__d_atomic_input_cycles_active.max.{_OF_PEAK}",),
        "atomics",
        is_on_sm=False,
    ),
    _on_sm("l1-data", _L1, "l1tex__data_pipe_lsu_wavefronts", "l1"),
    _on_sm("l1-requests", _L1, "l1tex__lsuin_requests", "l1"),
    _on_sm("l1-writeback", _L1, "l1tex__lsu_writeback_active", "l1"),
    _on_sm("l1-to-l2", _L1, "l1tex__m_l1tex2xbar_req_cycles_active", "l1"),
    _on_sm("l2-to-l1", _L1, "l1tex__m_xbar2l1tex_read_sectors", "l1"),
    _on_sm("memory-instructions", _L1, "sm__mio_inst_issued", "l1"),
    _on_sm("lsu", _L1, "sm__inst_executed_pipe_lsu", "l1"),
    Resource(
        "issue",
        "issue slots",
        (f"sm__inst_issued.avg.{_OF_PEAK}", f"sm__issue_active.avg.{_OF_PEAK}"),
        "issue",
    ),
    _pipe("fma", "FMA pipe", "pipe_fma_cycles_active"),
    _pipe("fma-heavy", "FMA pipe", "pipe_fmaheavy_cycles_active"),
    _pipe("alu", "ALU pipe", "pipe_alu_cycles_active"),
    _pipe("fp64", "FP64 pipe", "pipe_fp64_cycles_active"),
    _pipe("tensor", "Tensor Cores", "pipe_tensor_cycles_active"),
    _pipe("xu", "XU pipe", "inst_executed_pipe_xu"),
    _pipe("adu", "ADU pipe", "inst_executed_pipe_adu"),
    _pipe("cbu", "CBU pipe", "inst_executed_pipe_cbu"),
    _pipe("uniform", "uniform pipe", "inst_executed_pipe_uniform"),
)
PLACE = {resource.name: place for place, resource in enumerate(RESOURCES)}
GROUPS = tuple(
    tuple(place for place, resource in enumerate(RESOURCES) if resource.group == group)
    for group in dict.fromkeys(resource.group for resource in RESOURCES)
)

L2 = ("l2", "l2-requests", "l2-replies")
L1 = tuple(resource.name for resource in RESOURCES if resource.group == "l1")
# What a pipe of an SM does for each instruction; memory instructions are counted by L1.
COMPUTE = ("issue", "fma", "fma-heavy", "alu", "fp64", "tensor", "xu", "adu", "cbu", "uniform")

# Without these, the next limiter is unknown: one of each tuple must have been collected.
REQUIRED = (("dram",), L2, ("l1-data",), ("issue",))
