"""pipes: how busy each compute pipe of the SMs was."""

from __future__ import annotations

from warpline.derived.kernel_sections.columns import Item, Ranked, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

# Name -> counters, of which the first that was collected counts. Chips have one or the other.
_PIPES = {
    "ALU": ("sm__pipe_alu_cycles_active", "sm__inst_executed_pipe_alu"),
    "FMA": ("sm__pipe_fma_cycles_active", "sm__inst_executed_pipe_fma"),
    "FMA heavy": ("sm__pipe_fmaheavy_cycles_active",),
    "FP16": ("sm__pipe_fp16_cycles_active", "sm__inst_executed_pipe_fp16"),
    "FP64": ("sm__pipe_fp64_cycles_active", "sm__inst_executed_pipe_fp64"),
    "Shared by FP64 and Tensor Cores": ("sm__pipe_shared_cycles_active",),
    "Tensor Cores": (
        "sm__pipe_tensor_cycles_active",
        "sm__pipe_tensor_cycles_active_v2",
        "sm__pipe_tc_cycles_active",
        "sm__inst_executed_pipe_tensor",
    ),
    **{
        f"Tensor Cores, {kind}": (
            f"sm__pipe_tensor_op_{operation}_cycles_active",
            f"sm__pipe_tensor_op_{operation}_cycles_active_v2",
            f"sm__pipe_tensor_subpipe_{operation}_cycles_active",
        )
        for kind, operation in (("FP64", "dmma"), ("FP", "hmma"), ("INT", "imma"))
    },
    "Tensor Memory": ("sm__mem_tensor_cycles_active", "sm__inst_executed_pipe_tmem"),
    "TMA": ("sm__pipe_tma_cycles_active", "sm__inst_executed_pipe_tma"),
    "ADU": ("sm__inst_executed_pipe_adu",),
    "CBU": ("sm__inst_executed_pipe_cbu", "sm__inst_executed_pipe_cbu_pred_on_any"),
    "LSU": ("sm__inst_executed_pipe_lsu",),
    "Texture": ("sm__inst_executed_pipe_tex",),
    "Uniform": ("sm__inst_executed_pipe_uniform",),
    "XU": ("sm__inst_executed_pipe_xu",),
}
# Of the duration of the kernel, as in ncu since 2025, or else of the cycles with a resident warp.
_OF_PEAK = ("avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active")


@section_body("pipes")
def pipes(metrics: Metrics) -> Item:
    """Return how busy each pipe was, of its peak, the busiest first."""
    items = []
    for name, counters in _PIPES.items():
        is_open = metrics.every()
        for metric in (f"{counter}.{end}" for end in _OF_PEAK for counter in counters):
            ratio = metrics.get(metric)
            tree: dict[str, Tree] = {"name": name, "metric": metric, "ratio": ratio}
            items.append(Item(ratio.is_known & is_open, tree))
            is_open = is_open & ~ratio.is_known
    return Item(any_of(items, len(metrics)), Ranked(items, ("ratio",)))
