"""Units of metrics, from their names: a report has values in base units, and no units.

A hardware metric is named ``UNIT__COUNTER.ROLLUP.SUBMETRIC``; what it counts is a word of the
counter, and the submetric says per what. Metrics of Nsight Compute's own have other names.
"""

from __future__ import annotations

import re
from functools import cache

_LONGEST = 1000  # characters of a name, many times what names have
_TRIAGE = re.compile(r"[A-Z0-9_]+\.Triage\w+\.")  # of metrics that are sampled
_ROLLUPS = {"sum", "avg", "min", "max"}

# Unit -> pattern of whole names of Nsight Compute's own. The first match wins.
_OWN = [
    (unit, re.compile(pattern))
    for unit, pattern in (
        ("", r"device__attribute_.*|numa__.*|nvlink__.*|c2clink__.*"),
        ("%", r".*_pct|derived__pct_occupancy_per_block_size"),
        ("%/register", r"derived__pct_occupancy_per_register_count"),
        ("%/byte", r"derived__pct_occupancy_per_shared_mem_size"),
        ("thread", r"derived__(derivative_)?avg_thread_.*|derived__.*thread_inst_executed.*"),
        ("sector", r"derived__memory_l2_theoretical_sectors.*"),
        ("byte", r"derived__lts__lts2xbar_bytes.*"),
        ("", r"derived_.*"),
        ("sectors", r"memory_l[12]_.*"),
        ("inst", r"(thread_)?inst_executed(_true)?"),
        ("", r"sass__(thread_)?inst_executed_(true_)?per_opcode.*"),
        ("inst", r"sass__inst_executed_.*"),
        ("branches", r"smsp__pcsamp_warps_issue_stalled_branch.*"),
        ("inst", r"smsp__pcsamp_warps_issue_stalled_no_inst.*"),
        ("warp", r"smsp__pcsamp_warps_issue_stalled_.*"),
        ("pass", r"(smsp__pcsamp|profiler)__?.*_passes(_.*)?"),
        ("sample", r"profiler__pmsampler_merged_samples"),
        ("ns", r"profiler__.*_interval_time"),
        ("byte", r"(smsp__pcsamp|profiler_)_.*bytes.*"),
        ("cycle", r"smsp__pcsamp_interval_cycles"),
        ("", r"smsp__pcsamp_.*|profiler__.*|smsp__sass_.*_type"),
        ("byte", r"launch__(shared_mem_config|persisting_l2_cache)_size"),
        ("byte/block", r"launch__shared_mem_per_block.*"),
        ("register/thread", r"launch__registers_per_thread.*"),
        ("block", r"launch__(occupancy_limit_|block_dim_).*|launch__cluster_max_potential_size"),
        ("cluster", r"launch__cluster_max_active"),
        ("SM", r"launch__sm_count"),
        ("thread", r"launch__thread_count"),
        ("", r"launch__.*"),
        ("warp", r"sm(sp)?__maximum_warps_avg_per_active_cycle"),
    )
]

# What a counter counts -> pattern of its name. The first match wins.
_COUNTED = [
    (unit, re.compile(pattern))
    for unit, pattern in (
        ("%", r"__.*throughput"),
        ("ns", r"__time_duration"),
        ("byte", r"_bytes(_|$)"),
        ("warp-cycle", r"__warps_(active|eligible)"),
        ("", r"__(cgas|ctas)_active"),
        ("cycle", r"_cycles(_|$)|_active(_|$)|__(icc|imc)_requests"),
        ("", r"gcc__.*sectors"),
        ("sector", r"_sectors(_|$)"),
        ("branches", r"_branch_targets_"),
        ("inst", r"_inst_(executed|issued)(_|$)"),
        ("block", r"_ctas_launched"),
        ("warp", r"__warps_launched"),
        ("thread", r"__threads_launched"),
        ("request", r"^(lts|gcc)__.*_requests(_|$)(?<!tag_requests)"),
    )
]

_RATIOS = [
    (unit, re.compile(pattern))
    for unit, pattern in (
        ("byte/sector", r"_average_.*bytes_per_sector"),
        ("inst", r"__average_warps_issue_stalled_.*_per_issue_active"),
        ("cycle", r"__average_warp(_latency|s_active)_per_inst_"),
    )
]

_PER_SECOND = {"": "", "cycle": "hz", "warp-cycle": ""}
_PER_CYCLE = {"": "", "cycle": "", "warp-cycle": "warp"}


@cache
def unit_of(name: str) -> str:
    """Return the base unit of a metric; empty if it has none, or none that is known."""
    if len(name) > _LONGEST:
        return ""
    for unit, pattern in _OWN:
        if pattern.fullmatch(name):
            return unit
    triage = _TRIAGE.match(name)
    base, _, submetrics = name[triage.end() if triage else 0 :].partition(".")
    parts = [part for part in submetrics.split(".") if part not in _ROLLUPS]
    if parts and parts[-1].startswith("pct"):
        return "%"
    if parts and parts[0] in ("ratio", "max_rate"):
        return _first(_RATIOS, base)
    unit = _first(_COUNTED, base)
    for part in parts:
        if part == "per_second":
            unit = _PER_SECOND.get(unit, f"{unit}/s")
        elif part.startswith("per_cycle_") or part == "peak_sustained":
            unit = _PER_CYCLE.get(unit, f"{unit}/cycle")
    return "" if unit == "warp-cycle" else unit


def _first(rules: list[tuple[str, re.Pattern[str]]], name: str) -> str:
    return next((unit for unit, pattern in rules if pattern.search(name)), "")
