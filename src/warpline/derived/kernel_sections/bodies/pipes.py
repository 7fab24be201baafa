"""pipes: how busy each compute pipe of the SMs was."""

from __future__ import annotations

from warpline.derived.kernel_sections.columns import Item, Ranked, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body

# Name -> counters, of which the first that was collected counts, by cycles or by instructions.
_PIPES = {
    "ALU": ("sm__pipe_alu_cycles_active",),
    "FMA": ("sm__pipe_fma_cycles_active",),
    "FMA heavy": ("sm__pipe_fmaheavy_cycles_active",),
    "FP16": ("sm__pipe_fp16_cycles_active", "sm__inst_executed_pipe_fp16"),
    "FP64": ("sm__pipe_fp64_cycles_active",),
    "FP64 and Tensor Cores": ("sm__pipe_shared_cycles_active",),
    "Tensor Cores": ("sm__pipe_tensor_cycles_active",),
    "Tensor Cores, FP64": ("sm__pipe_tensor_op_dmma_cycles_active",),
    "Tensor Cores, FP": ("sm__pipe_tensor_op_hmma_cycles_active",),
    "Tensor Cores, INT": ("sm__pipe_tensor_op_imma_cycles_active",),
    "Tensor Memory": ("sm__inst_executed_pipe_tmem",),
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
    return Item(any_of(items, len(metrics)), Ranked(items, "ratio"))
