"""speed_of_light: throughput of SMs and memory, and of the parts that each is the maximum of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.derived.counters.stored import rows_of_metric
from warpline.derived.kernel_sections.columns import Item, Ranked, Tree, any_of
from warpline.derived.kernel_sections.metrics import Metrics
from warpline.derived.kernel_sections.registry import section_body
from warpline.derived.kernel_sections.words import label_of

_OF_PEAK = ".avg.pct_of_peak_sustained_elapsed"
_THROUGHPUTS = {
    "SM": ("sm__throughput" + _OF_PEAK,),
    "Memory": ("gpu__compute_memory_throughput" + _OF_PEAK,),
    "DRAM": ("gpu__dram_throughput" + _OF_PEAK, "dram__throughput" + _OF_PEAK),
    "L2": ("lts__throughput" + _OF_PEAK,),
    "L1": ("l1tex__throughput.avg.pct_of_peak_sustained_active", "l1tex__throughput" + _OF_PEAK),
}
# Parts of the first two on chips since Ampere, for recordings without the list that reports have.
_PARTS = {
    "SM": (
        *("idc__request_cycles_active", "sm__inst_executed", "sm__inst_executed_pipe_adu"),
        *("sm__inst_executed_pipe_cbu_pred_on_any", "sm__inst_executed_pipe_ipa"),
        *("sm__inst_executed_pipe_lsu", "sm__inst_executed_pipe_tex"),
        *("sm__inst_executed_pipe_uniform", "sm__inst_executed_pipe_xu"),
        *("sm__instruction_throughput_internal_activity", "sm__issue_active"),
        *("sm__memory_throughput_internal_activity", "sm__mio2rf_writeback_active"),
        *("sm__mio_inst_issued", "sm__mio_pq_read_cycles_active", "sm__mio_pq_write_cycles_active"),
        *("sm__pipe_alu_cycles_active", "sm__pipe_fma_cycles_active"),
        *("sm__pipe_fmaheavy_cycles_active", "sm__pipe_fp64_cycles_active"),
        *("sm__pipe_shared_cycles_active", "sm__pipe_tensor_cycles_active"),
        "sm__pipe_tensor_op_dmma_cycles_active",
        "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active",
        "sm__pipe_tma_cycles_active",
    ),
    "Memory": (
        *("dram__cycles_active", "fbpa__dram_sectors"),
        "gpu__compute_memory_access_throughput_internal_activity",
        "gpu__compute_memory_request_throughput_internal_activity",
        *("l1tex__data_bank_reads", "l1tex__data_bank_writes", "l1tex__data_pipe_lsu_wavefronts"),
        *("l1tex__data_pipe_tex_wavefronts", "l1tex__f_wavefronts", "l1tex__lsu_writeback_active"),
        *("l1tex__lsuin_requests", "l1tex__m_l1tex2xbar_req_cycles_active"),
        *("l1tex__m_xbar2l1tex_read_sectors", "l1tex__m_xbar2l1tex_read_sectors_mem_dshared"),
        *("l1tex__tex_writeback_active", "l1tex__texin_sm2tex_req_cycles_active"),
        *("l1tex__tmain_requests", "lts__d_atomic_input_cycles_active"),
        *("lts__d_decomp_input_sectors", "lts__d_sectors", "lts__d_sectors_fill_device"),
        *("lts__d_sectors_fill_sysmem", "lts__lts2xbar_cycles_active", "lts__t_sectors"),
        *("lts__t_tag_requests", "lts__xbar2lts_cycles_active"),
    ),
}


@section_body("speed_of_light")
def speed_of_light(metrics: Metrics) -> Item:
    """Return the throughput of each unit, of its peak, and its breakdown, largest part first."""
    items = []
    for name, choices in _THROUGHPUTS.items():
        is_open = metrics.every()
        for metric in choices:
            ratio = metrics.get(metric)
            parts = Ranked(_parts(metrics, name, metric), ("ratio",))
            tree: dict[str, Tree] = {
                "name": name,
                "metric": metric,
                "ratio": ratio,
                "breakdown": parts,
            }
            items.append(Item(ratio.is_known & is_open, tree))
            is_open = is_open & ~ratio.is_known
    return Item(any_of(items, len(metrics)), items)


def _parts(metrics: Metrics, name: str, throughput: str) -> list[Item]:
    items = []
    for metric in _names_of_parts(metrics, name, throughput):
        ratio = metrics.get(metric)
        tree: dict[str, Tree] = {"metric": metric, "label": label_of(metric), "ratio": ratio}
        items.append(Item(ratio.is_known, tree))
    return items


def _names_of_parts(metrics: Metrics, name: str, throughput: str) -> Sequence[str]:
    """Return the metrics that a throughput is the maximum of: as reports list them."""
    trace = metrics.trace
    rows = rows_of_metric(trace, f"breakdown:{throughput}")
    if not len(rows):
        return [part + _OF_PEAK for part in _PARTS.get(name, ())]
    texts = trace.columns("kernel_metric", "text_id")["text_id"].take(rows)
    lists = [trace.strings.text(row) for row in np.unique(texts.values[texts.is_valid()]).tolist()]
    return [*dict.fromkeys(part for of in lists for part in of.split(",") if part)]
